"""snli: premise, separator, hypothesis, ending together; one answer at the last step."""

import numpy as np
import torch

from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.data.snli import PAD, SEP, Pairs
from tardis_core.tasks.snli import make_batch

PAIRS = Pairs(
    premise=np.array([5, 6, 7, 8, 9, 9], np.int32),
    premise_ends=np.array([0, 3, 4, 6]),
    hypothesis=np.array([10, 11, 12, 13], np.int32),
    hypothesis_ends=np.array([0, 1, 3, 4]),
    labels=np.array([2, 0, 1], np.uint8),
)


def test_a_batch_by_hand():
    batch = make_batch(PAIRS, np.array([0, 1, 2]))
    assert batch.inputs.T.tolist() == [
        [5, 6, 7, SEP, 10],
        [PAD, 8, SEP, 11, 12],
        [PAD, 9, 9, SEP, 13],
    ]
    assert batch.mask_TB.T.tolist() == [[True] * 5, [False] + [True] * 4, [False] + [True] * 4]
    assert batch.targets[-1].tolist() == [2, 0, 1]
    assert batch.scored_TB.sum(0).tolist() == [1, 1, 1]
    assert batch.scored_TB[-1].all()


def test_batches_hold_the_pairs_asked_for_in_their_order():
    one = make_batch(PAIRS, np.array([2]))
    assert one.inputs.flatten().tolist() == [9, 9, SEP, 13]
    assert make_batch(PAIRS, np.array([1, 0])).targets[-1].tolist() == [0, 2]


def test_accuracy_is_the_share_of_pairs_answered_right():
    config = make_config("snli", "lstm", scale="smoke", overrides={"task.evaluation_pairs": 90})
    task = build_task(config, load_data(config, source="standin"))
    network = build_network(config, task.signature)
    with torch.no_grad():
        network.head.W_o.weight.zero_()
        network.head.W_o.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))  # always "neutral"
    share = np.mean(task.data.valid.labels[:90] == 1)
    assert task.evaluate(network, "valid")["accuracy"] == 100 * share


def test_padding_does_not_change_the_answer():
    config = make_config("snli", scale="smoke")
    task = build_task(config, load_data(config, source="standin"))
    network = build_network(config, task.signature).double()
    chosen = np.argsort(np.diff(task.data.train.premise_ends))[[0, -1]]
    together, _ = network(*_arguments(make_batch(task.data.train, chosen)))
    alone, _ = network(*_arguments(make_batch(task.data.train, chosen[:1])))
    torch.testing.assert_close(together.logits_TBO[-1, 0], alone.logits_TBO[-1, 0])


def _arguments(batch):
    return batch.inputs, None, batch.mask_TB
