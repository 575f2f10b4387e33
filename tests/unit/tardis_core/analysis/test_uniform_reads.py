"""A trained TARDIS that reads anywhere: the same weights, other cells."""

import pytest
import torch

from tardis_core.analysis.uniform_reads import with_uniform_reads
from tardis_core.build import build_network, build_task
from tardis_core.config import make_config
from tardis_core.errors import UserError


def network_and_task(model: str):
    config = make_config("copy", model, scale="smoke", overrides={"model.hidden": 8})
    task = build_task(config, None)
    return build_network(config, task.signature), task.examples("valid", [0, 1])


def test_the_seed_chooses_the_cells_and_nothing_else_random_is_touched():
    network, batch = network_and_task("tardis")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    reads = [
        with_uniform_reads(network, seed)(batch.inputs)[0].hidden.reads.read_TB
        for seed in (0, 0, 1)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(reads[0], reads[1])
    assert not torch.equal(reads[0], reads[2])


def test_the_weights_are_those_of_the_network_and_it_reads_as_before():
    network, batch = network_and_task("tardis")
    expected = network(batch.inputs)[0].logits_TBO
    uniform = with_uniform_reads(network)
    assert not torch.equal(uniform(batch.inputs)[0].logits_TBO, expected)
    assert torch.equal(network(batch.inputs)[0].logits_TBO, expected)
    own = dict(network.named_parameters())
    assert all(own[name] is parameter for name, parameter in uniform.named_parameters())


def test_another_model_is_refused_with_the_one_to_choose():
    with pytest.raises(UserError, match="this model is Lstm; choose a run of --model tardis"):
        with_uniform_reads(network_and_task("lstm")[0])
