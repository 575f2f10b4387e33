"""Spaces by name and from a user's file; every error is one clear sentence."""

import pickle

import optuna
import pytest

import search_spaces

GOOD = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Width:
    low: int
    high: int

HIDDEN = Width(8, 64)

def space(trial, scale, estimators):
    return {
        "model": "tardis",
        "estimator": trial.suggest_categorical("estimator", list(estimators)),
        "model.hidden": trial.suggest_int("model.hidden", HIDDEN.low, HIDDEN.high),
    }
"""
GUESSES = """
def first_guesses(scale, estimators):
    return [{"estimator": name, "model.hidden": 16} for name in estimators]
"""


def write(folder, text, name="mine.py"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def ask(space, *arguments):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return space.space(study.ask(), "smoke", ("gumbel",), *arguments)


def test_names_are_the_tasks_and_not_the_helpers():
    assert {"copy", "ptb", "repeat-copy"} <= set(search_spaces.names())
    assert not {"engine", "repeat_copy"} & set(search_spaces.names())


@pytest.mark.parametrize("task", ["parity", "common", "", "../copy"])
def test_an_unknown_task_is_answered_with_the_choices(task):
    with pytest.raises(ValueError, match="choose one of: adding, copy, mqar, priority-sort, ptb"):
        search_spaces.load(task)


@pytest.mark.parametrize("text", [GOOD, GOOD + GUESSES])
def test_a_users_file_is_a_space(tmp_path, text):
    space = search_spaces.load_file(write(tmp_path, text))
    assert 8 <= ask(space)["model.hidden"] <= 64
    expected = [{"estimator": "gumbel", "model.hidden": 16}] if GUESSES in text else []
    assert space.first_guesses("smoke", ("gumbel",)) == expected
    assert ask(search_spaces.fix(space, {"model.hidden": "12"}))["model.hidden"] == 12
    table = dict(search_spaces.describe(space, "smoke", ("gumbel",)))
    assert table["model.hidden"] == "8 to 64"


def test_a_space_is_pickled_as_its_source(tmp_path):
    path = write(tmp_path, GOOD + GUESSES)
    bound = search_spaces.bind(search_spaces.load_file(str(path)), "smoke", ("gumbel",))
    kept = pickle.dumps(bound)
    path.write_text("not Python any more")
    again = pickle.loads(kept)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    assert again(study.ask())["estimator"] == "gumbel"
    assert again.first_guesses() == bound.first_guesses()


def test_other_models_need_a_file_that_accepts_them(tmp_path):
    with pytest.raises(ValueError, match=r"mine\.py: to search the models lstm, space must take"):
        ask(search_spaces.load_file(write(tmp_path, GOOD)), ("lstm",))
    text = "def space(trial, scale, estimators, models=()):\n    return {'model': models[0]}\n"
    assert ask(search_spaces.load_file(write(tmp_path, text)), ("lstm",)) == {"model": "lstm"}


@pytest.mark.parametrize(
    "optional", ["task=''", "*, task=''", "task='', models=()", "models=(), task=''", "**named"]
)
def test_a_file_for_several_tasks_is_given_the_task(tmp_path, optional):
    task = "named['task']" if optional == "**named" else "task"
    text = f"def space(trial, scale, estimators, {optional}):\n    return {{'task': {task}}}\n"
    space = search_spaces.load_file(write(tmp_path, text), "recall")
    assert ask(space) == ask(pickle.loads(pickle.dumps(space))) == {"task": "recall"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def space(:\n", r"mine\.py: line 1: SyntaxError: "),
        ("x = 1\ny = = 2\n", r"mine\.py: line 2: SyntaxError: invalid syntax"),
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 / 0\n", "ZeroDivisionError"),
        (b"\xff\xfe\x00", "must be a Python file"),
        (b"x = 1\x00\n", "must be a Python file"),
        ("", r"must define space\(trial, scale, estimators\).*defines: none.*copy, mqar"),
        ("def spaces(): ...\n", "defines: spaces"),
        ("space = 3\n", "must define space"),
        ("def space(trial): ...\n", r"space must be called as space\(trial, .*not space\(trial\)"),
        (GOOD + "first_guesses = []\n", r"must define first_guesses\(scale, estimators\)"),
        (GOOD + "def first_guesses(): ...\n", r"first_guesses must be called as"),
    ],
)
def test_a_broken_file_is_one_clear_sentence(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        search_spaces.load_file(write(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["absent.py", "."])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(ValueError, match="must be a Python file that can be read, not"):
        search_spaces.load_file(tmp_path / name)


def test_a_space_that_fails_is_named_with_its_error(tmp_path):
    text = "def space(trial, scale, estimators):\n    return {}[scale]\n"
    space = search_spaces.load_file(write(tmp_path, text))
    with pytest.raises(ValueError, match=r"mine\.py: space must not fail, .* KeyError: 'smoke'"):
        ask(space)


def test_a_space_must_return_settings(tmp_path):
    space = search_spaces.load_file(write(tmp_path, "def space(trial, scale, estimators): ...\n"))
    with pytest.raises(ValueError, match="must return a dictionary of settings, not None"):
        ask(space)
