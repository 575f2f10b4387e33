"""Search the settings of a task on all there is: `python -m orchestrator.sweep ptb`."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import search_spaces
from orchestrator import leaderboard, preflight, report
from orchestrator.events import SweepEnded, SweepStarted
from orchestrator.mlflow_store import prepare_store
from orchestrator.options import parser, plan_from
from orchestrator.plan import SweepPlan
from orchestrator.recorder import event_log
from orchestrator.run import ended, run, slots, space_of, start_ray
from orchestrator.tracking import Tracker
from orchestrator.view import View
from tardis_core.build import load_data
from tardis_core.cli import EXIT_INTERRUPTED, command
from tardis_core.config import Config, make_config
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS

FLUSH_SECONDS = 60


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Plan, check, run, report."""
    options = parser().parse_args(arguments)
    plan = plan_from(options)
    if options.dry_run:
        print(_describe(plan))
        return 0
    data = load_data(_base_config(plan), plan.data_dir, plan.data)
    prepare_store(plan.tracking_uri, _experiment(plan))
    with _new_folder(plan):
        log = event_log(plan.folder.absolute())  # a second driver on the same sweep ends here
        at_once = slots(plan, start_ray(options.address, plan.folder / "ray.log"))
        preflight.check(plan, at_once)
        plan.save()
    print(_headline(plan, data, at_once), flush=True)

    log.append(SweepStarted(plan.name, _tags(plan, data), _params(plan)))
    tracker = Tracker(log, plan.tracking_uri, _experiment(plan), plan.sweep_id)
    tracker.start()
    try:
        run(plan, data, at_once, [View(plan)])
    except BaseException:
        log.append(SweepEnded("FAILED"))
        tracker.close(FLUSH_SECONDS)
        raise
    finished = ended(plan) >= plan.trials or bool(plan.time_budget)
    _close(plan, tracker, finished)
    return 0 if finished else EXIT_INTERRUPTED


@contextmanager
def _new_folder(plan: SweepPlan) -> Iterator[None]:
    """The folder of the sweep; a new one does not outlive a preflight that fails."""
    new = not plan.folder.exists()
    plan.folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except UserError:
        if new:
            shutil.rmtree(plan.folder)
        raise


def _close(plan: SweepPlan, tracker: Tracker, finished: bool) -> None:
    """Record what is to be recorded, and say what came of it."""
    log = event_log(plan.folder.absolute())
    log.append(*report.write(plan), SweepEnded("FINISHED" if finished else "KILLED"))
    waiting = tracker.close(FLUSH_SECONDS)
    print(f"\n{leaderboard.text(plan)}\n")
    print(f"written to {plan.folder}: report/, study.log, ray.log")
    if waiting:
        print(f"{waiting} events could not be sent to {plan.tracking_uri} and wait in the folder")
    print(f"browse:  python -m orchestrator.ui {plan.name}")
    if finished:
        print(f"extend:  python -m orchestrator.sweep --extend {plan.name} --trials +{plan.trials}")
    else:
        print(f"resume:  python -m orchestrator.sweep --resume {plan.name}")


def _base_config(plan: SweepPlan) -> Config:
    """The task as every trial has it: what the data depends on."""
    fixed = {key: value for key, value in plan.fixed.items() if key.startswith("task.")}
    return make_config(plan.task, scale=plan.scale, seed=plan.seed, overrides=fixed)


def _experiment(plan: SweepPlan) -> str:
    return f"tardis-{plan.task}"


def _headline(plan: SweepPlan, data: Any, at_once: int) -> str:
    about = TASKS.get(plan.task).provenance(_base_config(plan).task_settings, data)
    return (
        f"sweep {plan.name}: {plan.trials} trials of {plan.task}, scale {plan.scale} "
        f"(change with --scale), {at_once} at once, seed {plan.seed}\n"
        f"data: {about.name}, {about.origin}\n"
        f"tracked in {plan.tracking_uri}; stop with Ctrl-C, nothing is lost"
    )


def _params(plan: SweepPlan) -> dict[str, str]:
    return {key: str(value) for key, value in asdict(plan).items() if key != "tracking_uri"}


def _tags(plan: SweepPlan, data: Any) -> dict[str, str]:
    about = TASKS.get(plan.task).provenance(_base_config(plan).task_settings, data)
    return {
        "task": plan.task,
        "scale": plan.scale,
        "data": about.name,
        "data.real": str(about.real),
        "data.sha256": about.sha256,
        "git_commit": _git_commit(),
        "hardware": f"{platform.processor() or platform.machine()}, {platform.system()}",
        **{f"version.{name}": value for name, value in preflight.versions().items()},
    }


def _git_commit() -> str:
    try:
        asked = ["git", "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _describe(plan: SweepPlan) -> str:
    """The plan in words and a table, for --dry-run."""
    space = space_of(plan)
    rows = search_spaces.describe(space.inner, plan.scale, plan.estimators, plan.models)
    width = max(len(name) for name, _ in rows)
    lines = [f"sweep {plan.name}: {plan.trials} trials of {plan.task}, scale {plan.scale}", ""]
    lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    lines += ["", f"tried first: {len(space.first_guesses())} configurations of the paper"]
    for point in space.first_guesses():
        lines.append("  " + ", ".join(f"{key}={value}" for key, value in point.items()))
    lines += ["", f"results go to {plan.folder} and {plan.tracking_uri}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
