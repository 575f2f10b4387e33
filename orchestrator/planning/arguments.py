"""The command lines of `sweep` and `compare`, which become options."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.planning.options import OURS, ComparisonOptions, SearchOptions
from orchestrator.planning.placement import AUTO, MAX_TRIALS_PER_GPU
from orchestrator.planning.plan import AGGREGATES, SAMPLERS, SCHEDULERS
from tardis_core.cli import Parser, SettingAction, add_plugin_option, data_parent
from tardis_core.config_file import RunWords, add_config_option, with_config
from tardis_core.errors import require
from tardis_core.paper import PAPER_ESTIMATORS
from tardis_core.registry import ESTIMATOR_NAMES, MODEL_NAMES, TASK_NAMES
from tardis_core.scales import SCALES

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SWEEP = "Search for the best settings of a task: `python -m orchestrator.sweep ptb`."
SWEEP_EXAMPLES = """
examples:
  python -m orchestrator.sweep ptb --smoke                   a few tiny trials, in minutes
  python -m orchestrator.sweep ptb --dry-run                 the plan, without running it
  python -m orchestrator.sweep copy --estimators reinforce --set memory.cells=32
  python -m orchestrator.sweep --resume NAME                 after Ctrl-C, a crash or a power cut
  python -m orchestrator.sweep --extend NAME --trials +20    more trials in the same study
  python -m orchestrator.sweep --extend NAME --updates x2    complete trials train longer
"""
COMPARE = """Which model is better, and how certain is that? `python -m orchestrator.compare copy`.

Trains the rows of the paper's table for the task with equal budgets and several seeds, or compares
runs that exist already.
"""
COMPARE_EXAMPLES = """
examples:
  python -m orchestrator.compare copy --seeds 5              the paper's rows, five seeds each
  python -m orchestrator.compare ptb --models tardis,lstm,ntm --dry-run      only the plan
  python -m orchestrator.compare ptb --models tardis,lstm,ntm --parameters 400000
  python -m orchestrator.compare copy --candidate lstm --candidate tardis:gumbel \\
      --candidate tardis:reinforce,estimator.gamma=0.9       candidates of your own
  python -m orchestrator.compare --resume NAME               after Ctrl-C, a crash or a power cut
  python -m orchestrator.compare --sweeps NAME,NAME          searches, at equal numbers of trials
  python -m orchestrator.compare --runs ID,ID,ID             MLflow runs
"""


def search_options(arguments: Sequence[str] | None = None) -> SearchOptions:
    """The options of a command line of `python -m orchestrator.sweep`."""
    values = _values(search_parser(), arguments, _search_words)
    return SearchOptions(**{**values, "constraint": tuple(values.get("constraint", ()))})


def comparison_options(arguments: Sequence[str] | None = None) -> ComparisonOptions:
    """The options of a command line of `python -m orchestrator.compare`."""
    values = _values(comparison_parser(), arguments, _comparison_words)
    return ComparisonOptions(**{**values, "candidate": tuple(values.get("candidate", ()))})


def _values(parser: Parser, arguments: Sequence[str] | None, run_words: RunWords) -> dict[str, Any]:
    values = vars(parser.parse_args(with_config(parser, arguments, run_words)))
    for name, value in values.items():
        require(value != "", f"--{name.replace('_', '-')} must not be empty")
    return values


def _search_words(run: Mapping[str, Any], name: str) -> list[str]:
    """A search over the settings of a run's model and estimator, at its scale."""
    words = ["--models", run.get("model", "tardis"), "--scale", run.get("scale", "small")]
    estimator = run.get("estimator", "none")
    return words + ([] if estimator == "none" else ["--estimators", estimator])


def _comparison_words(run: Mapping[str, Any], name: str) -> list[str]:
    """The configuration of a run as a candidate, called like its file."""
    model, estimator = run.get("model", "tardis"), run.get("estimator", "none")
    system = model if estimator == "none" else f"{model}:{estimator}"
    settings = [f"{key}={value}" for key, value in run["settings"].items()]
    candidate = ",".join([system, f"label={name}", *settings])
    return ["--candidate", candidate, "--scale", run.get("scale", "small")]


