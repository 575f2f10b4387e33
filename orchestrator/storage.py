"""Where Ray keeps trials and checkpoints: a folder, or an address such as s3://bucket/folder."""

from pathlib import Path

from pyarrow import fs

from orchestrator.plan import SweepPlan
from orchestrator.trial import BEST, CHECKPOINT_FOLDER


def filesystem_of(storage: str) -> tuple[fs.FileSystem, str]:
    """The file system of a storage and the path in it."""
    if "://" in storage:
        return fs.FileSystem.from_uri(storage)
    return fs.LocalFileSystem(), str(Path(storage).absolute())


def fetch_best(plan: SweepPlan, number: int) -> Path | None:
    """The best weights of a trial, copied to the folder of the sweep; None if there are none."""
    filesystem, root = filesystem_of(plan.ray_storage)
    found = [
        info
        for experiment in plan.experiments
        for trial in _list(filesystem, f"{root}/{experiment}")
        if trial.base_name.startswith(f"trial-{number}-")
        for info in _list(filesystem, trial.path, recursive=True)
        if info.base_name == BEST
    ]
    if not found:
        return None
    newest = max(found, key=lambda info: (info.mtime_ns or 0, info.path))
    target = plan.folder / "best" / f"trial-{number}" / BEST
    target.parent.mkdir(parents=True, exist_ok=True)
    fs.copy_files(newest.path, str(target), filesystem, fs.LocalFileSystem())
    return target


def restore_places(plan: SweepPlan) -> None:
    """Give every checkpoint that was deleted an empty folder again.

    A killed driver goes back to Ray's last snapshot. A trial may have saved several times since
    then, and deleted the checkpoint that the snapshot names; Ray would fail the trial for that. It
    goes on from the newest one that there is: see `orchestrator.trial`.
    """
    filesystem, root = filesystem_of(plan.ray_storage)
    for trial in _list(filesystem, f"{root}/{plan.experiment}"):
        if trial.type is not fs.FileType.Directory:
            continue
        there = [
            info.base_name
            for info in _list(filesystem, trial.path)
            if info.base_name.startswith(CHECKPOINT_FOLDER)
        ]
        for number in range(int(max(there).removeprefix(CHECKPOINT_FOLDER)) if there else 0):
            name = f"{CHECKPOINT_FOLDER}{number:06d}"
            if name not in there:
                filesystem.create_dir(f"{trial.path}/{name}")


def _list(filesystem: fs.FileSystem, path: str, recursive: bool = False) -> list[fs.FileInfo]:
    return filesystem.get_file_info(
        fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    )
