"""A run that was stopped, however it was stopped, ends as if it had never been."""

import json
import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tardis_core.build import load_data
from tardis_core.config import Config
from tardis_core.stopping import NUMBERS
from tardis_core.tasks.base import TASKS
from tardis_core.train import main, parsed
from tardis_core.train_session import TrainOptions, train
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer
from tests.support import command_server
from tests.support.command_server import CommandServer
from tests.support.tiny import command_line, read_csv, same, timeless, tiny, untimed

TRAIN = "tardis_core.train"
EVERY = 4
LONG = {"training.updates": 140, "training.evaluate_every": EVERY}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("TARDIS_OFFLINE", "1")
    monkeypatch.delenv("TARDIS_DATA", raising=False)


@pytest.fixture(autouse=True)
def _handlers_restored():
    """A command that was stopped ignores further signals, as its process is about to end."""
    handlers = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


# A trainer in this process


def run_to(trainer: Trainer, update: int) -> Trainer:
    list(trainer.run(should_stop=lambda: trainer.update >= update))
    assert trainer.update == update
    return trainer


def resumed(trainer: Trainer, config: Config, data: Any, path: Path) -> Trainer:
    """Another trainer that knows of the first only what is in the file."""
    checkpoint.save(path, trainer.state())
    other = Trainer(config, data)
    other.restore(checkpoint.load(path))
    return other


RUNS = [
    ("copy", "tardis", "gumbel"),
    ("copy", "tardis", "reinforce"),
    ("copy", "lstm", None),
    ("ptb", "tardis", "reinforce"),
    ("ptb", "lstm", None),
    *((task, "tardis", "gumbel") for task in TASKS.names() if task != "copy"),
]


@pytest.mark.parametrize(("task", "model", "estimator"), RUNS)
def test_a_resumed_trainer_ends_bit_for_bit_like_one_never_stopped(
    task, model, estimator, tmp_path
):
    config = tiny(task, model, estimator, seed=3)
    data = load_data(config, None, "standin")
    stop = random.Random(f"{task} {model} {estimator}").choice([1, 2, 3, 5, 6, 7, 9, 10, 11])
    expected = run_to(Trainer(config, data), 12).state()
    stopped = run_to(Trainer(config, data), stop)
    trainer = run_to(resumed(stopped, config, data, tmp_path / "checkpoint.pt"), 12)
    assert same(timeless(trainer.state()), timeless(expected))


@pytest.mark.parametrize("stop", [4, 8, 12])
def test_a_trainer_stopped_at_a_validation_resumes_the_same(stop, tmp_path):
    config = tiny()
    expected = run_to(Trainer(config, None), 12).state()
    stopped = run_to(Trainer(config, None), stop)
    trainer = resumed(stopped, config, None, tmp_path / "checkpoint.pt")
    list(trainer.run())
    assert same(timeless(trainer.state()), timeless(expected))


def test_the_state_of_a_text_is_carried_through_the_file(tmp_path):
    """The comparison above would miss a lost state if no batch went on where another ended."""
    config = tiny("ptb")
    data = load_data(config, None, "standin")
    trainer = run_to(Trainer(config, data), 3)
    assert trainer.task.train_batch(3).continues
    other = resumed(trainer, config, data, tmp_path / "checkpoint.pt")
    assert same(other.carried, trainer.carried)
    other.carried = None
    assert other.step() != trainer.step()


def test_a_run_out_of_patience_stays_finished(tmp_path):
    config = tiny(patience=1, learning_rate=1e-9)
    trainer = Trainer(config, None)
    trainer.evaluate = lambda split: {"bce": 1.0}
    list(trainer.run())
    other = resumed(trainer, config, None, tmp_path / "checkpoint.pt")
    assert (other.finished, other.update, list(other.run())) == (True, 8, [])


# The command, in processes of its own


@pytest.fixture(scope="module")
def server():
    with command_server.running("tardis_core.training.loop", TRAIN) as server:
        yield server


