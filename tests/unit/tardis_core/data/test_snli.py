"""SNLI: the token rule, the vocabulary, subsets, archives, malformed lines."""

import hashlib
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_core.data import files, snli
from tardis_core.errors import UserError

REAL = Path(os.environ.get("TARDIS_DATA") or "nowhere")
HAS_REAL = any((place / "snli_1.0_dev.jsonl").is_file() for place in (REAL / "snli", REAL))

TRAIN = [
    ("A dog runs.", "A DOG .", "entailment"),
    ("A cat", "no label", "-"),
    ("A dog", "A cat", "contradiction"),
]
VALID = [("A horse runs", "dog", "neutral")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    monkeypatch.delenv("TARDIS_DATA", raising=False)
    return tmp_path / "cache"


def lines(records) -> str:
    names = ("sentence1", "sentence2", "gold_label")
    return "".join(json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in records)


def write(place: Path, first: str = "train", **texts: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / f"snli_1.0_{first}.jsonl").write_text(texts.get("train", lines(TRAIN)))
    (place / "snli_1.0_dev.jsonl").write_text(texts.get("dev", lines(VALID)))
    (place / "snli_1.0_test.jsonl").write_text(texts.get("test", lines(VALID * 2)))
    return place


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Two men, aged 30.", ["two", "men", ",", "aged", "30", "."]),
        ("`` Stop '' !", ['"', "stop", '"', "!"]),
        ("The boy's T-shirt", ["the", "boy", "'", "s", "t", "-", "shirt"]),
        ("café", ["caf", "é"]),
        ("  ", []),
    ],
)
def test_tokens(sentence, tokens):
    assert snli.tokenize(sentence) == tokens


@given(st.text())
def test_tokens_lose_nothing_but_blanks_and_tokenise_to_themselves(sentence):
    tokens = snli.tokenize(sentence)
    assert snli.tokenize(" ".join(tokens)) == tokens
    plain = sentence.lower().replace("``", '"').replace("''", '"')
    assert "".join(tokens) == "".join(plain.split())


def test_pairs_are_flat_arrays_over_the_words_of_training(tmp_path):
    corpus = snli.load(write(tmp_path / "snli").parent, "real")
    # By frequency, then by the alphabet: a 4, dog 3, "." 2, cat 1, runs 1; "no label" is left out.
    assert corpus.words == ("<pad>", "<unk>", "<sep>", "a", "dog", ".", "cat", "runs")
    np.testing.assert_array_equal(corpus.train.premise, [3, 4, 7, 5, 3, 4])
    np.testing.assert_array_equal(corpus.train.premise_ends, [0, 4, 6])
    np.testing.assert_array_equal(corpus.train.hypothesis, [3, 4, 5, 3, 6])
    np.testing.assert_array_equal(corpus.train.hypothesis_ends, [0, 3, 5])
    np.testing.assert_array_equal(corpus.train.labels, [0, 2])
    premise, hypothesis, label = corpus.test.pair(1)
    assert (list(premise), list(hypothesis), label) == ([3, snli.UNK, 7], [4], 1)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (2, 1, 2)


def test_the_arrays_have_the_types_promised(tmp_path):
    for _ in range(2):  # parsed, then read from the cache
        train = snli.load(write(tmp_path)).train
        assert train.premise.dtype == train.hypothesis.dtype == np.int32
        assert train.premise_ends.dtype == train.hypothesis_ends.dtype == np.int64
        assert train.labels.dtype == np.uint8


@pytest.mark.parametrize("train", ["train", "train_subset"])
def test_a_part_of_snli_says_so(tmp_path, train):
    provenance = snli.load(write(tmp_path, train), "real").provenance
    assert (provenance.name, provenance.real, provenance.complete) == ("snli-subset", True, False)
    assert f"{tmp_path}, only a part of SNLI: 2 of 549,367" in provenance.origin


def test_the_whole_training_file_goes_before_a_subset(tmp_path):
    write(tmp_path, "train_subset", train=lines(VALID))
    assert len(snli.load(write(tmp_path)).train) == 2


def test_a_missing_file_is_named(tmp_path):
    (write(tmp_path) / "snli_1.0_dev.jsonl").unlink()
    with pytest.raises(UserError, match=r"snli_1\.0_dev\.jsonl is missing"):
        snli.load(tmp_path)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hashlib, "file_digest", refuse)
    with pytest.raises(UserError, match=r"train\.jsonl cannot be read: Permission denied; fix"):
        snli.load(write(tmp_path))


