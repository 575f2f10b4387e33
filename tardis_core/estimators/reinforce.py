"""REINFORCE: sample the cell, and make what was followed by a high likelihood more likely."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Episode, Estimator, Tried, one_hot_argmax
from tardis_core.settings import setting

STATISTICS_RATE = 0.01  # of the running mean and variance


@dataclass(frozen=True)
class ReinforceConfig:
    """The knobs of Eq. (16) and of the auxiliary cost."""

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
    baseline: Literal["batch", "running", "input", "none"] = setting(
        "batch",
        "subtracted from rewards: mean of the other sequences, running mean, linear in the input",
    )
    copies: int = setting(
        1, "runs of each sequence per batch; the batch baseline then compares these runs"
    )
    tried: int = setting(
        0,
        "if above 0, one of so many last reads is judged by what each cell would have led to; "
        "0 judges every read by what followed it",
    )
    normalise_variance: bool = setting(
        True, "whether returns are divided by their running deviation, if above 1"
    )
    weight: float = setting(0.1, "weight of the policy loss beside the loss of the task")
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
        require(self.copies >= 1, f"estimator.copies must be at least 1, not {self.copies}")
        require(self.tried >= 0, f"estimator.tried must not be negative: {self.tried}")
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

    One's own choices cannot bias it.
    """
    there_TGN = mask_TB.unflatten(1, (-1, group))
    reward_TGN = reward_TB.unflatten(1, (-1, group)) * there_TGN
    others_TGN = (there_TGN.sum(-1, keepdim=True) - there_TGN).clamp_min(1)
    return ((reward_TGN.sum(-1, keepdim=True) - reward_TGN) / others_TGN).flatten(1)


def _mix(reward: Tensor, memory_reward: Tensor | None, share: float) -> Tensor:
    """R, R' of Eq. (17), or a mix."""
    return reward if memory_reward is None else share * memory_reward + (1 - share) * reward


def _likelihood(pi_TBK: Tensor, chosen_TB: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of what was chosen, and the entropy of the choice."""
    log_p_TBK = torch.log_softmax(pi_TBK, dim=-1)
    log_p_TB = log_p_TBK.gather(-1, chosen_TB.unsqueeze(-1)).squeeze(-1)
    return log_p_TB, -(log_p_TBK.exp() * log_p_TBK).sum(-1)


@ESTIMATORS.register("reinforce")
class Reinforce(Estimator):
    """The gradient of the expected discounted return."""

    Config = ReinforceConfig
    read_gradient = "none"
    reward_mean: Tensor
    return_variance: Tensor

    def __init__(self, config: ReinforceConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.copies, self.tried = config.copies, config.tried
        self.memory_head = config.auxiliary
        self.memory_head_attached = config.auxiliary_attached
        # DEVIATION(eq 16): detached, the policy gradient ends at the addressing parameters; in the
        # paper it is that of all parameters.
        self.attached = config.attached
        self.register_buffer("reward_mean", torch.zeros(()))
        self.register_buffer("return_variance", torch.ones(()))
        self.input_baseline = nn.Linear(inputs, 1) if config.baseline == "input" else None

    def read_weights(self, pi_BK: Tensor, noise_BK: Tensor | None, h_BH: Tensor) -> Tensor:
        return one_hot_argmax(pi_BK.detach() if noise_BK is None else pi_BK.detach() + noise_BK)

    def loss(self, episode: Episode) -> tuple[Tensor, dict[str, Tensor]]:
        """Eq. (16), negated, an entropy bonus, and the baseline's own loss."""
        mask_TB, steps = episode.mask_TB, episode.mask_TB.sum()
        share = self._share(episode.progress)
        reward_TB = _mix(episode.reward_TB, episode.memory_reward_TB, share)
        baseline_TB = self._baseline(reward_TB, episode)

        chosen_TB, entropy_TB = zip(
            *(_likelihood(*each) for each in episode.choices()), strict=True
        )
        if episode.tried is None:
            centred_TB = (reward_TB - baseline_TB.detach()) * mask_TB
            return_TB = discounted_returns(centred_TB, self.config.gamma, mask_TB)
            value = (self._normalise(return_TB, mask_TB) * sum(chosen_TB) * mask_TB).sum()
        else:
            value = self._value_of_tried(episode.tried, share, episode)
        policy = -value / steps
        # DEVIATION(eq 16): the weight of the policy and the entropy bonus are ours; without them,
        # as in the paper, `weight` is 1 and `entropy` 0.
        entropy = (sum(entropy_TB) * mask_TB).sum() / steps
        loss = self.config.weight * (policy - self._entropy_bonus(episode.progress) * entropy)
        if self.input_baseline is not None:
            loss = loss + ((reward_TB - baseline_TB).square() * mask_TB).sum() / steps
        metrics = {"reward": (reward_TB * mask_TB).sum() / steps, "read_entropy": entropy.detach()}
        return loss, metrics

    def _value_of_tried(self, tried: Tried, share: float, episode: Episode) -> Tensor:
        """The expected return of one read of each sequence, W times: it stands for the last W.

        The sum over the cells, each with its odds, takes the place of the one that was drawn: the
        gradient is the same on average, and the chance of the draw is gone from it.

        DEVIATION(eq 16): reads before the last W steps get no gradient of their own.
        """
        reward_WBK = _mix(tried.reward_WBK, tried.memory_reward_WBK, share)
        (W, B), T = reward_WBK.shape[:2], len(episode.pi_TBK)
        everyone = torch.arange(B, device=tried.step_B.device)
        mask_WB1 = episode.mask_TB[T - W :].unsqueeze(-1)
        return_WBK = discounted_returns(reward_WBK, self.config.gamma, mask_WB1)
        return_BK = return_WBK[tried.step_B - (T - W), everyone]
        p_BK = torch.softmax(episode.pi_TBK[tried.step_B, everyone], dim=-1)
        # The odds add up to one, so that a constant changes nothing; it keeps the numbers small.
        value_B = (p_BK * (return_BK - return_BK.mean(-1, keepdim=True))).sum(-1)
        return W * (value_B * episode.mask_TB[tried.step_B, everyone]).sum()

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

    def _baseline(self, reward_TB: Tensor, episode: Episode) -> Tensor:
        """b_j, which must not depend on the choices of the sequence it is taken from."""
        if self.input_baseline is not None:
            return self.input_baseline(episode.x_TBD).squeeze(-1)
        if self.config.baseline == "batch":
            # Copies of a sequence differ in their reads alone, not in how hard they are.
            group = self.copies if self.copies > 1 else reward_TB.shape[1]
            return mean_of_the_others(reward_TB, episode.mask_TB, group)
        if self.config.baseline == "running":
            baseline = self.reward_mean.clone()
            mean = (reward_TB * episode.mask_TB).sum() / episode.mask_TB.sum()
            self.reward_mean.lerp_(mean, STATISTICS_RATE)
            return baseline.expand_as(reward_TB)
        return torch.zeros_like(reward_TB)

    def _normalise(self, return_TB: Tensor, mask_TB: Tensor) -> Tensor:
        """Variance normalisation: small signals are left small, great ones are scaled down."""
        if not self.config.normalise_variance:
            return return_TB
        deviation = self.return_variance.sqrt().clamp_min(1)  # of the past: no bias from this batch
        variance = (return_TB.square() * mask_TB).sum() / mask_TB.sum()
        self.return_variance.lerp_(variance, STATISTICS_RATE)
        return return_TB / deviation
