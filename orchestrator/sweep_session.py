"""One sweep from its options to its report: planned, run, concluded.

This is where the parts meet: `planning` makes a plan, `execution` runs it, and `results`,
`comparison` and `models` make what it leaves behind.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

from ray import tune

from orchestrator.comparison import page as comparison_page
from orchestrator.comparison import runs as comparison_runs
from orchestrator.execution import gpu_probe, ray_death
from orchestrator.execution.cluster import address_of, nodes_at, place, start_ray
from orchestrator.execution.driver import Outcome, run_sweep
from orchestrator.execution.study import STUDY_FILE
from orchestrator.models.export import offer_champion
from orchestrator.planning import confirmation
from orchestrator.planning import dry_run as plan_in_words
from orchestrator.planning.dry_run import Capacity
from orchestrator.planning.options import ComparisonOptions, SearchOptions
from orchestrator.planning.placement import Cluster, Footprint, slots
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan, exists, load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.results import report, search_page
from orchestrator.results.records import Records
from orchestrator.tracking.events import Artifact, Event

_log = logging.getLogger(__name__)


@overload
def plan_for(options: ComparisonOptions) -> ComparisonPlan: ...
@overload
def plan_for(options: SearchOptions) -> SweepPlan: ...
def plan_for(options: SearchOptions | ComparisonOptions) -> SweepPlan:
    """The plan that the options ask for, on the cluster that they name."""
    address = options.address

    def footprint(plan: SweepPlan) -> Footprint | None:
        start_ray(address, Path(os.devnull))
        return gpu_probe.footprint(plan)

    return plan_from(options, Cluster(partial(nodes_at, address), footprint))


def run(
    plan: SweepPlan,
    address: str | None = None,
    restart: Sequence[str] = (),
    callbacks: Sequence[tune.Callback] = (),
) -> Outcome:
    """Run a plan, whether new or resumed, and write its report.

    Args:
        restart: the module and the arguments that continue it, for a command, whose process may be
            replaced if the Ray of this machine dies. Other processes raise `UserError`.
        callbacks: of the user; Ray calls them while the trials run.
    """
    on_death = partial(ray_death.handle, plan, restart)
    return run_sweep(plan, address, conclude, on_death, callbacks)


def restart(module: str, plan: SweepPlan, as_json: bool) -> tuple[str, ...]:
    """The command that continues a sweep, and prints what the command that began it would print."""
    return (module, "--resume", plan.name, *(["--json"] if as_json else []))


def as_begun(plan: SweepPlan) -> SweepPlan:
    """The plan as its sweep has saved it: with the data that it found."""
    return load_plan(plan.name) if exists(plan.name) else plan


def conclude(plan: SweepPlan, data: Any, finished: bool) -> list[Event]:
    """Write the report of a sweep into its folder; returns the events to record.

    Args:
        data: of the task, as the trials had it.
        finished: whether all trials have ended; only then a model is offered as champion.
    """
    records = Records.load(plan)
    records.stop_open_trials()
    folder = plan.folder / "report"
    folder.mkdir(exist_ok=True)
    report.write_tables(records, folder)
    models = list(_models(records, data, finished))
    others = _write_details(records, folder, report.memory_plots(models, records.best_trial()))
    paths = [*sorted(folder.iterdir()), *others]
    files = [Artifact(None, str(path), "report") for path in paths]
    return [report.description(records), *report.best_so_far(records), *files, *models]


def _models(records: Records, data: Any, finished: bool) -> Iterator[Event]:
    """The weights of the best trials, and the best of them as a model that may be champion."""
    try:
        yield from report.artifacts_of_best_trials(records, data)
        if finished and records.plan.offers_model:
            yield from offer_champion(records, data)
    except OSError as error:  # the measurements are safe all the same
        _log.warning("the weights of the best trials could not be fetched: %s", error)


def _write_details(records: Records, folder: Path, memory_plots: Sequence[Path]) -> list[Path]:
    """Write what only one kind of sweep has; returns other files that belong to the report."""
    match records.plan:
        case ComparisonPlan():
            comparison = comparison_runs.of_records(records)
            if comparison is not None:
                comparison_page.write(comparison, folder, memory_plots)
            return []
        case SearchPlan() as plan:
            search_page.write(records, folder, memory_plots)
            return [plan.folder / STUDY_FILE]
    raise TypeError(f"not a plan: {records.plan}")


def confirmation_of(records: Records) -> ComparisonPlan | None:
    """The comparison that confirms a finished search; None if none was asked for or can be made."""
    plan = records.plan
    if not isinstance(plan, SearchPlan) or not plan.confirm_seeds:
        return None
    if (begun := confirmation.begun(plan)) is not None:
        return begun
    best = {n: records.trials[n].settings() for n in records.best(confirmation.BEST_FEW)}
    return confirmation.new(plan, best) if best else None


def describe(plan: SweepPlan, address: str | None = None) -> str:
    """The plan in words, with the cluster that it would run on."""
    nodes = nodes_at(address)
    cpus, gpus = (sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
    capacity = Capacity(place(address_of(address)), cpus, gpus, slots(plan, nodes))
    return plan_in_words.describe(plan, capacity)
