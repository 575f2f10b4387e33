"""TARDIS as a layer for other people's training loops, used like `torch.nn.LSTM`.

layer = Tardis(input_size=10, hidden_size=120)
output, state = layer(x)                  # x (T, B, 10) -> output (T, B, layer.output_size)
output, state = layer(more, detach(state))  # the text continues, gradients end here
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Episode, Estimator
from tardis_core.estimators.policy import Policy
from tardis_core.models.base import Reads, State, map_state
from tardis_core.models.tardis import MemoryConfig, TardisConfig
from tardis_core.models.tardis import Tardis as TardisModel


class TardisOutputState(NamedTuple):
    """The state between two calls, also needed by `policy_loss`."""

    recurrent: State  # controller and memory after the last step
    reads: Reads  # the choices of this call, time first
    x_TBD: Tensor  # its inputs, for baselines


class Tardis(nn.Module):
    """A memory-augmented LSTM with one-hot reads (see `tardis_core.models.tardis`).

    In training mode reads are sampled; in evaluation mode they are the likeliest, and the layer is
    deterministic. `torch.manual_seed` governs the samples.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        cells: int = 16,
        address_size: int = 4,
        content_size: int = 32,
        estimator: str = "gumbel",
        reset_gates: bool = True,
        layer_norm: bool = False,
        recurrent_dropout: float = 0.0,
        batch_first: bool = False,
    ) -> None:
        """
        Args:
            cells: of the memory.
            estimator: how the gradient passes a read. The score functions `reinforce` and `rloo`
                need `policy_loss` to be added to the loss, and `rloo` each sequence twice, side by
                side (`x.repeat_interleave(2, dim=1)`, or `dim=0` with `batch_first`). `soft` needs
                `before_batch`, or its reads never become sharp. The others need nothing else.
            batch_first: x is (B, T, input_size), and output likewise.
        """
        super().__init__()
        require(input_size >= 1, f"input_size must be at least 1, not {input_size}")
        self.model = TardisModel(
            input_size,
            TardisConfig(
                hidden=hidden_size,
                reset_gates=reset_gates,
                layer_norm=layer_norm,
                recurrent_dropout=recurrent_dropout,
            ),
            MemoryConfig(cells=cells, address=address_size, content=content_size),
            _estimator(estimator, input_size, hidden_size),
        )
        self.input_size, self.hidden_size, self.batch_first = input_size, hidden_size, batch_first
        self.estimator = estimator
        self.output_size = hidden_size + self.model.read_width

    def before_batch(self, progress: float) -> None:
        """Say before each batch which share of the training is done: the reads of `soft` follow it.

        Args:
            progress: from 0 to 1.
        """
        require(0 <= progress <= 1, f"progress must be from 0 to 1, not {progress}")
        self.model.before_batch(progress)

    def forward(
        self,
        x: Tensor,
        state: TardisOutputState | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, TardisOutputState]:
        """Run over sequences.

        Args:
            x: (T, B, input_size), or (B, T, input_size) with `batch_first`.
            state: of an earlier call, to continue from; None starts with an empty memory.
            mask: (T, B), or (B, T); False where a sequence has no step.

        Returns:
            output (T, B, output_size), or (B, T, output_size): the hidden state and beside it what
            was read, which the paper predicts from; and the state after the last step.
        """
        require(
            x.dim() == 3 and x.shape[-1] == self.input_size,
            f"x must have three axes, the last one of {self.input_size}, not {tuple(x.shape)}",
        )
        x_TBD = x.transpose(0, 1).contiguous() if self.batch_first else x
        mask_TB = mask.transpose(0, 1) if mask is not None and self.batch_first else mask
        noise = self.model.draw_noise(x_TBD, _generator(x.device)) if self.training else None
        before = None if state is None else state.recurrent
        hidden, recurrent = self.model(x_TBD, before, mask_TB, noise)
        assert hidden.r_TBQ is not None, "TARDIS reads at every step"
        assert hidden.reads is not None, "and says how it chose"
        output_TBO = torch.cat([hidden.h_TBH, hidden.r_TBQ], dim=-1)
        output = output_TBO.transpose(0, 1) if self.batch_first else output_TBO
        return output, TardisOutputState(recurrent, hidden.reads, x_TBD.detach())

    def policy_loss(
        self,
        state: TardisOutputState,
        log_likelihood: Tensor,
        mask: Tensor | None = None,
        progress: float = 0.0,
    ) -> Tensor:
        """The term that a score function adds to the loss; zero for other estimators.

        Also zero where the mask has no step.

        Args:
            state: as returned by the call whose reads are to be reinforced.
            log_likelihood: of the targets, in the shape of a mask; zero where there is none.
            progress: share of the training that is done; the entropy bonus falls with it.
        """
        there = torch.ones_like(log_likelihood) if mask is None else mask.to(log_likelihood.dtype)
        reward_TB = self._time_first("log_likelihood", log_likelihood.detach(), state)
        mask_TB = self._time_first("mask", there, state)
        self._check_copies(reward_TB.shape[1])
        if not mask_TB.any():
            return state.reads.pi_TBK[:0].sum()  # a zero that can be differentiated like the rest
        episode = Episode(
            pi_TBK=state.reads.pi_TBK,
            read_TB=state.reads.read_TB,
            x_TBD=state.x_TBD,
            reward_TB=reward_TB,
            memory_reward_TB=None,
            mask_TB=mask_TB,
            progress=progress,
        )
        loss, _ = self.model.estimator.loss(episode)
        return reward_TB.new_zeros(()) if loss is None else loss

    def _time_first(self, name: str, values: Tensor, state: TardisOutputState) -> Tensor:
        """A number per step as TB; of another shape it might be broadcast without an error."""
        T, B = state.x_TBD.shape[:2]
        expected = (B, T) if self.batch_first else (T, B)
        require(
            tuple(values.shape) == expected,
            f"{name} must have the shape {expected}, as x without its last axis, "
            f"not {tuple(values.shape)}",
        )
        return values.transpose(0, 1) if self.batch_first else values

    def _check_copies(self, batch: int) -> None:
        copies = self.model.estimator.copies
        require(
            batch % copies == 0,
            f"estimator {self.estimator!r} compares {copies} runs of each sequence, side by side: "
            f"x must have a multiple of {copies} sequences, not {batch}",
        )


def _estimator(name: str, inputs: int, hidden: int) -> Estimator:
    kind = ESTIMATORS.get(name)
    # The auxiliary cost of a policy has a head of its own, which a layer does not.
    settings = kind.Config(auxiliary=False) if issubclass(kind, Policy) else kind.Config()
    estimator = kind(settings, inputs, hidden)
    require(
        not estimator.window,
        f"estimator {name!r} runs sequences again by itself, which a layer cannot: train with "
        "python -m tardis_core.train, or choose another estimator",
    )
    return estimator


def detach(state: TardisOutputState) -> TardisOutputState:
    """The same state without its history: for truncated backpropagation."""
    return state._replace(recurrent=map_state(Tensor.detach, state.recurrent))


def _generator(device: torch.device) -> torch.Generator:
    """Noise on any device that `torch.manual_seed` governs."""
    seed: Any = torch.randint(2**62, ())
    return torch.Generator(device).manual_seed(int(seed))
