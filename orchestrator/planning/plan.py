"""What a sweep is: everything that was asked for, kept beside it so that it can be resumed.

A sweep searches, or, where it is given candidates, compares them: each is trained with each seed.
"""

import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.common.redaction import masked
from tardis_core.data.disk import replacing, write_atomically
from tardis_core.errors import UserError

NAME_RULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
SWEEPS_DIR = Path("sweeps")  # all sweeps of a working folder
PLAN_FILE = "sweep.json"
SPACE_FILE = "space.py"  # the source of a space of the user's own


def new_id() -> str:
    """An id that no other sweep has."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Candidate:
    """One of the configurations that a comparison compares."""

    label: str
    settings: dict[str, Any]  # as a search space returns them: model, estimator, section.key


@dataclass(frozen=True)
class SweepPlan:
    """A sweep as it was asked for; `trials` alone may grow."""

    name: str
    task: str
    scale: str
    trials: int
    metric: str
    better: str  # lower | higher
    models: tuple[str, ...] = ("tardis",)
    estimators: tuple[str, ...] = ("gumbel", "reinforce")
    fixed: dict[str, str] = field(default_factory=dict)  # --set: what is not searched
    space: str | None = None  # a user's file instead of search_spaces
    seed: int = 0
    seeds_per_trial: int = 1  # with which a trial of the search is trained, ...
    judge: str = "worst"  # ... and how they are judged together: mean | worst
    grace: float = 1 / 9  # share of its validations before which no trial is stopped
    replicates: int = 0  # seeds with which the best few are trained again after the search
    candidates: tuple[Candidate, ...] = ()  # of a comparison; empty: the sweep searches
    seeds: tuple[int, ...] = ()  # of a comparison
    test: bool = False  # measure on the test split in the end; never in a search
    replicates_of: str = ""  # the search whose best trials the candidates are
    reports: int = 1  # validations of a full trial
    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0
    retry_smaller_batch: bool = False  # where memory runs out: the same batch in more parts
    concurrency: int = 0  # 0: as many as the cluster has room for
    autoscale: bool = False  # the cluster makes room for `concurrency` trials when they wait
    time_budget: float = 0.0  # seconds; 0 has no limit
    storage: str = ""  # where Ray keeps trials and checkpoints; empty: the folder of the sweep
    tracking_uri: str = ""
    data_dir: str | None = None
    data: str = "auto"
    part: int = 0  # raised by every extension
    sweep_id: str = field(default_factory=new_id)

    @property
    def folder(self) -> Path:
        """The folder of the sweep on the machine of the driver."""
        return folder_of(self.name)

    @property
    def experiment(self) -> str:
        """The MLflow experiment that it is recorded in."""
        return f"tardis-{self.task}"

    @property
    def mode(self) -> str:
        """The direction as Ray Tune calls it."""
        return "min" if self.better == "lower" else "max"

    @property
    def ray_storage(self) -> str:
        """Where Ray keeps the experiment: in a storage that is shared, under an own name."""
        if not self.storage:
            return str(self.folder.absolute() / "ray")
        return f"{self.storage.rstrip('/')}/{self.name}-{self.sweep_id[:8]}"

    @property
    def space_path(self) -> str | None:
        """The file of the user's own space: the copy of a sweep that has begun, or what was named.

        So a sweep that is resumed searches what it began with, whatever became of the file.
        """
        kept = self.folder / SPACE_FILE
        return str(kept) if self.space and kept.exists() else self.space

    def jobs(self) -> list[dict[str, Any]]:
        """The trials of a comparison, every candidate with the first seed before the next seed."""
        settings = [
            {**candidate.settings, "seed": seed}
            for seed in self.seeds
            for candidate in self.candidates
        ]
        return [{"number": number, "settings": each} for number, each in enumerate(settings)]

    def title(self, number: int) -> str:
        """What to call a trial before people."""
        if not self.candidates:
            return f"trial {number}"
        return f"{self.candidate_of(number).label}, seed {self.jobs()[number]['settings']['seed']}"

    def candidate_of(self, number: int) -> Candidate:
        """The candidate that a trial of a comparison belongs to."""
        return self.candidates[number % len(self.candidates)]

    def save(self) -> None:
        """Write the plan to the folder of the sweep, the first time with the user's own space."""
        path = self.folder / PLAN_FILE
        if self.space and not path.exists():
            write_atomically(self.folder / SPACE_FILE, Path(self.space).read_bytes())
        text = json.dumps(asdict(self), indent=2) + "\n"
        with replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)  # addresses may hold passwords
            file.write(text.encode())

    def without_secrets(self) -> "SweepPlan":
        """The same sweep, for what others may read: MLflow, and what Ray pickles to its storage."""
        return replace(self, tracking_uri=masked(self.tracking_uri), storage=masked(self.storage))

    def with_more_trials(self, more: int) -> "SweepPlan":
        """The same sweep, longer."""
        return replace(self, trials=self.trials + more, part=self.part + 1)


def check_name(name: str) -> str:
    """`name`, which becomes a folder and a tag."""
    if not NAME_RULE.fullmatch(name):
        raise UserError(
            "the name of a sweep is letters, digits, dot, dash and underscore, at most 80, "
            f"and begins with a letter or a digit; not {name!r}"
        )
    return name


def folder_of(name: str) -> Path:
    """The folder of the sweep called `name`."""
    return SWEEPS_DIR / check_name(name)


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
        values: dict[str, Any] = json.loads(path.read_text())
        values["candidates"] = [Candidate(**each) for each in values["candidates"]]
        for several in ("models", "estimators", "candidates", "seeds"):
            values[several] = tuple(values[several])
        plan = SweepPlan(**values)
        check_name(plan.sweep_id)  # part of a path, too
        if plan.folder != path.parent:
            raise ValueError(f"it is called {plan.name!r}")
        return plan
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); restore it or start a new sweep") from error