def names(text: str) -> tuple[str, ...]:
    """The words between commas, each of them once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def seconds(text: str) -> float:
    """A duration such as 90s, 30m, 2h or 1d."""
    duration = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not duration:
        raise argparse.ArgumentTypeError(
            f"must be a number with a unit, such as 90s, 30m or 2h, not {text!r}"
        )
    value = float(duration[1]) * UNITS[duration[2]]
    if not value:
        raise argparse.ArgumentTypeError(f"must be more than no time, not {text!r}")
    return value


def gpus(text: str) -> float | str:
    """A number of GPUs, or the word that leaves it to the cluster."""
    try:
        return text if text == AUTO else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {AUTO!r} or a number, not {text!r}") from None


def _parser(**options: Any) -> Parser:
    """A parser that returns only what was given: the defaults are those of the options object."""
    return Parser(argument_default=argparse.SUPPRESS, **options)


def search_parser() -> Parser:
    """The options of `python -m orchestrator.sweep`."""
    parser = _parser(
        prog="python -m orchestrator.sweep",
        description=SWEEP,
        epilog=SWEEP_EXAMPLES,
        parents=[_shared_parent("sweep"), data_parent()],
    )
    add = parser.add_argument
    add(
        "--extend",
        metavar="NAME",
        help="extend a finished search: more trials with --trials +20, longer ones with --updates",
    )
    add(
        "--trials",
        type=int,
        metavar="N",
        help="number of trials (default: depends on the scale); with --extend, +N adds N trials",
    )
    add(
        "--updates",
        metavar="N",
        help="with --extend: continue complete trials to N updates; x2 doubles their number",
    )
    add("--time-budget", type=seconds, metavar="TIME", help="stop the search after 90s, 30m or 2h")
    add(
        "--estimators",
        type=names,
        metavar="NAME,...",
        help=f"gradient estimators to search over, some of: {', '.join(ESTIMATOR_NAMES.all())} "
        f"(default: those of the paper, {','.join(PAPER_ESTIMATORS)})",
    )
    add(
        "--models",
        type=names,
        metavar="NAME,...",
        help=f"models to search over, some of: {', '.join(MODEL_NAMES.all())} (default: tardis)",
    )
    add("--space", metavar="FILE", help="a search space of your own, a Python file")
    add(
        "--sampler",
        choices=SAMPLERS,
        help="how settings are proposed (default: tpe); grid tries every combination of a space "
        "with steps",
    )
    add(
        "--scheduler",
        choices=SCHEDULERS,
        help="which trials are stopped early (default: asha); none stops no trial",
    )
    add(
        "--seeds-per-trial",
        type=int,
        metavar="N",
        help="train every trial with N seeds, so that robust settings win, not lucky ones",
    )
    add(
        "--aggregate",
        choices=AGGREGATES,
        help="objective of a trial with several seeds: their mean or the worst (default: worst)",
    )
    add(
        "--race",
        action="store_true",
        help="with --seeds-per-trial: a trial that is clearly worse after one seed gets no other "
        "seeds",
    )
    add(
        "--grace",
        type=float,
        metavar="SHARE",
        help="stop no trial before this share of its updates (default: 1/9); 1 stops none",
    )
    add(
        "--confirm-seeds",
        type=int,
        metavar="N",
        help="after the search, train the best three configurations again with N other seeds",
    )
    add(
        "--constraint",
        action="append",
        metavar="QUANTITY<NUMBER",
        help="a limit for every trial, repeatable: parameters<2e6, memory_gb<8",
    )
    add(
        "--objectives",
        type=names,
        metavar="METRIC,SECOND",
        help="report the Pareto front of the metric and parameters or seconds, such as "
        "bpc,parameters; the search itself uses the metric alone",
    )
    add("--warm-start", metavar="NAME", help="learn from the trials of an earlier search")
    return parser


def comparison_parser() -> Parser:
    """The options of `python -m orchestrator.compare`."""
    parser = _parser(
        prog="python -m orchestrator.compare",
        description=COMPARE,
        epilog=COMPARE_EXAMPLES,
        parents=[_shared_parent("comparison"), data_parent()],
    )
    add = parser.add_argument
    add("--seeds", type=int, metavar="N", help="number of seeds per candidate (default: 3)")
    add(
        "--models",
        type=names,
        metavar="NAME,...",
        help="models to train, as in the paper's table or with their defaults, some of: "
        f"{', '.join(MODEL_NAMES.all())} (default: {','.join(OURS)})",
    )
    add(
        "--candidate",
        action="append",
        metavar="MODEL[:ESTIMATOR][,KEY=VALUE...]",
        help="a candidate of your own instead of the paper's rows, repeatable; label=NAME among "
        "its settings is its name in tables",
    )
    add(
        "--parameters",
        type=int,
        metavar="N",
        help="choose the hidden size of every candidate so that it has about N parameters",
    )
    add("--runs", type=names, metavar="ID,...", help="compare these MLflow runs; train nothing")
    add("--sweeps", type=names, metavar="NAME,...", help="compare these sweeps; train nothing")
    add("--out", metavar="DIR", help="folder of the report with --runs or --sweeps")
    return parser


def _shared_parent(kind: str) -> Parser:
    """The options that sweeps and comparisons share; `kind` is the word for the one it is."""
    parent = _parser(add_help=False)
    add = parent.add_argument
    add("task", nargs="?", help=f"one of: {', '.join(TASK_NAMES.all())}")
    add_config_option(parent)
    add_plugin_option(parent)
    add("--resume", metavar="NAME", help=f"resume a {kind} that was stopped")
    add("--dry-run", action="store_true", help="print the plan and exit")
    add(
        "--json",
        action="store_true",
        help="print one JSON object at the end; everything else goes to stderr",
    )
    add("--name", help=f"name of the {kind} (default: task, scale and time)")
    add(
        "--scale",
        choices=SCALES,
        help="sizes and budget (default: paper on GPUs, otherwise small)",
    )
    add("--smoke", dest="scale", action="store_const", const="smoke", help="same as --scale smoke")
    add(
        "--set",
        action=SettingAction,
        metavar="KEY=VALUE",
        help="a setting of every trial, repeatable; `--set help` lists all of them",
    )
    add(
        "--on-end",
        metavar="COMMAND",
        help=f"run this shell command when the {kind} has ended; TARDIS_SWEEP, TARDIS_STATE, "
        "TARDIS_BEST and other variables describe the result",
    )
    add(
        "--seed",
        type=int,
        help="first seed of trials, in a sweep also the seed of its proposals (default: 0)",
    )
    add = parent.add_argument_group("cluster, storage and tracking").add_argument
    add(
        "--cpus-per-trial",
        type=float,
        metavar="N",
        help="CPUs per trial (default: 1, or less if a GPU would stay unused)",
    )
    add(
        "--gpus-per-trial",
        type=gpus,
        metavar="N",
        help="GPUs per trial: 0.25 lets four share one, 0 trains on CPUs (default: auto, as many "
        f"per GPU as its memory allows, at most {MAX_TRIALS_PER_GPU}; 0 without GPUs)",
    )
    add(
        "--retry-smaller-batch",
        action="store_true",
        help="if a trial runs out of memory, retry with the batch in parts and add their gradients",
    )
    add(
        "--concurrency",
        type=int,
        metavar="N",
        help="maximum concurrent trials (default: as many as fit); with --resume the limit from "
        "now on (default: the one before)",
    )
    add(
        "--autoscale",
        action="store_true",
        help="the cluster grows on demand: request room for --concurrency trials",
    )
    add(
        "--address",
        help="HOST:PORT of an existing Ray cluster, or auto (default: RAY_ADDRESS, otherwise start "
        "Ray on this machine)",
    )
    add(
        "--storage",
        help="folder or URI that all nodes can access (default: TARDIS_STORAGE, otherwise the "
        f"folder of the {kind})",
    )
    add("--tracking-uri", help="MLflow URI (default: MLFLOW_TRACKING_URI, or ./mlflow.db)")
    return parent
