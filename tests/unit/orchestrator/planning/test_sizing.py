"""`compare --parameters N`: all candidates have about N parameters."""

import pytest

from orchestrator.planning import sizing
from orchestrator.planning.arguments import comparison_options
from orchestrator.planning.configs import trial_config
from orchestrator.planning.planner import plan_from
from orchestrator.planning.sizing import count_parameters, hidden_size
from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS as REGISTERED


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def sizes(plan):
    """The number of parameters of each candidate."""
    configs = [trial_config(plan.task, plan.scale, 0, each.settings) for each in plan.candidates]
    signature = build_task(configs[0], None).signature
    return [count_parameters(config, signature) for config in configs]


def plan(*words):
    return plan_from(comparison_options(["copy", "--scale", "small", *words]))


MODELS = ("lstm", "clockwork", "ntm", "hmlstm", "dntm-discrete:gumbel", "tardis:reinforce")


def test_every_model_gets_about_the_parameters_that_were_asked_for():
    words = [word for model in MODELS for word in ("--candidate", model)]
    sized = plan(*words, "--parameters", "60000")
    for model, size in zip(MODELS, sizes(sized), strict=True):
        assert size == pytest.approx(60_000, rel=0.03), model
    hidden = [each.settings["model.hidden"] for each in sized.candidates]
    assert len(set(hidden)) > 3
    assert [each.label for each in sized.candidates][-1] == "tardis reinforce"


@pytest.fixture
def built_on(monkeypatch):
    """The devices of the networks that are built to be counted."""
    devices = []

    def build(*arguments):
        network = build_network(*arguments)
        devices.append(next(network.parameters()).device.type)
        return network

    monkeypatch.setattr(sizing, "build_network", build)
    return devices


def test_parameters_are_counted_without_initial_weights(built_on):
    base = make_config("snli", scale="smoke")
    signature = build_task(base, load_data(base, None, "standin")).signature
    for model in REGISTERED.names():
        config = make_config("snli", model, scale="smoke", overrides={"model.hidden": 8})
        network = build_network(config, signature)
        expected = sum(each.numel() for each in network.parameters())
        assert count_parameters(config, signature) == expected, model
    assert set(built_on) == {"meta"}


def test_the_papers_rows_are_sized_too():
    assert sizes(plan("--parameters", "30000")) == pytest.approx([30_000] * 3, rel=0.03)


def test_a_hidden_size_that_is_given_stays():
    own = plan("--candidate", "lstm,model.hidden=20", "--parameters", "60000")
    assert own.candidates[0].settings["model.hidden"] == "20"
    every = plan("--candidate", "lstm", "--set", "model.hidden=24", "--parameters", "60000")
    assert every.candidates[0].settings["model.hidden"] == "24"


def test_a_size_that_a_model_cannot_have_is_refused():
    with pytest.raises(UserError, match=r"near a size that lstm can have, such as \d+ with .*=8"):
        plan("--candidate", "lstm", "--parameters", "10")


def test_without_parameters_the_sizes_are_those_of_the_scale():
    assert "model.hidden" not in plan("--candidate", "lstm").candidates[0].settings


@pytest.mark.parametrize(
    ("parameters", "hidden"), [(1, 8), (100, 10), (109, 10), (111, 11), (10**6, 1000)]
)
def test_the_hidden_size_with_the_nearest_number_of_parameters_is_chosen(parameters, hidden):
    assert hidden_size(lambda size: size * size, parameters) == hidden
