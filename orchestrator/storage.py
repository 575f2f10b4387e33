"""Where Ray keeps trials and checkpoints: a folder, or an address such as s3://bucket/folder."""

from pathlib import Path

from pyarrow import fs

from orchestrator.plan import SweepPlan
from orchestrator.trial import BEST


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
        for trial in _list(filesystem, f"{root}/{plan.experiment}")
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


def _list(filesystem: fs.FileSystem, path: str, recursive: bool = False) -> list[fs.FileInfo]:
    return filesystem.get_file_info(
        fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    )
