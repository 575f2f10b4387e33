"""What the score functions share: reads as a policy, judged by the likelihood that follows.

The gradient of the expected return is that of log p(read) times what the read is worth (Eqs. 13 to
16). The estimators of this kind differ in how they tell what a read is worth.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tardis_core.errors import require
from tardis_core.estimators.base import Episode, Estimator
from tardis_core.settings import setting

STATISTICS_RATE = 0.01  # of running means and variances


@dataclass(frozen=True)
class PolicyConfig:
    """The reward, the auxiliary cost, and the weight of the policy."""

    auxiliary: bool = setting(
        True, "whether the reward comes from the memory-only head (the paper's R')"
    )
    auxiliary_attached: bool = setting(
        False, "whether the memory-only head's cost also trains what the memory holds"
    )
    auxiliary_share: float = setting(
        1.0, "share of the memory-only head's reward; the rest is the model's own"
    )
    auxiliary_until: float = setting(
        0.0, "share of the training in which auxiliary_share falls from 1 to its value"
    )
    gamma: float = setting(0.95, "discount of future rewards per step")
    weight: float = setting(0.1, "weight of the policy loss, relative to the loss of the task")
    rate: float = setting(1.0, "learning rate of the addressing, times training.learning_rate")
    attached: bool = setting(
        False, "whether the policy gradient also trains what the read logits are computed from"
    )
    entropy: float = setting(0.1, "initial bonus for undecided reads; it falls linearly to zero")
    entropy_until: float = setting(
        0.7, "share of the training in which the entropy bonus falls to zero"
    )

    def __post_init__(self) -> None:
        for name in ("auxiliary_share", "auxiliary_until", "gamma"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"estimator.{name} must be in [0, 1], not {value}")
        require(self.rate > 0, f"estimator.rate must be above 0, not {self.rate}")
        until = self.entropy_until
        require(0 < until <= 1, f"estimator.entropy_until must be in (0, 1], not {until}")
        for name in ("weight", "entropy"):
            value = getattr(self, name)
            require(value >= 0, f"estimator.{name} must not be negative: {value}")


def discounted_returns(reward_TB: Tensor, gamma: float, mask_TB: Tensor) -> Tensor:
    """sum over j >= t of gamma^(j - t) reward_j, for each t, where only existing steps count.

    Padding between t and j, which depends on the other sequences of the batch, discounts nothing.

    Args:
        reward_TB: any number of further axes may follow.
        mask_TB: not 0 where the step exists; as many axes as the rewards.
    """
    total_B = torch.zeros_like(reward_TB[0])
    returns = []
    for reward_B, mask_B in zip(
        reversed(reward_TB.unbind()), reversed(mask_TB.unbind()), strict=True
    ):
        total_B = torch.where(mask_B > 0, reward_B + gamma * total_B, total_B)
        returns.append(total_B)
    return torch.stack(returns[::-1])


def mean_of_the_others(reward_TB: Tensor, mask_TB: Tensor, group: int) -> Tensor:
    """At each step the mean reward of the other sequences of a group, which lie side by side.

    DEVIATION(eq 15): a mean that contained one's own reward would bias the gradient.
    """
    there_TGN = mask_TB.unflatten(1, (-1, group))
    reward_TGN = reward_TB.unflatten(1, (-1, group)) * there_TGN
    others_TGN = (there_TGN.sum(-1, keepdim=True) - there_TGN).clamp_min(1)
    return ((reward_TGN.sum(-1, keepdim=True) - reward_TGN) / others_TGN).flatten(1)


def likelihood(pi_TBK: Tensor, chosen_TB: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of what was chosen, and the entropy of the choice."""
    log_p_TBK = torch.log_softmax(pi_TBK, dim=-1)
    log_p_TB = log_p_TBK.gather(-1, chosen_TB.unsqueeze(-1)).squeeze(-1)
    return log_p_TB, -(log_p_TBK.exp() * log_p_TBK).sum(-1)


