"""`--set` fixes settings that would be searched; dependent settings follow."""

import pickle

import optuna
import pytest

import search_spaces
from search_spaces.engine.probe import explore
from search_spaces.engine.tpe import sampler
from tardis_core.config import make_config

ALL = ("gumbel", "reinforce")


def trials(space, count=40, models=("tardis",), task_scale="small", estimators=ALL):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(count):
        trial = study.ask()
        yield trial, space.space(trial, task_scale, estimators, models)


def fixed(task, **settings):
    names = {name.replace("__", "."): value for name, value in settings.items()}
    return search_spaces.fix(search_spaces.load(task), names)


def test_a_fixed_setting_is_returned_but_not_recorded_in_the_study():
    for trial, proposed in trials(fixed("ptb", memory__cells="32")):
        assert proposed["memory.cells"] == 32
        assert "memory.cells" not in trial.params


def test_fixing_nothing_changes_nothing():
    plain = [proposed for _, proposed in trials(search_spaces.load("ptb"))]
    assert [proposed for _, proposed in trials(fixed("ptb"))] == plain


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("memory.cells", "32", 32),
        ("memory.cells", 32, 32),
        ("memory.cells", "1000", 1000),  # outside the range, deliberately
        ("memory.content", "32", 32),  # one of the choices
        ("memory.content", "48", 48),  # none of the choices
        ("training.learning_rate", "1e-3", 1e-3),
        ("training.learning_rate", 1, 1.0),
        ("model.layer_norm", "true", True),
        ("model.layer_norm", "Off", False),
        ("model.layer_norm", "0", False),
        ("model.layer_norm", False, False),
    ],
)
def test_text_is_converted_to_the_searched_type(name, text, value):
    _, proposed = next(trials(search_spaces.fix(search_spaces.load("ptb"), {name: text})))
    assert proposed[name] == value
    assert type(proposed[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "memory.cells",
            "many",
            r"cells must be a whole number, not 'many'.*8 to 32, step 4",
        ),
        ("memory.cells", "8.5", "whole number"),
        ("memory.cells", True, "whole number"),
        ("memory.content", "wide", r"whole number, not 'wide'.*one of 16, 32, 64"),
        ("training.learning_rate", "nan", "must be a number"),
        ("training.learning_rate", "inf", "must be a number"),
        ("model.layer_norm", "maybe", r"true or false.*'maybe'"),
    ],
)
def test_a_value_of_the_wrong_type_names_the_rule_and_the_range(name, value, message):
    space = search_spaces.fix(search_spaces.load("ptb"), {name: value})
    with pytest.raises(ValueError, match=message):
        next(trials(space))


@pytest.mark.parametrize("estimator", ALL)
def test_conditions_follow_a_fixed_choice(estimator):
    for trial, proposed in trials(fixed("ptb", estimator=estimator)):
        assert proposed["estimator"] == estimator
        assert ("estimator.gamma" in trial.params) == (estimator == "reinforce")


def test_a_model_can_be_fixed():
    for trial, proposed in trials(fixed("ptb", model="lstm")):
        assert (proposed["model"], proposed["estimator"]) == ("lstm", "none")
        assert not any(name.startswith("memory.") for name in proposed.keys() | trial.params.keys())


def test_a_setting_that_is_never_searched_is_added():
    for _, proposed in trials(fixed("ptb", training__updates="500")):
        assert proposed["training.updates"] == "500"


def test_a_setting_of_another_branch_is_left_out_there():
    """Fixing gamma, searched or not, must not break the gumbel trials of the same sweep."""
    space = fixed("ptb", estimator__gamma="0.9", estimator__entropy_until="0.5")
    for _, proposed in trials(space):
        reinforce = proposed["estimator"] == "reinforce"
        assert (proposed.get("estimator.gamma") == 0.9) == reinforce
        assert ("estimator.entropy_until" in proposed) == reinforce
        estimator = proposed.pop("estimator")
        make_config("ptb", proposed.pop("model"), estimator, "small", overrides=proposed)


