"""The plan of a sweep: everything that was asked for, saved beside it so that it can be resumed.

A plan is one of two kinds: a search for the best settings, or a comparison of given candidates.
"""

import json
import os
import re
import uuid
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from orchestrator.common.redaction import masked
from orchestrator.planning.plan_check import check_fields
from tardis_core.data.disk import replacing, write_atomically
from tardis_core.errors import UserError
from tardis_core.text import counted

NAME_RULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
SWEEPS_DIR = Path("sweeps")  # all sweeps of a working folder
PLAN_FILE = "sweep.json"
SPACE_FILE = "space.py"  # the copy of a user's own search space
SAMPLERS = ("tpe", "random", "gp", "cmaes", "grid")  # how settings are proposed
SCHEDULERS = ("asha", "promote", "hyperband", "median", "none")  # which trials are stopped early
RACE_TAG = "race"  # of a trial whose first seed is trained alone
SECOND_OBJECTIVES = ("parameters", "seconds")  # of both less is better
AGGREGATES = ("mean", "worst")  # how the seeds of one trial become one number
# Names of fields in files that older versions wrote.
OLD_NAMES = {"judge": "aggregate", "replicates": "confirm_seeds", "replicates_of": "confirms"}


def new_id() -> str:
    """An id that no other sweep has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Candidate:
    """One of the configurations that a comparison compares."""

    label: str
    settings: dict[str, Any]  # as a search space returns them: model, estimator, section.key
    reports: int | None = None  # validations of a full run, if not those of the plan


class Job(NamedTuple):
    """One trial of a comparison."""

    number: int
    candidate: Candidate
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the candidate with the seed of this trial."""
        return {**self.candidate.settings, "seed": self.seed}


class Protocol(NamedTuple):
    """How every trial of a sweep is trained and measured."""

    seeds: int  # trained side by side in one trial, ...
    aggregate: str  # ... and what counts of their values: mean | worst
    test: bool  # whether the best weights are measured on the test split at the end
    race: bool = False  # whether the first seed is trained alone, and the others if it is good


@dataclass(frozen=True)
class SweepPlan(ABC):
    """What searches and comparisons have in common."""

    kind: ClassVar[str]  # search | comparison

    name: str
    task: str
    scale: str
    trials: int
    metric: str
    better: str  # lower | higher
    fixed: dict[str, str] = field(default_factory=dict)  # --set: settings of every trial
    seed: int = 0
    reports: int = 1  # validations of a full trial
    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0
    gpu_reason: str = ""  # why that many, if it was not asked for
    retry_smaller_batch: bool = False  # where memory runs out: the same batch in more parts
    concurrency: int = 0  # maximum concurrent trials; 0: as many as the cluster has room for
    autoscale: bool = False  # the cluster grows to `concurrency` trials when they wait
    time_budget: float = 0.0  # seconds; 0: no limit
    storage: str = ""  # where Ray keeps trials and checkpoints; empty: the folder of the sweep
    tracking_uri: str = ""
    data_dir: str | None = None  # in full once the sweep has begun
    data: str = "auto"
    plugins: dict[str, str] = field(default_factory=dict)  # the source of files, by name
    on_end: str = ""  # a command that is run when the sweep has ended
    data_name: str = ""  # of the data that its trials have; empty before the first start
    data_sha256: str = ""
    sweep_id: str = field(default_factory=new_id)

    @property
    def folder(self) -> Path:
        """The folder of the sweep on the machine of the driver."""
        return folder_of(self.name)

    @property
    def experiment(self) -> str:
        """The MLflow experiment that records the sweep."""
        return f"tardis-{self.task}"

    @property
    def best_metric(self) -> str:
        """The name in MLflow of the best validation so far, of a trial and of the sweep."""
        return f"best_valid_{self.metric}"

    @property
    def mode(self) -> str:
        """The direction as Ray Tune calls it."""
        return "min" if self.better == "lower" else "max"

    @property
    def ray_storage(self) -> str:
        """Where Ray keeps the experiment; in a shared storage, under a name of its own."""
        if not self.storage:
            return str(self.folder.absolute() / "ray")
        return f"{self.storage.rstrip('/')}/{self.name}-{self.sweep_id[:8]}"

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """How every trial is trained and measured."""

    @property
    @abstractmethod
    def offers_model(self) -> bool:
        """Whether its best model is offered as champion of the task."""

    @property
    def size(self) -> str:
        """The number of trials in words."""
        return f"{counted(self.trials, 'trial')} of {self.task}"

    @property
    def tags(self) -> dict[str, str]:
        """What its MLflow run is labelled with."""
        return {"task": self.task, "scale": self.scale, "kind": self.kind}

    def reports_of(self, number: int) -> int:
        """The validations of a trial that runs to its end."""
        return self.reports

    def title(self, number: int) -> str:
        """The name of a trial as people see it."""
        return f"trial {number}"

    def trial_tags(self, number: int) -> dict[str, str]:
        """What the MLflow run of a trial is labelled with."""
        return {}

    def save(self) -> None:
        """Write the plan to the folder of the sweep."""
        text = json.dumps({"kind": self.kind, **asdict(self)}, indent=2) + "\n"
        with replacing(self.folder / PLAN_FILE) as file:
            os.fchmod(file.fileno(), 0o600)  # addresses may hold passwords
            file.write(text.encode())

    def check(self) -> None:
        """Raise `ValueError` for a value that no plan can have."""
        check_fields(self)
        if self.better not in ("lower", "higher"):
            raise ValueError(f"better is {self.better!r}, neither lower nor higher")

    def without_secrets(self) -> Self:
        """The same plan for what others may read: MLflow, and what Ray pickles to its storage."""
        uri, storage = masked(self.tracking_uri), masked(self.storage)
        # The command of a notification often has a token.
        return replace(self, tracking_uri=uri, storage=storage, on_end="")

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        """The plan with these fields, as JSON has them."""
        return cls(**values)


