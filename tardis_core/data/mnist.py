"""MNIST: 60,000 and 10,000 images of handwritten digits, from the four official files.

The files are IDX: a magic number that gives the type and the number of dimensions, then the sizes
(all big-endian, four bytes each), then the bytes.
"""

import gzip
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tardis_core.data import files
from tardis_core.errors import UserError

FOLDER = "mnist"

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def _remote(name: str, size: int, sha256: str) -> files.RemoteFile:
    return files.RemoteFile(name, sha256, size, tuple(mirror + name for mirror in _MIRRORS))


TRAIN_IMAGES = _remote(
    "train-images-idx3-ubyte.gz",
    9_912_422,
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
)
TRAIN_LABELS = _remote(
    "train-labels-idx1-ubyte.gz",
    28_881,
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
)
TEST_IMAGES = _remote(
    "t10k-images-idx3-ubyte.gz",
    1_648_877,
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
)
TEST_LABELS = _remote(
    "t10k-labels-idx1-ubyte.gz",
    4_542,
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


@dataclass(frozen=True)
class Images:
    """Images (N, 28, 28) and labels (N,), all of them bytes, as MNIST splits them."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def find(directory: Path | str | None = None, *, download: bool = True) -> dict[str, Path] | None:
    """The paths of the four files by name, or None where they are nowhere to be had."""
    return files.find(FOLDER, FILES, directory=directory, download=download)


def load_images(paths: Mapping[str, Path]) -> Images:
    """Read the four files that `find` gave."""
    arrays = [read_idx(paths[file.name], 3 if "idx3" in file.name else 1) for file in FILES]
    for image_file, images, labels in zip(FILES[::2], arrays[::2], arrays[1::2], strict=True):
        if len(images) != len(labels):
            raise _broken(
                paths[image_file.name], f"as many images as labels, {len(labels):,}", len(images)
            )
    return Images(*arrays)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The bytes of a gzipped IDX file as an array with this number of dimensions."""
    content = _gunzip(path)
    # Two zero bytes, 8 for "unsigned bytes", and the number of dimensions.
    magic, header = bytes((0, 0, 8, dimensions)), 4 + 4 * dimensions
    if content[:4] != magic:
        raise _broken(path, f"the magic number {magic.hex()}", content[:4].hex() or "no bytes")
    if len(content) < header:
        raise _broken(path, f"a header of {header} bytes", f"{len(content)} bytes")
    shape = np.frombuffer(content[4:header], ">u4").tolist()
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise _broken(path, f"{expected:,} bytes unpacked", f"{len(content):,}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _gunzip(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _broken(path, "a whole gzip file", error) from error


def _broken(path: Path, expected: str, actual: object) -> UserError:
    return UserError(
        f"{path} is not a sound MNIST file: expected {expected}, found {actual}; "
        "delete it and download it again, or use --data standin"
    )
