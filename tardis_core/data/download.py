"""Downloads that arrive whole and verified, or not at all."""

import hashlib
import logging
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO

from tqdm import tqdm

from tardis_core.data.disk import replacing
from tardis_core.errors import UserError

_CONNECT_SECONDS = 10.0
# A data set whose addresses failed for this long tries no further one: without a network every
# command must soon continue with its stand-in.
_PATIENCE_SECONDS = 4.0
_CHUNK_BYTES = 1 << 20
_log = logging.getLogger("tardis_core")


@dataclass(frozen=True)
class RemoteFile:
    """A plain file that can be downloaded to `cache/<folder>/<name>`."""

    name: str
    sha256: str
    size: int | None  # bytes, where known
    urls: tuple[str, ...]  # tried in this order


def download_all(folder: Path, files: Sequence[RemoteFile]) -> bool:
    """Download every file, and stop at the first that cannot be had."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for file in files:
        if not _download(file, folder / file.name, deadline):
            return False
        deadline = time.monotonic() + _PATIENCE_SECONDS
    return True


def _download(file: RemoteFile, path: Path, deadline: float) -> bool:
    """Download one file: False where no address answers, an error where an answer is bad."""
    failure: UserError | None = None
    for url in file.urls:
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "tardis-lab"})
            response = urllib.request.urlopen(request, timeout=_CONNECT_SECONDS)
        except (OSError, HTTPException) as error:
            _log.debug("%s does not answer: %s", url, error)
        else:
            with response:
                failure = _store(response, file, path, url)
            if failure is None:
                return True
        if time.monotonic() > deadline:
            break
    if failure is not None:
        raise failure
    return False


def _store(response: IO[bytes], file: RemoteFile, path: Path, url: str) -> UserError | None:
    """Write what an address sends; the error is returned where another address may do better."""
    try:
        with replacing(path) as out:
            _copy(response, out, file, url)
    except _BrokeOff as error:
        return UserError(f"{error}; run the command again, or use --data standin")
    except OSError as error:
        raise UserError(
            f"the cache {path.parent} cannot be written: {error.strerror}; "
            "make room there, or name another directory with TARDIS_CACHE"
        ) from error
    return None


class _BrokeOff(Exception):
    """A download that began and did not arrive whole."""


def _copy(response: IO[bytes], out: BinaryIO, file: RemoteFile, url: str) -> None:
    headers = getattr(response, "headers", {})
    total = int(headers.get("Content-Length") or file.size or 0)
    digest, received = hashlib.sha256(), 0
    # disable=None: a progress bar on a terminal only.
    with tqdm(total=total or None, unit="B", unit_scale=True, desc=file.name, disable=None) as bar:
        for chunk in _chunks(lambda: response.read(_CHUNK_BYTES), url):
            out.write(chunk)
            digest.update(chunk)
            received += len(chunk)
            bar.update(len(chunk))
    if received < total:
        raise _BrokeOff(f"the download of {url} broke off after {received:,} of {total:,} bytes")
    if digest.hexdigest() != file.sha256:
        raise UserError(
            f"the download of {url} is not the published file: expected SHA-256 "
            f"{file.sha256[:12]}..., found {digest.hexdigest()[:12]}... in {received:,} bytes; get "
            f"{file.name} elsewhere and give its directory with --data-dir, or use --data standin"
        )


def _chunks(read: Callable[[], bytes], url: str) -> Iterator[bytes]:
    """The chunks that `read` gives; a failing network is distinguished from a failing disk."""
    while True:
        try:
            chunk = read()
        except (OSError, HTTPException) as error:
            raise _BrokeOff(f"the download of {url} broke off: {error}") from error
        if not chunk:
            return
        yield chunk
