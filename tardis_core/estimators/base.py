"""The interface of a gradient estimator.

All estimators read the same cell given the same noise: argmax(pi + Gumbel noise) is a sample of
softmax(pi), and argmax(pi) without noise is the read at evaluation (a soft read excepted). They
differ in the gradient, which comes from one of two places:

- straight-through estimators supply the gradient of the logits from that of the read weights, as
  `softmaxes` or by a learned temperature;
- score functions supply none there, and learn from what followed the read, in `loss`.
"""

from abc import ABC
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.estimators.noise import gumbel
from tardis_core.estimators.softmaxes import Softmaxes, through_softmaxes
from tardis_core.registry import Registry


class Tried(NamedTuple):
    """Counterfactual rewards, had each of N cells been read at one of the last W steps."""

    step_B: Tensor  # that step of each sequence, int64
    cell_BN: Tensor  # the cells, as `cells_to_try` has chosen them
    reward_WBN: Tensor  # as in an episode, at the last W steps
    memory_reward_WBN: Tensor | None


class Episode(NamedTuple):
    """What an estimator learns from after a sequence; everything but the logits is detached."""

    pi_TBK: Tensor  # read logits
    read_TB: Tensor  # the cells that were read
    x_TBD: Tensor  # the inputs, for baselines
    reward_TB: Tensor  # log-likelihood of the target by the model, zero where there is none
    memory_reward_TB: Tensor | None  # the same by the memory-only head
    mask_TB: Tensor  # 1 where the step exists
    progress: float  # share of the training that is done
    write_pi_TBK: Tensor | None = None  # write logits, of a model that chooses where to write
    written_TB: Tensor | None = None  # the cells that were written
    tried: Tried | None = None  # for an estimator that asks for it

    def choices(self) -> list[tuple[Tensor, Tensor]]:
        """All choices as logits and cells: the reads, and the writes if they are choices."""
        if self.write_pi_TBK is None or self.written_TB is None:
            return [(self.pi_TBK, self.read_TB)]
        return [(self.pi_TBK, self.read_TB), (self.write_pi_TBK, self.written_TB)]


class Estimator(nn.Module, ABC):
    """The interface; an estimator is made by `Estimator(config, inputs, hidden)`."""

    Config: ClassVar[type]
    # What the kernels compute of it: "none" or "straight-through", declared by each class for
    # itself; with None autograd differentiates `read_weights`, step by step in the reference.
    read_gradient: ClassVar[str | None] = None
    one_cell: ClassVar[bool] = True  # whether a read in training is one cell, as at evaluation
    attached: bool = True  # whether gradients flow on from the read logits to what they are made of
    copies: int = 1  # of every sequence that it wants in a batch
    window: int = 0  # W: at one of so many last steps of a sequence it wants cells tried
    memory_head: bool = False  # whether the memory-only head is needed
    memory_head_attached: bool = False  # whether its cost trains what the memory holds, too
    noisy_temperature: bool = True  # whether a learned temperature scales the logits with the noise

    def __init__(self, config: Any, inputs: int, hidden: int) -> None:
        super().__init__()
        self.config = config

    def before_batch(self, progress: float) -> None:
        """Told before each batch which share of the training is done."""

    def draw_noise(
        self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """The noise of reads of this shape, cells last, and more for the way back if it wants any.

        The latter has one more axis, before that of the cells.
        """
        return gumbel(shape, like, generator), None

    def addressing_view(self, tensor: Tensor) -> Tensor:
        """An input of the addressing MLP, as far as gradients may flow back through it."""
        return tensor if self.attached else tensor.detach()

    def read_weights(
        self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor, spare_BSK: Tensor | None = None
    ) -> Tensor:
        """The read weights w_BK: exactly one-hot forward, whatever their gradient.

        Args:
            noise_BK: of `draw_noise`; None at evaluation, where nothing is differentiated.
            spare_BSK: the other noise of `draw_noise`.
        """
        pi = pi_BK.detach()
        hard_BK = one_hot_argmax(pi if noise_BK is None else pi + noise_BK)
        if noise_BK is None:
            return hard_BK
        softmaxes = self.softmaxes(pi, noise_BK, spare_BSK, hard_BK.argmax(-1))
        return hard_BK if softmaxes is None else through_softmaxes(pi_BK, hard_BK, softmaxes)

    def softmaxes(
        self, pi_BK: Tensor, noise_BK: Tensor, spare_BSK: Tensor | None, read_B: Tensor
    ) -> Softmaxes | None:
        """The gradient of the read weights with respect to the logits; None if there is none.

        Called for one step or, with axes TB, for all steps of a sequence.
        """
        return None

    def learned_temperature(self) -> nn.Linear | None:
        """w and b, if the gradient is that of softmax((pi + noise) tau(h)) with

        tau(h) = softplus(w . h + b) + 1.
        """
        return None

    def cells_to_try(self, pi_BK: Tensor, generator: torch.Generator) -> Tensor:
        """The cells_BN to be tried at a step with these logits, if it has a `window`."""
        raise NotImplementedError

    def loss(self, episode: Episode) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The term added to the loss of the task, and metrics to record."""
        return None, {}


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator", "tardis_core.estimators")


def one_hot_argmax(scores_BK: Tensor) -> Tensor:
    """One-hot of the greatest score, in the type of the scores."""
    return F.one_hot(scores_BK.argmax(-1), scores_BK.shape[-1]).to(scores_BK.dtype)