class Policy(Estimator):
    """A score function; a subclass says what reads are worth."""

    config: PolicyConfig

    def __init__(self, config: PolicyConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.memory_head = config.auxiliary
        self.memory_head_attached = config.auxiliary_attached
        # DEVIATION(eq 16): detached, the policy gradient ends at the addressing parameters; in the
        # paper it is that of all parameters.
        self.attached = config.attached

    @abstractmethod
    def value(self, episode: Episode, log_p_TB: Tensor) -> Tensor:
        """The sum over all reads whose gradient is that of the expected return.

        Args:
            log_p_TB: log-probability of what was chosen at each step.
        """

    def loss(self, episode: Episode) -> tuple[Tensor, dict[str, Tensor]]:
        """Eq. (16), negated, and an entropy bonus."""
        mask_TB, steps = episode.mask_TB, episode.mask_TB.sum()
        log_p_TB, entropy_TB = zip(*(likelihood(*each) for each in episode.choices()), strict=True)
        policy = -self.value(episode, sum(log_p_TB)) / steps
        # DEVIATION(eq 16): the weight of the policy and the entropy bonus are ours; without them,
        # as in the paper, `weight` is 1 and `entropy` 0.
        entropy = (sum(entropy_TB) * mask_TB).sum() / steps
        loss = self.config.weight * (policy - self._entropy_bonus(episode.progress) * entropy)
        reward = (self.reward(episode) * mask_TB).sum() / steps
        return loss, {"reward": reward, "read_entropy": entropy.detach()}

    def reward(self, episode: Episode) -> Tensor:
        """reward_TB of what happened."""
        return self.mix(episode.reward_TB, episode.memory_reward_TB, episode.progress)

    def mix(self, reward: Tensor, memory_reward: Tensor | None, progress: float) -> Tensor:
        """R, R' of Eq. (17), or a mix."""
        share = self._share(progress)
        return reward if memory_reward is None else share * memory_reward + (1 - share) * reward

    def _entropy_bonus(self, progress: float) -> float:
        """Reads explore at first; the bonus falls linearly to zero."""
        first = self.config.entropy
        return first - first * min(1.0, progress / self.config.entropy_until)

    def _share(self, progress: float) -> float:
        """Of the auxiliary reward: all of it at first, where it is asked to fall."""
        if not self.config.auxiliary:
            return 0.0
        share, until = self.config.auxiliary_share, self.config.auxiliary_until
        return share if progress >= until else 1 - (1 - share) * progress / until


@dataclass(frozen=True)
class SampledPolicyConfig(PolicyConfig):
    """And how returns are scaled."""

    normalise_variance: bool = setting(
        True, "whether returns are divided by their running deviation, if above 1"
    )


class SampledPolicy(Policy):
    """Judges each read by what followed it: return minus baseline, and variance normalisation."""

    config: SampledPolicyConfig
    return_variance: Tensor

    def __init__(self, config: SampledPolicyConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.register_buffer("return_variance", torch.ones(()))

    @abstractmethod
    def baseline(self, reward_TB: Tensor, episode: Episode) -> Tensor:
        """b_j, which must not depend on the choices of the sequence it is taken from."""

    def value(self, episode: Episode, log_p_TB: Tensor) -> Tensor:
        reward_TB, mask_TB = self.reward(episode), episode.mask_TB
        centred_TB = (reward_TB - self.baseline(reward_TB, episode).detach()) * mask_TB
        return_TB = discounted_returns(centred_TB, self.config.gamma, mask_TB)
        return (self._normalise(return_TB, mask_TB) * log_p_TB * mask_TB).sum()

    def _normalise(self, return_TB: Tensor, mask_TB: Tensor) -> Tensor:
        """Variance normalisation: small signals are left small, great ones are scaled down."""
        if not self.config.normalise_variance:
            return return_TB
        deviation = self.return_variance.sqrt().clamp_min(1)  # of the past: no bias from this batch
        variance = (return_TB.square() * mask_TB).sum() / mask_TB.sum()
        self.return_variance.lerp_(variance, STATISTICS_RATE)
        return return_TB / deviation
