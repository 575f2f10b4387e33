"""RLOO: REINFORCE with a baseline of the other runs of the same sequence, leaving one out.

Kool, van Hoof, Welling 2019, "Buy 4 REINFORCE samples, get a baseline for free!". N runs of a
sequence differ in their reads alone, not in how hard the sequence is:

    1/N sum_n sum_t grad log p(read_t^n) sum_{j >= t} gamma^(j - t) (R_j^n - mean of R_j^m, m != n)

The mean of the others does not depend on the run's own reads, so the estimate is unbiased.
"""

from dataclasses import dataclass

from torch import Tensor

from tardis_core.errors import require
from tardis_core.estimators.base import ESTIMATORS, Episode
from tardis_core.estimators.policy import SampledPolicy, SampledPolicyConfig, mean_of_the_others
from tardis_core.settings import setting


@dataclass(frozen=True)
class RlooConfig(SampledPolicyConfig):
    """REINFORCE's, and the number of runs."""

    copies: int = setting(2, "runs of each sequence per batch, which are compared with each other")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.copies >= 2, f"estimator.copies must be at least 2, not {self.copies}")


@ESTIMATORS.register("rloo")
class Rloo(SampledPolicy):
    """The gradient of the expected discounted return, by runs that are compared."""

    Config = RlooConfig
    read_gradient = "none"
    config: RlooConfig

    def __init__(self, config: RlooConfig, inputs: int, hidden: int) -> None:
        super().__init__(config, inputs, hidden)
        self.copies = config.copies

    def baseline(self, reward_TB: Tensor, episode: Episode) -> Tensor:
        return mean_of_the_others(reward_TB, episode.mask_TB, self.copies)
