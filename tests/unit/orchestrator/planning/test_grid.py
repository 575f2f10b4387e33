"""A grid search: as many trials as there are combinations."""

from pathlib import Path

import pytest

from orchestrator.planning.arguments import search_options
from orchestrator.planning.planner import plan_from
from tardis_core.errors import UserError

SPACE = """
def space(trial, scale, estimators):
    return {
        "model": "tardis",
        "estimator": "gumbel",
        "memory.cells": trial.suggest_int("memory.cells", 4, 12, step=4),
        "training.clip": trial.suggest_categorical("training.clip", [0.5, 1.0]),
    }
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def grid(*words):
    return plan_from(search_options(["copy", "--smoke", "--sampler", "grid", *words]))


@pytest.mark.parametrize(("words", "trials"), [([], 6), (["--trials", "4"], 4)])
def test_it_has_a_trial_for_each_combination_unless_fewer_are_asked_for(words, trials):
    Path("grid.py").write_text(SPACE)
    plan = grid("--space", "grid.py", *words)
    assert (plan.trials, plan.sampler) == (trials, "grid")


def test_fixed_settings_make_it_smaller():
    Path("grid.py").write_text(SPACE)
    assert grid("--space", "grid.py", "--set", "training.clip=1.0").trials == 3


def test_a_range_without_steps_is_refused():
    with pytest.raises(UserError, match=r"a grid needs steps, and .* can be any number .* --set"):
        grid()
