"""Which system is better, and how sure are we? `python -m orchestrator.compare copy`.

Trains the rows of the paper's table for the task at equal budgets with several seeds, or compares
what has been trained already.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.common.outputs import writing_to
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison.runs import ComparisonData
from orchestrator.execution.driver import run_sweep, undelivered
from orchestrator.execution.trial import trial_config
from orchestrator.planning import dry_run
from orchestrator.planning.options import add_shared, common_values, resumed_plan
from orchestrator.planning.plan import Candidate, ComparisonPlan
from orchestrator.results.records import Records
from orchestrator.tracking.mlflow_store import default_tracking_uri
from tardis_core import paper
from tardis_core.cli import EXIT_INTERRUPTED, Parser, command, setting
from tardis_core.config import has_setting
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS
from tardis_core.tasks.base import TASKS

OURS = ("tardis", "lstm")  # what is compared unless more is asked for: the paper's own runs
EXAMPLES = """
examples:
  python -m orchestrator.compare copy --seeds 5              the paper's rows, five seeds each
  python -m orchestrator.compare ptb --models tardis,lstm,ntm --dry-run      the plan alone
  python -m orchestrator.compare copy --candidate lstm --candidate tardis:gumbel \\
      --candidate tardis:reinforce,estimator.gamma=0.9       systems of your own
  python -m orchestrator.compare --resume NAME               after Ctrl-C, a crash or a power cut
  python -m orchestrator.compare --sweeps NAME,NAME          searches: at equal numbers of trials
  python -m orchestrator.compare --runs ID,ID,ID             runs of MLflow
"""


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.compare", description=__doc__, epilog=EXAMPLES)
    made.add_argument("task", nargs="?", help=f"one of: {', '.join(TASKS.names())}")
    made.add_argument("--seeds", type=int, default=3, help="runs of each system (default: 3)")
    made.add_argument(
        "--models",
        default=",".join(OURS),
        help=f"rows of the paper's table to take, of {','.join(MODELS.names())} "
        f"(default: {','.join(OURS)})",
    )
    made.add_argument(
        "--candidate",
        action="append",
        default=[],
        metavar="MODEL[:ESTIMATOR][,KEY=VALUE...]",
        help="a system of your own instead of the paper's rows, repeatable; label=NAME among its "
        "settings is its name in tables",
    )
    made.add_argument("--runs", help="ids of MLflow runs of trials, instead of training")
    made.add_argument("--sweeps", help="names of sweeps or comparisons, instead of training")
    made.add_argument("--out", metavar="DIR", help="folder of the report of --runs or --sweeps")
    add_shared(made)
    return made


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, compare, and write the report."""
    options = parser().parse_args(arguments)
    if options.runs or options.sweeps:
        return _compare_existing(options)
    plan = resumed_plan(options, parser()) if options.resume else plan_from(options)
    if not isinstance(plan, ComparisonPlan):
        raise UserError(
            f"{plan.name} is a search; go on with it by python -m orchestrator.sweep --resume "
            f"{plan.name}, or compare what it found with --sweeps {plan.name}"
        )
    if options.dry_run:
        print(dry_run.describe(plan, options.address))
        return 0
    outcome = run_sweep(plan, options.address)
    found = comparison_runs.of_records(Records.load(plan))
    print(f"\n{comparison_report.text(found) if found else 'No trial ran to its end.'}\n")
    for line in undelivered(plan, outcome):
        print(line)
    print(f"written:  {plan.folder / 'report'}, with {comparison_report.PAGE} to look at")
    print(f"browse:   python -m orchestrator.ui {plan.name}")
    if not outcome.finished:
        print(f"resume:   python -m orchestrator.compare --resume {plan.name}")
        return EXIT_INTERRUPTED
    return 0


def _compare_existing(options: argparse.Namespace) -> int:
    if options.runs and options.sweeps:
        raise UserError("compare --runs or --sweeps, not both at once")
    if options.sweeps:
        found = comparison_runs.of_sweeps(_names(options.sweeps))
    else:
        uri = options.tracking_uri or default_tracking_uri()
        found = comparison_runs.of_runs(_names(options.runs), uri)
    _check_task(found, options.task)
    folder = Path(options.out or f"comparisons/{found.task}")
    with writing_to(folder):
        comparison_report.write(found, folder)
    print(f"{comparison_report.text(found)}\n\nwritten:  {folder / comparison_report.PAGE}")
    return 0


def _check_task(found: ComparisonData, task: str | None) -> None:
    if task not in (None, found.task):
        raise UserError(f"these are runs of {found.task}, not of {task}")


def _names(text: str) -> list[str]:
    """What stands between commas, each once: a run that is named twice is one run."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def plan_from(options: argparse.Namespace) -> ComparisonPlan:
    """The comparison that the options ask for."""
    if options.task is None:
        raise UserError(f"name a task: {', '.join(TASKS.names())}; or --resume, --runs or --sweeps")
    if options.seeds < 1:
        raise UserError(f"--seeds is a whole number from 1, not {options.seeds}")
    common = common_values(options, "compare")
    candidates = _candidates(options, common)
    return ComparisonPlan(
        **common,
        candidates=candidates,
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        trials=len(candidates) * options.seeds,
        test=True,
    )


def _candidates(options: argparse.Namespace, common: dict[str, Any]) -> tuple[Candidate, ...]:
    """What is to be compared; each is tried out as a configuration, so that errors come now."""
    if options.candidate:
        made = tuple(_parsed(text) for text in options.candidate)
    else:
        models = tuple(_names(options.models))
        for model in models:
            MODELS.get(model)
        made = paper_candidates(common["task"], models)
    if len({each.label for each in made}) < len(made) or not made:
        labels = ", ".join(each.label for each in made) or "none"
        raise UserError(f"at least one system is compared, and none of them twice, not: {labels}")
    return tuple(_with_fixed(each, made, common) for each in made)


def paper_candidates(task: str, models: Sequence[str] = OURS) -> tuple[Candidate, ...]:
    """The rows of the paper's table for the task that are of these models."""
    rows = [row for row in paper.rows(task) if row.settings.get("model") in models]
    return tuple(Candidate(row.label, dict(row.settings)) for row in rows)


def _with_fixed(one: Candidate, every: Sequence[Candidate], common: dict[str, Any]) -> Candidate:
    """The candidate with what --set says; a setting that only others have is not for this one."""

    def has(candidate: Candidate, key: str) -> bool:
        settings = candidate.settings
        return has_setting(common["task"], settings["model"], settings.get("estimator"), key)

    fixed = {
        key: value
        for key, value in common["fixed"].items()
        if has(one, key) or not any(has(other, key) for other in every)
    }
    made = replace(one, settings={**one.settings, **fixed})
    trial_config(common["task"], common["scale"], common["seed"], made.settings)
    return made


def _parsed(text: str) -> Candidate:
    """Read MODEL[:ESTIMATOR][,KEY=VALUE...]; the key `label` is its name in tables."""
    system, *words = _names(text) or [""]
    model, _, estimator = system.partition(":")
    named = {"model": model, **({"estimator": estimator} if estimator else {})}
    settings = dict(setting(each) for each in words)
    spelt_out = " ".join([system.replace(":", " "), *words])
    label = settings.pop("label", "") or spelt_out
    return Candidate(label, {**named, **settings})


if __name__ == "__main__":
    sys.exit(main())
