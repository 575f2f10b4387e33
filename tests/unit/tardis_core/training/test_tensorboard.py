"""What a training writes to TensorBoard."""

from types import SimpleNamespace

import pytest

from tardis_core.training import tensorboard
from tardis_core.training.tensorboard import TensorBoard


class Writer:
    """In place of the writer of event files."""

    def __init__(self, folder):
        self.folder, self.calls = folder, []

    def add_scalar(self, *arguments):
        self.calls.append(arguments)

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


@pytest.fixture
def writer(monkeypatch):
    writers = []

    def make(folder):
        writers.append(Writer(folder))
        return writers[0]

    monkeypatch.setattr(tensorboard, "SummaryWriter", make)
    return writers


def test_every_validation_is_written_once_with_its_update(tmp_path, writer):
    board, rows = TensorBoard(), [{"update": 4, "loss": 0.5, "valid_bce": 0.25}]
    board.started(SimpleNamespace(update=0), tmp_path)
    board.validated(rows)
    board.validated([*rows, {"update": 8, "loss": 0.125}])
    board.ended(None)
    assert writer[0].folder == str(tmp_path / "tensorboard")
    assert writer[0].calls == [
        *(("loss", 0.5, 4), ("valid_bce", 0.25, 4), "flush"),
        *(("loss", 0.125, 8), "flush", "close"),
    ]


ROWS = [{"update": update, "loss": 0.5} for update in (2, 4, 6)]


def follow(folder, rows) -> TensorBoard:
    """A training, or a part of one, that has these rows when it ends."""
    board = TensorBoard()
    board.started(SimpleNamespace(), folder)
    board.validated(rows)
    board.ended(None)
    return board


def test_a_resumed_run_does_not_write_what_is_in_the_file_of_before(tmp_path, monkeypatch):
    follow(tmp_path, ROWS[:2])
    monkeypatch.setattr(tensorboard, "SummaryWriter", Writer)
    board = follow(tmp_path, ROWS)
    assert board._writer.calls == [("loss", 0.5, 6), "flush", "close"]


def test_a_resumed_run_writes_what_was_measured_before_it_was_asked_to(tmp_path, writer):
    follow(tmp_path, ROWS[:2])
    assert writer[0].calls == [("loss", 0.5, 2), ("loss", 0.5, 4), "flush", "close"]


def test_a_validation_that_a_kill_cut_off_is_written_again(tmp_path, monkeypatch):
    follow(tmp_path, ROWS[:2])
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(tensorboard, "SummaryWriter", Writer)
    board = follow(tmp_path, ROWS)
    assert board._writer.calls == [("loss", 0.5, 4), ("loss", 0.5, 6), "flush", "close"]
