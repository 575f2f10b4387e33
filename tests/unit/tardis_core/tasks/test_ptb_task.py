"""ptb: every symbol is predicted from the one before, and state goes from batch to batch."""

import math

import numpy as np
import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.data.dataset import Provenance
from tardis_core.data.ptb import TextCorpus
from tardis_core.errors import UserError
from tardis_core.tasks.ptb import Ptb, PtbConfig

SYMBOLS = ("\n", "a", "b", "c")


def corpus(train=200, valid=37, test=41):
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, len(SYMBOLS), size).astype(np.uint8) for size in (train, valid, test)]
    return TextCorpus(Provenance("made", False, False, "", ""), SYMBOLS, *texts)


def task(data=None, batch=4, seed=0, **config):
    return Ptb(PtbConfig(**{"length": 5, "streams": 3, **config}), data or corpus(), batch, seed)


def network(result):
    config = make_config("ptb", "lstm", scale="smoke", overrides={"model.hidden": 8})
    return build_network(config, result.signature).double()


def test_inputs_are_the_symbols_before_the_targets():
    data = corpus()
    batch = task(data).train_batch(0)
    targets = batch.targets[:, 0].numpy()
    offset = next(o for o in range(5) if np.array_equal(data.train[o : o + 5], targets))
    before = data.train[offset - 1 : offset + 4] if offset else [0, *data.train[:4]]
    np.testing.assert_array_equal(batch.inputs[:, 0], before)
    assert batch.scored_TB.all()
    assert batch.mask_TB is None


def test_streams_go_on_from_batch_to_batch_and_start_anew_with_the_epoch():
    result = task()  # 4 streams of 50 symbols: 9 batches an epoch
    for number in range(1, 9):
        before, after = result.train_batch(number - 1), result.train_batch(number)
        assert torch.equal(after.inputs[0], before.targets[-1])
        assert after.continues
    assert not result.train_batch(0).continues
    assert not result.train_batch(9).continues


@pytest.mark.parametrize(("carry", "beginnings"), [(0, [0, 9, 18]), (4, [0, 4, 8, 9, 13, 17, 18])])
def test_the_state_is_carried_over_so_many_batches(carry, beginnings):
    result = task(carry=carry)  # 9 batches an epoch
    begun = [number for number in range(19) if not result.train_batch(number).continues]
    assert begun == beginnings


def test_epochs_begin_at_different_places():
    result = task(corpus(4000))
    per_epoch = 4000 // 4 // 5 - 1
    firsts = {
        tuple(result.train_batch(epoch * per_epoch).targets[:, 0].tolist()) for epoch in range(8)
    }
    assert len(firsts) > 2


@pytest.mark.parametrize("streams", [1, 2, 3, 7])
def test_evaluation_predicts_every_symbol_once_from_the_one_before(streams):
    data = corpus()
    pairs = []
    for batch in task(data, streams=streams).evaluation_batches("valid"):
        pairs += zip(
            batch.inputs[batch.scored_TB].tolist(),
            batch.targets[batch.scored_TB].tolist(),
            strict=True,
        )
    text = data.valid.tolist()
    assert sorted(pairs) == sorted(zip([0, *text[:-1]], text, strict=True))


def test_bpc_of_one_stream_is_that_of_one_long_sequence():
    data = corpus()
    result = task(data, streams=1)
    net = network(result)
    inputs = torch.tensor([0, *data.valid[:-1].tolist()]).unsqueeze(1)
    logits = net(inputs)[0].logits_TBO[:, 0].detach()
    nats = torch.nn.functional.cross_entropy(logits, torch.tensor(data.valid.tolist()))
    assert result.evaluate(net, "valid")["bpc"] == pytest.approx(
        float(nats) / math.log(2), abs=1e-9
    )


def test_evaluation_may_be_limited():
    batches = list(task(evaluation_symbols=11).evaluation_batches("test"))
    assert sum(int(batch.scored_TB.sum()) for batch in batches) == 11


def test_the_memory_head_is_measured_where_there_is_one():
    result = task()
    config = make_config("ptb", "tardis", "reinforce", "smoke")
    measured = result.evaluate(build_network(config, result.signature), "valid")
    assert set(measured) == {"bpc", "memory_bpc"}
    assert measured["memory_bpc"] == pytest.approx(2, abs=0.7)  # four symbols, untrained


def test_too_many_streams_for_the_text_is_an_error_that_says_what_to_change():
    with pytest.raises(UserError, match=r"training.batch=100 .* task.length=5 .* 200 symbols"):
        task(batch=100)


def test_a_split_shorter_than_a_sequence_has_no_examples_and_says_what_to_do():
    rule = r"^the test split has 4 symbols, fewer than task\.length=5; choose another split, or "
    with pytest.raises(UserError, match=rule + "train with a smaller task.length$"):
        task(corpus(test=4)).examples("test", [0])
    assert task(corpus(test=5)).examples("test", [0]).targets.shape == (5, 1)