@dataclass(frozen=True)
class SearchPlan(SweepPlan):
    """A search for the best settings; its trials may become more, and longer."""

    kind: ClassVar[str] = "search"

    models: tuple[str, ...] = ("tardis",)
    estimators: tuple[str, ...] = ("gumbel", "reinforce")
    space: str | None = None  # a user's file instead of search_spaces
    sampler: str = "tpe"
    scheduler: str = "asha"
    seeds_per_trial: int = 1
    aggregate: str = "worst"  # of the seeds of a trial: mean | worst
    race: bool = False  # a trial that is clearly worse with its first seed gets no other
    grace: float = 1 / 9  # share of its validations before which no trial is stopped
    confirm_seeds: int = 0  # seeds with which the best few are trained again after the search
    constraints: tuple[str, ...] = ()  # such as parameters<2e6: known before a trial starts
    objectives: tuple[str, ...] = ()  # the metric and a second one: a Pareto front is reported
    warm_start: str = ""  # an earlier search whose trials the searcher knows
    part: int = 0  # raised by every extension
    longer_since: int = 0  # the part that raised training.updates last

    @property
    def protocol(self) -> Protocol:
        # A search never sees the test split: it selects by what it can see.
        return Protocol(self.seeds_per_trial, self.aggregate, test=False, race=self.race)

    @property
    def reports_of_first_seed(self) -> int:
        """Validations until a trial has trained its first seed; all, if seeds do not race."""
        return self.reports // 2 if self.race else self.reports

    def trial_tags(self, number: int) -> dict[str, str]:
        return {RACE_TAG: "true"} if self.race else {}

    @property
    def offers_model(self) -> bool:
        return not self.confirm_seeds  # otherwise the confirmation does

    @property
    def pauses(self) -> bool:
        """Whether trials are paused and continued later instead of stopped for good."""
        return self.scheduler == "promote"

    @property
    def space_path(self) -> str | None:
        """The file of the user's own space: the copy of a sweep that has begun, or the original.

        So a resumed sweep searches what it began with, even if the original has changed.
        """
        copy = self.folder / SPACE_FILE
        return str(copy) if self.space and copy.exists() else self.space

    def save(self) -> None:
        """Write the plan to the folder of the sweep, the first time with the user's own space."""
        if self.space and not (self.folder / PLAN_FILE).exists():
            write_atomically(self.folder / SPACE_FILE, Path(self.space).read_bytes())
        super().save()

    def check(self) -> None:
        super().check()
        if self.aggregate not in AGGREGATES:
            raise ValueError(f"aggregate is {self.aggregate!r}, not one of {', '.join(AGGREGATES)}")
        if self.grace > 1:
            raise ValueError(f"grace is {self.grace}, more than 1")

    def with_more_trials(self, more: int) -> "SearchPlan":
        """The same search with more trials."""
        return replace(self, trials=self.trials + more, part=self.part + 1)

    def with_updates(self, updates: int, reports: int) -> "SearchPlan":
        """The same search with longer trials, of this many validations."""
        fixed, part = {**self.fixed, "training.updates": str(updates)}, self.part + 1
        return replace(self, fixed=fixed, reports=reports, part=part, longer_since=part)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        lists = ("models", "estimators", "constraints", "objectives")
        several = {key: tuple(values[key]) for key in lists if key in values}
        return cls(**{**values, **several})


