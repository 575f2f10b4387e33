"""SNLI 1.0: does the premise entail, allow or contradict the hypothesis?

Sentences are lower-cased and cut by one rule that reads raw and tokenised text alike. Pairs without
a gold label are left out, as everywhere: 549,367 / 9,842 / 9,824 pairs remain.
"""

import json
import re
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from tardis_core.data import array_cache, files
from tardis_core.data.dataset import Provenance
from tardis_core.data.standin_pairs import make_pairs
from tardis_core.errors import UserError, choices

LABELS = ("entailment", "neutral", "contradiction")
PAD, UNK, SEP = 0, 1, 2
SPECIAL = ("<pad>", "<unk>", "<sep>")  # the token rule can make none of these

ARCHIVE = files.RemoteFile(
    "snli_1.0.zip",
    "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
    None,
    ("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
)
_TRAIN, _SUBSET = "snli_1.0_train.jsonl", "snli_1.0_train_subset.jsonl"
_VALID, _TEST = "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"
_SPLITS = ("train", "valid", "test")
_COMPLETE = (549_367, 9_842, 9_824)  # labelled pairs
_STANDIN = ((6_000, 1), (600, 2), (600, 3))  # pairs and seed of each split
_PARSED = 1  # raise it when the token rule or the layout of the cached arrays changes
_TOKEN = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")

Record = tuple[str, str, int]  # premise, hypothesis, index of the label


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs as flat arrays: the premise of pair i is premise[ends[i]:ends[i + 1]]."""

    premise: np.ndarray  # int32 word ids of all premises
    premise_ends: np.ndarray  # int64 (pairs + 1,), from 0
    hypothesis: np.ndarray
    hypothesis_ends: np.ndarray
    labels: np.ndarray  # uint8 (pairs,), index into LABELS

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def unlabelled(cls, premises: list[list[int]], hypotheses: list[list[int]]) -> "Pairs":
        """Pairs that wait for an answer."""
        words = [
            np.array([word for sentence in side for word in sentence], np.int32)
            for side in (premises, hypotheses)
        ]
        ends = [np.cumsum([0, *map(len, side)], dtype=np.int64) for side in (premises, hypotheses)]
        return cls(words[0], ends[0], words[1], ends[1], np.zeros(len(premises), np.uint8))

    def pair(self, i: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The word ids of premise and hypothesis, and the label, of pair i."""
        premise = self.premise[self.premise_ends[i] : self.premise_ends[i + 1]]
        hypothesis = self.hypothesis[self.hypothesis_ends[i] : self.hypothesis_ends[i + 1]]
        return premise, hypothesis, int(self.labels[i])


@dataclass(frozen=True)
class PairCorpus:
    """Three splits over the words of the training split, the frequent ones first."""

    provenance: Provenance
    words: tuple[str, ...]  # id -> word; 0 "<pad>", 1 "<unk>", 2 "<sep>"
    train: Pairs
    valid: Pairs
    test: Pairs


def tokenize(sentence: str) -> list[str]:
    """Lower-case words, numbers and single signs; the Treebank's quotes become plain ones."""
    return _TOKEN.findall(sentence.lower().replace("``", '"').replace("''", '"'))


def load(directory: Path | str | None = None, source: str = "auto") -> PairCorpus:
    """The real pairs from the data directory, the cache or the network, or their stand-in."""
    files.check_source(source)
    if source == "standin":
        return _standin()
    names = (_TRAIN, _SUBSET, _VALID, _TEST)
    place = files.first_place("snli", names, directory)
    if place is not None:
        return _load_directory(place)
    paths = files.find("snli", [ARCHIVE], directory=directory)
    if paths is not None:
        return _load_archive(paths[ARCHIVE.name])
    wanted = (ARCHIVE.name, _TRAIN, _VALID, _TEST)
    files.fall_back("snli", wanted, directory=directory, source=source)
    return _standin()


def _load_directory(place: Path) -> PairCorpus:
    train = _SUBSET if not (place / _TRAIN).is_file() and (place / _SUBSET).is_file() else _TRAIN
    paths = [files.require(place / name) for name in (train, _VALID, _TEST)]
    key = sha256("".join(files.sha256_of(path) for path in paths).encode()).hexdigest()
    arrays = array_cache.read(_parsed_path(key), _take)
    if arrays is None:
        arrays = _parse([_read(path) for path in paths])
        array_cache.keep(_parsed_path(key), arrays)
    return _corpus(arrays, f"the files in {place}")


def _load_archive(archive: Path) -> PairCorpus:
    parsed = _parsed_path(ARCHIVE.sha256)
    arrays = array_cache.read(parsed, _take)
    if arrays is None:
        # Half a gigabyte that is needed once: what is kept is the archive and the arrays.
        with _scratch(files.cache_dir() / "snli") as unpacked:
            members = [f"snli_1.0/{name}" for name in (_TRAIN, _VALID, _TEST)]
            files.unpack(archive, members, unpacked)
            arrays = _parse([_read(unpacked / member) for member in members])
        array_cache.keep(parsed, arrays)
    return _corpus(arrays, f"the archive {archive}")


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent)
    except OSError as error:
        raise UserError(
            f"the cache {parent} cannot be written: {error.strerror}; "
            "name another directory with TARDIS_CACHE"
        ) from error
    with scratch as name:
        yield Path(name)


