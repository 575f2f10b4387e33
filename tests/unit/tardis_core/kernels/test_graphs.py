"""Sequences by graphs, without a GPU: an eager stand-in repeats the work into the same tensors."""

import gc

import pytest
import torch

pytest.importorskip("triton")

from tardis_core.kernels import select
from tardis_core.kernels.graphs import GraphCache
from tardis_core.kernels.torch_backward import backward
from tardis_core.kernels.torch_forward import forward
from tardis_core.kernels.triton_sequence import BUCKET, EXACT_LENGTHS, Graphed
from tardis_core.training import precision
from tests.support.both_backends import difference, make_model, run, set_backend
from tests.support.eager_graphs import capture_eagerly

SIZE = dict(D=3, H=5, K=4, A=2, C=3, P=3, layer_norm=True, recurrent_dropout=0.2)


@pytest.fixture
def captures(monkeypatch):
    """The torch backend by graphs; returns the list that every capture is counted in."""
    captures = []

    def capture(work):
        captures.append(work)
        return capture_eagerly(work)

    graphed = Graphed(GraphCache(forward, backward, capture))
    monkeypatch.setitem(
        select.BACKENDS, "torch", select.BACKENDS["torch"]._replace(run=graphed.run)
    )
    return captures


@pytest.mark.parametrize("kind", ["lstm", "gumbel", "reinforce"])
def test_the_same_numbers_for_sequences_of_many_lengths(kind, captures):
    model = make_model(kind, **SIZE)
    for T in (3, 5, 4, 9, 6, 3, 17, 30, 6):
        how = dict(mask=T % 2 == 0, carried=T % 3 == 0, seed=T)
        expected = run(model, "reference", T, 2, **how)
        assert difference(expected, run(model, "torch", T, 2, **how))[0] < 1e-12


def test_a_shape_is_captured_once(captures):
    model = make_model("gumbel", **SIZE)
    for seed in range(4):
        run(model, "torch", 5, 2, seed=seed)
    assert len(captures) == 2  # forward and backward


@pytest.mark.slow
def test_many_lengths_share_a_few_graphs(captures):
    model = make_model("gumbel", **SIZE)
    for T in range(1, 2 * BUCKET + 1):
        run(model, "torch", T, 2, mask=True)
    assert len(captures) == 2 * (EXACT_LENGTHS + 2)


def test_two_sequences_before_their_gradients_do_not_share_a_tape(captures):
    model = set_backend(make_model("gumbel", **SIZE), "torch")
    inputs = [torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def gradients(together):
        hidden = [model(x)[0].h_TBH.square().sum() for x in inputs] if together else None
        return [
            torch.autograd.grad(hidden[n] if together else model(x)[0].h_TBH.square().sum(), x)[0]
            for n, x in enumerate(inputs)
        ]

    for one, other in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.slow
def test_a_graph_is_free_again_when_its_gradients_are_gone(captures):
    model = make_model("reinforce", **SIZE)
    for seed in range(3):
        run(model, "torch", 5, 2, seed=seed)
        gc.collect()
    assert len(captures) == 2


def test_inference_mode_has_graphs_of_its_own(captures):
    model = set_backend(make_model("gumbel", **SIZE), "torch")
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    with torch.inference_mode():
        first = model(x)[0].h_TBH.clone()
    with torch.no_grad():
        second = model(x)[0].h_TBH
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert len(captures) == 2


def test_products_of_another_precision_have_graphs_of_their_own(captures):
    """A captured product stays as it was: an evaluation must not replay those of a training."""
    model = set_backend(make_model("lstm", D=3, H=5), "torch")
    for each in ("tf32", "float32", "tf32"):
        with precision.products(each), torch.no_grad():
            model(torch.randn(5, 2, 3, dtype=torch.float64))
    assert len(captures) == 2


def test_the_least_recently_used_graphs_go_first():
    count = []

    def capture(work):
        count.append(work)
        return capture_eagerly(work)

    graphed = Graphed(GraphCache(forward, backward, capture, limit=2))
    model = make_model("lstm", **{key: SIZE[key] for key in ("D", "H")})
    backend = select.BACKENDS["torch"]
    try:
        select.BACKENDS["torch"] = backend._replace(run=graphed.run)
        set_backend(model, "torch")
        with torch.no_grad():
            for T in (2, 3, 2, 4, 2, 3):  # 3 is forgotten when 4 comes
                model(torch.randn(T, 2, 3, dtype=torch.float64))
    finally:
        select.BACKENDS["torch"] = backend
    assert len(count) == 4
