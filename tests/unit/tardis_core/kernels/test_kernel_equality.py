"""Every backend against the readable model: outputs, final state and every gradient, in float64."""

import functools
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.kernels import library
from tests.support.both_backends import difference, make_model, run, set_backend

TOLERANCE = 1e-10
BACKENDS = ("native", "torch")
KINDS = ("lstm", "gumbel", "reinforce")
SMALL = dict(D=3, H=5, K=4, A=2, C=3, P=3)
ODD = dict(D=4, H=37, K=7, A=3, C=11, P=19, scale=0.3)  # no whole number of vectors anywhere
EVEN = dict(D=8, H=16, K=16, A=8, C=16, P=8, scale=0.3)  # whole vectors
LEAST = dict(D=1, H=1, K=1, A=1, C=1, P=1)

backends = pytest.mark.parametrize("backend", BACKENDS)
kinds = pytest.mark.parametrize("kind", KINDS)


def apart(model, T, B, names=BACKENDS, **options):
    """How far any of the backends is from the reference, which one and where most."""
    expected = run(model, "reference", T, B, **options)
    return max((*difference(expected, run(model, name, T, B, **options)), name) for name in names)


def assert_equal(model, T, B, tolerance=TOLERANCE, **options):
    greatest, *where = apart(model, T, B, **options)
    assert greatest < tolerance, where


def modes():
    """Sixteen combinations of seven switches in which any three of them have all eight settings."""
    for norm, carried, reset, mask in itertools.product((False, True), repeat=4):
        dropout, noise = norm ^ carried ^ reset, norm ^ carried ^ mask
        pi_loss = norm ^ reset ^ mask
        yield (
            dict(layer_norm=norm, recurrent_dropout=0.3 * dropout, reset_gates=reset),
            dict(noise=noise, mask=mask, carried=carried, pi_loss=pi_loss),
        )


@kinds
@pytest.mark.parametrize("size", [SMALL, ODD], ids=["small", "odd"])
def test_all_modes(kind, size):
    for options, how in modes():
        if kind == "lstm":
            options.pop("reset_gates")
        greatest, *where = apart(make_model(kind, **size, **options), 8, 3, **how)
        assert greatest < TOLERANCE, (where, options, how)


def test_any_three_switches_of_the_modes_have_all_settings():
    rows = [tuple(map(bool, (*a.values(), *b.values()))) for a, b in modes()]
    for three in itertools.combinations(range(7), 3):
        assert len({tuple(row[place] for place in three) for row in rows}) == 8


@pytest.mark.parametrize("size", [SMALL, ODD], ids=["small", "odd"])
def test_reinforce_attached(size):
    model = make_model("reinforce", **size)
    model.estimator.attached = True
    for mask, carried in itertools.product((False, True), repeat=2):
        assert_equal(model, 12, 3, mask=mask, carried=carried)


@pytest.mark.parametrize(
    "kind", ["straight-through", "straight-through learned", "reinmax", "gumbel-rao"]
)
def test_every_straight_through_estimator(kind):
    for odd, mask, carried in itertools.product((False, True), repeat=3):
        model = make_model(kind, **(ODD if odd else SMALL))
        pi_loss = odd ^ mask ^ carried  # so that any three of the four have all eight settings
        assert_equal(model, 9, 3, mask=mask, carried=carried, pi_loss=pi_loss)


@kinds
@pytest.mark.parametrize("T", [1, 6, 7, 8, 30])
def test_before_at_and_after_the_filling_of_the_memory(kind, T):
    for carried in (False, True):
        assert_equal(make_model(kind, **ODD), T, 4, carried=carried)


@kinds
@pytest.mark.parametrize("B", [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33])
def test_every_height_of_a_block(kind, B):
    assert_equal(make_model(kind, **ODD), 5, B, mask=True)


@pytest.mark.parametrize("kind", ["gumbel", "reinforce"])
@pytest.mark.parametrize("T", [5, 30], ids=["partly filled", "filled"])
def test_a_memory_so_large_that_the_batch_is_split(kind, T):
    model = make_model(kind, D=2, H=6, K=25, A=2, C=5, P=30)
    for carried in (False, True):
        assert_equal(model, T, 37, mask=True, carried=carried)


@kinds
@pytest.mark.parametrize("size", [LEAST, EVEN], ids=["least", "even"])
def test_other_sizes(kind, size):
    assert_equal(make_model(kind, **size, layer_norm=True), 20, 3, mask=True, carried=True)


