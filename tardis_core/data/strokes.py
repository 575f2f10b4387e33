"""MNIST as pen strokes (de Jong, 2016): converted from the images once, then kept in the cache."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tardis_core.data import array_cache, files, mnist, standin_digits, stroke_converter
from tardis_core.data.dataset import Provenance

VALID_SIZE = 10_000  # MNIST's last training images, as in the paper
STANDIN_SIZES = {"train": 2_000, "valid": 400, "test": 400}
SPLITS = ("train", "valid", "test")

_CHUNK = 2_000  # images converted at a time: bounds the memory, and a step of the progress bar
_FIELDS = ("rows", "ends", "labels")
_log = logging.getLogger("tardis_core")


@dataclass(frozen=True)
class Digits:
    """Digits as rows `dx dy eos eod`, end to end: digit i is `rows[ends[i] : ends[i + 1]]`.

    The first row of a digit is its first point as it stands, x and y counted from 1.
    """

    rows: np.ndarray  # (N, 4) int8
    ends: np.ndarray  # (n + 1,) int64, from 0 to N
    labels: np.ndarray  # (n,) uint8


@dataclass(frozen=True)
class StrokeDigits:
    """Training digits (50,000 where real), validation digits (10,000) and test digits (10,000)."""

    provenance: Provenance
    train: Digits
    valid: Digits
    test: Digits


@dataclass(frozen=True)
class _Source:
    """Images to convert; `first` is the index of the first of them in its file."""

    images: np.ndarray
    labels: np.ndarray
    first: int = 0


def load(directory: Path | str | None = None, source: str = "auto") -> StrokeDigits:
    """Pen strokes of the real MNIST, or of a stand-in where `source` asks for it or allows it."""
    files.check_source(source)
    if source != "standin":
        paths = mnist.find(directory)
        if paths is not None:
            return _load_real(paths)
        names = [file.name for file in mnist.FILES]
        files.fall_back(mnist.FOLDER, names, directory=directory, source=source)
    return _load_standin()


def _load_real(paths: Mapping[str, Path]) -> StrokeDigits:
    def sources() -> dict[str, _Source]:
        images = mnist.load_images(paths)
        cut = len(images.train_images) - VALID_SIZE
        return {
            "train": _Source(images.train_images[:cut], images.train_labels[:cut]),
            "valid": _Source(images.train_images[cut:], images.train_labels[cut:], first=cut),
            "test": _Source(images.test_images, images.test_labels),
        }

    # The files were verified against these checksums: they need not be read where the cache knows.
    digits = _cached([file.sha256 for file in mnist.FILES], sources)
    folder = paths[mnist.TRAIN_IMAGES.name].parent
    origin = f"pen strokes made from the MNIST files in {folder}"
    return StrokeDigits(Provenance("strokes", True, True, _sha256(digits), origin), **digits)


@cache
def _standin_source(count: int, seed: int) -> _Source:
    return _Source(*standin_digits.make_images(count, seed))


def _load_standin() -> StrokeDigits:
    sources = {
        split: _standin_source(STANDIN_SIZES[split], seed) for seed, split in enumerate(SPLITS)
    }
    contents = [hashlib.sha256(s.images.tobytes()).hexdigest() for s in sources.values()]
    digits = _cached(contents, lambda: sources)
    origin = "pen strokes of digits drawn by tardis_core.data.standin_digits"
    provenance = Provenance("strokes-standin", False, False, _sha256(digits), origin)
    return StrokeDigits(provenance, **digits)


def _sha256(digits: Mapping[str, Digits]) -> str:
    content = hashlib.sha256()
    for split in SPLITS:
        for field in _FIELDS:
            content.update(getattr(digits[split], field).tobytes())
    return content.hexdigest()


def _cached(contents: list[str], sources: Callable[[], dict[str, _Source]]) -> dict[str, Digits]:
    """The strokes of images with these checksums: from the cache, or converted and kept there."""
    key = hashlib.sha256(" ".join([str(stroke_converter.VERSION), *contents]).encode())
    path = files.cache_dir() / "strokes" / f"{key.hexdigest()[:16]}.npz"
    digits = read_cache(path)
    if digits is None:
        digits = _convert_splits(sources())
        write_cache(path, digits)
    return digits


def read_cache(path: Path) -> dict[str, Digits] | None:
    """The digits of each split, or None where the file is missing or broken."""
    return array_cache.read(path, _take)


def _take(arrays: Mapping[str, np.ndarray]) -> dict[str, Digits]:
    digits = {split: Digits(*(arrays[f"{split}_{field}"] for field in _FIELDS)) for split in SPLITS}
    if not all(_is_sound(part) for part in digits.values()):
        raise ValueError("its arrays do not belong together")
    return digits


def _is_sound(digits: Digits) -> bool:
    """Whether the three arrays belong together: the end of a digit is where `ends` says it is."""
    rows, ends, labels = digits.rows, digits.ends, digits.labels
    return (
        (rows.dtype, ends.dtype, labels.dtype) == (np.int8, np.int64, np.uint8)
        and rows.shape == (rows.shape[0], 4)
        and ends.shape == (len(labels) + 1,)
        and ends[0] == 0
        and np.array_equal(np.flatnonzero(rows[:, 3]) + 1, ends[1:])
    )


def write_cache(path: Path, digits: Mapping[str, Digits]) -> None:
    """Keep the digits of each split."""
    arrays = {
        f"{split}_{field}": getattr(digits[split], field) for split in SPLITS for field in _FIELDS
    }
    array_cache.keep(path, arrays)


def _convert_splits(sources: Mapping[str, _Source]) -> dict[str, Digits]:
    """Convert the images of each split, with a progress bar where somebody sees it."""
    count = sum(len(source.images) for source in sources.values())
    # disable=None: no bar where stderr is not a terminal
    with tqdm(total=count, desc="digits to pen strokes", unit=" digits", disable=None) as bar:
        if bar.disable:
            _log.info("Converting %s digits to pen strokes, once.", f"{count:,}")
        return {split: _convert(source, bar) for split, source in sources.items()}


def _convert(source: _Source, bar: tqdm) -> Digits:
    rows: list[np.ndarray] = []
    for start in range(0, len(source.images), _CHUNK):
        images = source.images[start : start + _CHUNK]
        seeds = range(source.first + start, source.first + start + len(images))
        rows += stroke_converter.convert_all(images, [np.random.default_rng(s) for s in seeds])
        bar.update(len(images))
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Digits(np.concatenate(rows), ends, source.labels.astype(np.uint8))
