"""The options of a sweep, and the plan that they ask for."""

import argparse
import os
import re
import time
from typing import Any

import torch

from orchestrator.execution.trial import trial_config
from orchestrator.execution.tuner import space_of
from orchestrator.planning.plan import (
    AGGREGATES,
    SearchPlan,
    SweepPlan,
    check_name,
    exists,
    load_plan,
)
from orchestrator.tracking.mlflow_store import default_tracking_uri
from search_spaces.engine.probe import explore
from tardis_core.cli import Parser, setting
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.registry import Registry
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS

DEFAULT_TRIALS = {"smoke": 6, "small": 40, "paper": 100}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

EXAMPLES = """
examples:
  python -m orchestrator.sweep ptb --smoke                   a few tiny trials, in minutes
  python -m orchestrator.sweep ptb --dry-run                 the plan, without running it
  python -m orchestrator.sweep copy --estimators reinforce --set memory.cells=32
  python -m orchestrator.sweep --resume NAME                 after Ctrl-C, a crash or a power cut
  python -m orchestrator.sweep --extend NAME --trials +20    search on in the same study
"""


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.sweep", description=__doc__, epilog=EXAMPLES)
    made.add_argument("task", nargs="?", help=f"one of: {', '.join(TASKS.names())}")
    made.add_argument("--trials", help="how many; with --extend +N (default: by the scale)")
    made.add_argument("--time-budget", metavar="TIME", help="stop after 90s, 30m or 2h")
    made.add_argument("--estimators", help=f"to search over: {','.join(ESTIMATORS.names())}")
    made.add_argument("--models", default="tardis", help=f"of {','.join(MODELS.names())}")
    made.add_argument("--space", metavar="FILE", help="your own search space")
    made.add_argument(
        "--seeds-per-trial",
        type=int,
        default=1,
        metavar="N",
        help="train every trial with N seeds, so that settings win that work, not lucky ones",
    )
    made.add_argument(
        "--grace",
        type=float,
        default=1 / 9,
        metavar="SHARE",
        help="stop no trial before this share of its updates (default: a ninth; 1 stops none)",
    )
    made.add_argument(
        "--aggregate", default="worst", help=f"of those seeds: {', '.join(AGGREGATES)}"
    )
    made.add_argument(
        "--confirm-seeds",
        type=int,
        default=0,
        metavar="N",
        help="train the best few again with N other seeds at the end",
    )
    add_shared(made)
    made.add_argument("--extend", metavar="NAME", help="add trials to a sweep: --trials +20")
    return made


def add_shared(made: Parser) -> None:
    """What a sweep and a comparison are told in the same way."""
    made.add_argument("--scale", help=f"sizes and budget: {', '.join(SCALES)} (default: by GPUs)")
    made.add_argument("--smoke", action="store_true", help="short for --scale smoke")
    made.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every trial"
    )
    made.add_argument("--seed", type=int, default=0, help="of the search and the first of trials")
    made.add_argument("--cpus-per-trial", type=float, default=1.0)
    made.add_argument("--gpus-per-trial", type=float, default=0.0, help="0.25 packs four on a GPU")
    made.add_argument(
        "--retry-smaller-batch",
        action="store_true",
        help="where memory runs out, go on with the batch in parts whose gradients add up",
    )
    made.add_argument("--concurrency", type=int, default=0, help="at most so many trials at once")
    made.add_argument(
        "--autoscale",
        action="store_true",
        help="the cluster grows by itself: ask it for room for --concurrency trials",
    )
    made.add_argument("--address", help="of an existing Ray cluster (default: one on this machine)")
    made.add_argument(
        "--storage",
        default=os.environ.get("TARDIS_STORAGE", ""),
        help="folder or URI that all nodes share (or TARDIS_STORAGE)",
    )
    made.add_argument("--tracking-uri", default="", help="of MLflow (default: sqlite here)")
    made.add_argument("--name", help="of the sweep (default: task, scale and time)")
    made.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    made.add_argument("--data", default="auto", help="auto, real or standin (default: auto)")
    made.add_argument("--resume", metavar="NAME", help="go on with what was stopped")
    made.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def plan_from(options: argparse.Namespace) -> SweepPlan:
    """The plan that the options ask for: a new one, or that of a sweep that exists."""
    if options.resume:
        return resumed_plan(options, parser())
    if options.extend:
        check_alone(options, parser(), "extend", "trials")
        plan = load_plan(options.extend)
        if not isinstance(plan, SearchPlan):
            raise UserError(
                f"a search can be extended, and {plan.name} is a comparison; compare again with "
                "more --seeds under another --name"
            )
        return plan.with_more_trials(_count(options.trials or "", prefix="+"))
    if options.task is None:
        raise UserError(f"name a task: {', '.join(TASKS.names())}; or --resume a sweep")
    return _new_plan(options)


def resumed_plan(options: argparse.Namespace, made: Parser) -> SweepPlan:
    """The plan of the sweep or comparison that --resume names."""
    check_alone(options, made, "resume")
    return load_plan(options.resume)


