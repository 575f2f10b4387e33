"""MNIST's files: what a sound one gives, and what a broken one says."""

import gzip
import struct

import numpy as np
import pytest

from tardis_core.data import mnist
from tardis_core.errors import UserError

IMAGES = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 2, 4)
LABELS = np.array([7, 0, 9], np.uint8)


def idx(array, magic=None):
    header = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(path, content):
    path.write_bytes(gzip.compress(content))
    return path


def write_all(folder, labels=LABELS):
    contents = [idx(IMAGES), idx(labels), idx(IMAGES[:2]), idx(labels[:2])]
    pairs = zip(mnist.FILES, contents, strict=True)
    return {file.name: write(folder / file.name, content) for file, content in pairs}


def test_reads_the_four_files(tmp_path):
    images = mnist.load_images(write_all(tmp_path))
    np.testing.assert_array_equal(images.train_images, IMAGES)
    np.testing.assert_array_equal(images.train_labels, LABELS)
    np.testing.assert_array_equal(images.test_images, IMAGES[:2])
    np.testing.assert_array_equal(images.test_labels, LABELS[:2])


def test_files_are_images_and_labels_in_turn():
    # load_images pairs them by their place, and reads the dimensions off the name
    assert [file.name.split("-", 1)[1] for file in mnist.FILES] == [
        "images-idx3-ubyte.gz",
        "labels-idx1-ubyte.gz",
    ] * 2


@pytest.mark.parametrize(
    ("content", "expected", "actual"),
    [
        (idx(IMAGES, magic=b"\0\0\r\3"), "the magic number 00000803", "found 00000d03"),
        (idx(LABELS), "the magic number 00000803", "found 00000801"),
        (b"", "the magic number 00000803", "found no bytes"),
        (idx(IMAGES)[:10], "a header of 16 bytes", "found 10 bytes"),
        (idx(IMAGES)[:-1], "40 bytes unpacked", "found 39"),
        (idx(IMAGES) + b"x", "40 bytes unpacked", "found 41"),
    ],
)
def test_a_broken_file_is_named_with_what_to_do(tmp_path, content, expected, actual):
    path = write(tmp_path / "images.gz", content)
    with pytest.raises(UserError) as error:
        mnist.read_idx(path, 3)
    for part in (str(path), f"expected {expected}", actual, "download it again"):
        assert part in str(error.value)


@pytest.mark.parametrize("damage", ["not gzip", "truncated", "bad checksum", "bad stream"])
def test_a_broken_gzip_file_is_named_with_what_to_do(tmp_path, damage):
    path = write(tmp_path / "images.gz", idx(IMAGES))
    content = bytearray(path.read_bytes())
    if damage == "not gzip":
        content = b"<html>"
    elif damage == "truncated":
        content = content[:-9]
    elif damage == "bad checksum":
        content[-8] ^= 1
    else:
        content[10] = 0xFF
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"images\.gz is not a sound MNIST file: expected a whole"):
        mnist.read_idx(path, 3)


def test_labels_must_be_as_many_as_images(tmp_path):
    with pytest.raises(UserError, match=r"train-images.*as many images as labels, 2, found 3"):
        mnist.load_images(write_all(tmp_path, labels=LABELS[:2]))
