"""Memory models against programs written from their papers alone, with every parameter random."""

import pytest
import torch

from tardis_core.models.baselines import dnc, sam
from tests.support import numpy_memories
from tests.support.small_baselines import B, D, T, assert_outputs, make, run
from tests.support.small_tardis import inputs, parameters_of


@pytest.mark.parametrize("seed", range(3))
def test_dnc(seed):
    model, x = make("dnc", seed=seed, cells=4, content=3, heads=2), inputs(T, B, D)
    p = parameters_of(model)
    hidden, state = run(model, x)
    assert_outputs(hidden, lambda x: numpy_memories.dnc(p, x, 4, 3, 2), x)
    expected = numpy_memories.dnc(p, x[:, 1].numpy(), 4, 3, 2)
    for actual, name in ((state.usage_BK, "usage"), (state.link_BKK, "link")):
        torch.testing.assert_close(actual[1], torch.from_numpy(expected[name]), rtol=0, atol=1e-10)


def test_dnc_allocates_the_free_cells_in_the_order_of_their_usage():
    used = torch.tensor([[1.0, 0.0, 0.5, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(
        dnc.allocation(used),
        torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64),
        rtol=0,
        atol=1e-5,
    )
    half = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    expected = torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(dnc.allocation(half), expected, rtol=0, atol=1e-5)


def test_the_links_of_dnc_lead_from_cell_to_cell_in_the_order_of_the_writes():
    cells = torch.eye(3, dtype=torch.float64).unsqueeze(1)
    links, last = torch.zeros(1, 3, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    for n in (2, 0, 1):
        links, last = dnc.link(links, last, cells[n]), cells[n]
    assert links[0].nonzero().tolist() == [[0, 2], [1, 0]]  # 0 after 2, 1 after 0


@pytest.mark.parametrize("seed", range(3))
def test_sam(seed):
    model, x = make("sam", seed=seed, cells=6, content=3, nearest=2), inputs(12, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert_outputs(hidden, lambda x: numpy_memories.sam(p, x, 6, 3, 2), x)
    taken = numpy_memories.sam(p, x[:, 0].numpy(), 6, 3, 2)["taken"].tolist()
    assert len(set(taken)) > 2  # the program above has met more than the first cells


def test_sam_reads_as_many_cells_as_asked_for_and_changes_one_more():
    model, x = make("sam", cells=9, content=3, nearest=2), inputs(T, B, D)
    _, before = run(model, x[:-1])
    _, after = run(model, x[-1:], before)
    assert ((after.read_BK > 0).sum(1) == 2).all()
    changed = (after.memory_BKC != before.memory_BKC).any(2).sum(1)
    assert (changed <= 3).all()


def test_the_oldest_cell_is_the_first_of_equal_age():
    ages = torch.tensor([[3, 5, 5, 0], [2, 2, 2, 2]])
    assert sam.oldest(ages).nonzero().tolist() == [[0, 1], [1, 0]]
