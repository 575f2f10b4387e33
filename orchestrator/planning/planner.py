"""From options to a plan: a new one, or that of a sweep that was started before."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

import search_spaces
from orchestrator.common import permissions
from orchestrator.common.defaults import default_tracking_uri
from orchestrator.planning import confirmation, lengthening, sizing
from orchestrator.planning.arguments import names
from orchestrator.planning.configs import space_of, trial_config
from orchestrator.planning.constraints import Constraint
from orchestrator.planning.options import (
    ComparisonOptions,
    SearchOptions,
    SweepOptions,
    check_setting,
)
from orchestrator.planning.placement import NO_CLUSTER, Cluster, place, uses_gpus
from orchestrator.planning.plan import (
    PLAN_FILE,
    SECOND_OBJECTIVES,
    Candidate,
    ComparisonPlan,
    SearchPlan,
    SweepPlan,
    check_name,
    exists,
    load_plan,
)
from search_spaces.engine.probe import explore
from tardis_core import paper, plugins
from tardis_core.cli import setting
from tardis_core.config import has_setting
from tardis_core.errors import UserError, require
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS

Plan = TypeVar("Plan", bound=SweepPlan)
_SECONDS = [(name,) for name in SECOND_OBJECTIVES]
MAX_GRID = 10_000  # combinations that are tried without being asked for
# Options of a sweep that continues: the data may have moved, the machine may be shared today.
MAY_CHANGE = ("data_dir", "concurrency")
DEFAULT_TRIALS = {"smoke": 6, "small": 40, "paper": 100}


@overload
def plan_from(options: ComparisonOptions, cluster: Cluster = ...) -> ComparisonPlan: ...
@overload
def plan_from(options: SearchOptions, cluster: Cluster = ...) -> SweepPlan: ...
def plan_from(
    options: SearchOptions | ComparisonOptions, cluster: Cluster = NO_CLUSTER
) -> SweepPlan:
    """The plan that the options ask for.

    Args:
        cluster: asked only for a new plan; scale, GPUs and CPUs follow what it has.
    """
    match options:
        case SearchOptions():
            return _search(options, cluster)
        case ComparisonOptions():
            return _comparison(options, cluster)


def _search(options: SearchOptions, cluster: Cluster) -> SweepPlan:
    if options.resume:
        options.check_nothing_but("resume", *MAY_CHANGE)
        return _continued(options, begun_plan(options.resume))
    if options.extend:
        return _extended(options)
    if not options.task:
        raise UserError(f"name a task: {', '.join(TASKS.names())}; or --resume a sweep")
    return _new_search(options, cluster)


def begun_plan(name: str) -> SweepPlan:
    """The plan of a sweep that was started before, checked like the options of a new one.

    What a damaged plan would record is worse than nothing: such as a wrong champion.
    """
    plan = load_plan(name)
    _request_plugins(plan)
    try:
        _check_begun(plan)
    except UserError as error:
        raise UserError(
            f"{plan.folder / PLAN_FILE} is damaged ({error}); restore it or start a new sweep"
        ) from error
    return plan


def _request_plugins(plan: SweepPlan) -> None:
    """Make the models, tasks and estimators known that the sweep has from files of its user."""
    if plan.plugins:
        permissions.check_folder(plan.folder)  # they are executed
    for name, source in plan.plugins.items():
        plugins.request_source(name, source)


def _check_begun(plan: SweepPlan) -> None:
    metric = TASKS.get(plan.task).metric
    require(plan.scale in SCALES, f"unknown scale {plan.scale!r}")
    require(
        (plan.metric, plan.better) == (metric.name, metric.better),
        f"the metric of {plan.task} is {metric.name}, and {metric.better} is better, not "
        f"{plan.metric} and {plan.better}",
    )
    match plan:
        case SearchPlan():
            permissions.check_folder(plan.folder)
            _check_trials(plan)
        case ComparisonPlan():
            require(
                plan.trials == len(plan.candidates) * len(plan.seeds),
                f"{plan.trials} trials are not {len(plan.candidates)} candidates with "
                f"{len(plan.seeds)} seeds each",
            )
            for candidate in plan.candidates:
                trial_config(plan.task, plan.scale, plan.seed, candidate.settings)


def _continued(options: SweepOptions, plan: Plan) -> Plan:
    """The plan of a sweep that continues, with what may be another one today."""
    today = {key: getattr(options, key) for key in MAY_CHANGE}
    return replace(plan, **{key: value for key, value in today.items() if value})


def _extended(options: SearchOptions) -> SearchPlan:
    options.check_nothing_but("extend", "trials", "updates", *MAY_CHANGE)
    plan = _continued(options, begun_plan(options.extend))
    if not isinstance(plan, SearchPlan):
        raise UserError(
            f"only a search can be extended, and {plan.name} is a comparison; compare again with "
            "more --seeds under another --name"
        )
    if not options.trials and not options.updates:
        raise UserError(
            "--extend needs the number of additional trials, such as --trials +20, or that of "
            "updates, such as --updates x2"
        )
    longer = lengthening.with_updates(plan, options.updates) if options.updates else plan
    return longer.with_more_trials(options.trials) if options.trials else longer


def _new_search(options: SearchOptions, cluster: Cluster) -> SearchPlan:
    common = _common(options, cluster)
    if options.confirm_seeds:
        confirmation.check_names_free(common["name"])
    plan = SearchPlan(
        **common,
        trials=options.trials or DEFAULT_TRIALS[common["scale"]],
        models=options.models,
        estimators=options.estimators,
        space=options.space,
        sampler=options.sampler,
        scheduler=options.scheduler,
        seeds_per_trial=options.seeds_per_trial,
        aggregate=options.aggregate,
        race=options.race,
        grace=options.grace,
        confirm_seeds=options.confirm_seeds,
        time_budget=options.time_budget,
        warm_start=options.warm_start,
        constraints=options.constraint,
        objectives=options.objectives,
    )
    _check_objectives(plan)
    for text in plan.constraints:
        Constraint.read(text)
    if plan.warm_start:
        _check_warm_start(plan)
    if plan.race:
        plan = replace(plan, reports=2 * plan.reports)  # those of the first seed, and of the others
    _check_trials(plan)
    if plan.sampler == "grid":
        require(not plan.constraints, "a grid has no --constraint: give it only values that fit")
        plan = _whole_grid(plan, options.trials)
    return place(plan, options.gpus_per_trial, options.cpus_per_trial, cluster)


def _whole_grid(plan: SearchPlan, trials: int | None) -> SearchPlan:
    """The plan with as many trials as the grid has combinations, or fewer if `trials` says so."""
    limit = trials or MAX_GRID
    try:
        size = search_spaces.count_combinations(space_of(plan), limit)
    except ValueError as error:
        raise UserError(
            f"{error}; fix it with --set, or give its values in a --space of your own"
        ) from error
    if size > limit and not trials:
        raise UserError(
            f"the grid has more than {MAX_GRID:,} combinations; fix settings with --set, or give a "
            "number of --trials, which are drawn from it"
        )
    return replace(plan, trials=min(size, limit))


def _check_trials(plan: SearchPlan) -> None:
    """Raise `UserError` if --set or --space makes all trials of a model and estimator fail."""
    systems: dict[Any, list[dict[str, Any]]] = {}
    try:
        space = space_of(plan)
        space.first_guesses()
        for probe in explore(space.inner, plan.scale, plan.estimators, plan.models):
            system = probe.settings.get("model"), probe.settings.get("estimator")
            systems.setdefault(system, []).append(probe.settings)
    except ValueError as error:
        raise UserError(str(error)) from error
    for probes in systems.values():
        errors = (_error_of(plan, settings) for settings in probes)
        first = next(errors)
        if first and all(errors):
            raise first


def _check_objectives(plan: SearchPlan) -> None:
    require(
        not plan.objectives
        or (plan.objectives[0] == plan.metric and plan.objectives[1:] in _SECONDS),
        f"--objectives are the metric of the task and a second one, {plan.metric},"
        f"{f' or {plan.metric},'.join(SECOND_OBJECTIVES)}, not {','.join(plan.objectives)}",
    )


def _check_warm_start(plan: SearchPlan) -> None:
    """Raise `UserError` if nothing can be learned from the earlier sweep."""
    earlier = load_plan(plan.warm_start)
    if not isinstance(earlier, SearchPlan):
        raise UserError(f"--warm-start needs a search, and {earlier.name} is a comparison")
    require(
        (earlier.task, earlier.metric) == (plan.task, plan.metric),
        f"--warm-start needs a sweep of the same task: {earlier.name} is of {earlier.task}, "
        f"not {plan.task}",
    )
    require(
        earlier.protocol == plan.protocol,
        f"--warm-start needs trials with the same seeds: {earlier.name} has "
        f"{earlier.seeds_per_trial} per trial, not {plan.seeds_per_trial}, or another --aggregate",
    )
    require(
        plan.sampler not in ("random", "grid"),
        f"--warm-start needs a sampler that learns, not {plan.sampler}",
    )


def _error_of(plan: SearchPlan, settings: dict[str, Any]) -> UserError | None:
    try:
        trial_config(plan.task, plan.scale, plan.seed, settings)
    except UserError as error:
        return error
    return None


def _common(options: SweepOptions, cluster: Cluster, kind: str = "") -> dict[str, Any]:
    """The fields that both kinds of plan have, except for the trials and their place.

    Args:
        kind: a word for the default name.
    """
    scale = options.scale or _default_scale(options, cluster)
    metric = TASKS.get(options.task).metric
    words = [options.task, *([kind] if kind else []), scale, time.strftime("%Y%m%d-%H%M%S")]
    name = check_name(options.name or "-".join(words))
    if exists(name):
        raise UserError(f"there is a sweep {name!r} already; --resume it, or choose another --name")
    fixed = {key: str(value) for key, value in options.set.items()}
    training = lengthening.training_of(options.task, scale, fixed)
    return {
        "name": name,
        "task": options.task,
        "scale": scale,
        "metric": metric.name,
        "better": metric.better,
        "fixed": fixed,
        "seed": options.seed,
        "reports": lengthening.validations(training),
        "retry_smaller_batch": options.retry_smaller_batch,
        "concurrency": options.concurrency,
        "autoscale": options.autoscale,
        "storage": _absolute(options.storage or os.environ.get("TARDIS_STORAGE", "")),
        "tracking_uri": options.tracking_uri or default_tracking_uri(),
        "plugins": plugins.requested(),
        "on_end": options.on_end,
        "data_dir": options.data_dir,
        "data": options.data,
    }


def _absolute(storage: str) -> str:
    """A folder as workers on other machines have to call it; a URI as it is."""
    return storage if not storage or "://" in storage else os.path.abspath(storage)


def _default_scale(options: SweepOptions, cluster: Cluster) -> str:
    return "paper" if uses_gpus(options.gpus_per_trial, cluster.nodes()) else "small"


def _comparison(options: ComparisonOptions, cluster: Cluster) -> ComparisonPlan:
    if options.resume:
        options.check_nothing_but("resume", *MAY_CHANGE)
        return _continued(options, _begun_comparison(options.resume))
    if not options.task:
        raise UserError(f"name a task: {', '.join(TASKS.names())}; or --resume, --runs or --sweeps")
    common = _common(options, cluster, "compare")
    candidates = _candidates(options)
    plan = ComparisonPlan(
        **common,
        candidates=tuple(
            _with_fixed(each, candidates, common["fixed"], options.task) for each in candidates
        ),
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        trials=len(candidates) * options.seeds,
        test=True,
    )
    plan = replace(plan, candidates=tuple(_with_reports(each, plan) for each in plan.candidates))
    if options.parameters:
        plan = sizing.with_parameters(plan, options.parameters)
    return place(plan, options.gpus_per_trial, options.cpus_per_trial, cluster)


def _with_reports(candidate: Candidate, plan: ComparisonPlan) -> Candidate:
    """The candidate with its own number of validations; its errors come now, not in the trials."""
    config = trial_config(plan.task, plan.scale, plan.seed, candidate.settings)
    return replace(candidate, reports=lengthening.validations(config.training))


def _begun_comparison(name: str) -> ComparisonPlan:
    plan = begun_plan(name)
    if not isinstance(plan, ComparisonPlan):
        raise UserError(
            f"{name} is a search; continue it with python -m orchestrator.sweep --resume {name}, "
            f"or compare its trials with --sweeps {name}"
        )
    return plan


def _candidates(options: ComparisonOptions) -> tuple[Candidate, ...]:
    candidates = tuple(map(_candidate, options.candidate)) or _of_models(
        options.task, options.models
    )
    labels = [each.label for each in candidates]
    if len(set(labels)) < len(labels) or not labels:
        raise UserError(
            "a comparison needs at least one candidate, and each of them only once, not: "
            f"{', '.join(labels) or 'none'}"
        )
    return candidates


def _of_models(task: str, models: Sequence[str]) -> tuple[Candidate, ...]:
    """The rows of the paper's table, and the models that have none with their defaults."""
    rows = paper_candidates(task, models)
    in_table = {row.settings["model"] for row in rows}
    others = (Candidate(model, {"model": model}) for model in models if model not in in_table)
    return (*rows, *others)


