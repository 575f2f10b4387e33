"""The command `python -m orchestrator.compare`: train candidates, compare, print the table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator import sweep_session
from orchestrator.common.defaults import default_tracking_uri
from orchestrator.common.outputs import writing_to
from orchestrator.comparison import page as comparison_page
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from orchestrator.execution.driver import Outcome, undelivered
from orchestrator.planning import settings_help
from orchestrator.planning.arguments import comparison_options
from orchestrator.planning.options import ComparisonOptions
from orchestrator.planning.plan import ComparisonPlan
from orchestrator.results import failures
from orchestrator.results.records import Records
from orchestrator.results.summary import as_text, messages_to_stderr, plan_text, summary
from tardis_core.cli import command
from tardis_core.errors import UserError


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """The command with its arguments."""
    return run(comparison_options(arguments))


def run(options: ComparisonOptions) -> int:
    """Train what is missing, compare, and write the report."""
    if options.set_help:
        settings_help.print_all(options.task, options.scale, options.models)
        return 0
    if options.runs or options.sweeps:
        with messages_to_stderr(options.json):
            compared = _compare_existing(options)
        if options.json:
            print(as_text(_results(compared)))
        return 0
    with messages_to_stderr(options.json):
        plan = sweep_session.plan_for(options)
        if not options.dry_run:
            restart = sweep_session.restart("orchestrator.compare", plan, options.json)
            outcome = sweep_session.run(plan, options.address, restart)
            print(_closing(plan, outcome))
    if options.dry_run:
        print(plan_text(plan) if options.json else sweep_session.describe(plan, options.address))
        return 0
    if options.json:
        print(as_text(_summary(plan, outcome)))
    return outcome.exit_code


def _summary(plan: ComparisonPlan, outcome: Outcome) -> dict[str, Any]:
    """The comparison for scripts: one object per candidate, the best first."""
    records = Records.load(sweep_session.as_begun(plan))
    compared = comparison_runs.of_records(records)
    rows = [] if compared is None else _results(compared)["candidates"]
    return {**summary(records, outcome), "candidates": rows}


def _results(compared: ComparisonData) -> dict[str, Any]:
    """What was compared, for scripts: one object per candidate, the best first."""
    metric = compared.metric
    return {
        "task": compared.task,
        "metric": metric.name,
        "better": metric.better,
        "split": compared.split,
        "data": compared.data,
        "candidates": tables.summary(compared).to_dict("records"),
    }


def _closing(plan: ComparisonPlan, outcome: Outcome) -> str:
    """The table, and where to find the rest."""
    records = Records.load(plan)
    compared = comparison_runs.of_records(records)
    lines = [
        "",
        comparison_report.text(compared) if compared else "No trial ran to its end.",
        "",
        *failures.lines(records),
        *undelivered(plan, outcome),
        f"written:  {plan.folder / 'report'}, see {comparison_report.PAGE} there",
        f"browse:   python -m orchestrator.ui {plan.name}",
    ]
    if not outcome.finished:
        lines.append(f"resume:   python -m orchestrator.compare --resume {plan.name}")
    return "\n".join(lines)


def _compare_existing(options: ComparisonOptions) -> ComparisonData:
    """Compare what has been trained, write the report, and print the table."""
    compared = _existing(options)
    if options.task not in ("", compared.task):
        raise UserError(f"these are runs of {compared.task}, not of {options.task}")
    folder = Path(options.out or f"comparisons/{compared.task}")
    with writing_to(folder):
        comparison_page.write(compared, folder)
    print(f"{comparison_report.text(compared)}\n\nwritten:  {folder / comparison_report.PAGE}")
    return compared


def _existing(options: ComparisonOptions) -> ComparisonData:
    if options.sweeps:
        return comparison_runs.of_sweeps(options.sweeps)
    uri = options.tracking_uri or default_tracking_uri()
    return comparison_runs.of_runs(options.runs, uri)
