"""A trained model by whatever name a person has for it, and results recorded back to it.

RUN is the folder of a run of tardis_core.train, a checkpoint file, the name of a sweep (its best
trial), or the id of a run of MLflow that keeps its weights among its artifacts.
"""

import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from orchestrator.common.redaction import masked
from orchestrator.execution.checkpoints import BEST, fetch_best
from orchestrator.planning.plan import PLAN_FILE, SWEEPS_DIR, SweepPlan, load_plan, names_here
from orchestrator.results.records import Records
from orchestrator.tracking.mlflow_runs import SWEEP, TRIAL, clean_name, run_of_trial
from orchestrator.tracking.mlflow_store import existing_store, reason
from tardis_core.build import build_task, load_data
from tardis_core.cli import Parser
from tardis_core.config import Config
from tardis_core.errors import UserError
from tardis_core.models.network import Network
from tardis_core.tasks.base import Split, Task
from tardis_core.training.loop import pick_device
from tardis_core.training.run_folder import check_data, load_checkpoint, load_network

RUN_ID = re.compile(r"[0-9a-f]{32}")
CHECKPOINT = f"checkpoint/{BEST}"  # among the artifacts of a run
RUN_HELP = "folder of a run, checkpoint file, name of a sweep (its best trial), or MLflow run id"
SPLITS: tuple[Split, ...] = ("valid", "test")


class Recorded(NamedTuple):
    """A run in a tracking store."""

    tracking_uri: str
    run_id: str


@dataclass(frozen=True)
class Trained:
    """The weights of a run, and where what is found out about it belongs."""

    source: Path  # of the weights; it may be gone by now
    values: dict[str, Any]  # of the checkpoint
    config: Config
    folder: Path  # for results
    recorded: Recorded | None = None
    # Where a sweep has its data from, and of which kind: the same again unless others are named.
    data_dir: str | None = None
    data: str = "auto"

    @property
    def title(self) -> str:
        """What it is, for people: with the data, and so with the word stand-in where it is one."""
        config = self.config
        return (
            f"{self.values['provenance']['name']}, {config.system}, scale {config.scale},"
            f" seed {config.seed}, update {self.values['update']}"
        )

    def network(self, device: str = "auto") -> Network:
        """The network with its trained weights."""
        return load_network(self.values, self.config, self.source).to(pick_device(device))

    def task(self, data_dir: str | None = None, data: str = "auto") -> Task:
        """The task on the data that the run was trained on; other data is refused."""
        recorded = self.values["provenance"]
        data_dir, data = data_dir or self.data_dir, self.data if data == "auto" else data
        if data == "auto" and not recorded["real"]:
            data = "standin"
        loaded = load_data(self.config, data_dir, data)
        made = build_task(self.config, loaded)
        check_data(self.source, recorded, made.provenance(self.config.task_settings, loaded))
        return made


