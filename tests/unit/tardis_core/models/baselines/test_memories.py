"""Memory models against programs written from their papers alone, with every parameter random."""

import numpy as np
import pytest
import torch

from tardis_core.models.base import MODELS
from tardis_core.models.baselines import dnc, neural_stack, sam
from tests.support import numpy_memories
from tests.support.small_baselines import B, D, T, assert_outputs, assert_same, make, noise_of, run
from tests.support.small_tardis import inputs, parameters_of
from tests.support.systems import ONE_OF_EACH_KIND


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


@pytest.mark.parametrize("span", [3, 20])
def test_lstmn(span):
    model, x = make("lstmn", span=span, attention=4), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_memories.lstmn(p, x, span)["h"], x)


@pytest.mark.parametrize("seen", [1, 2])
def test_stack_rnn(seen):
    model, x = make("stack-rnn", cells=4, content=3, seen=seen), inputs(T, B, D)
    p = parameters_of(model)
    hidden, state = run(model, x)
    assert_same(hidden.h_TBH, lambda x: numpy_memories.stack_rnn(p, x, 4, 3, seen)["h"], x)
    expected = numpy_memories.stack_rnn(p, x[:, 0].numpy(), 4, 3, seen)["stacks"]
    np.testing.assert_allclose(state.stack_BKS[0].numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["neural-stack", "neural-queue", "neural-deque"])
@pytest.mark.parametrize("seed", range(2))
def test_neural_stacks(name, seed):
    model, x = make(name, seed=seed, cells=2 * T, content=3), inputs(T, B, D)
    p = parameters_of(model)
    hidden, _ = run(model, x)

    def reference(x):
        return numpy_memories.neural_stack(p, x, 3, model.pushed_at, model.taken_at)

    assert_outputs(hidden, reference, x)


@pytest.mark.parametrize("name", ["neural-stack", "neural-queue", "neural-deque"])
def test_a_new_neural_stack_pops_little(name):
    """Appendix B of the paper: the bias of every pop starts at -1, that of a push does not."""
    kind = MODELS.get(name)
    model = kind(D, kind.Config(), kind.Memory(), None)
    pushes, pops = len(model.pushed_at), len(model.taken_at)
    d, u, _ = model.W_o.bias.detach().split([pushes, pops, len(model.W_o.bias) - pushes - pops])
    assert (u == -1).all()
    assert (d.abs() < 0.5).all()


def test_a_stack_by_hand():
    """Figure 1 of the paper: v1 with 0.8, then pop 0.1 and v2 with 0.5, then pop 0.9, v3 0.9."""
    values = torch.eye(3, dtype=torch.float64).unsqueeze(0)
    strengths = torch.tensor([[0.8, 0.0, 0.0]], dtype=torch.float64)
    strengths = neural_stack.pop(strengths, torch.tensor([[0.1]]), "top")
    strengths[0, 1] = 0.5
    first = neural_stack.read(values, strengths, "top")
    torch.testing.assert_close(first, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))
    strengths = neural_stack.pop(strengths, torch.tensor([[0.9]]), "top")
    strengths[0, 2] = 0.9
    second = neural_stack.read(values, strengths, "top")
    torch.testing.assert_close(second, torch.tensor([[0.1, 0.0, 0.9]], dtype=torch.float64))


def test_when_there_is_no_room_the_weakest_value_is_dropped():
    values = torch.arange(4.0).view(1, 4, 1)
    kept, strengths = neural_stack.drop_weakest(values, torch.tensor([[0.5, 0.0, 0.9, 0.0]]))
    assert kept.flatten().tolist() == [0, 2, 3]
    assert strengths.flatten().tolist() == pytest.approx([0.5, 0.9, 0.0])


@pytest.mark.parametrize("estimator", ONE_OF_EACH_KIND)
@pytest.mark.parametrize("noisy", [False, True])
def test_armin(estimator, noisy):
    model, x = make("armin", estimator, cells=4, content=3), inputs(T, B, D)
    p, noise = parameters_of(model), noise_of(model, x) if noisy else None
    hidden, _ = run(model, x, noise=noise)
    for n in range(B):
        extra = noise.read_TBK[:, n].numpy() if noisy else None
        expected = numpy_memories.armin(p, x[:, n].numpy(), 4, 3, extra)
        for name, actual in (("h", hidden.h_TBH), ("r", hidden.r_TBQ)):
            np.testing.assert_allclose(actual[:, n].numpy(), expected[name], rtol=0, atol=1e-10)
        assert hidden.reads.read_TB[:, n].tolist() == expected["read"].tolist()
        assert hidden.reads.written_TB[:, n].tolist() == expected["written"].tolist()


def test_armin_writes_one_cell_also_after_a_soft_read():
    """Where all cells are read about equally, the one with the greatest weight is written."""
    model, x = make("armin", "soft", cells=8, content=3), inputs(12, B, D)
    noise, state = noise_of(model, x), model.initial_state(B, x)
    for t in range(12):
        now = noise._make(None if part is None else part[t : t + 1] for part in noise)
        with torch.no_grad():
            hidden, after = model(x[t : t + 1], state, None, now)
        changed_BK = (after.memory_BKC != state.memory_BKC).any(2)
        assert changed_BK.sum(1).tolist() == [1] * B
        place = hidden.reads.read_TB if t >= 8 else torch.full((1, B), t)
        assert torch.equal(hidden.reads.written_TB, place)
        assert torch.equal(changed_BK.long().argmax(1), place[0])
        state = after
