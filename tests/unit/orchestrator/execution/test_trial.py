"""A trial that runs out of memory, and one whose checkpoint is damaged."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pyarrow import fs
from ray.tune import Checkpoint

from orchestrator.execution import trial
from orchestrator.execution.result import FAILED, FINISHED, NOTE, RESUMED_FROM
from orchestrator.execution.trial import train_trial
from tardis_core.training.loop import Trainer

SETTINGS = {
    "model": "lstm",
    "model.hidden": 8,
    "training.updates": 6,
    "training.evaluate_every": 2,
    "training.batch": 8,
    "task.longest": 3,
    "task.valid_sequences": 8,
}


class Ray:
    """What a trial needs of `ray.tune`: results, and checkpoints that stay."""

    def __init__(self, storage: Path) -> None:
        self.storage, self.results, self.saved = storage, list[dict](), 0
        self.Checkpoint = Checkpoint
        self.folder = self.start(0)

    def start(self, number: int) -> Path:
        """Begin an experiment, which knows nothing of those before it."""
        self.folder, self.saved = self.storage / f"trials-{number}" / f"trial-7-{number}", 0
        self.folder.mkdir(parents=True)
        return self.folder

    def report(self, result: dict, checkpoint: Checkpoint | None = None) -> None:
        self.results.append(result)
        if checkpoint is not None:
            place = self.folder / f"checkpoint_{self.saved:06}"
            shutil.copytree(checkpoint.path, place, dirs_exist_ok=True)
            self.saved += 1

    def checkpoints(self) -> list[Path]:
        return sorted(self.folder.glob("checkpoint_*"))

    def get_checkpoint(self) -> Checkpoint | None:
        checkpoints = self.checkpoints()[: self.saved]
        return Checkpoint(str(checkpoints[-1]), fs.LocalFileSystem()) if checkpoints else None


@pytest.fixture
def ray(tmp_path, monkeypatch) -> Ray:
    ray = Ray(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # a trial changes it
    monkeypatch.setattr(trial, "tune", ray)
    return ray


def run(retry: bool = False, **settings) -> None:
    chosen = {**SETTINGS, **{f"training.{name}": value for name, value in settings.items()}}
    train_trial(
        {"number": 7, "settings": chosen},
        task="copy",
        scale="smoke",
        seed=0,
        threads=1,
        seeds=1,
        aggregate="mean",
        race=False,
        test=False,
        retry_smaller_batch=retry,
        storage=str(trial.tune.storage),
        plugins={},
        data=None,
    )


def small_memory(monkeypatch, sequences: int, error: Exception) -> None:
    """A machine that has room for so many sequences at a time, from the third update on."""
    real = Trainer._objective

    def limited(self, part):
        if self.update >= 2 and part.batch.scored_TB.shape[1] > sequences:
            raise error
        return real(self, part)

    monkeypatch.setattr(Trainer, "_objective", limited)


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
]


@pytest.mark.parametrize("error", ERRORS)
def test_a_trial_without_memory_fails_alone_with_its_peak(ray, monkeypatch, error):
    small_memory(monkeypatch, 2, error)
    run()
    last = ray.results[-1]
    assert "memory ran out at a peak of" in last[FAILED]
    assert "GB with a batch of 8 in 1 part(s); see --retry-smaller-batch" in last[FAILED]


@pytest.mark.parametrize("error", ERRORS)
def test_or_it_continues_with_the_batch_in_parts(ray, monkeypatch, error):
    run()
    whole = [result["rows"][-1]["valid_bce"] for result in ray.results]
    shutil.rmtree(ray.folder)
    ray.folder.mkdir()
    ray.results.clear()

    small_memory(monkeypatch, 2, error)
    run(retry=True)
    parted = {row["update"]: row["valid_bce"] for r in ray.results for row in r["rows"]}
    assert list(parted.values()) == pytest.approx(whole, rel=1e-4)
    last = ray.results[-1]
    assert last[FINISHED]
    assert "batch of 8 in 2 part(s); continued with 4" in last[NOTE]


def test_a_single_sequence_that_does_not_fit_fails(ray, monkeypatch):
    small_memory(monkeypatch, 0, torch.OutOfMemoryError("CUDA out of memory"))
    run(retry=True)
    assert "in 8 part(s); lower training.batch" in ray.results[-1][FAILED]


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(ray, monkeypatch):
    small_memory(monkeypatch, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        run(retry=True)


def test_mixed_precision_reaches_the_trial():
    config = trial.trial_config("copy", "smoke", 0, {"training.precision": "bfloat16"})
    assert config.training.precision == "bfloat16"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("name", ["checkpoint.pt", "best.pt"])
def test_a_damaged_checkpoint_is_skipped_and_noted(ray, name):
    run()
    expected = ray.results[-1]["objective"]
    first, second, third = ray.checkpoints()
    shutil.rmtree(third)
    ray.saved = 2
    cut(second / name)
    ray.results.clear()
    run()
    assert ray.results[-1][NOTE] == f"{second.name} was damaged; resumed from {first.name}"
    steps = [row["update"] for result in ray.results for row in result["rows"]]
    assert steps == [2, 4, 6]
    assert ray.results[-1]["objective"] == expected


def test_without_an_intact_checkpoint_it_starts_over_and_notes_so(ray):
    run()
    expected = ray.results[-1]["objective"]
    for each in ray.checkpoints():
        cut(each / "checkpoint.pt")
    ray.results.clear()
    for each in ray.checkpoints()[:-1]:
        shutil.rmtree(each)
    ray.saved = 1
    only = ray.checkpoints()[0]
    only.rename(only.with_name("checkpoint_000000"))
    run()
    assert "was damaged, and there was no other; started over" in ray.results[-1][NOTE]
    assert ray.results[-1]["objective"] == expected


def test_another_experiment_repeats_the_results_and_not_the_work(ray, monkeypatch):
    run()
    before = [(result["objective"], result[FINISHED]) for result in ray.results]
    ray.results.clear()
    ray.start(1)
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("nothing is left to train"))
    run()
    assert [(result["objective"], result[FINISHED]) for result in ray.results] == before
    steps = {row["update"] for result in ray.results for row in result["rows"]}
    assert steps == {2, 4, 6}
    assert ray.results[-1][RESUMED_FROM] == 3
    assert len(ray.checkpoints()) == 1  # it has one of its own, should its process die


def test_results_that_ray_has_are_not_sent_again(ray):
    run(updates=4)
    ray.start(1)
    run(updates=4)
    ray.results.clear()
    run(updates=4)  # Ray starts the process again from its last checkpoint
    assert [result[FINISHED] for result in ray.results] == [True]


def test_a_whole_checkpoint_has_no_note(ray):
    run()
    run()
    assert ray.results[-1][NOTE] == ""


def test_the_objective_is_sought_where_the_trainer_seeks_its_best(ray, monkeypatch):
    """With `memory.vary_cells_from` only the validations of the last phase count."""
    monkeypatch.setattr(trial, "phase_start", lambda settings: 2.0)
    run(learning_rate=1.0)  # too fast: it gets worse
    first, *late = [result["rows"][-1]["valid_bce"] for result in ray.results]
    assert first < late[0]
    assert [result["objective"] for result in ray.results] == [first, late[0], min(late)]


def given_gpus(monkeypatch, *ids: str) -> None:
    context = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": list(ids)})
    monkeypatch.setattr(trial.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(trial.ray, "get_runtime_context", lambda: context)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(ids) or "0,1")  # Ray may show them all


def test_a_trial_uses_the_first_gpu_that_it_was_given(monkeypatch):
    given_gpus(monkeypatch, "2", "3")
    assert trial.assigned_device() == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_trial_without_a_gpu_sees_none(monkeypatch):
    given_gpus(monkeypatch)
    assert trial.assigned_device() == "cpu"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_that_pytorch_does_not_see_is_no_reason_to_train_on_the_cpu(ray, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    given_gpus(monkeypatch, "0")
    run()
    assert "device 'cuda:0' is not available" in ray.results[-1][FAILED]
