"""What every sampler must do: the same proposals from the same study, whoever asks."""

import optuna
import pytest

import search_spaces
from orchestrator.planning import plan
from search_spaces import SAMPLERS, make_sampler

every_sampler = pytest.mark.parametrize("name", SAMPLERS)


def space(trial):
    """A conditional space with steps, which every sampler can search."""
    kind = trial.suggest_categorical("kind", ["a", "b"])
    settings = {"kind": kind, "x": trial.suggest_float("x", 0, 1, step=0.25)}
    if kind == "b":
        settings["y"] = trial.suggest_int("y", 1, 3)
    return settings


def objective(settings):
    return (settings["x"] - 0.5) ** 2 + (settings["kind"] == "b") * 0.1


def run(study, name, trials, seed=0):
    """Propose and tell, with a new sampler for every proposal, as a sweep does."""
    proposals = []
    for _ in range(trials):
        study.sampler = make_sampler(name, seed * 1000 + len(study.get_trials(deepcopy=False)))
        trial = study.ask()
        proposals.append(space(trial))
        study.tell(trial, objective(proposals[-1]))
    return proposals


def test_the_options_name_every_sampler():
    assert set(plan.SAMPLERS) == set(SAMPLERS)


@every_sampler
def test_a_resumed_study_proposes_what_an_uninterrupted_one_does(name, tmp_path):
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
    )
    first = optuna.create_study(storage=storage, study_name="s")
    before = run(first, name, 12)
    again = optuna.load_study(storage=storage, study_name="s")
    assert before + run(again, name, 3) == run(optuna.create_study(), name, 15)


@every_sampler
def test_another_seed_gives_other_proposals(name):
    one, other = (run(optuna.create_study(), name, 12, seed) for seed in (1, 2))
    assert one != other


def test_a_grid_has_every_combination_once():
    assert search_spaces.count_combinations(space, limit=100) == 5 + 5 * 3
    proposals = run(optuna.create_study(), "grid", 20)
    assert len({tuple(sorted(each.items())) for each in proposals}) == 20


def test_counting_a_grid_ends_at_the_limit():
    assert search_spaces.count_combinations(space, limit=7) == 8


def test_a_grid_needs_steps():
    with pytest.raises(ValueError, match="a grid needs steps, and rate can be any number"):
        search_spaces.count_combinations(lambda trial: trial.suggest_float("rate", 0, 1), 10)
