"""The trials of an earlier sweep as knowledge of the searcher: `--warm-start NAME`.

An earlier trial fits if the new sweep could have proposed it: with all its settings, as they were
resolved when it was trained, in the ranges of the new space and with the same values elsewhere.
It is then a trial of the study, and not of the sweep: `study.study_trials` leaves it out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from orchestrator.execution import study
from orchestrator.execution.progress import rows_of
from orchestrator.execution.study import KNOWN_FROM
from orchestrator.planning.configs import params_of_config, space_of, trial_config
from orchestrator.planning.plan import SearchPlan, SweepPlan, load_plan
from orchestrator.planning.points import in_range
from orchestrator.tracking.event_log import LOG, scan
from search_spaces import BoundSpace
from search_spaces.engine.probe import RecordingTrial
from tardis_core.errors import require

INFORMATIVE = (TrialState.COMPLETE, TrialState.PRUNED)
IGNORED = ("seed", "scale")  # the seed of the sweep; a scale is only a name for its settings


class DoesNotFit(Exception):
    """An earlier trial that the new sweep could not have proposed; says because of which names."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.names = names


def check_data(plan: SweepPlan) -> None:
    """Raise `UserError` if the earlier sweep had other data."""
    if not isinstance(plan, SearchPlan) or not plan.warm_start or has_learned(plan):
        return
    earlier = load_plan(plan.warm_start)
    require(
        (earlier.data_name, earlier.data_sha256) == (plan.data_name, plan.data_sha256),
        f"--warm-start needs a sweep on the same data: {earlier.name} had {earlier.data_name} "
        f"({earlier.data_sha256[:12]}), not {plan.data_name} ({plan.data_sha256[:12]})",
    )


def has_learned(plan: SearchPlan) -> bool:
    """Whether the search has begun; what it knows does not change from then on."""
    return (plan.folder / study.STUDY_FILE).exists() and bool(
        study.study_trials(plan.folder, plan.name)
    )


def learn(plan: SweepPlan) -> str:
    """Add the earlier trials to the study of a new search; says how many there are, and which not.

    A driver that was killed meanwhile has added some of them, which are not added again.
    """
    if not isinstance(plan, SearchPlan) or not plan.warm_start or has_learned(plan):
        return ""
    earlier = cast(SearchPlan, load_plan(plan.warm_start))
    ours = study.create_study(plan.folder, plan.name, plan.mode, optuna.samplers.RandomSampler())
    there = {each.user_attrs.get(KNOWN_FROM) for each in ours.get_trials(deepcopy=False)}
    fitting, misfits = mapped(plan, earlier)
    ours.add_trials(each for each in fitting if each.user_attrs[KNOWN_FROM] not in there)
    return _in_words(earlier, len(fitting), misfits)


def mapped(plan: SearchPlan, earlier: SearchPlan) -> tuple[list[FrozenTrial], list[DoesNotFit]]:
    """The trials of the earlier search in the space of the new one, and those that do not fit."""
    space, rows = space_of(plan), rows_of(_events(earlier), earlier)
    fitting, misfits = [], []
    for trial in study.study_trials(earlier.folder, earlier.name):
        if trial.state in INFORMATIVE and trial.number in rows:
            try:
                fitting.append(_mapped(plan, space, earlier, trial, rows[trial.number].settings))
            except DoesNotFit as error:
                misfits.append(error)
    return fitting, misfits


def _events(plan: SearchPlan) -> Iterable[Any]:
    path = plan.folder / LOG
    return (event for event, _ in scan(path)) if path.exists() else ()


def _mapped(
    plan: SearchPlan,
    space: BoundSpace,
    earlier: SearchPlan,
    trial: FrozenTrial,
    before: Mapping[str, str],
) -> FrozenTrial:
    """One trial of before; `before` has its settings as they were resolved, as text."""

    def answer(name: str, distribution: BaseDistribution) -> Any:
        try:
            return in_range(name, before[name], distribution)
        except (KeyError, ValueError) as error:
            raise DoesNotFit(name) from error

    recording = RecordingTrial(answer, trial.number)
    settings = space(cast(optuna.Trial, recording))
    now = params_of_config(trial_config(plan.task, plan.scale, plan.seed, settings))
    changed = [
        name
        for name, value in now.items()
        if name in before and name not in IGNORED and str(value) != before[name]
    ]
    if changed:
        raise DoesNotFit(*changed)
    return optuna.create_trial(
        state=trial.state,
        value=trial.value,
        params={name: value for name, (_, value) in recording.asked.items()},
        distributions={name: each for name, (each, _) in recording.asked.items()},
        intermediate_values=trial.intermediate_values,
        user_attrs={KNOWN_FROM: f"{earlier.name} {trial.number}"},
    )


def _in_words(earlier: SearchPlan, fitting: int, misfits: list[DoesNotFit]) -> str:
    text = f"warm start: the search knows {fitting} trials of {earlier.name}"
    if not misfits:
        return text
    names = Counter(name for each in misfits for name in each.names)
    listed = ", ".join(f"{name} ({count})" for name, count in names.most_common(5))
    more = f" and {len(names) - 5} more settings" if len(names) > 5 else ""
    return f"{text}; {len(misfits)} do not fit its space, because of {listed}{more}"