def _corpus(arrays: dict[str, np.ndarray], origin: str) -> PairCorpus:
    sizes = tuple(len(arrays[f"{split}_labels"]) for split in _SPLITS)
    if sizes == _COMPLETE:
        return _assemble(arrays, "snli", real=True, complete=True, origin=origin)
    origin += f", only a part of SNLI: {sizes[0]:,} of {_COMPLETE[0]:,} training pairs"
    return _assemble(arrays, "snli-subset", real=True, complete=False, origin=origin)


@cache
def _standin() -> PairCorpus:
    lines = [
        [(premise, hypothesis, LABELS.index(label)) for premise, hypothesis, label in pairs]
        for pairs in (make_pairs(count, seed) for count, seed in _STANDIN)
    ]
    origin = "generated by tardis_core.data.standin_pairs"
    return _assemble(_parse(lines), "snli-standin", real=False, complete=False, origin=origin)


def _read(path: Path) -> Iterator[Record]:
    """The labelled pairs of one file."""
    labelled = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            record = _record(line, path, number)
            if record is not None:
                labelled += 1
                yield record
    if not labelled:
        raise UserError(f"{path} holds no labelled pair; download it again, or use --data standin")


def _record(line: bytes, path: Path, number: int) -> Record | None:
    try:
        fields = json.loads(line)
        premise, hypothesis = fields["sentence1"], fields["sentence2"]
        label = fields["gold_label"]
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            raise ValueError("sentence1 and sentence2 must be text")
        if label not in (*LABELS, "-"):
            raise ValueError(f"gold_label is {label!r}")
        return None if label == "-" else (premise, hypothesis, LABELS.index(label))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"line {number} of {path} is not an SNLI record ({error}): a line is a JSON object "
            f"with sentence1, sentence2 and gold_label, one of: {choices([*LABELS, '-'])}; "
            "delete the file and download it again, or use --data standin"
        ) from error


def _parse(splits: Iterable[Iterable[Record]]) -> dict[str, np.ndarray]:
    """The arrays of train, valid and test by name, and the words of train."""
    # A word gets the next number when it is first seen; ranks replace the numbers at the end.
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    arrays: dict[str, np.ndarray] = {}
    vocabulary: list[str] = []
    for split, records in zip(_SPLITS, splits, strict=True):
        arrays |= {f"{split}_{name}": array for name, array in _flatten(records, numbers).items()}
        vocabulary = vocabulary or list(numbers)
    counts = np.bincount(np.concatenate([arrays["train_premise"], arrays["train_hypothesis"]]))
    order = sorted(range(len(vocabulary)), key=lambda i: (-counts[i], vocabulary[i]))
    ids = np.full(len(numbers), UNK, dtype=np.int32)
    ids[order] = np.arange(len(order)) + len(SPECIAL)
    for name in arrays:
        if name.endswith(("premise", "hypothesis")):
            arrays[name] = ids[arrays[name]]
    words = "\n".join([*SPECIAL, *(vocabulary[i] for i in order)])
    return arrays | {"words": np.frombuffer(words.encode("utf-8", "surrogatepass"), dtype=np.uint8)}


def _flatten(records: Iterable[Record], numbers: dict[str, int]) -> dict[str, np.ndarray]:
    premise, hypothesis, labels = array("i"), array("i"), array("B")
    premise_ends, hypothesis_ends = array("q", [0]), array("q", [0])
    for first, second, label in records:
        premise.extend([numbers[token] for token in tokenize(first)])
        hypothesis.extend([numbers[token] for token in tokenize(second)])
        premise_ends.append(len(premise))
        hypothesis_ends.append(len(hypothesis))
        labels.append(label)
    return {
        "premise": np.array(premise, dtype=np.int32),
        "premise_ends": np.array(premise_ends, dtype=np.int64),
        "hypothesis": np.array(hypothesis, dtype=np.int32),
        "hypothesis_ends": np.array(hypothesis_ends, dtype=np.int64),
        "labels": np.array(labels, dtype=np.uint8),
    }


def _assemble(
    arrays: dict[str, np.ndarray], name: str, *, real: bool, complete: bool, origin: str
) -> PairCorpus:
    digest = sha256()
    for key in sorted(arrays):
        digest.update(f"\0{key}\0".encode() + arrays[key].tobytes())
    provenance = Provenance(name, real, complete, digest.hexdigest(), origin)
    words = tuple(arrays["words"].tobytes().decode("utf-8", "surrogatepass").split("\n"))
    train, valid, test = (
        Pairs(**{field: arrays[f"{split}_{field}"] for field in Pairs.__dataclass_fields__})
        for split in _SPLITS
    )
    return PairCorpus(provenance, words, train, valid, test)


def _parsed_path(key: str) -> Path:
    """Where the arrays of files with these bytes are kept: parsing all of SNLI takes a while."""
    return files.cache_dir() / "snli" / f"parsed-{_PARSED}-{key[:16]}.npz"


def _take(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of `_parse`."""
    pairs = [f"{split}_{field}" for split in _SPLITS for field in Pairs.__dataclass_fields__]
    return {name: stored[name] for name in [*pairs, "words"]}
