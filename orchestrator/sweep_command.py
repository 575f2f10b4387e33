"""The sweep as a command: what it does, and what it says at the end."""

from collections.abc import Sequence

from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.execution.driver import Outcome, run_sweep, undelivered
from orchestrator.planning import confirmation, dry_run
from orchestrator.planning.options import parser, plan_from
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.results import leaderboard, report
from orchestrator.results.records import Records
from orchestrator.tracking import champion
from orchestrator.tracking.mlflow_store import reach_store
from tardis_core.cli import EXIT_INTERRUPTED, command
from tardis_core.errors import UserError
from tardis_core.serving.base import PREDICTORS


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, run, train the best few again with more seeds, and say what came of it."""
    options = parser().parse_args(arguments)
    plan = plan_from(options)
    if options.dry_run:
        print(dry_run.describe(plan, options.address))
        return 0
    outcome = run_sweep(plan, options.address)
    records = Records.load(plan)
    print(f"\n{leaderboard.text(records)}")
    if outcome.finished and isinstance(plan, SearchPlan) and plan.confirm_seeds:
        again = confirmation_of(plan, records)
        if again is not None:
            for line in undelivered(plan, outcome):
                print(line)
            print(
                f"\nThe best {len(again.candidates)} again, with {plan.confirm_seeds} other seeds:"
            )
            outcome = run_sweep(again, options.address)
            records = Records.load(again)
    if isinstance(records.plan, ComparisonPlan):
        compared = comparison_runs.of_records(records)
        print(f"\n{comparison_report.text(compared) if compared else 'No trial ran to its end.'}")
    print(f"\n{_closing(plan, records, outcome)}")
    return 0 if outcome.finished else EXIT_INTERRUPTED


def confirmation_of(plan: SearchPlan, records: Records) -> ComparisonPlan | None:
    """The confirmation of a search: the one that was begun, or a new one; None without any."""
    best = records.best(confirmation.BEST_FEW)
    settings = {number: records.trials[number].settings() for number in best}
    return confirmation.begun(plan) or (confirmation.new(plan, settings) if best else None)


def _closing(plan: SweepPlan, records: Records, outcome: Outcome) -> str:
    """The best configuration, the champion, and the commands for whatever comes next."""
    lines, last = [], records.plan
    number = records.best_trial()
    if number is not None:
        lines.append(f"best:     {report.command_of(records, number)}")
        lines.append(f"          valid {last.metric} {records.objective(number):.4g}")
    lines += undelivered(last, outcome)
    if outcome.finished and not outcome.waiting:
        lines.append(f"champion: {_champion(last)}")
    lines.append(f"written:  {plan.folder}/report, study.log, best/")
    lines.append(f"browse:   python -m orchestrator.ui {plan.name}")
    if number is not None:
        lines.append(f"evaluate: python -m orchestrator.evaluate {last.name}")
        lines.append(f"inspect:  python -m orchestrator.inspect {last.name}")
    if outcome.finished and isinstance(plan, SearchPlan):
        lines.append(
            f"extend:   python -m orchestrator.sweep --extend {plan.name} --trials +{plan.trials}"
        )
    if not outcome.finished:
        lines.append(f"resume:   python -m orchestrator.sweep --resume {plan.name}")
    return "\n".join(lines)


def _champion(plan: SweepPlan) -> str:
    """Who the champion of the task is now."""
    name = champion.registered_name(plan.task)
    try:
        client, _ = reach_store(plan.tracking_uri, plan.experiment)
    except UserError as error:
        return f"not known: {error}"
    held = champion.current_champion(client, name)
    if held is None:
        served = plan.task in PREDICTORS.names()
        return f"{name} has none{'' if served else ', for want of a file in tardis_core/serving'}"
    if champion.VALUE not in held.tags:
        return f"{name} version {held.version}, which no sweep has registered"
    ours = held.tags.get("sweep") == plan.name
    return (
        f"{name} version {held.version}, {'of this sweep' if ours else 'as before'}: "
        f"{held.tags['metric']} {float(held.tags[champion.VALUE]):.4g} on "
        f"{held.tags[champion.MEASURED_ON].partition(',')[0]}, scale {held.tags['scale']}"
    )