@dataclass(frozen=True)
class ComparisonPlan(SweepPlan):
    """A comparison: every candidate is trained with every seed."""

    kind: ClassVar[str] = "comparison"

    candidates: tuple[Candidate, ...] = field(kw_only=True)
    seeds: tuple[int, ...] = field(kw_only=True)
    test: bool = False  # measure on the test split at the end
    confirms: str = ""  # the search whose best trials the candidates are

    @property
    def protocol(self) -> Protocol:
        return Protocol(seeds=1, aggregate="mean", test=self.test)

    @property
    def offers_model(self) -> bool:
        return bool(self.confirms)

    @property
    def size(self) -> str:
        candidates = counted(len(self.candidates), "candidate")
        return f"{super().size} ({candidates}, {counted(len(self.seeds), 'seed')})"

    @property
    def tags(self) -> dict[str, str]:
        confirms = {"confirms": self.confirms} if self.confirms else {}
        return {**super().tags, **confirms}

    def jobs(self) -> list[Job]:
        """The trials: every candidate with the first seed, then with the next seed."""
        pairs = [(candidate, seed) for seed in self.seeds for candidate in self.candidates]
        return [Job(number, *pair) for number, pair in enumerate(pairs)]

    def candidate_of(self, number: int) -> Candidate:
        """The candidate that a trial belongs to."""
        return self.candidates[number % len(self.candidates)]

    def reports_of(self, number: int) -> int:
        return self.candidate_of(number).reports or self.reports

    def title(self, number: int) -> str:
        seed = self.seeds[number // len(self.candidates)]
        return f"{self.candidate_of(number).label}, seed {seed}"

    def trial_tags(self, number: int) -> dict[str, str]:
        return {"candidate": self.candidate_of(number).label}

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Self:
        candidates = tuple(Candidate(**each) for each in values["candidates"])
        return cls(**{**values, "candidates": candidates, "seeds": tuple(values["seeds"])})


KINDS: dict[str, type[SweepPlan]] = {plan.kind: plan for plan in (SearchPlan, ComparisonPlan)}


def check_name(name: str) -> str:
    """`name`, which becomes a folder and a tag."""
    if not NAME_RULE.fullmatch(name):
        raise UserError(
            "the name of a sweep has letters, digits, dots, dashes and underscores, at most 80, "
            f"and begins with a letter or a digit; not {name[:100]!r}"
        )
    return name


def folder_of(name: str) -> Path:
    """The folder of the sweep called `name`."""
    return SWEEPS_DIR / check_name(name)


def exists(name: str) -> bool:
    """Whether this working folder has a sweep called `name`."""
    return (folder_of(name) / PLAN_FILE).exists()


def names_here() -> list[str]:
    """The sweeps of this working folder."""
    return sorted(each.parent.name for each in SWEEPS_DIR.glob(f"*/{PLAN_FILE}"))


def load_plan(name: str) -> SweepPlan:
    """The plan of a sweep that exists."""
    path = folder_of(name) / PLAN_FILE
    if not path.is_file():
        raise UserError(
            f"there is no sweep {name!r} in {SWEEPS_DIR.absolute()}; there are: "
            f"{', '.join(names_here()) or 'none'}"
        )
    try:
        plan = _plan_of(json.loads(path.read_text()))
        plan.check()
        check_name(plan.sweep_id)  # part of a path, too
        if plan.folder != path.parent:
            raise ValueError(f"it is called {plan.name!r}")
        return plan
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); restore it or start a new sweep") from error


def _plan_of(values: dict[str, Any]) -> SweepPlan:
    if "kind" not in values:
        values = _updated(values)
    kind = values.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"its kind is {kind!r}, not one of {', '.join(KINDS)}")
    return KINDS[kind].from_values(values)


def _updated(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a file without a kind: older versions had one class with all fields."""
    kind = "comparison" if values["candidates"] else "search"
    renamed = {OLD_NAMES.get(key, key): value for key, value in values.items()}
    own = {each.name for each in fields(KINDS[kind])}
    others = {each.name for plan in KINDS.values() for each in fields(plan)} - own
    return {"kind": kind, **{k: value for k, value in renamed.items() if k not in others}}
