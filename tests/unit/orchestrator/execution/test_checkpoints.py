"""The experiments of a sweep that was started several times, and the checkpoints in them."""

from pathlib import Path

import pytest

from orchestrator.execution.checkpoints import (
    checkpoints_of,
    experiments,
    fetch_best,
    next_experiment,
)
from orchestrator.results.records import Records
from orchestrator.results.weights import best_weights
from tests.support.sweep_logs import fill, make_plan, put_weights


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


def test_damaged_weights_are_passed_over_for_the_copy_before_or_the_one_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    older = put_weights(plan, 3)
    newest = older.parent.with_name("checkpoint_000002") / "best.pt"
    newest.parent.mkdir()
    newest.write_bytes(older.read_bytes()[:1000])
    whole = older.read_bytes()
    assert fetch_best(plan, 3).read_bytes() == whole
    older.write_bytes(b"garbage")
    assert fetch_best(plan, 3).read_bytes() == whole  # the copy of the sweep's folder
    (plan.folder / "best" / "trial-3" / "best.pt").write_bytes(b"garbage")
    assert fetch_best(plan, 3) is None
    assert fetch_best(plan, 4) is None


def test_the_next_best_stands_for_a_sweep_whose_best_weights_are_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    fill(plan, [0.5, 0.2, 0.3])
    put_weights(plan, 1).write_bytes(b"garbage")
    assert best_weights(Records.load(plan)) is None
    put_weights(plan, 2)
    number, weights = best_weights(Records.load(plan))
    assert (number, weights.parent.name) == (2, "trial-2")
