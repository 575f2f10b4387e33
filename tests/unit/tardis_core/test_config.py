"""Settings: where they come from, how they are read, and how a wrong one is answered."""

import dataclasses
import itertools
import json
import typing
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tardis_core.config import config_from_dict, convert, make_config
from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.scales import SCALES
from tardis_core.tasks.base import TASKS
from tests.support.systems import SYSTEMS

SECTIONS = ("task", "model", "memory", "estimator", "training")


# Where values come from


def preset(monkeypatch, settings: dict[str, Any], **recipes: dict[str, Any]) -> None:
    """Give the task copy these presets and recipes, for one test."""
    monkeypatch.setattr(TASKS.get("copy"), "presets", dict.fromkeys(SCALES, settings))
    monkeypatch.setattr(TASKS.get("copy"), "recipes", recipes)


def hidden(**more: Any) -> int:
    return make_config("copy", **more).model_settings.hidden


def test_the_dataclass_has_the_first_word(monkeypatch):
    preset(monkeypatch, {})
    assert hidden() == 128


def test_the_preset_beats_the_dataclass(monkeypatch):
    preset(monkeypatch, {"model.hidden": 10})
    assert hidden() == 10


def test_the_recipe_of_the_model_beats_the_preset(monkeypatch):
    preset(monkeypatch, {"model.hidden": 10}, tardis={"model.hidden": 20})
    assert (hidden(), hidden(model="lstm")) == (20, 10)


def test_the_recipe_of_the_estimator_beats_that_of_the_model(monkeypatch):
    recipes = {"tardis": {"model.hidden": 20}, "reinforce": {"model.hidden": 25}}
    preset(monkeypatch, {"model.hidden": 10}, **recipes)
    assert (hidden(estimator="reinforce"), hidden(estimator="gumbel")) == (25, 20)


def test_the_recipe_of_both_beats_that_of_either(monkeypatch):
    recipes = {"reinforce": {"model.hidden": 25}, "tardis:reinforce": {"model.hidden": 27}}
    preset(monkeypatch, {"model.hidden": 10}, **recipes)
    assert hidden(estimator="reinforce") == 27
    assert hidden(model="dntm-discrete", estimator="reinforce") == 25


def test_a_recipe_of_one_scale_beats_that_of_all(monkeypatch):
    recipes = {"tardis@small": {"model.hidden": 21}, "tardis": {"model.hidden": 20}}
    preset(monkeypatch, {"model.hidden": 10}, **recipes)
    assert (hidden(scale="small"), hidden(scale="paper")) == (21, 20)
    assert hidden(model="lstm", scale="small") == 10


def test_who_a_recipe_is_for_counts_before_its_scale(monkeypatch):
    recipes = {"tardis@small": {"model.hidden": 21}, "tardis:gumbel": {"model.hidden": 24}}
    preset(monkeypatch, {"model.hidden": 10}, **recipes)
    assert hidden(scale="small") == 24


def test_the_user_has_the_last_word(monkeypatch):
    preset(monkeypatch, {"model.hidden": 10}, gumbel={"model.hidden": 25})
    assert hidden(overrides={"model.hidden": 30}) == 30


def test_the_scale_chooses_the_preset():
    updates = [make_config("copy", scale=scale).training.updates for scale in SCALES]
    assert updates == sorted(set(updates))  # smoke, small, paper


def test_a_preset_of_tardis_leaves_out_what_another_model_does_not_have(monkeypatch):
    preset(monkeypatch, {"model.hidden": 10, "model.reset_bias": 3.0, "memory.cells": 5})
    assert "model.reset_bias" not in make_config("copy", "lstm").settings()
    assert hidden(model="lstm") == 10


def test_gumbel_is_the_estimator_unless_another_is_named():
    assert make_config("copy").estimator == "gumbel"
    assert make_config("copy", "lstm").estimator == "none"


# Every task, model and estimator


@pytest.mark.parametrize("task", TASKS.names())
def test_every_preset_resolves_for_every_model_and_estimator(task):
    assert set(TASKS.get(task).presets) == set(SCALES)
    for scale, (model, estimator) in itertools.product(SCALES, SYSTEMS):
        config = make_config(task, model, estimator, scale)
        assert (config.task, config.model, config.scale) == (task, model, scale)


@pytest.mark.parametrize("task", TASKS.names())
def test_presets_and_recipes_name_settings_that_some_run_has(task):
    runs = [make_config(task, *pair).settings() for pair in SYSTEMS]
    parts = [*TASKS.get(task).presets.values(), *TASKS.get(task).recipes.values()]
    assert {key for part in parts for key in part} <= {key for run in runs for key in run}