def test_a_setting_that_applies_nowhere_is_kept():
    """So that resolving the configuration reports it to the user."""
    for space, estimators in [
        (fixed("ptb", estimator__gamma="0.9"), ("gumbel",)),
        (fixed("ptb", estimator__gamma="0.9", estimator="gumbel"), ALL),
    ]:
        _, proposed = next(trials(space, estimators=estimators))
        assert proposed["estimator.gamma"] == "0.9"


def test_guesses_leave_out_fixed_settings():
    guesses = fixed("ptb", memory__cells="32").first_guesses("small", ALL)
    whole = search_spaces.load("ptb").first_guesses("small", ALL)
    assert guesses == [{k: v for k, v in point.items() if k != "memory.cells"} for point in whole]


def test_contradicting_and_repeated_guesses_are_dropped():
    (gumbel,) = fixed("ptb", estimator="gumbel").first_guesses("small", ALL)
    assert "estimator.gamma" not in gumbel
    rows = fixed("ptb", model__reset_gates="true").first_guesses("small", ALL)
    assert [row.get("estimator.auxiliary") for row in rows] == [None, True, False]


def test_a_fixed_space_can_be_fixed_further():
    space = search_spaces.fix(fixed("ptb", memory__cells="32"), {"estimator": "reinforce"})
    trial, proposed = next(trials(space))
    assert (proposed["memory.cells"], proposed["estimator"]) == (32, "reinforce")
    assert not {"memory.cells", "estimator"} & trial.params.keys()


@pytest.mark.parametrize("task", search_spaces.names())
def test_a_space_survives_pickling(task):
    space = fixed(task, memory__cells="32", estimator__gamma="0.9")
    bound = search_spaces.bind(space, "small", ALL)
    copy = pickle.loads(pickle.dumps(bound))
    one, two = (
        [each(study.ask()) for _ in range(20)]
        for each in (bound, copy)
        for study in [optuna.create_study(sampler=sampler(3))]
    )
    assert one == two
    assert copy.first_guesses() == space.first_guesses("small", ALL)


def test_a_bound_space_needs_only_a_trial():
    space = search_spaces.load("copy")
    bound = search_spaces.bind(space, "smoke", ["gumbel"], ["tardis", "lstm"])
    models = {bound(optuna.create_study().ask())["model"] for _ in range(40)}
    assert models == {"tardis", "lstm"}
    assert bound.first_guesses() == space.first_guesses("smoke", ["gumbel"], ["tardis", "lstm"])


class Captor:
    """As in Ray's OptunaSearch: only parameters suggested through it are passed on."""

    def __init__(self, trial):
        self.trial, self.captured = trial, {}

    def __getattr__(self, item):
        inner = getattr(self.trial, item)

        def listening(name, *arguments, **named):
            self.captured[name] = inner(name, *arguments, **named)
            return self.captured[name]

        return listening if item.startswith("suggest_") else inner


def test_it_works_with_a_wrapped_trial():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    captor = Captor(study.ask())
    proposed = fixed("copy", memory__cells="32").space(captor, "small", ALL)
    assert captor.captured.items() < proposed.items()
    assert proposed["memory.cells"] == {**captor.captured, **proposed}["memory.cells"] == 32


class Older:
    """A space with Optuna's older method names."""

    @staticmethod
    def space(trial, scale, estimators, models=()):
        uniform = trial.suggest_uniform("a", 0, 1)
        log = trial.suggest_loguniform("b", 1e-3, 1)
        return {"a": uniform, "b": log, "c": trial.suggest_discrete_uniform("c", 0, 1, 0.5)}

    @staticmethod
    def first_guesses(scale, estimators, models=()):
        return []


@pytest.mark.filterwarnings("ignore:suggest_:FutureWarning")
def test_older_suggest_methods_can_be_fixed():
    trial, proposed = next(trials(search_spaces.fix(Older, {"a": "0.5", "b": "0.1"})))
    assert (proposed["a"], proposed["b"], set(trial.params)) == (0.5, 0.1, {"c"})


def test_other_attributes_are_those_of_the_trial():
    class Numbered(Older):
        @staticmethod
        def space(trial, scale, estimators, models=()):
            return {"number": trial.number}

    assert [proposed["number"] for _, proposed in trials(search_spaces.fix(Numbered, {}), 3)] == [
        0,
        1,
        2,
    ]
    assert explore(Numbered, "small", ALL, ())[7].settings == {"number": 7}
