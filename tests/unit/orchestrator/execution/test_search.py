"""The search tells Optuna the truth, once, and resumes what a killed driver left behind."""

import math
import pickle
import resource
import weakref

import optuna
import pytest
from optuna.trial import TrialState

from orchestrator.execution.result import FAILED, FINISHED, OBJECTIVE, REFUSED
from orchestrator.execution.search import Search
from orchestrator.execution.study import (
    enqueue,
    open_study,
    set_study_damage_aside,
    study_storage,
    study_trials,
    tell_failed,
)
from search_spaces.engine import tpe
from search_spaces.engine.tpe import sampler
from tardis_core.errors import UserError


class Space:
    """A conditional space at module level, because Ray pickles it."""

    def __call__(self, trial):
        estimator = trial.suggest_categorical("estimator", ["gumbel", "reinforce"])
        settings = {"estimator": estimator, "x": trial.suggest_float("x", 0, 1)}
        if estimator == "reinforce":
            settings["estimator.gamma"] = trial.suggest_float("estimator.gamma", 0.8, 0.99)
        return settings


def make(folder, seed=0, guesses=()):
    return Search(Space(), sampler, seed, "min", "s", folder, list(guesses))


def study(folder):
    return open_study(folder, "s")


def result(value, step, **more):
    return {OBJECTIVE: value, "training_iteration": step, **more}


def states(folder):
    return [trial.state for trial in study(folder).trials]


