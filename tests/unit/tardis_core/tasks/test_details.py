"""Details agree with the metric they take apart."""

import numpy as np
import pytest
import torch

from tardis_core.analysis.details import as_csv, as_text, draw_detail
from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.tasks.details import Confusion, Curve, confusion


def network_and_task(task: str, **overrides):
    config = make_config(task, scale="smoke", overrides={"model.hidden": 8, **overrides})
    built = build_task(config, load_data(config, source="standin"))
    return build_network(config, built.signature), built


def test_a_confusion_by_hand():
    actual = confusion("x", "abc", np.array([0, 0, 1, 0]), np.array([0, 2, 1, 2]))
    assert actual.counts_CC.tolist() == [[1, 0, 2], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(actual.accuracy_C, [100 / 3, 100, np.nan])


@pytest.mark.parametrize("task", ["copy", "recall"])
def test_the_cost_by_length_goes_to_six_times_the_training_and_holds_the_metric(task):
    network, built = network_and_task(task, **{"task.test_sequences": 64})
    curve, _ = built.details(network, "test")
    longest = built.config.longest
    assert curve.x[-1] == 6 * longest
    assert curve.x[0] >= built.config.shortest
    assert list(curve.x) == sorted(set(curve.x))
    assert curve.seen == longest
    assert (
        dict(zip(curve.x, curve.y, strict=True))[longest] == built.evaluate(network, "test")["bce"]
    )


@pytest.mark.parametrize(("task", "length", "positions"), [("copy", 8, 8), ("recall", 4, 3)])
def test_the_cost_by_position_holds_the_cost_of_its_length(task, length, positions):
    network, built = network_and_task(task, **{"task.test_sequences": 300})
    _, curve = built.details(network, "test")
    assert curve.x_label == f"position in the answer at length {length}"
    assert curve.x == tuple(range(1, positions + 1))
    assert np.mean(curve.y) == pytest.approx(built.at_length(network, "test", length), rel=1e-5)
    assert len(set(curve.y)) == positions


def test_the_confusion_of_digits_holds_the_error():
    network, built = network_and_task("strokes")
    digits, places = built.details(network, "test")
    error = built.evaluate(network, "test")["error"]
    total = digits.counts_CC.sum()
    assert total == built.config.test_sequences * built.config.digits
    assert 100 - 100 * np.trace(digits.counts_CC) / total == pytest.approx(error)
    assert np.mean(places.y) == pytest.approx(error)
    assert len(places.y) == built.config.digits
    labels = built.data.test.labels[built._digits_of("test")]
    assert digits.counts_CC.sum(1).tolist() == np.bincount(labels.ravel(), minlength=10).tolist()


def test_the_confusion_of_relations_holds_the_accuracy():
    network, built = network_and_task("snli", **{"task.evaluation_pairs": 300})
    (relations,) = built.details(network, "test")
    assert relations.classes == ("entailment", "neutral", "contradiction")
    accuracy = built.evaluate(network, "test")["accuracy"]
    assert 100 * np.trace(relations.counts_CC) / 300 == pytest.approx(accuracy)
    with torch.no_grad():
        network.head.W_o.weight.zero_()
        network.head.W_o.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))  # always "contradiction"
    (relations,) = built.details(network, "test")
    assert relations.accuracy_C.tolist() == [0, 0, 100]


CURVE = Curve("c", "length", "cost", (1, 2), (0.5, 0.25), seen=1)
TABLE = Confusion("t", ("yes", "no"), np.array([[3, 1], [0, 2]]))


def test_details_as_csv_and_text():
    assert as_csv(CURVE) == "length,cost\n1,0.5\n2,0.25\n"
    assert as_csv(TABLE) == "true class,yes,no\nyes,3,1\nno,0,2\n"
    assert "75.0 % right" in as_text(TABLE)
    assert "2    0.2500" in as_text(CURVE)


@pytest.mark.parametrize("detail", [CURVE, TABLE])
def test_details_as_a_picture(tmp_path, detail):
    draw_detail(detail, tmp_path / "detail.png")
    assert (tmp_path / "detail.png").read_bytes().startswith(b"\x89PNG")
