"""What every gradient estimator is.

All estimators read the same cell given the same noise: argmax(pi + Gumbel noise) is a sample of
softmax(pi), and argmax(pi) without noise is the read at evaluation. They differ in the gradient.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from tardis_core.registry import Registry


class Tried(NamedTuple):
    """What would have followed, had each cell been read at one of the last W steps."""

    step_B: Tensor  # that step of each sequence, int64
    reward_WBK: Tensor  # as in an episode, at the last W steps
    memory_reward_WBK: Tensor | None


class Episode(NamedTuple):
    """What an estimator may learn from after a sequence; everything but the logits is detached."""

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
        """All that was chosen, as logits and cells: the reads, and the writes if they were."""
        if self.write_pi_TBK is None or self.written_TB is None:
            return [(self.pi_TBK, self.read_TB)]
        return [(self.pi_TBK, self.read_TB), (self.write_pi_TBK, self.written_TB)]


class Estimator(nn.Module, ABC):
    """The interface; an estimator is made by `Estimator(config, inputs, hidden)`."""

    Config: ClassVar[type]
    # The kernels' name for the gradient of `read_weights`, declared by each class for itself; with
    # None autograd differentiates `read_weights`, step by step in the reference.
    read_gradient: ClassVar[str | None] = None
    attached: bool = True  # whether gradients flow on from the read logits to what they are made of
    copies: int = 1  # of every sequence that it wants in a batch
    tried: int = 0  # W: at one of so many last steps of a sequence it wants every cell tried
    memory_head: bool = False  # whether the memory-only head is needed
    memory_head_attached: bool = False  # whether its cost trains what the memory holds, too

    def __init__(self, config: Any, inputs: int, hidden: int) -> None:
        super().__init__()
        self.config = config

    def addressing_view(self, tensor: Tensor) -> Tensor:
        """An input of the addressing MLP, as far as gradients may flow back through it."""
        return tensor if self.attached else tensor.detach()

    @abstractmethod
    def read_weights(self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor) -> Tensor:
        """The read weights w_BK: exactly one-hot forward, whatever their gradient."""

    def loss(self, episode: Episode) -> tuple[Tensor | None, dict[str, Tensor]]:
        """What is added to the loss of the task, and metrics worth watching."""
        return None, {}


ESTIMATORS: Registry[type[Estimator]] = Registry("estimator", "tardis_core.estimators")


def one_hot_argmax(scores_BK: Tensor) -> Tensor:
    """One-hot of the greatest score, in the type of the scores."""
    return F.one_hot(scores_BK.argmax(-1), scores_BK.shape[-1]).to(scores_BK.dtype)
