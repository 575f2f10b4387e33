"""A trained TARDIS with fewer or more cells than it was trained with."""

import pytest
import torch

from tardis_core.analysis.other_cells import with_cells
from tardis_core.analysis.uniform_reads import with_uniform_reads
from tardis_core.build import build_network, build_task
from tardis_core.config import make_config
from tardis_core.errors import UserError


def network_and_task(model="tardis", **settings):
    overrides = {"model.hidden": 8, "memory.cells": 6, "task.longest": 9, **settings}
    if model != "tardis":
        overrides.pop("memory.cells")
    config = make_config("copy", model, scale="smoke", overrides=overrides)
    task = build_task(config, None)
    return build_network(config, task.signature), task.examples("valid", [0, 1])


def reads(network, batch):
    return network(batch.inputs)[0].hidden.reads.read_TB


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_the_same_number_changes_nothing(backend):
    network, batch = network_and_task(**{"model.backend": backend})
    same = with_cells(network, 6)
    expected = network(batch.inputs)[0].logits_TBO
    assert torch.equal(same(batch.inputs)[0].logits_TBO, expected)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("cells", [2, 6, 40])
def test_it_reads_and_writes_all_cells_of_the_new_number(cells, backend):
    network, batch = network_and_task(**{"model.backend": backend})
    other = with_cells(network, cells)
    steps = len(batch.inputs)
    written = other(batch.inputs)[0].hidden.reads.written_TB
    in_order = torch.arange(min(cells, steps))
    assert torch.equal(written[: len(in_order), 0], in_order)
    assert int(reads(other, batch).max()) < cells
    assert len(reads(network, batch).unique()) <= 6  # the model itself has not changed


def test_old_cells_keep_their_addresses_and_the_seed_decides_the_new_ones():
    network, _ = network_and_task()
    old_KA = network.model.address_KA
    first, again, another = (with_cells(network, 9, seed).model for seed in (0, 0, 1))
    assert torch.equal(first.address_KA[:6], old_KA)
    assert torch.equal(first.address_KA, again.address_KA)
    assert not torch.equal(first.address_KA[6:], another.address_KA[6:])
    filled = (first.address_KA != 0).sum(1)
    assert torch.equal(filled, filled[:1].expand(9))
    assert torch.equal(with_cells(network, 4).model.address_KA, old_KA[:4])


def test_w_u_is_zero_for_new_cells_and_kept_for_old_ones():
    network, _ = network_and_task()
    old_PK = network.model.addressing.W_u.weight
    new_PK = with_cells(network, 9).model.addressing.W_u.weight
    assert torch.equal(new_PK[:, :6], old_PK)
    assert not new_PK[:, 6:].any()
    assert torch.equal(with_cells(network, 4).model.addressing.W_u.weight, old_PK[:, :4])


def test_uniform_reads_draw_from_all_of_them():
    network, batch = network_and_task()
    uniform = with_uniform_reads(with_cells(network, 50))
    assert int(reads(uniform, batch).max()) >= 6


def test_what_cannot_be_is_one_sentence():
    with pytest.raises(UserError, match="this model is Lstm; choose a run of --model tardis"):
        with_cells(network_and_task("lstm")[0], 9)
    with pytest.raises(UserError, match="--cells must be at least 1, not 0"):
        with_cells(network_and_task()[0], 0)
