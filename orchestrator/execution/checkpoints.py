"""Where Ray keeps trials and checkpoints: a folder, or a URI such as s3://bucket/folder.

Each start of a sweep is a Ray experiment of its own there, `trials-0`, `trials-1` and so on; a
trial that was interrupted in one is resumed in the next.
"""

import logging
import re
from pathlib import Path

from pyarrow import fs
from ray.tune import Checkpoint

from orchestrator.execution.node import filesystem_of
from orchestrator.planning.plan import SweepPlan
from tardis_core.errors import UserError

_log = logging.getLogger(__name__)
CHECKPOINT, BEST = "checkpoint.pt", "best.pt"
_EXPERIMENT = re.compile(r"trials-(\d+)")


def experiments(storage: str) -> list[str]:
    """The Ray experiments of a sweep, in the order of their starts."""
    filesystem, root = filesystem_of(storage)
    numbers = [
        int(match[1])
        for info in _list(filesystem, root)
        if (match := _EXPERIMENT.fullmatch(info.base_name))
    ]
    return [f"trials-{number}" for number in sorted(numbers)]


def next_experiment(storage: str) -> str:
    """The name of the experiment that follows them."""
    names = experiments(storage)
    return f"trials-{int(names[-1].partition('-')[2]) + 1 if names else 0}"


def checkpoints_of(storage: str, number: int) -> list[Checkpoint]:
    """The checkpoints of a trial, the newest first."""
    filesystem, _ = filesystem_of(storage)
    folders = [
        # Ray numbers the checkpoints of a trial: their names sort by age.
        info.path.rpartition("/")[0]
        for infos in _files_of(storage, number)
        for info in sorted(infos, key=lambda info: info.path)
        if info.base_name == CHECKPOINT
    ]
    return [Checkpoint(folder, filesystem) for folder in reversed(folders)]


def fetch_best(plan: SweepPlan, number: int) -> Path | None:
    """The best weights of a trial, copied to the sweep's folder; None if no whole copy is left.

    Ray keeps them with each of the last checkpoints. A damaged copy is passed over.
    """
    filesystem, _ = filesystem_of(plan.ray_storage)
    files = [info for infos in _files_of(plan.ray_storage, number) for info in infos]
    copies = [info for info in files if info.base_name == BEST]
    target = plan.folder / "best" / f"trial-{number}" / BEST
    for info in sorted(copies, key=lambda info: (info.mtime_ns or 0, info.path), reverse=True):
        if _copy_whole(filesystem, info.path, target):
            return target
    return target if target.exists() and _is_whole(target) else None


def _copy_whole(filesystem: fs.FileSystem, source: str, target: Path) -> bool:
    """Copy weights, unless they are damaged: then the file that is there stays."""
    draft = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    fs.copy_files(source, str(draft), filesystem, fs.LocalFileSystem())
    if not _is_whole(draft):
        _log.warning("%s is damaged and is passed over", source)
        draft.unlink()
        return False
    draft.replace(target)
    return True


def _is_whole(weights: Path) -> bool:
    from tardis_core.training import checkpoint  # only now: listing checkpoints needs no torch

    try:
        checkpoint.load(weights)
    except UserError:
        return False
    return True


def _files_of(storage: str, number: int) -> list[list[fs.FileInfo]]:
    """The files of a trial, one list per start, oldest first; a paused one starts several times."""
    filesystem, root = filesystem_of(storage)
    files = []
    for experiment in experiments(storage):
        starts = [
            _list(filesystem, trial.path, recursive=True)
            for trial in _list(filesystem, f"{root}/{experiment}")
            if trial.base_name.startswith(f"trial-{number}-")
        ]
        files += sorted(starts, key=_last_change)
    return files


def _last_change(files: list[fs.FileInfo]) -> int:
    return max((info.mtime_ns or 0 for info in files if info.base_name == CHECKPOINT), default=0)


def _list(filesystem: fs.FileSystem, path: str, recursive: bool = False) -> list[fs.FileInfo]:
    return filesystem.get_file_info(
        fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    )
