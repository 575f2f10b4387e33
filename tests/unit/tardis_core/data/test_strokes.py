"""Digits as pen strokes: what is loaded, from where, and what the cache keeps."""

import logging

import numpy as np
import pytest

from tardis_core.data import files, mnist, standin_digits, strokes
from tardis_core.data import stroke_converter as converter
from tardis_core.errors import UserError


def rng(seed):
    return np.random.default_rng(seed)


# -------------------------------------------------------------------------------- stand-in digits


def test_standin_digits_are_the_same_each_time():
    first, again = standin_digits.make_images(40, 1), standin_digits.make_images(40, 1)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert (first[0] != standin_digits.make_images(40, 2)[0]).any()


def test_standin_digits_have_all_labels_and_lie_inside():
    images, labels = standin_digits.make_images(1000, 0)
    assert images.shape == (1000, 28, 28)
    assert (images.dtype, labels.dtype) == (np.uint8, np.uint8)
    np.testing.assert_array_equal(np.bincount(labels), [100] * 10)
    # the border is blank: no digit is cut off
    assert images[:, 1:-1, 1:-1].sum() == images.sum()


@pytest.mark.slow
def test_standin_digits_can_be_told_apart():
    train, labels = standin_digits.make_images(600, 0)
    test, expected = standin_digits.make_images(100, 1)
    distance = ((train[None, :, ::2, ::2] / 255.0 - test[:, None, ::2, ::2] / 255.0) ** 2).sum(
        (2, 3)
    )
    assert (labels[distance.argmin(1)] == expected).mean() > 0.9


# ------------------------------------------------------------------------------- loading, caching


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no data directory, no network, and few stand-in digits."""
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    monkeypatch.delenv("TARDIS_DATA", raising=False)
    monkeypatch.setattr(files, "_announced", set())
    monkeypatch.setattr(strokes, "STANDIN_SIZES", {"train": 40, "valid": 20, "test": 10})
    return tmp_path / "cache" / "strokes"


def forbid_conversion(monkeypatch):
    monkeypatch.setattr(converter, "convert_all", lambda *_: pytest.fail("converted again"))


def assert_equal(one, other):
    assert one.provenance == other.provenance
    for split in strokes.SPLITS:
        for field in ("rows", "ends", "labels"):
            np.testing.assert_array_equal(
                getattr(getattr(one, split), field), getattr(getattr(other, split), field)
            )


def test_standin_says_what_it_is_and_looks_for_no_files(cache, monkeypatch):
    monkeypatch.setattr(mnist, "find", lambda *_: pytest.fail("looked for files"))
    data = strokes.load(source="standin")
    assert data.provenance.name == "strokes-standin"
    assert not data.provenance.real
    assert not data.provenance.complete
    assert [len(getattr(data, split).labels) for split in strokes.SPLITS] == [40, 20, 10]


def test_digits_are_laid_end_to_end(cache):
    digits = strokes.load(source="standin").train
    assert (digits.rows.dtype, digits.ends.dtype, digits.labels.dtype) == (
        np.int8,
        np.int64,
        np.uint8,
    )
    images, labels = standin_digits.make_images(40, 0)
    np.testing.assert_array_equal(digits.labels, labels)
    assert digits.ends[0] == 0
    for i in (0, 17, 39):
        rows = digits.rows[digits.ends[i] : digits.ends[i + 1]]
        np.testing.assert_array_equal(rows, converter.convert(images[i], rng(i)))


def test_the_cache_is_used(cache, monkeypatch):
    first = strokes.load(source="standin")
    assert len(list(cache.iterdir())) == 1
    forbid_conversion(monkeypatch)
    assert_equal(first, strokes.load(source="standin"))


def test_another_converter_has_another_cache(cache, monkeypatch):
    strokes.load(source="standin")
    monkeypatch.setattr(converter, "VERSION", converter.VERSION + 1)
    strokes.load(source="standin")
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "flipped", "other arrays"])
def test_a_broken_cache_is_made_again(cache, damage):
    first = strokes.load(source="standin")
    (path,) = cache.iterdir()
    content = path.read_bytes()
    if damage == "other arrays":
        digits = strokes.read_cache(path)
        test = digits["test"]
        digits["test"] = strokes.Digits(test.rows, test.ends + 1, test.labels)
        strokes.write_cache(path, digits)
    else:
        middle = len(content) // 3
        flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
        broken = {"empty": b"", "truncated": content[:-20], "text": b"x", "flipped": flipped}
        path.write_bytes(broken[damage])
    assert strokes.read_cache(path) is None
    assert_equal(first, strokes.load(source="standin"))
    assert path.read_bytes()[:4] == content[:4]
    assert strokes.read_cache(path) is not None


def test_a_cache_that_cannot_be_written_is_no_error(cache, caplog):
    cache.parent.write_text("a file where the directory should be")
    assert len(strokes.load(source="standin").test.labels) == 10
    assert "cannot be kept" in caplog.text


def test_auto_says_once_that_it_uses_a_standin(cache, caplog):
    with caplog.at_level(logging.WARNING, "tardis_core"):
        assert not strokes.load().provenance.real
        strokes.load()
    (record,) = caplog.records
    assert "--data-dir" in record.message
    assert "TARDIS_DATA" in record.message


def test_real_refuses_a_standin(cache, tmp_path):
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz") as error:
        strokes.load(tmp_path, source="real")
    assert str(tmp_path / "mnist") in str(error.value)
    assert "--data-dir" in str(error.value)


def test_an_unknown_source_is_refused(cache):
    with pytest.raises(UserError, match="auto, real, standin"):
        strokes.load(source="fake")


def test_real_images_are_split_by_their_place(cache, tmp_path, monkeypatch):
    images, labels = standin_digits.make_images(30, 3)
    fake = mnist.Images(images[:20], labels[:20], images[20:], labels[20:])
    paths = {file.name: tmp_path / "there" / file.name for file in mnist.FILES}
    monkeypatch.setattr(mnist, "find", lambda directory: paths)
    monkeypatch.setattr(mnist, "load_images", lambda paths: fake)
    monkeypatch.setattr(strokes, "VALID_SIZE", 5)
    data = strokes.load(source="real")
    assert data.provenance.name == "strokes"
    assert data.provenance.real
    assert str(tmp_path / "there") in data.provenance.origin
    np.testing.assert_array_equal(data.train.labels, labels[:15])
    np.testing.assert_array_equal(data.valid.labels, labels[15:20])
    np.testing.assert_array_equal(data.test.labels, labels[20:])
    # an image's ties are those of its place in the file, not in the split
    first = data.valid.rows[: data.valid.ends[1]]
    np.testing.assert_array_equal(first, converter.convert(images[15], rng(15)))
    forbid_conversion(monkeypatch)
    assert_equal(data, strokes.load(source="real"))