def add_options(parser: Parser) -> None:
    """RUN and what every command on a trained model takes."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--out", metavar="DIR", help="folder of the results (default: of the run)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    parser.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    parser.add_argument("--data", default="auto", help="auto, real or standin (default: auto)")
    parser.add_argument("--tracking-uri", default="", help="of MLflow (default: sqlite here)")


def split_named(name: str) -> Split:
    """The split of that name."""
    for split in SPLITS:
        if split == name:
            return split
    raise UserError(f"--split must be one of {', '.join(SPLITS)}, not {name!r}")


def find(run: str, tracking_uri: str) -> Trained:
    """The trained model that `run` names."""
    path = Path(run)
    if (path / BEST).is_file():
        return _load(path / BEST, path)
    if path.is_file():
        return _load(path, path.with_suffix(""))
    name = path.name if path.parent == SWEEPS_DIR else run  # sweeps/NAME, as the shell completes it
    if (SWEEPS_DIR / name / PLAN_FILE).is_file():
        return _of_sweep(load_plan(name))
    if RUN_ID.fullmatch(run):
        return _of_mlflow(run, tracking_uri)
    raise UserError(
        f"RUN must be the folder of a run with its {BEST}, a checkpoint file, the id of a run of "
        f"MLflow, or a sweep ({', '.join(names_here()) or 'none here'}), not {run!r}"
    )


def _load(weights: Path, folder: Path, recorded: Recorded | None = None) -> Trained:
    values, config = load_checkpoint(weights)
    return Trained(weights, values, config, folder, recorded)


def _of_sweep(plan: SweepPlan) -> Trained:
    """The best trial of a sweep: its weights from Ray, or the copy that the sweep keeps."""
    number = Records.load(plan).best_trial()
    if number is None:
        raise UserError(f"no trial of the sweep {plan.name!r} has run to its end yet")
    folder = plan.folder / "best" / f"trial-{number}"
    try:
        weights = fetch_best(plan, number) or folder / BEST
    except OSError:  # the storage is away
        weights = folder / BEST
    if not weights.is_file():
        raise UserError(
            f"the weights of trial {number} of the sweep {plan.name!r} are neither in "
            f"{masked(plan.ray_storage)} nor in {folder}"
        )
    found = _load(weights, folder, _recorded(plan, number))
    return replace(found, data_dir=plan.data_dir, data=plan.data)


def _recorded(plan: SweepPlan, number: int) -> Recorded | None:
    """The run of a trial, if its store can be reached: the weights are of use without it."""
    try:
        run_id = run_of_trial(existing_store(plan.tracking_uri), plan.sweep_id, number)
    except (UserError, MlflowException):
        return None
    return Recorded(plan.tracking_uri, run_id) if run_id else None


def _of_mlflow(run_id: str, tracking_uri: str) -> Trained:
    client = existing_store(tracking_uri)
    try:
        tags = client.get_run(run_id).data.tags
    except MlflowException as error:
        raise UserError(f"there is no run {run_id} in the tracking store") from error
    if SWEEP in tags and TRIAL not in tags:
        return _of_sweep(_plan_of(run_id, tags[SWEEP]))
    with tempfile.TemporaryDirectory() as folder:
        weights = _download(client, run_id, folder)
        return _load(weights, Path("results") / run_id, Recorded(tracking_uri, run_id))


def _plan_of(run_id: str, sweep_id: str) -> SweepPlan:
    """The plan of the sweep whose parent run this is."""
    for name in names_here():
        plan = load_plan(name)
        if plan.sweep_id == sweep_id:
            return plan
    raise UserError(
        f"the run {run_id} is that of a whole sweep, which is not in {SWEEPS_DIR.absolute()}; "
        "give the run of one of its trials"
    )


def _download(client: MlflowClient, run_id: str, folder: str) -> Path:
    try:
        return Path(client.download_artifacts(run_id, CHECKPOINT, folder))
    except (MlflowException, OSError) as error:
        raise UserError(
            f"the run {run_id} has no {CHECKPOINT} among its artifacts, which only the best trials "
            f"of a sweep have ({reason(error)})"
        ) from error


def record(
    trained: Trained, metrics: Mapping[str, float], files: Iterable[Path], folder: str
) -> str | None:
    """Add metrics and files to the run in MLflow; returns its id, or None if it is in no store."""
    if trained.recorded is None:
        return None
    uri, run_id = trained.recorded
    client = existing_store(uri)
    step, now = trained.values["update"], int(time.time() * 1000)
    found = [Metric(clean_name(name), value, now, step) for name, value in metrics.items()]
    try:
        client.log_batch(run_id, found)
        for path in files:
            client.log_artifact(run_id, str(path), folder)
    except (MlflowException, OSError) as error:
        raise UserError(
            f"the results are written, and cannot be recorded in the run {run_id} of "
            f"{masked(uri)} ({reason(error)})"
        ) from error
    return run_id