def test_a_finished_trial_is_complete_with_its_values(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    search.on_trial_result("a", result(0.5, 1))
    search.on_trial_complete("a", result(0.4, 2, **{FINISHED: True}))
    (trial,) = study(tmp_path).trials
    assert trial.state is TrialState.COMPLETE
    assert trial.value == 0.4
    assert trial.intermediate_values == {1: 0.5, 2: 0.4}


def test_a_space_that_fails_for_one_trial_fails_that_trial_alone(tmp_path):
    def space(trial):
        if trial.number == 0:
            raise ValueError("space must not fail")
        return {"x": trial.suggest_float("x", 0, 1)}

    search = Search(space, sampler, 0, "min", "s", tmp_path, [])
    assert search.suggest("a") == {"number": 0, "settings": {}, REFUSED: "space must not fail"}
    assert search.suggest("b")["settings"]["x"] >= 0


def test_a_trial_that_was_stopped_is_pruned_with_its_values(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    search.on_trial_result("a", result(0.5, 1))
    search.on_trial_complete("a", result(0.45, 2, **{FINISHED: False}))
    (trial,) = study(tmp_path).trials
    assert trial.state is TrialState.PRUNED
    assert trial.intermediate_values == {1: 0.5, 2: 0.45}


@pytest.mark.parametrize(
    "last",
    [result(math.nan, 2, **{FINISHED: True}), result(0.5, 2, **{FAILED: "Diverged: ..."}), None],
    ids=["nan", "failure", "nothing"],
)
def test_a_trial_that_came_to_nothing_is_failed(tmp_path, last):
    search = make(tmp_path)
    search.suggest("a")
    search.on_trial_complete("a", last)
    assert states(tmp_path) == [TrialState.FAIL]


def test_after_an_error_of_ray_a_trial_is_handed_out_again_unless_it_has_failed(tmp_path):
    search = make(tmp_path)
    asked = search.suggest("a")
    search.on_trial_complete("a", error=True)
    assert search.suggest("b") == asked
    search.on_trial_complete("b", error=True)
    tell_failed(tmp_path, "s", asked["number"])
    assert search.suggest("c")["number"] == 1
    assert states(tmp_path) == [TrialState.FAIL, TrialState.RUNNING]


def test_what_was_told_is_not_told_again(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    search.on_trial_complete("a", result(0.4, 2, **{FINISHED: True}))
    search.on_trial_result("a", result(0.1, 3))
    search.on_trial_complete("a", result(0.1, 3, **{FINISHED: False}))
    (trial,) = study(tmp_path).trials
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 0.4)


def test_a_repeated_step_is_reported_once(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    search.on_trial_result("a", result(0.5, 1))
    search.on_trial_result("a", result(0.5, 1))
    assert study(tmp_path).trials[0].intermediate_values == {1: 0.5}


def test_a_driver_that_comes_back_resumes_the_same_configuration(tmp_path):
    before = make(tmp_path)
    asked = before.suggest("a")
    after = make(tmp_path)  # knows nothing of "a"
    assert after.suggest("b") == asked
    assert after.suggest("b") == asked  # Ray may ask twice
    assert after.suggest("c")["number"] == 1
    assert len(study(tmp_path).trials) == 2


def test_first_guesses_are_queued_once_however_often_a_driver_starts(tmp_path):
    guesses = [{"estimator": "gumbel", "x": 0.25}, {"estimator": "reinforce", "x": 0.75}]
    for _ in range(3):
        search = make(tmp_path, guesses=guesses)
    assert [search.suggest(name)["settings"]["x"] for name in "ab"] == [0.25, 0.75]
    assert search.suggest("c")["settings"]["x"] not in (0.25, 0.75)


def propose(folder, count, seed):
    folder.mkdir()
    search, proposals = make(folder, seed), []
    for name in range(count):
        proposals.append(search.suggest(str(name))["settings"])
        value = proposals[-1]["x"]
        search.on_trial_complete(str(name), result(value, 1, **{FINISHED: True}))
    return proposals


def test_one_seed_proposes_the_same_and_another_seed_something_else(tmp_path):
    one, again = propose(tmp_path / "1", 14, 7), propose(tmp_path / "2", 14, 7)
    assert one == again
    assert one != propose(tmp_path / "3", 14, 8)


def test_trials_that_run_side_by_side_are_proposed_different_settings(tmp_path):
    """No result tells them apart: the sampler draws each from the number of its trial."""
    search = make(tmp_path)
    proposals = [search.suggest(str(name))["settings"]["x"] for name in range(8)]
    assert len(set(proposals)) == 8


def test_the_seed_of_a_sampler_is_that_of_the_sweep_and_the_number_of_the_trial(tmp_path):
    seeds = []

    def noted(seed):
        seeds.append(seed)
        return sampler(seed)

    search = Search(Space(), noted, 5, "min", "s", tmp_path, [])
    for name in "abb":
        search.suggest(name)
    assert seeds == [5, 5_000_015, 5_000_016]  # another one for every trial of every sweep


def test_ray_is_told_what_is_searched_for(tmp_path):
    search = Search(Space(), sampler, 0, "max", "s", tmp_path, [])
    assert (search.metric, search.mode) == (OBJECTIVE, "max")


def test_a_trial_that_is_resumed_is_logged(tmp_path, caplog):
    make(tmp_path).suggest("a")
    with caplog.at_level("INFO", "orchestrator.execution.search"):
        search = make(tmp_path)
        search.suggest("b")
        search.suggest("c")
    said = [each.message for each in caplog.records if each.name.startswith("orchestrator")]
    assert said == ["trial 0 is resumed"]


def test_a_restart_does_not_change_the_proposals(tmp_path):
    whole = propose(tmp_path / "whole", 12, 7)
    folder = tmp_path / "cut"
    propose(folder, 6, 7)
    search = make(folder, 7)
    assert search.suggest("next")["settings"] == whole[6]


def test_a_restart_does_not_change_them_when_some_trials_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(tpe, "LATEST_TRIALS", 12)
    monkeypatch.setattr(tpe, "MAX_BEST_TRIALS", 4)
    whole = propose(tmp_path / "whole", 26, 7)
    propose(tmp_path / "cut", 24, 7)
    search = make(tmp_path / "cut", 7)
    assert [search.suggest("next")["settings"]] == whole[24:25]


def test_a_trial_that_has_ended_is_released(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    trial = weakref.ref(search._trials["a"])
    search.on_trial_complete("a", result(0.5, 1, **{FINISHED: True}))
    assert trial() is None


def test_gamma_is_proposed_for_reinforce_only(tmp_path):
    for settings in propose(tmp_path / "1", 20, 1):
        assert ("estimator.gamma" in settings) == (settings["estimator"] == "reinforce")


def test_the_search_can_be_pickled_as_ray_does(tmp_path):
    search = make(tmp_path)
    search.suggest("a")
    copy = pickle.loads(pickle.dumps(search))
    copy.on_trial_complete("a", result(0.4, 2, **{FINISHED: True}))
    assert states(tmp_path) == [TrialState.COMPLETE]


def test_the_study_opens_with_optuna_alone(tmp_path):
    make(tmp_path).suggest("a")
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
    )
    assert optuna.get_all_study_names(storage) == ["s"]


def test_half_a_line_in_the_study_is_cut_off(tmp_path):
    study = optuna.create_study(study_name="s", storage=study_storage(tmp_path))
    study.add_trial(optuna.trial.create_trial(value=1.0))
    with open(tmp_path / "study.log", "ab") as file:
        file.write(b'{"op_code":4,"worker')  # as a full disk leaves it
    again = optuna.load_study(study_name="s", storage=study_storage(tmp_path))
    again.add_trial(optuna.trial.create_trial(value=2.0))
    assert [trial.value for trial in open_study(tmp_path, "s").trials] == [1.0, 2.0]


def test_a_write_that_a_full_disk_refuses_leaves_the_study_as_it_was(tmp_path, monkeypatch):
    study = optuna.create_study(study_name="s", storage=study_storage(tmp_path))
    before = (tmp_path / "study.log").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            study.add_trial(optuna.trial.create_trial(value=1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "study.log").read_bytes() == before
    study.add_trial(optuna.trial.create_trial(value=2.0))
    assert [trial.value for trial in open_study(tmp_path, "s").trials] == [2.0]


@pytest.mark.parametrize("place", [2, -1], ids=["middle", "end"])
def test_a_damaged_study_is_refused_until_the_damage_is_set_aside(tmp_path, place):
    make(tmp_path).suggest("a")
    path = tmp_path / "study.log"
    lines = path.read_bytes().splitlines(keepends=True)
    where = len(lines) if place == -1 else place
    path.write_bytes(b"".join([*lines[:where], b"\xffgarbage\n", *lines[where:]]))
    with pytest.raises(UserError, match=rf"damaged in line {where + 1}; .*--fix"):
        study(tmp_path)
    assert set_study_damage_aside(tmp_path) == 1
    assert states(tmp_path) == [TrialState.RUNNING]
    assert (tmp_path / "study.damaged").read_bytes() == b"\xffgarbage\n"


class Limits:
    """Limits of a search that draws x below a number."""

    def __init__(self, most):
        self.most = most

    def violation(self, settings):
        return "" if settings["x"] < self.most else f"x is {settings['x']}"


def test_a_proposal_that_violates_a_constraint_is_drawn_again_and_is_no_trial(tmp_path):
    guesses = [{"x": 0.9, "estimator": "gumbel"}, {"x": 0.1, "estimator": "gumbel"}]
    search = Search(Space(), sampler, 0, "min", "s", tmp_path, guesses, Limits(0.2))
    proposals = [search.suggest(str(number)) for number in range(6)]
    assert all(each["settings"]["x"] < 0.2 and REFUSED not in each for each in proposals)
    assert proposals[0]["settings"]["x"] == 0.1
    own = study_trials(tmp_path, "s")
    assert [each.number for each in own] == [each["number"] for each in proposals]
    others = [each for each in study(tmp_path).trials if each not in own]
    assert all(each.state is TrialState.FAIL for each in others)
    assert all(each.user_attrs["infeasible"].startswith("x is") for each in others)


def test_settings_that_were_asked_for_stay_enqueued_until_they_fit(tmp_path):
    """Only the estimator was asked for: x is drawn again with it."""
    search = Search(Space(), sampler, 0, "min", "s", tmp_path, [], Limits(0.2))
    for _ in range(2):  # the second by a driver that does not know of the first
        enqueue(study(tmp_path), {"estimator": "reinforce"}, "id")
    proposal = search.suggest("a")
    assert proposal["settings"]["estimator"] == "reinforce"
    assert proposal["settings"]["x"] < 0.2
    trials = study(tmp_path).trials
    assert len(trials) > 1, "the first draw was to violate the constraint"
    assert all(each.params["estimator"] == "reinforce" for each in trials)
    assert not any(each.state is TrialState.WAITING for each in trials)


def test_a_proposal_that_a_killed_driver_did_not_take_back_is_taken_back(tmp_path):
    make(tmp_path, guesses=[{"x": 0.9, "estimator": "gumbel"}]).suggest("a")
    search = Search(Space(), sampler, 0, "min", "s", tmp_path, [], Limits(0.5))
    assert search.suggest("b")["number"] > 0
    assert states(tmp_path)[0] is TrialState.FAIL


def test_drawing_again_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.execution.search.MOST_DRAWS", 5)
    search = Search(Space(), sampler, 0, "min", "s", tmp_path, [], Limits(-1.0))
    proposal = search.suggest("a")
    assert "so were 5 proposals in a row" in proposal[REFUSED]
    assert [each.number for each in study_trials(tmp_path, "s")] == [proposal["number"]]


def test_after_some_draws_in_vain_proposals_are_random(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.execution.search.MOST_DRAWS", 22)
    seeds = []

    def noted(seed):
        seeds.append(seed)
        return sampler(seed)

    Search(Space(), noted, 0, "min", "s", tmp_path, [], Limits(-1.0)).suggest("a")
    assert seeds == [0, *range(20)]  # at its creation, and for the first 20 draws
    assert len(study(tmp_path).trials) == 22
