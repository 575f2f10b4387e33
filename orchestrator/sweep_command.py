"""The command `python -m orchestrator.sweep`: run a search, confirm it, and print the results."""

from collections.abc import Sequence

from orchestrator import sweep_session
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.execution.driver import Outcome, undelivered
from orchestrator.planning import settings_help
from orchestrator.planning.arguments import search_options
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.results import failures, leaderboard, pareto, report
from orchestrator.results.records import Records
from orchestrator.results.summary import as_text, messages_to_stderr, plan_text, summary
from orchestrator.tracking import champion
from orchestrator.tracking.mlflow_store import reach_store
from tardis_core.cli import command
from tardis_core.errors import UserError
from tardis_core.serving.base import PREDICTORS
from tardis_core.text import counted


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """The command with its arguments."""
    return run(search_options(arguments))


def run(options: SearchOptions) -> int:
    """Plan and run, and print the results for people or for scripts."""
    if options.set_help:
        settings_help.print_all(options.task, options.scale, options.models, options.estimators)
        return 0
    with messages_to_stderr(options.json):
        plan = sweep_session.plan_for(options)
        if not options.dry_run:
            records, outcome = _run(plan, options)
    if options.dry_run:
        print(plan_text(plan) if options.json else sweep_session.describe(plan, options.address))
        return 0
    if options.json:
        print(as_text(summary(records, outcome)))
    return outcome.exit_code


def _run(plan: SweepPlan, options: SearchOptions) -> tuple[Records, Outcome]:
    """Run, confirm the best trials with more seeds if asked to, and print the results."""
    address = options.address
    restart = sweep_session.restart("orchestrator.sweep", plan, options.json)
    outcome = sweep_session.run(plan, address, restart)
    records = Records.load(sweep_session.as_begun(plan))
    print(f"\n{leaderboard.text(records)}")
    if front := pareto.text(records):
        print(f"\n{front}")
    if outcome.finished and (confirmation := sweep_session.confirmation_of(records)):
        print(_before(confirmation, plan, outcome), flush=True)
        outcome = sweep_session.run(confirmation, address, restart)
        records = Records.load(sweep_session.as_begun(confirmation))
    if isinstance(records.plan, ComparisonPlan):
        compared = comparison_runs.of_records(records)
        print(f"\n{comparison_report.text(compared) if compared else 'No trial ran to its end.'}")
    print(f"\n{_closing(plan, records, outcome)}")
    return records, outcome


def _before(confirmation: ComparisonPlan, plan: SweepPlan, outcome: Outcome) -> str:
    """What there is to say between a search and its confirmation."""
    best = counted(len(confirmation.candidates), "configuration")
    seeds = counted(len(confirmation.seeds), "other seed")
    headline = f"\nThe best {best} again, with {seeds}:"
    return "\n".join([*undelivered(plan, outcome), headline])


def _closing(plan: SweepPlan, records: Records, outcome: Outcome) -> str:
    """The best configuration, the champion, and the commands for the next steps."""
    lines, last = [], records.plan
    number = records.best_trial()
    if number is not None:
        lines.append(f"best:     {report.command_of(records, number)}")
        lines.append(f"          valid {last.metric} {records.objective(number):.4g}")
    lines += failures.lines(records)
    lines += undelivered(last, outcome)
    if outcome.finished and not outcome.waiting:
        lines.append(f"champion: {_champion(last)}")
    written = [name for name in ("report", "study.log", "best") if (plan.folder / name).exists()]
    lines.append(f"written:  {plan.folder}/{', '.join(written)}")
    lines.append(f"browse:   python -m orchestrator.ui {plan.name}")
    if number is not None:
        lines.append(f"evaluate: python -m orchestrator.evaluate {last.name}")
        lines.append(f"inspect:  python -m orchestrator.inspect {last.name}")
    if outcome.finished and not outcome.failed and isinstance(plan, SearchPlan):
        lines.append(
            f"extend:   python -m orchestrator.sweep --extend {plan.name} --trials +{plan.trials}"
        )
    if not outcome.finished:
        lines.append(f"resume:   python -m orchestrator.sweep --resume {plan.name}")
    return "\n".join(lines)


def _champion(plan: SweepPlan) -> str:
    """The present champion of the task."""
    name = champion.registered_name(plan.task)
    try:
        client, _ = reach_store(plan.tracking_uri, plan.experiment)
    except UserError as error:
        return f"unknown: {error}"
    current = champion.current_champion(client, name)
    if current is None:
        served = plan.task in PREDICTORS.names()
        reason = "" if served else ": no predictor registered in tardis_core/serving"
        return f"{name} has none{reason}"
    if champion.VALUE not in current.tags:
        return f"{name} version {current.version}, which was not registered by a sweep"
    source = "from this sweep" if current.tags.get("sweep") == plan.name else "as before"
    return (
        f"{name} version {current.version}, {source}: "
        f"{current.tags['metric']} {float(current.tags[champion.VALUE]):.4g} on "
        f"{current.tags[champion.MEASURED_ON].partition(',')[0]}, scale {current.tags['scale']}"
    )
