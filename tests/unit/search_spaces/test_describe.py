"""The space as a table: each parameter once, with its range and condition."""

import pytest

import search_spaces
from search_spaces.engine.probe import explore
from tardis_core.scales import SCALES

ALL = ("gumbel", "reinforce")


@pytest.mark.parametrize("task", search_spaces.names())
def test_every_parameter_is_listed_once(task):
    space = search_spaces.load(task)
    for scale in SCALES:
        names = [name for name, _ in search_spaces.describe(space, scale, ALL)]
        asked = {name for probe in explore(space, scale, ALL, ("tardis",)) for name in probe.values}
        assert len(names) == len(set(names)), scale
        assert set(names) == asked, scale


def test_ranges_and_conditions_are_words():
    table = dict(search_spaces.describe(search_spaces.load("copy"), "small", ALL))
    assert table["estimator"] == "one of gumbel, reinforce"
    assert table["model"] == "tardis"
    assert table["memory.cells"] == "8 to 32, step 4"
    assert table["memory.content"] == "one of 16, 32, 64"
    assert table["task.draws"] == "1 to 3"
    assert table["model.layer_norm"] == "one of true, false"
    assert table["training.learning_rate"] == "0.0003 to 0.01, log"
    assert table["estimator.gamma"] == "0.8 to 1; only if estimator is reinforce"
    share = "0 to 1, step 0.1; only if estimator.auxiliary is true"
    assert table["estimator.auxiliary_share"] == share
    assert table["model.reset_bias"] == "0 to 4, step 1; only if model.reset_gates is true"


def test_settings_of_one_of_several_models_have_a_condition():
    space = search_spaces.load("ptb")
    table = dict(search_spaces.describe(space, "small", ALL, ("tardis", "lstm")))
    assert table["memory.cells"].endswith("; only if model is tardis")
    assert table["estimator"].endswith("; only if model is tardis")
    assert "only" not in table["model.hidden"]


def test_impossible_settings_are_not_listed():
    table = dict(search_spaces.describe(search_spaces.load("ptb"), "small", ("gumbel",)))
    assert not any(name.startswith("estimator.") for name in table)


def test_fixed_settings_are_labelled():
    settings = {"memory.cells": "32", "estimator.gamma": "0.9", "training.updates": "50"}
    space = search_spaces.fix(search_spaces.load("ptb"), settings)
    table = dict(search_spaces.describe(space, "small", ALL))
    assert table["memory.cells"] == "32 (fixed)"
    assert table["estimator.gamma"] == "0.9 (fixed); only if estimator is reinforce"
    assert table["training.updates"] == "50 (fixed)"


class Unusual:
    """Ranges that change, and a condition on a number."""

    @staticmethod
    def space(trial, scale, estimators, models=()):
        low = trial.suggest_int("low", 1, 6)
        settings = {"low": low, "high": trial.suggest_int("high", low, 10)}
        return settings | ({"odd": trial.suggest_float("odd", 0, 1)} if low % 2 else {})


def test_changing_ranges_and_complex_conditions_are_abbreviated():
    table = dict(search_spaces.describe(Unusual, "small", ALL))
    assert table["high"].count(", or ") == 3
    assert table["high"].endswith("...")
    assert table["odd"] == "0 to 1; in some trials only"