def paper_candidates(task: str, models: Sequence[str]) -> tuple[Candidate, ...]:
    """The rows of the paper's table for the task that are of these models."""
    rows = [row for row in paper.rows(task) if row.settings.get("model") in models]
    return tuple(Candidate(row.label, dict(row.settings)) for row in rows)


def _candidate(text: str) -> Candidate:
    """Read MODEL[:ESTIMATOR][,KEY=VALUE...]; the key `label` is its name in tables."""
    system, *words = names(text) or ("",)
    model, _, estimator = system.partition(":")
    parts = {"model": model, **({"estimator": estimator} if estimator else {})}
    settings = dict(setting(each) for each in words)
    for key in settings:
        check_setting(key, "label")
    label = settings.pop("label", "") or " ".join([system.replace(":", " "), *words])
    return Candidate(label, {**parts, **settings})


def _with_fixed(
    candidate: Candidate, every: Sequence[Candidate], fixed: dict[str, str], task: str
) -> Candidate:
    """The candidate with --set; a setting that only other candidates have is left out."""

    def has(one: Candidate, key: str) -> bool:
        return has_setting(task, one.settings["model"], one.settings.get("estimator"), key)

    own = {
        key: value
        for key, value in fixed.items()
        if has(candidate, key) or not any(has(other, key) for other in every)
    }
    for key, value in own.items():
        theirs = str(candidate.settings.get(key, value))
        # The one candidate of a --config is the run that --set is there to change.
        if theirs != value and len(every) > 1:
            raise UserError(
                f"--set {key}={value} is for every trial, but {candidate.label} has {theirs}: "
                "give it to each candidate instead"
            )
    return replace(candidate, settings={**candidate.settings, **own})
