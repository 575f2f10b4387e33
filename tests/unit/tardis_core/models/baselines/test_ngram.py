"""Kneser-Ney by hand, against a slow program from the definition, and as a command."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.errors import UserError
from tardis_core.models.baselines.ngram import KneserNey
from tardis_core.ngram import main


def probability(model, context, symbol):
    """P(symbol | context), by way of a text that ends so."""
    return math.exp(-model.nats(np.array([*context, symbol]))[-1])


def slow(text, symbols, order, before, context, symbol):
    """From the definition, with dictionaries of tuples."""
    padded = [before] * (order - 1) + list(text)
    # Occurrences of the longest n-grams; of the shorter ones, the different symbols before them.
    counts = {order: Counter(tuple(padded[i : i + order]) for i in range(len(padded) - order + 1))}
    for n in range(order - 1, 0, -1):
        counts[n] = Counter(gram[1:] for gram in counts[n + 1])
    context = [before] * order + list(context)

    def p(n):
        if n == 0:
            return 1 / symbols
        h = tuple(context[len(context) - (n - 1) :])
        after = {gram[-1]: c for gram, c in counts[n].items() if gram[:-1] == h}
        total = sum(after.values())
        if total == 0:
            return p(n - 1)
        once, twice = (sum(c == k for c in counts[n].values()) for k in (1, 2))
        d = once / (once + 2 * twice) if once and twice else 0.5
        return max(after.get(symbol, 0) - d, 0) / total + d * len(after) / total * p(n - 1)

    return p(order)


def test_bigrams_by_hand():
    # "abaab" after an a: aa, ab, ba, aa, ab. Bigrams: aa 2, ab 2, ba 1; so D = 1 / (1 + 2 * 2).
    model = KneserNey(np.array([0, 1, 0, 0, 1]), symbols=2, order=2, before=0)
    # Before a stand a and b, before b stands a: continuation counts 2 and 1, D = 1 / (1 + 2).
    unigram = {0: (2 - 1 / 3) / 3 + (1 / 3) * 2 / 3 / 2, 1: (1 - 1 / 3) / 3 + (1 / 3) * 2 / 3 / 2}
    d = 0.2
    assert sum(unigram.values()) == pytest.approx(1)
    assert probability(model, [0], 0) == pytest.approx((2 - d) / 4 + d * 2 / 4 * unigram[0])
    assert probability(model, [0], 1) == pytest.approx((2 - d) / 4 + d * 2 / 4 * unigram[1])
    assert probability(model, [1], 0) == pytest.approx((1 - d) / 1 + d * 1 / 1 * unigram[0])
    assert probability(model, [1], 1) == pytest.approx(d * unigram[1])
    assert len(model) == 5


texts = st.lists(st.integers(0, 3), min_size=1, max_size=30)


@given(text=texts, order=st.integers(1, 4), context=texts, symbol=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_it_is_the_definition(text, order, context, symbol):
    model = KneserNey(np.array(text), 4, order, before=2)
    padded = [2] * 3 + context
    expected = slow(
        text, 4, order, 2, padded[len(padded) - order + 1 :] if order > 1 else [], symbol
    )
    assert probability(model, context, symbol) == pytest.approx(expected, rel=1e-9)


@given(text=texts, order=st.integers(1, 5), context=texts)
@settings(max_examples=60, deadline=None)
def test_probabilities_sum_to_one(text, order, context):
    model = KneserNey(np.array(text, np.uint8), 4, order)
    assert sum(probability(model, context, symbol) for symbol in range(4)) == pytest.approx(1)


def test_no_symbol_is_impossible():
    model = KneserNey(np.array([0, 0, 0, 0]), symbols=3, order=3)
    assert probability(model, [0, 0], 2) > 0


@pytest.mark.parametrize("order", [0, 12])
def test_an_order_that_does_not_fit_is_refused(order):
    with pytest.raises(UserError, match=rf"from 1 to 11 with 50 symbols, not {order}"):
        KneserNey(np.zeros(5, np.uint8), 50, order)


@pytest.mark.parametrize(("symbols", "longest"), [(2, 62), (8, 20), (50, 11), (128, 8), (200, 8)])
def test_the_longest_n_grams_that_are_allowed_can_be_counted(symbols, longest):
    text = np.arange(40) % symbols
    assert np.isfinite(KneserNey(text, symbols, longest).nats(text)).all()
    with pytest.raises(UserError, match=f"from 1 to {longest} with {symbols} symbols"):
        KneserNey(text, symbols, longest + 1)


def test_an_empty_text_cannot_be_counted():
    with pytest.raises(UserError, match="at least one symbol"):
        KneserNey(np.zeros(0, np.uint8), 50, 2)


def test_the_command_chooses_by_validation(capsys):
    assert main(["--data", "standin", "--orders", "1,3", "--json"]) == 0
    actual = json.loads(capsys.readouterr().out)
    first, third = actual["orders"]
    assert actual["data"].endswith("-standin")
    assert third["valid_bpc"] < first["valid_bpc"] < math.log2(50)
    assert actual["best"] == 3
    assert main(["--data", "standin", "--orders", "1,3"]) == 0
    assert f"test bpc {third['test_bpc']:.4f} with order 3" in capsys.readouterr().out


def test_wrong_orders_are_one_line(capsys):
    assert main(["--orders", "many"]) == 2
    assert "--orders must be whole numbers with commas" in capsys.readouterr().err


def test_a_skipped_symbol_is_not_part_of_the_context():
    text = np.random.default_rng(0).integers(0, 2, 1200)
    text[0::2] = np.arange(600) % 2  # known from the symbol two before; the one before is noise
    model = KneserNey(text, 2, 2, skipped=1)
    assert model.nats(text).mean() < 0.9 * KneserNey(text, 2, 2).nats(text).mean()
    changed = text.copy()
    changed[998] = 1 - changed[998]
    assert model.nats(changed)[999] == model.nats(text)[999]
    assert model.nats(changed)[1000] != model.nats(text)[1000]
