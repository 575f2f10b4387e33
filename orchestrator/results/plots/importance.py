"""Which settings decided the results of a search, by Optuna's analysis of variance."""

import warnings

import optuna
from optuna.study import Study
from optuna.trial import TrialState

from orchestrator.page.page import Plot

ENOUGH = 10  # complete trials: the shares of fewer are noise
MOST_TRIALS = 1000  # that are analysed, the last ones: the time grows faster than their number
MOST_BARS = 10


def complete_trials(study: Study) -> int:
    """How many trials of a study ran to their end."""
    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def importances(study: Study) -> dict[str, float]:
    """The share of each setting, the greatest first; none if the trials do not tell."""
    from optuna.importance import get_param_importances  # imports scikit-learn, which takes 1 s

    if complete_trials(study) < ENOUGH:
        return {}
    try:
        with warnings.catch_warnings(action="ignore"):
            return dict(get_param_importances(_recent(study)))
    except (ValueError, RuntimeError):
        return {}  # no setting varies in every trial


def _recent(study: Study) -> Study:
    """The study, or one in memory with its last complete trials."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(trials) <= MOST_TRIALS:
        return study
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # a new study is nobody's news
    try:
        recent = optuna.create_study(direction=study.direction)
    finally:
        optuna.logging.set_verbosity(verbosity)
    recent.add_trials(trials[-MOST_TRIALS:])
    return recent


def importance(shares: dict[str, float]) -> Plot | None:
    """One bar per setting; None if there is nothing to tell."""
    bars = [(name, round(share, 4)) for name, share in shares.items() if share >= 0.005]
    if not bars:
        return None
    bars = bars[:MOST_BARS]
    return Plot("bars", "Importance of the settings", {"bars": bars}, 30 * len(bars) + 10)