@pytest.mark.parametrize("task", TASKS.names())
def test_recipes_belong_to_a_model_or_an_estimator_or_both(task):
    for key in TASKS.get(task).recipes:
        name, _, scale = key.partition("@")
        assert scale in ("", *SCALES)
        model, _, estimator = name.rpartition(":")
        assert name in {*MODELS.names(), *ESTIMATORS.names()} or (
            model in MODELS.names() and estimator in ESTIMATORS.names()
        )


def values_near(kind: Any, default: Any) -> st.SearchStrategy[Any]:
    """Values of a setting's type that stay near its default, where they are mostly valid."""
    if typing.get_origin(kind) is Literal:
        return st.sampled_from(typing.get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(default, default + 9)
    return st.floats(*sorted((0.5 * default, default))) if default else st.floats(0, 0.9)


def overrides_of(config: Any) -> st.SearchStrategy[dict[str, Any]]:
    strategies = {
        f"{section}.{field.name}": values_near(
            typing.get_type_hints(type(values))[field.name], getattr(values, field.name)
        )
        for section, values in config.sections().items()
        for field in dataclasses.fields(values)
    }
    return st.fixed_dictionaries({}, optional=strategies)


@pytest.mark.parametrize("task", TASKS.names())
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_configuration_survives_json_and_the_command_line(task, data):
    model, estimator = data.draw(st.sampled_from(SYSTEMS))
    scale, seed = data.draw(st.sampled_from(SCALES)), data.draw(st.integers(0, 2**31))
    overrides = data.draw(overrides_of(make_config(task, model, estimator, scale)))
    try:
        config = make_config(task, model, estimator, scale, seed, overrides)
    except UserError:  # two settings that do not go together
        assume(False)
    assert config_from_dict(json.loads(json.dumps(config.to_dict()))) == config
    as_text = {key: str(value) for key, value in overrides.items()}
    assert make_config(task, model, estimator, scale, seed, as_text) == config
    assert overrides.items() <= config.settings().items()


def test_a_configuration_cannot_be_changed():
    config = make_config("copy", estimator="reinforce")
    assert tuple(config.sections()) == SECTIONS
    for values in config.sections().values():
        field = dataclasses.fields(values)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(values, field, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1


def test_a_model_without_memory_has_no_such_section():
    assert list(make_config("copy", "lstm").sections()) == ["task", "model", "training"]


# How text is read


def test_a_switch_is_read_from_words():
    for text in ("YES", True):
        assert make_config("copy", overrides={"model.layer_norm": text}).model_settings.layer_norm
    for text in ("off", 0):
        config = make_config("copy", overrides={"model.reset_gates": text})
        assert config.model_settings.reset_gates is False


@pytest.mark.parametrize(
    ("key", "value", "kind", "expected"),
    [
        ("a.b", "12", int, 12),
        ("a.b", 12.0, int, 12),
        ("a.b", "1e-3", float, 0.001),
        ("a.b", 1, float, 1.0),
        ("a.b", "text", str, "text"),
        ("a.b", "cosine", Literal["linear", "cosine"], "cosine"),
        ("a.b", "10", Literal[5, 10], 10),
        ("a.b", 10, Literal[5, 10], 10),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(key, value, kind, expected):
    read = convert(key, value, kind)
    assert (read, type(read)) == (expected, type(expected))


# What is wrong


def refused(key: str, value: Any) -> str:
    with pytest.raises(UserError) as error:
        make_config("copy", estimator="reinforce", overrides={key: value})
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "rule", "values"),
    [
        (
            "model.hidden",
            "a whole number",
            ["many", "", "1.5", 1.5, "1e3", True, None, float("inf"), float("nan"), 10**400],
        ),
        (
            "training.learning_rate",
            "a number",
            ["fast", "", "inf", "nan", True, None, 10**400],
        ),
        ("model.layer_norm", "true or false", ["maybe", "", 2, None]),
        (
            "training.decay",
            "one of constant, linear, cosine",
            ["slow", "", 3, None, ["linear"]],
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_the_rule(key, rule, values):
    for value in values:
        assert refused(key, value) == f"{key} must be {rule}, not {value!r}"


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("memory.cells", 0, "at least 1"),
        ("memory.cells", -3, "at least 1"),
        ("memory.address_density", 0.0, "in (0, 1]"),
        ("model.hidden", 0, "at least 1"),
        ("model.dropout", 1.0, "at least 0 and below 1"),
        ("estimator.gamma", 1.1, "in [0, 1]"),
        ("task.longest", 0, "at most task.longest"),
        ("training.batch", 0, "at least 1"),
        ("training.updates", 0, "at least 1"),
        ("training.evaluate_every", 0, "at least 1"),
        ("training.clip", -0.5, "not be negative"),
        ("training.learning_rate", 0.0, "above 0 and below 10"),
        ("training.decay_from", 1.0, "at least 0 and below 1"),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_rule_and_the_value(key, value, rule):
    message = refused(key, value)
    assert key in message
    assert rule in message
    assert str(value) in message


def test_an_unknown_setting_suggests_the_close_one_and_lists_all():
    assert refused("memory.cels", 4) == (
        "unknown setting 'memory.cels' (did you mean memory.cells?); memory has: memory.address, "
        "memory.address_density, memory.address_scale, memory.attention, memory.cells, "
        "memory.content, memory.gain, memory.match, memory.vary_cells_from"
    )


def test_an_unknown_setting_with_nothing_close_lists_all():
    message = refused("task.zzz", 4)
    assert "did you mean" not in message
    assert "task.longest" in message


def test_an_estimator_without_settings_says_so():
    with pytest.raises(UserError, match=r"estimator has: none$"):
        make_config("copy", estimator="gumbel", overrides={"estimator.gamma": 0.9})


@pytest.mark.parametrize("key", ["cells", "memry.cells", "", "."])
def test_an_unknown_section_lists_those_of_the_run(key):
    assert refused(key, 4).endswith("of this run: task, model, memory, estimator, training")


def test_a_section_of_another_model_is_unknown():
    with pytest.raises(UserError, match=r"of this run: task, model, training$"):
        make_config("copy", "lstm", overrides={"memory.cells": 4})


def test_a_model_that_makes_no_choice_takes_no_estimator():
    with pytest.raises(UserError) as error:
        make_config("copy", "lstm", "gumbel")
    assert str(error.value) == (
        "model 'lstm' makes no discrete choice, so estimator 'gumbel' does not apply; "
        "leave it out, or choose a model that does: armin, dntm-discrete, tardis"
    )


@pytest.mark.parametrize("name", ["none", "nope"])
def test_a_model_that_makes_choices_needs_an_estimator_that_there_is(name):
    with pytest.raises(UserError, match=f"unknown estimator '{name}'.* gumbel, .* soft"):
        make_config("copy", "tardis", name)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ({"task": "nope"}, "task"),
        ({"model": "nope"}, "model"),
        ({"estimator": "nope"}, "estimator"),
        ({"scale": "nope"}, "scale"),
    ],
)
def test_an_unknown_name_lists_the_choices(names, kind):
    with pytest.raises(UserError, match=f"unknown {kind} 'nope'; choose one of: \\w+"):
        make_config(**{"task": "copy", **names})


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_must_be_one_that_all_generators_take(seed):
    with pytest.raises(UserError, match=f"seed must be .*, not {seed}$"):
        make_config("copy", seed=seed)


def test_a_system_is_called_by_its_model_and_its_estimator():
    assert make_config("copy", "tardis", "reinforce").system == "tardis reinforce"
    assert make_config("copy", "lstm").system == "lstm"


def saved(**changes):
    values = make_config("copy", estimator="reinforce").to_dict()
    return {**values, "settings": {**values["settings"], **changes}}


def test_a_run_saved_with_retired_settings_that_were_off_still_loads():
    off = {"memory.fewest": 1.0, "memory.fewest_from": 0.0, "training.best_from": 0.0}
    off |= {"estimator.entropy_final": 0.0, "estimator.tried": 0, "estimator.copies": 1}
    old = saved(**off)
    assert config_from_dict(old) == make_config("copy", estimator="reinforce")


def test_a_run_saved_with_fewer_cells_in_its_last_part_still_loads():
    late = {"memory.fewest": 0.25, "memory.fewest_from": 0.75, "training.best_from": 0.75}
    config = config_from_dict(saved(**late))
    assert config.settings()["memory.vary_cells_from"] == 0.75


def test_a_run_saved_with_a_retired_setting_that_was_on_does_not_load():
    for old in ({"memory.fewest": 0.5}, {"estimator.entropy_final": -0.1}):
        with pytest.raises(UserError, match=f"unknown setting '{next(iter(old))}'"):
            config_from_dict(saved(**old))


@pytest.mark.parametrize(
    ("old", "now"), [("tried", "window of the estimator counterfactual"), ("copies", "rloo")]
)
def test_a_setting_that_became_an_estimator_says_which(old, now):
    with pytest.raises(UserError, match=rf"estimator\.{old} is no setting.* it is .*{now}.* now"):
        config_from_dict(saved(**{f"estimator.{old}": 8}))
    with pytest.raises(UserError, match=rf"estimator\.{old} is no setting"):
        make_config("copy", estimator="reinforce", overrides={f"estimator.{old}": 8})


def test_a_growth_that_was_counted_in_updates_is_the_same_share_of_them():
    old = make_config("copy", overrides={"training.updates": 10_000}).to_dict()
    del old["settings"]["task.grow_share"]
    config = config_from_dict({**old, "settings": {**old["settings"], "task.grow_until": 4_000}})
    assert config.task_settings.grow_share == 0.4
