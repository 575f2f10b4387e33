"""Checkpoints: whole or not at all, and nothing in them is run."""

import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch

from tardis_core.errors import UserError
from tardis_core.training import checkpoint
from tests.support.tiny import same

VALUES = {"weights": torch.arange(1000.0), "update": 7, "nested": {"list": [1, 2.5, None, "x"]}}


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, VALUES)
    return path


def refusal(path: Path) -> str:
    with warnings.catch_warnings(record=True) as warned, pytest.raises(UserError) as error:
        checkpoint.load(path)
    assert not warned
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_what_was_saved_is_loaded(saved):
    assert same(checkpoint.load(saved), {"format": checkpoint.FORMAT, **VALUES})


def test_saving_replaces_what_is_there(saved):
    checkpoint.save(saved, {"update": 8})
    assert checkpoint.load(saved)["update"] == 8
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize(
    ("where", "what", "kind"),
    [
        (torch, "save", KeyboardInterrupt),
        (os, "fsync", OSError),
        (os, "replace", OSError),
    ],
)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    saved, monkeypatch, where, what, kind
):
    def fail(values, file=None, *rest):
        if what == "save":
            file.write(b"half of it")
        raise kind

    monkeypatch.setattr(where, what, fail)
    with pytest.raises(kind):
        checkpoint.save(saved, {"update": 8})
    monkeypatch.undo()
    assert checkpoint.load(saved)["update"] == 7
    assert os.listdir(saved.parent) == [saved.name]


def test_all_of_it_is_on_disk_before_it_replaces_what_is_there(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"update": 7})
    assert synced[0] == path.stat().st_size > 0


def test_a_value_that_cannot_be_saved_leaves_the_old_file(saved):
    with pytest.raises((AttributeError, pickle.PicklingError)):
        checkpoint.save(saved, {"update": 8, "function": lambda: None})
    assert checkpoint.load(saved)["update"] == 7
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    assert "is not a checkpoint of this program or is damaged" in refusal(saved)


@pytest.mark.parametrize("content", [b"hello\n", b"\0" * 5000, pickle.dumps({"update": 1})])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "other.pt"
    path.write_bytes(content)
    assert "damaged" in refusal(path)


@pytest.mark.parametrize("values", [torch.zeros(3), [1, 2], {"update": 7}, {"format": None}])
def test_a_torch_file_that_is_no_checkpoint_is_refused(tmp_path, values):
    path = tmp_path / "other.pt"
    torch.save(values, path)
    assert "damaged" in refusal(path)


def test_checkpoints_of_this_format_stay_readable(tmp_path):
    torch.save({"format": 2, "update": 7}, tmp_path / "checkpoint.pt")
    assert checkpoint.load(tmp_path / "checkpoint.pt")["update"] == 7


def test_another_format_is_refused_and_named(tmp_path):
    path = tmp_path / "newer.pt"
    torch.save({**VALUES, "format": 99}, path)
    assert f"its format is 99, this version reads {checkpoint.FORMAT}" in refusal(path)


def test_a_checkpoint_of_a_gpu_is_read_without_one(tmp_path, monkeypatch):
    path = tmp_path / "gpu.pt"
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        checkpoint.save(path, VALUES)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="deserialize object on a CUDA device"):
        torch.load(path, weights_only=True)
    assert checkpoint.load(path)["weights"].device == torch.device("cpu")
    assert same(checkpoint.load(path)["weights"], VALUES["weights"])


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_nothing_in_a_checkpoint_is_run(tmp_path):
    path, folder = tmp_path / "bomb.pt", tmp_path / "boom"
    torch.save({"format": checkpoint.FORMAT, "weights": Bomb(folder)}, path)
    refusal(path)
    assert not folder.exists()
    torch.load(path, weights_only=False)  # the bomb was live
    assert folder.exists()


@pytest.mark.parametrize("name", ["nothing.pt", "", "n" * 300])
def test_a_missing_file_is_named(tmp_path, name):
    assert "there is no checkpoint" in refusal(tmp_path / name)
