"""Files on disk: hashed, written whole or not at all, unpacked without trusting the archive."""

import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import IO, BinaryIO, Literal

from tardis_core.errors import UserError


def sha256_of(path: Path | str) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; fix its permissions") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write the whole file or, whatever happens, nothing."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` at the end, and only if all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, because many processes may load the same data set at the same time.
    temporary = path.parent / f".{uuid.uuid4().hex}.part"
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def unpack(archive: Path, members: Sequence[str], target: Path) -> None:
    """Extract the named members of a zip, tar or tar.gz to `target`/member, and nothing else.

    An archive is not trusted: a member must be a plain file, and its name must lie below `target`.
    """
    for member in members:
        _check_name(archive, member)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for member in members:
                    _extract(_open_zipped(zipped, member), target / member, target)
        else:
            with tarfile.open(archive, _tar_mode(archive)) as tarred:
                for member in members:
                    _extract(_open_tarred(tarred, member), target / member, target)
    except KeyError as error:
        raise UserError(
            f"{archive} has no member {member!r}; delete it and download it again"
        ) from error
    except _BROKEN as error:
        raise UserError(
            f"{archive} is truncated or not an archive ({error}); delete it and download it again"
        ) from error
    except OSError as error:
        raise UserError(f"{archive} cannot be unpacked to {target}: {error}") from error


# RuntimeError: an encryption or a compression that Python's zipfile does not know.
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)


def _tar_mode(archive: Path) -> Literal["r:gz", "r:"]:
    with open(archive, "rb") as file:
        return "r:gz" if file.read(2) == b"\x1f\x8b" else "r:"


def _check_name(archive: Path, member: str) -> None:
    # Windows' rules are the stricter ones: they know both slashes, and drives.
    path = PureWindowsPath(member)
    if path.anchor or ".." in path.parts or not path.parts or "\0" in member:
        raise UserError(f"{archive} names the member {member!r}, which is not below its own folder")


def _open_zipped(zipped: zipfile.ZipFile, member: str) -> IO[bytes]:
    info = zipped.getinfo(member)
    # The upper half holds Unix's mode, or 0 where the archive was made elsewhere.
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir() or kind not in (0, stat.S_IFREG):
        raise UserError(f"{zipped.filename}: the member {member!r} is not a plain file")
    return zipped.open(info)


def _open_tarred(tarred: tarfile.TarFile, member: str) -> IO[bytes]:
    info = tarred.getmember(member)
    content = tarred.extractfile(info) if info.isreg() else None
    if content is None:
        raise UserError(f"{tarred.name!r}: the member {member!r} is not a plain file")
    return content


def _extract(content: IO[bytes], path: Path, target: Path) -> None:
    # A link that already lies in the target must not lead out of it either.
    if not path.parent.resolve().is_relative_to(target.resolve()):
        raise UserError(f"{path} leads out of {target} through a link; remove the link")
    with content, replacing(path) as out:
        shutil.copyfileobj(content, out)
