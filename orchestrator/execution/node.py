"""What every node of a cluster is asked before a sweep, in a module that is quick to import."""

import importlib.metadata
import platform
from pathlib import Path

from pyarrow import fs

from tardis_core import __version__

PACKAGES = ("torch", "ray", "numpy")  # a trial must run the same on every node


def versions() -> dict[str, str]:
    """The versions of the software that a result depends on."""
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "tardis_core": __version__, **packages}


def filesystem_of(storage: str) -> tuple[fs.FileSystem, str]:
    """The file system of a storage, and the path in it."""
    if "://" in storage:
        return fs.FileSystem.from_uri(storage)
    return fs.LocalFileSystem(), str(Path(storage).absolute())


def probe(storage: str, path: str) -> tuple[bool, dict[str, str]]:
    """Whether this node sees a file in the storage, and the versions it has."""
    filesystem, _ = filesystem_of(storage)
    return filesystem.get_file_info(path).is_file, versions()
