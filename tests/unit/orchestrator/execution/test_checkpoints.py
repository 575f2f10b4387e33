"""The experiments of a sweep that was started several times, and the checkpoints in them."""

from pathlib import Path

import pytest

from orchestrator.execution.checkpoints import checkpoints_of, experiments, next_experiment


@pytest.fixture
def storage(tmp_path: Path) -> str:
    for place in (
        "trials-2/trial-1-x/checkpoint_000004",
        "trials-2/trial-1-x/checkpoint_000003",
        "trials-10/trial-1-y/checkpoint_000000",
        "trials-10/trial-11-z/checkpoint_000000",
    ):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "checkpoint.pt").touch()
    (tmp_path / "trials-10" / "trial-1-y" / "checkpoint_000001").mkdir()  # was deleted, or is new
    (tmp_path / "another").mkdir()
    return str(tmp_path)


def test_experiments_are_in_the_order_of_their_starts(storage):
    assert experiments(storage) == ["trials-2", "trials-10"]
    assert next_experiment(storage) == "trials-11"


def test_the_first_one(tmp_path):
    assert experiments(f"{tmp_path}/nothing") == []
    assert next_experiment(f"{tmp_path}/nothing") == "trials-0"


def test_the_checkpoints_of_a_trial_come_from_all_experiments_the_newest_first(storage):
    places = [
        Path(each.path).relative_to(storage).as_posix() for each in checkpoints_of(storage, 1)
    ]
    assert places == [
        "trials-10/trial-1-y/checkpoint_000000",
        "trials-2/trial-1-x/checkpoint_000004",
        "trials-2/trial-1-x/checkpoint_000003",
    ]
    assert checkpoints_of(storage, 0) == []
