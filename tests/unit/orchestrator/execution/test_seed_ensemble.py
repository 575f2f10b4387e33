"""Several seeds as one trial: trained as if alone, judged together, resumed exactly."""

import pytest

from orchestrator.execution.seed_ensemble import SeedEnsemble
from tardis_core.config import make_config
from tardis_core.training.loop import Trainer

SETTINGS = {
    "training.updates": 6,
    "training.evaluate_every": 2,
    "training.batch": 4,
    "model.hidden": 8,
    "task.longest": 3,
    "task.valid_sequences": 16,
}


def config(seed=5, **more):
    return make_config("copy", scale="smoke", seed=seed, overrides={**SETTINGS, **more})


def alone(seed):
    return [row["valid_bce"] for row in Trainer(config(seed), None).run()]


@pytest.mark.parametrize(
    ("aggregate", "pick"), [("worst", max), ("mean", lambda v: sum(v) / len(v))]
)
def test_each_seed_trains_as_it_would_alone_and_their_values_are_aggregated(aggregate, pick):
    several = SeedEnsemble(config(), None, "cpu", (5, 6), aggregate)
    rows = list(several.run())
    first, second = alone(5), alone(6)
    assert [row["valid_bce_seed5"] for row in rows] == first
    assert [row["valid_bce_seed6"] for row in rows] == second
    assert [row["valid_bce"] for row in rows] == [
        pick(pair) for pair in zip(first, second, strict=True)
    ]
    assert [row["update"] for row in rows] == [2, 4, 6]
    assert several.best == min(row["valid_bce"] for row in rows)
    assert several.finished


def test_it_resumes_as_if_it_had_never_stopped():
    whole = list(SeedEnsemble(config(), None, "cpu", (5, 6), "worst").run())
    begun = SeedEnsemble(config(), None, "cpu", (5, 6), "worst")
    next(begun.run())
    again = SeedEnsemble(config(), None, "cpu", (5, 6), "worst")
    again.restore(begun.state())
    assert again.best == begun.best
    rest = [row["valid_bce"] for row in again.run()]
    assert [begun.history[0]["valid_bce"], *rest] == [row["valid_bce"] for row in whole]


def test_the_model_is_that_of_the_best_seed():
    several = SeedEnsemble(config(), None, "cpu", (5, 6), "worst")
    rows = list(several.run())
    best = 5 if rows[-1]["valid_bce_seed5"] < rows[-1]["valid_bce_seed6"] else 6
    assert several.model_state()["config"]["seed"] == best


def test_a_seed_that_patience_has_ended_waits_for_the_others():
    patient = {"training.updates": 60, "training.patience": 1, "training.learning_rate": 1e-9}
    several = SeedEnsemble(config(**patient), None, "cpu", (5, 6), "mean")
    list(several.run())
    assert several.finished
    assert all(trainer.finished for trainer in several.trainers)


def test_a_best_from_before_its_time_does_not_count_after_it():
    # Too fast: it gets worse.
    worse = {"training.learning_rate": 5.0, "memory.vary_cells_from": 0.5}
    several = SeedEnsemble(config(**worse), None, "cpu", (5, 6), "worst")
    first, *late = [row["valid_bce"] for row in several.run()]
    assert first < min(late)
    assert several.best == min(late)


def race(**more):
    return SeedEnsemble(config(**more), None, "cpu", (5, 6, 7), "worst", race=True)


def test_in_a_race_the_first_seed_is_trained_alone_and_then_the_others():
    several = race()
    rows = list(several.run())
    first, second, third = alone(5), alone(6), alone(7)
    assert [row["valid_bce"] for row in rows[:3]] == first
    assert "valid_bce_seed6" not in rows[2]
    assert [row["valid_bce"] for row in rows[3:]] == [
        max(values) for values in zip(first, second, third, strict=True)
    ]
    assert [row["update"] for row in rows] == [2, 4, 6, 8, 10, 12]
    assert several.best == min(row["valid_bce"] for row in rows[3:])
    assert several.finished


def test_a_race_says_what_each_seed_came_to_when_the_first_and_when_all_have_ended():
    several = race()
    seen = [several.seed_values(len(several.history)) for _ in several.run()]
    best = [min(alone(seed)) for seed in (5, 6, 7)]
    assert seen == [[], [], best[:1], [], [], best]
    assert several.seed_values(3) == best[:1]  # repeated after a restart


@pytest.mark.parametrize("after", [1, 3, 4])
def test_a_race_resumes_as_if_it_had_never_stopped(after):
    whole = [row["valid_bce"] for row in race().run()]
    begun = race()
    for _ in zip(range(after), begun.run(), strict=False):
        pass
    again = race()
    again.restore(begun.state())
    assert [row["valid_bce"] for row in again.run()] == whole[len(begun.history) :]
    assert [row["valid_bce"] for row in again.history] == whole