@pytest.mark.parametrize(
    "bad",
    [
        '{"sentence1": "A do',
        "[1, 2]",
        "7",
        "",
        '{"sentence1": "a", "sentence2": "b"}',
        '{"sentence1": "a", "sentence2": 3, "gold_label": "neutral"}',
        '{"sentence1": "a", "sentence2": "b", "gold_label": "maybe"}',
        '{"sentence1": "a", "sentence2": "b", "gold_label": ["neutral"]}',
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path, bad):
    write(tmp_path, dev=lines(VALID) + bad + "\n")
    with pytest.raises(UserError, match=r"line 2 of .*snli_1\.0_dev\.jsonl.*download it again"):
        snli.load(tmp_path)


def test_a_file_without_a_labelled_pair_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no labelled pair"):
        snli.load(write(tmp_path, test=""))


def test_a_second_load_gives_the_same_and_a_changed_file_something_else(tmp_path, cache):
    first = snli.load(write(tmp_path / "data"))
    assert list(cache.rglob("parsed-*.npz"))
    second = snli.load(tmp_path / "data")
    assert (first.provenance, first.words) == (second.provenance, second.words)
    np.testing.assert_array_equal(first.train.premise, second.train.premise)
    changed = snli.load(write(tmp_path / "data", dev=lines(TRAIN)))
    assert changed.provenance.sha256 != first.provenance.sha256


def spoil(content: bytes, how: str) -> bytes:
    """A cache file with a part missing, one bit flipped, or an array under another name."""
    if how == "truncated":
        return content[:200]
    if how == "renamed":
        return content.replace(b"valid_labels.npy", b"valid_lobels.npy")
    flags = content.rindex(b"PK\1\2") + 8  # of the last array, in the list at the end
    return content[:flags] + bytes([content[flags] ^ 1]) + content[flags + 1 :]  # "encrypted"


@pytest.mark.parametrize("how", ["truncated", "renamed", "one bit"])
def test_a_spoilt_cache_of_parsed_pairs_is_made_anew(tmp_path, cache, how):
    first = snli.load(write(tmp_path / "data"))
    (path,) = cache.rglob("parsed-*.npz")
    sound = path.read_bytes()
    path.write_bytes(spoil(sound, how))
    assert path.read_bytes() != sound
    assert snli.load(tmp_path / "data").provenance == first.provenance
    assert len(path.read_bytes()) == len(sound), "the next load finds a sound one"


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, cache):
    cache.write_text("a file where a directory should be")
    assert len(snli.load(write(tmp_path / "data")).train) == 2


def test_the_archive_is_unpacked_read_and_tidied_up(tmp_path, cache, monkeypatch):
    write(tmp_path / "made")
    archive = tmp_path / "data" / "snli_1.0.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in (tmp_path / "made").iterdir():
            zipped.write(path, f"snli_1.0/{path.name}")
    expected_names = files.RemoteFile(archive.name, files.sha256_of(archive), None, ())
    monkeypatch.setattr(snli, "ARCHIVE", expected_names)
    from_archive = snli.load(tmp_path / "data", "real")
    assert from_archive.words == snli.load(tmp_path / "made").words
    assert str(archive) in from_archive.provenance.origin
    assert all(path.suffix == ".npz" for path in (cache / "snli").iterdir())


def test_real_without_the_files_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"snli_1\.0\.zip.*--data-dir"):
        snli.load(tmp_path, "real")


def test_auto_without_the_files_stands_in(tmp_path):
    assert snli.load(tmp_path).provenance == snli.load(source="standin").provenance


@pytest.mark.skipif(not HAS_REAL, reason="TARDIS_DATA has no SNLI")
def test_the_real_pairs_have_the_published_counts():
    corpus = snli.load(REAL, "real")
    assert np.bincount(corpus.valid.labels).tolist() == [3_329, 3_235, 3_278]
    assert np.bincount(corpus.test.labels).tolist() == [3_368, 3_219, 3_237]
    assert corpus.provenance.complete == (len(corpus.train) == 549_367)
    for pairs in (corpus.train, corpus.valid, corpus.test):
        assert len(pairs.premise) == pairs.premise_ends[-1]
        assert pairs.premise.max() < len(corpus.words)
    unknown = np.mean(np.concatenate([corpus.test.premise, corpus.test.hypothesis]) == snli.UNK)
    assert unknown < 0.02
