"""The options of a sweep and of a comparison: one object, made by the parser or from Python."""

import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from orchestrator.planning.placement import AUTO
from orchestrator.planning.plan import AGGREGATES, SAMPLERS, SCHEDULERS
from tardis_core.data.files import check_source
from tardis_core.errors import require
from tardis_core.paper import PAPER_ESTIMATORS
from tardis_core.registry import ESTIMATOR_NAMES, MODEL_NAMES, TASK_NAMES, Names
from tardis_core.scales import SCALES

KINDS = ("model", "estimator")  # what a setting may name besides section.key
OURS = ("tardis", "lstm")  # models of the rows that the paper's authors trained themselves


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What searches and comparisons share; the words of the command line with underscores."""

    task: str = ""
    name: str = ""  # empty: task, scale and time
    resume: str = ""  # the name of a sweep to continue
    scale: str = ""  # empty: paper if trials run on GPUs, otherwise small
    set: Mapping[str, Any] = field(default_factory=dict)  # settings of every trial
    seed: int = 0
    cpus_per_trial: float | None = None  # None: 1, or less so that every GPU is used
    gpus_per_trial: float | str = AUTO  # a number, or by the cluster
    retry_smaller_batch: bool = False
    concurrency: int = 0  # 0: as many trials as the cluster has room for
    autoscale: bool = False
    storage: str = ""  # empty: TARDIS_STORAGE, or the folder of the sweep
    tracking_uri: str = ""  # empty: MLFLOW_TRACKING_URI, or ./mlflow.db
    data_dir: str | None = None
    data: str = "auto"
    address: str | None = None  # of an existing Ray cluster
    dry_run: bool = False
    on_end: str = ""  # a command to run when the sweep has ended
    plugin: tuple[str, ...] = ()  # files with parts of the user's own; requested already
    set_help: bool = False  # only print the settings
    json: bool = False  # print one object at the end, everything else to stderr

    def __post_init__(self) -> None:
        """Raise `UserError` for a value that no sweep can have."""
        if self.task:
            TASK_NAMES.check(self.task)
        require(
            not self.scale or self.scale in SCALES,
            f"unknown scale {self.scale!r}; choose one of: {', '.join(SCALES)}",
        )
        check_source(self.data)
        require(
            self.data_dir is None or os.path.isdir(self.data_dir),
            f"--data-dir must be a folder that exists, not {str(self.data_dir)[:200]!r}",
        )
        for key in self.set:
            check_setting(key, *KINDS)
        _check_count("seed", self.seed, 0)
        cpus, gpus = self.cpus_per_trial, self.gpus_per_trial
        require(
            cpus is None or 0 <= cpus < math.inf,
            f"--cpus-per-trial must be a number from 0, not {cpus}",
        )
        require(
            gpus == AUTO or (not isinstance(gpus, str) and _is_gpu_count(gpus)),
            f"--gpus-per-trial must be {AUTO!r}, a share from 0 to 1 or a whole number, not {gpus}",
        )
        require(
            not cpus == gpus == 0, "a trial needs CPUs or GPUs: one of the two must be more than 0"
        )
        least = "with --autoscale a whole number from 1" if self.autoscale else "not negative"
        require(
            self.concurrency >= int(self.autoscale),
            f"--concurrency must be {least}, not {self.concurrency}",
        )

    def check_nothing_but(self, *allowed: str) -> None:
        """Raise `UserError` for options that do not affect a sweep that was started before."""
        allowed = (*allowed, "address", "dry_run", "json")
        changed = [each for each in fields(self) if getattr(self, each.name) != _default(each)]
        words = [_flag(each.name) for each in changed if each.name not in allowed]
        require(
            not words,
            f"{_flag(allowed[0])} continues a sweep as it was planned: omit {', '.join(words)}",
        )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(SweepOptions):
    """The options of `python -m orchestrator.sweep`."""

    extend: str = ""  # the name of a search that gets more trials
    trials: int | None = None  # None: by the scale
    updates: str = ""  # with extend: of every trial, such as x2 or 20000
    time_budget: float = 0.0  # seconds; 0: no limit
    models: tuple[str, ...] = ("tardis",)
    estimators: tuple[str, ...] = PAPER_ESTIMATORS
    space: str | None = None
    sampler: str = "tpe"
    scheduler: str = "asha"
    seeds_per_trial: int = 1
    aggregate: str = "worst"
    race: bool = False  # train the other seeds only of trials whose first seed is good
    grace: float = 1 / 9
    confirm_seeds: int = 0
    constraint: tuple[str, ...] = ()  # such as parameters<2e6
    objectives: tuple[str, ...] = ()  # the metric of the task and a second one
    warm_start: str = ""  # the name of an earlier search that this one learns from

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_names(MODEL_NAMES, self.models)
        _check_names(ESTIMATOR_NAMES, self.estimators)
        if self.trials is not None:
            _check_count("trials", self.trials, 1)
        require(
            bool(self.extend) or not self.updates,
            "--updates belongs to --extend; a new sweep has --set training.updates=N",
        )
        _check_count("seeds_per_trial", self.seeds_per_trial, 1)
        _check_count("confirm_seeds", self.confirm_seeds, 0)
        _check_choice("sampler", self.sampler, SAMPLERS)
        _check_choice("scheduler", self.scheduler, SCHEDULERS)
        _check_choice("aggregate", self.aggregate, AGGREGATES)
        require(
            not self.race or self.seeds_per_trial > 1,
            f"--race needs at least two seeds, not --seeds-per-trial {self.seeds_per_trial}",
        )
        require(
            not self.race or self.scheduler != "promote",
            "--race cannot be combined with --scheduler promote, which pauses trials; choose one "
            "of the others",
        )
        require(
            0 <= self.time_budget < math.inf,
            f"--time-budget must be a time, not {self.time_budget}",
        )
        require(0 <= self.grace <= 1, f"--grace must be a share from 0 to 1, not {self.grace}")


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(SweepOptions):
    """The options of `python -m orchestrator.compare`."""

    seeds: int = 3
    models: tuple[str, ...] = OURS
    candidate: tuple[str, ...] = ()  # MODEL[:ESTIMATOR][,KEY=VALUE...]; empty: the paper's rows
    parameters: int | None = None  # of every candidate, about; None: the sizes of the scale
    runs: tuple[str, ...] = ()  # MLflow runs to compare instead of training
    sweeps: tuple[str, ...] = ()  # sweeps to compare instead of training
    out: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_names(MODEL_NAMES, self.models)
        _check_count("seeds", self.seeds, 1)
        if self.parameters is not None:
            _check_count("parameters", self.parameters, 1)
        require(not (self.runs and self.sweeps), "compare --runs or --sweeps, not both")
        require(
            not self.out or bool(self.runs or self.sweeps),
            "--out belongs to --runs or --sweeps; the report of a comparison that trains is in "
            "sweeps/NAME/report",
        )


def check_setting(key: str, *others: str) -> None:
    """Raise `UserError` unless the key is section.key, or one of the others."""
    section, _, field = key.partition(".")
    require(
        key in others or bool(section and field),
        f"a setting is section.key=value, such as memory.cells=32, not {key}=...",
    )


def _flag(name: str) -> str:
    return "the task" if name == "task" else f"--{name.replace('_', '-')}"


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _check_count(name: str, value: int, least: int) -> None:
    rule = f"{_flag(name)} must be a whole number from {least}"
    require(type(value) is int and value >= least, f"{rule}, not {value}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    require(value in choices, f"{_flag(name)} must be one of {', '.join(choices)}, not {value!r}")


def _is_gpu_count(value: float) -> bool:
    return 0 <= value <= 1 or (1 < value < math.inf and value == int(value))


def _check_names(registered: Names, names: tuple[str, ...]) -> None:
    require(bool(names), f"name at least one {registered.kind}: {', '.join(registered.all())}")
    for name in names:
        registered.check(name)
