"""The private parts of Ray that a sweep relies on, each in one place.

tests/unit/orchestrator/execution/test_ray_internals.py says what is relied on: run it before
raising the version of Ray in pyproject.toml.
"""

from typing import Any

from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, MedianStoppingRule

Rung = tuple[float, dict[str, float]]  # a milestone, and the value of each trial that reached it


def contact_head(address: str) -> None:
    """Talk to the head of a cluster with our token, if there is one.

    Raises:
        ray.exceptions.AuthenticationError: within seconds, where `ray.init` would retry for minutes
    """
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    GcsClient(address=address)


def rungs(scheduler: ASHAScheduler, bracket: int) -> list[Rung]:
    """The rungs of a bracket of ASHA, themselves and not a copy: what is added to them counts."""
    return scheduler._brackets[bracket]._rungs


def assign_bracket(scheduler: ASHAScheduler, trial_id: str, bracket: int) -> None:
    """Put a trial into a bracket of our choice; Ray would draw one from NumPy's global state."""
    scheduler._trial_info[trial_id] = scheduler._brackets[bracket]


def remember(rule: MedianStoppingRule, trial: Any, results: list[dict[str, Any]]) -> None:
    """Make results of a trial known to the median rule."""
    rule._results[trial].extend(results)


def remembered(rule: MedianStoppingRule, trial: Any) -> list[dict[str, Any]]:
    """The results of a trial that the median rule knows."""
    return rule._results.get(trial, [])


def may_retry(trial: Trial) -> bool:
    """Whether Ray's limit of failures lets a trial that failed run once more."""
    return bool(trial.should_recover())


def free_statistics(trial: Trial) -> None:
    """Drop the averages that Ray keeps of every metric of a trial: 17 kB that nobody reads."""
    trial.metric_analysis.clear()
    trial.metric_n_steps.clear()