def check_alone(options: argparse.Namespace, made: Parser, name: str, *more: str) -> None:
    """Raise `UserError` for options that a sweep that has begun does not change any more."""
    allowed = {name, *more, "address", "dry_run"}
    usual = vars(made.parse_args([]))
    vain = [key for key, value in vars(options).items() if value != usual[key]]
    words = ["the task" if key == "task" else _flag(key) for key in vain if key not in allowed]
    if words:
        raise UserError(f"{_flag(name)} goes on with what was begun: leave {', '.join(words)} out")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _new_plan(options: argparse.Namespace) -> SearchPlan:
    common = common_values(options)
    made = SearchPlan(
        **common,
        trials=_count(options.trials) if options.trials else DEFAULT_TRIALS[common["scale"]],
        models=_names(options.models, "model", MODELS),
        estimators=_names(
            options.estimators or ",".join(ESTIMATORS.names()), "estimator", ESTIMATORS
        ),
        space=options.space,
        seeds_per_trial=_seeds_per_trial(options),
        aggregate=options.aggregate,
        grace=_grace(options.grace),
        confirm_seeds=_confirm_seeds(options.confirm_seeds, common["name"]),
        time_budget=_seconds(options.time_budget) if options.time_budget else 0.0,
    )
    _try_out(made)
    return made


def _try_out(plan: SearchPlan) -> None:
    """Raise `UserError` if all trials of a kind would fail: of a wrong --set, or a wrong space."""
    kinds: dict[Any, list[dict[str, Any]]] = {}
    try:
        for probe in explore(space_of(plan).inner, plan.scale, plan.estimators, plan.models):
            kind = probe.settings.get("model"), probe.settings.get("estimator")
            kinds.setdefault(kind, []).append(probe.settings)
    except ValueError as error:
        raise UserError(str(error)) from error
    for alike in kinds.values():
        errors = (_error_of(plan, settings) for settings in alike)
        first = next(errors)
        if first and all(errors):
            raise first


def _error_of(plan: SearchPlan, settings: dict[str, Any]) -> UserError | None:
    try:
        trial_config(plan.task, plan.scale, plan.seed, settings)
    except UserError as error:
        return error
    return None


def common_values(options: argparse.Namespace, kind: str = "") -> dict[str, Any]:
    """The fields that both kinds of plan have, but for the number of trials.

    Args:
        kind: a word for the default name.
    """
    scale = _scale(options)
    metric = TASKS.get(options.task).metric
    words = [options.task, *([kind] if kind else []), scale, time.strftime("%Y%m%d-%H%M%S")]
    name = check_name(options.name or "-".join(words))
    if exists(name):
        raise UserError(f"there is a sweep {name!r} already; --resume it, or choose another --name")
    fixed = dict(setting(text) for text in options.set)
    training = {key: value for key, value in fixed.items() if key.startswith("training.")}
    config = make_config(options.task, scale=scale, seed=options.seed, overrides=training)
    return dict(
        name=name,
        task=options.task,
        scale=scale,
        metric=metric.name,
        better=metric.better,
        fixed=fixed,
        seed=options.seed,
        reports=-(-config.training.updates // config.training.evaluate_every),
        cpus_per_trial=options.cpus_per_trial,
        gpus_per_trial=options.gpus_per_trial,
        retry_smaller_batch=options.retry_smaller_batch,
        concurrency=_concurrency(options),
        autoscale=options.autoscale,
        storage=options.storage,
        tracking_uri=options.tracking_uri or default_tracking_uri(),
        data_dir=options.data_dir,
        data=options.data,
    )


def _seeds_per_trial(options: argparse.Namespace) -> int:
    if options.seeds_per_trial < 1:
        raise UserError(
            f"--seeds-per-trial is a whole number from 1, not {options.seeds_per_trial}"
        )
    if options.aggregate not in AGGREGATES:
        raise UserError(
            f"--aggregate must be one of {', '.join(AGGREGATES)}, not {options.aggregate!r}"
        )
    count: int = options.seeds_per_trial
    return count


def _grace(share: float) -> float:
    if not 0 <= share <= 1:
        raise UserError(f"--grace is a share from 0 to 1, not {share}")
    return share


def _confirm_seeds(seeds: int, name: str) -> int:
    if seeds < 0:
        raise UserError(f"--confirm-seeds is a whole number from 0, not {seeds}")
    if seeds:
        check_name(f"{name}-seeds")  # which the comparison will be called
    return seeds


def _concurrency(options: argparse.Namespace) -> int:
    asked: int = options.concurrency
    if asked < 0 or (options.autoscale and not asked):
        needed = "with --autoscale a whole number from 1" if options.autoscale else "not negative"
        raise UserError(f"--concurrency is {needed}, not {asked}")
    return asked


def _scale(options: argparse.Namespace) -> str:
    """What was asked for, or what fits the machine: the paper's sizes need a GPU."""
    if options.smoke:
        return "smoke"
    scale: str = options.scale or ("paper" if torch.cuda.is_available() else "small")
    if scale not in SCALES:
        raise UserError(f"unknown scale {scale!r}; choose one of: {', '.join(SCALES)}")
    return scale


def _names(text: str, kind: str, registry: Registry[type]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UserError(f"name at least one {kind}: {', '.join(registry.names())}")
    for name in names:
        registry.get(name)
    return names


def _count(text: str, prefix: str = "") -> int:
    digits = text.removeprefix(prefix)
    if not digits.isdecimal() or int(digits) < 1:
        example = f"{prefix}20"
        raise UserError(f"--trials is a whole number from 1, such as {example}, not {text!r}")
    return int(digits)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not found:
        raise UserError(
            f"--time-budget is a number with a unit, such as 90s, 30m or 2h, not {text!r}"
        )
    return float(found[1]) * UNITS[found[2]]