@kinds
@pytest.mark.parametrize("level", range(len(library.LEVELS)), ids=library.LEVELS)
def test_every_instruction_set_and_any_number_of_threads(kind, level, monkeypatch):
    if level > library.load().tardis_best_level():
        pytest.skip("this machine cannot")
    before, how = torch.get_num_threads(), dict(mask=True, carried=True)
    plain = library.run
    try:
        for size in (ODD, EVEN, LEAST):
            model = make_model(kind, **size, layer_norm=True, recurrent_dropout=0.2)
            expected = run(model, "reference", 6, 7, **how)
            for threads, pool in itertools.product((1, 2, 3, 8), (False, True)):
                torch.set_num_threads(threads)
                once = functools.partial(plain, level=level, share_pool=pool)
                monkeypatch.setattr(library, "run", once)
                greatest, where = difference(expected, run(model, "native", 6, 7, **how))
                assert greatest < TOLERANCE, (where, size, threads, pool)
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_shape(data):
    kind = data.draw(st.sampled_from(KINDS))
    size = {name: data.draw(st.integers(1, 40), label=name) for name in "DHKACP"}
    T, B = data.draw(st.integers(1, 12), label="T"), data.draw(st.integers(1, 12), label="B")
    options = {name: data.draw(st.booleans(), label=name) for name in ("noise", "mask", "carried")}
    norm = data.draw(st.booleans(), label="norm")
    model = make_model(kind, **size, scale=0.3, layer_norm=norm and size["H"] > 2)
    assert_equal(model, T, B, **options)


@pytest.mark.parametrize("scale", [5.0, 30.0, 200.0])
def test_numbers_too_large_for_products_of_exponentials(scale):
    for dtype, tolerance in ((torch.float64, TOLERANCE), (torch.float32, 1e-2)):
        model = make_model("gumbel", H=9, K=5, C=4, P=7, scale=scale, dtype=dtype)
        assert_equal(model, 9, 7, tolerance, carried=True)


@kinds
def test_single_precision_is_within_rounding(kind):
    model = make_model(
        kind, D=10, H=120, K=16, A=4, C=32, P=30, scale=0.1, dtype=torch.float32, layer_norm=True
    )
    assert_equal(model, 30, 8, 1e-5)


def relative(found, expected):
    """The greatest distance of two results, by name, in units of the length of the second."""
    lengths = {name: each.double().norm().clamp_min(1e-3) for name, each in expected.items()}
    return max(
        ((found[name] - each).double().norm() / lengths[name]).item()
        for name, each in expected.items()
    )


@kinds
@pytest.mark.parametrize("B", [1, 8, 15, 16, 33, 70])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("level", library.BF16_LEVELS, ids=library.BF16_LEVELS.get)
def test_products_in_bfloat16_are_within_rounding(kind, B, threads, level, monkeypatch):
    if level > (library.bf16_level() or 0):
        pytest.skip("this machine cannot")
    monkeypatch.setattr(library, "bf16_level", lambda: level)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for size in (ODD, EVEN, LEAST, dict(D=50, H=70, K=20, A=8, C=40, P=33)):
            model = make_model(
                kind, **size | dict(scale=0.05), dtype=torch.float32, layer_norm=True
            )
            expected = run(model, "native", 7, B, mask=True, carried=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = run(model, "native", 7, B, mask=True, carried=True)
                again = run(model, "native", 7, B, mask=True, carried=True)
            distance = relative(found, expected)
            assert distance < 0.02, size
            assert distance > 0 or size["H"] == 1, size  # normalised, one number is always zero
            assert all(torch.equal(each, again[name]) for name, each in found.items())
    finally:
        torch.set_num_threads(before)


@backends
@kinds
@pytest.mark.parametrize("mask", [False, True], ids=["whole", "masked"])
def test_evaluation_without_gradients(backend, kind, mask):
    model = make_model(kind, **ODD, layer_norm=True)
    x = torch.randn(60, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    mask_TB = torch.rand(60, 5, generator=torch.Generator().manual_seed(4)) < 0.8 if mask else None

    def forward(name, gradients):
        with torch.set_grad_enabled(gradients):
            hidden, state = set_backend(model, name)(x, None, mask_TB)
        result = [hidden.h_TBH, *(state if kind == "lstm" else [*state.controller, *state.memory])]
        return result if kind == "lstm" else [*result, hidden.r_TBQ, *hidden.reads]

    expected = forward("reference", False)
    for gradients in (False, True):
        actual = forward(backend, gradients)
        assert actual[0].requires_grad is gradients
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@backends
@kinds
def test_a_sequence_in_pieces_is_the_whole(backend, kind):
    model = set_backend(make_model(kind, **ODD), backend)
    x = torch.randn(11, 3, 4, dtype=torch.float64)
    whole, final = model(x)
    state, pieces = None, []
    for piece in x.split(1):  # as in generation, one symbol at a time
        hidden, state = model(piece, state)
        pieces.append(hidden.h_TBH)
    torch.testing.assert_close(torch.cat(pieces), whole.h_TBH, rtol=1e-10, atol=1e-10)
    h_BH = (state if kind == "lstm" else state.controller).h_BH
    torch.testing.assert_close(h_BH, (final if kind == "lstm" else final.controller).h_BH)


@backends
@kinds
def test_the_same_call_gives_the_same_bits(backend, kind):
    model = make_model(kind, **ODD, dtype=torch.float32)
    first, second = (run(model, backend, 12, 9, mask=True) for _ in range(2))
    for name, tensor in first.items():
        assert tensor is None or torch.equal(tensor, second[name]), name
