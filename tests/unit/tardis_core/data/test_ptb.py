"""Penn Treebank as characters: the counting rule, the symbols, the real files."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_core.data import files, ptb
from tardis_core.errors import UserError

REAL = Path(os.environ.get("TARDIS_DATA") or "nowhere")
HAS_REAL = any((place / "ptb.train.txt").is_file() for place in (REAL / "ptb", REAL))
STANDIN = ptb.load(source="standin")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    monkeypatch.delenv("TARDIS_DATA", raising=False)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Writes three texts and takes them for the published ones; gives the data directory."""

    def write(train: str, valid: str, test: str) -> Path:
        for split, text in {"train": train, "valid": valid, "test": test}.items():
            files.write_atomically(tmp_path / "data" / "ptb" / f"ptb.{split}.txt", text.encode())
        monkeypatch.setattr(ptb, "FILES", tuple(described(tmp_path / "data" / "ptb")))
        return tmp_path / "data"

    return write


def described(place: Path) -> list[files.RemoteFile]:
    names = [f"ptb.{split}.txt" for split in ("train", "valid", "test")]
    return [files.RemoteFile(name, files.sha256_of(place / name), None, ()) for name in names]


def test_a_line_is_stripped_and_closed_by_one_symbol(published):
    corpus = ptb.load(published(" ab <b>\n  ba \n", " a b\n", " b\n"), "real")
    assert corpus.symbols == ("\n", " ", "<", ">", "a", "b")
    np.testing.assert_array_equal(corpus.train, [4, 5, 1, 2, 5, 3, 0, 5, 4, 0])
    np.testing.assert_array_equal(corpus.valid, [4, 1, 5, 0])
    np.testing.assert_array_equal(corpus.test, [5, 0])
    assert {corpus.train.dtype, corpus.valid.dtype, corpus.test.dtype} == {np.dtype(np.uint8)}


def test_the_provenance_says_where_it_came_from(published):
    directory = published(" ab\n", " a\n", " b\n")
    provenance = ptb.load(directory).provenance
    assert (provenance.name, provenance.real, provenance.complete) == ("ptb", True, True)
    assert str(directory) in provenance.origin
    assert provenance.sha256 == ptb.load(directory).provenance.sha256
    assert provenance.sha256 != ptb.load(published(" ba\n", " a\n", " b\n")).provenance.sha256


def test_a_symbol_that_training_lacks_is_named(published):
    with pytest.raises(UserError, match="the test text holds 'z'"):
        ptb.load(published(" ab\n", " a\n", " z\n"))


def test_an_altered_file_is_refused(published):
    directory = published(" ab\n", " a\n", " b\n")
    (directory / "ptb" / "ptb.valid.txt").write_text(" b\n")
    with pytest.raises(UserError, match=r"ptb\.valid\.txt is truncated or altered"):
        ptb.load(directory)


def test_real_without_the_files_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"ptb\.train\.txt.*TARDIS_OFFLINE.*--data standin"):
        ptb.load(tmp_path, "real")


def test_auto_without_the_files_stands_in(tmp_path):
    assert ptb.load(tmp_path).provenance == STANDIN.provenance


def test_an_unknown_source_is_refused():
    with pytest.raises(UserError, match="auto, real, standin"):
        ptb.load(source="fake")


@given(st.text(alphabet=STANDIN.symbols))
def test_decoding_undoes_encoding(text):
    ids = STANDIN.encode(text)
    assert ids.dtype == np.uint8
    assert len(ids) == len(text)
    assert STANDIN.decode(ids) == text


@given(st.text(min_size=1).filter(lambda text: not set(text) <= set(STANDIN.symbols)))
def test_a_foreign_character_cannot_be_encoded(text):
    with pytest.raises(UserError, match="not in the training text"):
        STANDIN.encode(text)


@pytest.mark.skipif(not HAS_REAL, reason="TARDIS_DATA has no Penn Treebank")
def test_the_real_corpus_has_the_published_counts():
    corpus = ptb.load(REAL, "real")
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (5_017_482, 393_042, 442_423)
    assert "".join(corpus.symbols) == "\n #$&'*-./0123456789<>N\\abcdefghijklmnopqrstuvwxyz"
    assert (corpus.train == 0).sum() == 42_068
    assert len(np.unique(corpus.valid)) == 50
    assert corpus.decode(corpus.valid[:16]) == "consumers may wa"
    assert corpus.provenance.complete


@pytest.mark.parametrize("empty", ["train", "valid", "test"])
def test_an_empty_text_is_named(empty):
    lines = {"train": ["ab"], "valid": ["a"], "test": ["b"]} | {empty: []}
    with pytest.raises(UserError, match=f"the {empty} text is empty"):
        ptb.corpus("made", True, "here", lines)


def test_a_text_of_too_many_characters_is_refused():
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    with pytest.raises(UserError, match="at most 256 different characters, not 301"):
        ptb.corpus("many", True, "here", {"train": [many], "valid": ["a"], "test": ["a"]})
