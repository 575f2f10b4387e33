"""Constraints: what they mean, and that nothing that violates one is proposed."""

import pytest

from orchestrator.planning.arguments import search_options
from orchestrator.planning.configs import trial_config
from orchestrator.planning.constraints import Constraint, check_satisfiable, limits_of
from orchestrator.planning.plan import SearchPlan, load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.planning.sizing import count_parameters
from tardis_core.build import build_network, build_task
from tardis_core.errors import UserError
from tardis_core.training.memory_need import least_bytes

SETTINGS = {"model": "lstm", "model.hidden": 32}


def plan_with(*constraints, **more):
    return SearchPlan(
        "s", "copy", "smoke", 4, "bce", "lower", constraints=tuple(constraints), **more
    )


@pytest.mark.parametrize(
    ("text", "limit"),
    [("parameters<2e6", ("parameters", 2e6)), (" memory_gb < 0.5 ", ("memory_gb", 0.5))],
)
def test_a_constraint_is_a_quantity_below_a_number(text, limit):
    assert Constraint.read(text) == limit


@pytest.mark.parametrize(
    "text", ["", "parameters", "parameters>5", "speed<5", "parameters<many", "parameters<-1"]
)
def test_anything_else_is_refused_when_the_sweep_is_planned(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="such as parameters<2e6, not"):
        plan_from(search_options(["copy", "--smoke", "--constraint", text]))


def test_a_grid_has_no_constraint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["copy", "--smoke", "--sampler", "grid", "--constraint", "parameters<5"]
    with pytest.raises(UserError, match="a grid has no --constraint"):
        plan_from(search_options(words))


def test_the_plan_keeps_the_constraints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["copy", "--smoke", "--name", "s", "--constraint", "parameters<9"]
    plan = plan_from(search_options([*words, "--constraint", "memory_gb<1"]))
    plan.folder.mkdir(parents=True)
    plan.save()
    assert load_plan("s").constraints == ("parameters<9", "memory_gb<1")


@pytest.mark.parametrize("model", ["lstm", "tardis", "clockwork"])
def test_parameters_are_counted_exactly_without_making_them(model):
    config = trial_config("copy", "smoke", 0, {"model": model})
    signature = build_task(config, None).signature
    network = build_network(config, signature)
    assert count_parameters(config, signature) == sum(p.numel() for p in network.parameters())


def test_a_violation_says_the_value_and_the_limit():
    config = trial_config("copy", "smoke", 0, SETTINGS)
    count = count_parameters(config, build_task(config, None).signature)
    assert limits_of(plan_with(f"parameters<{count + 1}"), None).violation(SETTINGS) == ""
    text = limits_of(plan_with(f"parameters<{count}"), None).violation(SETTINGS)
    assert text == f"parameters is {count:g}, not below {count:g}"


def test_every_seed_of_a_trial_needs_its_memory():
    config = trial_config("copy", "smoke", 0, SETTINGS)
    need = sum(least_bytes(config).values()) / 1e9
    constraint = f"memory_gb<{1.5 * need}"
    assert not limits_of(plan_with(constraint), None).violation(SETTINGS)
    assert limits_of(plan_with(constraint, seeds_per_trial=2), None).violation(SETTINGS)


def test_constraints_that_nothing_keeps_are_refused_before_the_sweep_starts():
    check_satisfiable(plan_with("parameters<1e9"), None)
    with pytest.raises(UserError, match=r"none of 200 .* parameters<10: of the last"):
        check_satisfiable(plan_with("parameters<10", models=("lstm",)), None)


def test_without_constraints_there_are_no_limits():
    assert limits_of(plan_with(), None) is None