class Run:
    """`python -m tardis_core.train` in another process."""

    def __init__(self, server: CommandServer, folder: Path, *arguments: str) -> None:
        self._folder = folder
        folder.mkdir()
        self.process = server.start(folder, TRAIN, *arguments)

    @property
    def lines(self) -> list[str]:
        """The whole lines printed so far."""
        output = self._folder / "output.txt"
        lines = output.read_text().splitlines(keepends=True) if output.exists() else []
        return [line for line in lines if line.endswith("\n")]

    def wait_for(self, validations: int) -> None:
        """Wait until so many validations were reported."""
        while len(self.updates) < validations:
            assert self.process.poll() is None, (self._folder / "errors.txt").read_text()
            time.sleep(0.005)

    def end(self, number: signal.Signals) -> str:
        """Send a signal, wait for the end; returns what was printed to standard error."""
        os.kill(self.process.pid, number)
        self.process.wait(60)
        return (self._folder / "errors.txt").read_text()

    @property
    def updates(self) -> list[int]:
        """The updates at which a validation was reported."""
        rows = [line.split() for line in self.lines if line.startswith("update ")]
        return [int(words[1].split("/")[0]) for words in rows]


def contents(folder: Path) -> dict[str, Any]:
    """All that a finished run left behind, but for what a clock said."""
    result = json.loads((folder / "result.json").read_text())
    del result["training_seconds"]
    return {
        "files": sorted(os.listdir(folder)),
        "result": result,
        "best": checkpoint.load(folder / "best.pt"),
        "checkpoint": timeless(checkpoint.load(folder / "checkpoint.pt")),
        "metrics": untimed(read_csv((folder / "metrics.csv").read_text())),
        "config": (folder / "config.json").read_text(),
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert main([*command_line(LONG), "--out", str(folder)]) == 0
    return contents(folder)


def assert_equal(folder: Path, expected: dict[str, Any]) -> None:
    actual = contents(folder)
    assert actual["files"] == expected["files"]
    assert actual["metrics"] == expected["metrics"]
    assert actual["result"] == expected["result"]
    assert same(actual, expected)


def killed(run: Run, dice: random.Random) -> Run:
    """Kill the run at some moment between here and a few validations later."""
    run.wait_for(dice.randint(1, 4))
    time.sleep(dice.uniform(0, 0.06))
    run.end(signal.SIGKILL)
    assert run.process.returncode == -signal.SIGKILL, "it ended before it was killed"
    return run


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_like_one_never_killed(server, tmp_path, uninterrupted):
    dice, folder, done = random.Random(2017), tmp_path / "run", 0
    arguments = [*command_line(LONG), "--out", str(folder)]
    for number in range(3):
        run = killed(Run(server, tmp_path / str(number), *arguments), dice)
        assert run.updates[0] == done + EVERY  # nothing before the last checkpoint is repeated
        done = checkpoint.load(folder / "checkpoint.pt")["update"]
        assert done in (run.updates[-1], run.updates[-1] + EVERY)  # nothing reported is lost
        arguments = ["--resume", str(folder)]
    assert main(arguments) == 0
    assert_equal(folder, uninterrupted)


@pytest.mark.slow
def test_ctrl_c_saves_prints_how_to_resume_and_loses_nothing(server, tmp_path, uninterrupted):
    folder = tmp_path / "run"
    run = Run(server, tmp_path / "first", *command_line(LONG), "--out", str(folder))
    run.wait_for(3)
    assert run.end(signal.SIGINT) == ""
    assert run.process.returncode == 130
    stopped = checkpoint.load(folder / "checkpoint.pt")["update"]
    assert f"Stopped at update {stopped} of 140, saved.".split() == run.lines[-2].split()[:7]
    assert run.lines[-1].strip() == f"python -m tardis_core.train --resume {folder}"
    assert main(shlex.split(run.lines[-1])[3:]) == 0
    assert_equal(folder, uninterrupted)


@pytest.mark.slow
def test_a_training_does_not_import_the_compiler_of_pytorch(server, tmp_path):
    """It would take two seconds, in every worker of a sweep."""
    assert server.run(tmp_path, TRAIN, *command_line({}), "--out", "run") == 0
    assert server.imported("torch", "torch._dynamo", "sympy") == ["torch"]


# The command, in this process


def signal_at(monkeypatch, update: int, number: signal.Signals = signal.SIGINT) -> None:
    """Let every trainer get a signal while it makes this update."""
    honest = Trainer.step

    def step(self: Trainer) -> float:
        if self.update == update:
            signal.raise_signal(number)
        return honest(self)

    monkeypatch.setattr(Trainer, "step", step)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_stops_the_run_after_the_update_it_came_in(monkeypatch, tmp_path, number):
    signal_at(monkeypatch, 5, number)
    assert main([*command_line({}), "--out", str(tmp_path / "run")]) == 128 + number
    assert checkpoint.load(tmp_path / "run" / "checkpoint.pt")["update"] == 6
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_function_call_leaves_the_handlers_of_its_caller(monkeypatch, tmp_path):
    signal_at(monkeypatch, 5, signal.SIGTERM)
    handlers = [signal.getsignal(each) for each in NUMBERS]
    options = parsed([*command_line({}), "--out", str(tmp_path / "run")])
    options.pop("help_settings")
    assert not train(TrainOptions(**options)).finished
    assert [signal.getsignal(each) for each in NUMBERS] == handlers


def test_the_printed_resume_command_names_the_data_and_works(monkeypatch, tmp_path, capsys):
    folder, data = tmp_path / "my run", tmp_path / "no data"
    data.mkdir()
    arguments = [*command_line({}, "ptb"), "--data", "standin", "--data-dir", str(data)]
    with monkeypatch.context() as patched:
        signal_at(patched, 5)
        assert main([*arguments, "--device", "cpu", "--out", str(folder)]) == 130
    said = capsys.readouterr().out.splitlines()[-1].strip()
    assert said == (
        f"python -m tardis_core.train --resume '{folder}' --device cpu --data-dir '{data}' "
        "--data standin"
    )
    assert main(["--resume", str(folder), "--data", "standin"]) == 0


def test_ctrl_c_during_the_final_evaluation_prints_no_traceback(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "run"

    def press(self: Trainer, split: str, honest: Callable = Trainer.evaluate) -> Any:
        if split == "test":
            raise KeyboardInterrupt
        return honest(self, split)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "evaluate", press)
        assert main([*command_line({}), "--out", str(folder)]) == 130
    assert "Traceback" not in capsys.readouterr().err
    assert main(["--resume", str(folder)]) == 0
    assert (folder / "result.json").exists()


def finished(folder: Path) -> dict[str, Any]:
    assert main([*command_line({}), "--out", str(folder)]) == 0
    return contents(folder)


@pytest.mark.parametrize("lost", [["result.json"], ["result.json", "metrics.csv"]])
def test_a_run_killed_after_its_last_checkpoint_still_gets_its_result(tmp_path, lost):
    folder = tmp_path / "run"
    expected = finished(folder)
    for name in lost:
        (folder / name).unlink()
    assert main(["--resume", str(folder)]) == 0
    assert_equal(folder, expected)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    expected = finished(tmp_path / "run")
    assert main(["--resume", str(tmp_path / "run")]) == 0
    assert_equal(tmp_path / "run", expected)


def test_a_half_written_checkpoint_is_removed(monkeypatch, tmp_path):
    folder = tmp_path / "run"
    expected = finished(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: sys.exit())
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            checkpoint.save(folder / "checkpoint.pt", {"update": -1})
    assert len(os.listdir(folder)) == len(expected["files"]) + 1
    assert main(["--resume", str(folder)]) == 0
    assert_equal(folder, expected)


@pytest.mark.slow
def test_the_newest_checkpoint_may_be_named_instead_of_the_folder(tmp_path):
    expected = finished(tmp_path / "run")
    assert main(["--resume", str(tmp_path / "run" / "checkpoint.pt")]) == 0
    assert_equal(tmp_path / "run", expected)
