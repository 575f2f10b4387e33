"""The continuous cache against a slow program from the definition, and as an option."""

import json
import math

import numpy as np
import pytest
import torch

from tardis_core.analysis.cache import Cache, cached_bpc, probabilities
from tardis_core.build import build_network, build_task, load_data
from tardis_core.errors import UserError
from tardis_core.evaluate import main
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer
from tests.support.tiny import tiny

SIZE, THETA = 7, 0.8


@pytest.fixture(scope="module")
def case():
    config = tiny("ptb", "lstm")
    task = build_task(config, load_data(config, source="standin"))
    network = build_network(config, task.signature).double()
    with torch.no_grad():
        network.model.controller.W_x.weight.mul_(3)  # states that differ
    return task, network


def slow(task, network):
    """(p_model, p_cache) of every symbol of validation, stream by stream."""
    batches = list(task.evaluation_batches("valid"))
    inputs, targets, scored = (
        torch.cat([getattr(batch, name) for batch in batches])
        for name in ("inputs", "targets", "scored_TB")
    )
    result = {}
    for stream in range(inputs.shape[1]):
        steps = int(scored[:, stream].sum())
        with torch.no_grad():
            prediction, _ = network(inputs[:steps, stream : stream + 1])
        h = prediction.hidden.h_TBH[:, 0].numpy()
        p = prediction.logits_TBO[:, 0].softmax(-1).numpy()
        symbols = targets[:steps, stream].tolist()
        for t in range(steps):
            model, past = p[t, symbols[t]], range(max(0, t - SIZE), t)
            weights = [math.exp(THETA * (h[t] @ h[i])) for i in past]
            same = [w for w, i in zip(weights, past, strict=True) if symbols[i] == symbols[t]]
            result[t, stream] = (model, sum(same) / sum(weights) if weights else model)
    return np.array([result[place] for place in sorted(result)])


def test_it_is_the_definition(case):
    task, network = case
    measured = probabilities(network, task.evaluation_batches("valid"), SIZE, [THETA])
    expected = slow(task, network)
    np.testing.assert_allclose(measured.model_S.numpy(), expected[:, 0], rtol=0, atol=1e-10)
    cached = measured.cache_by_theta[THETA].numpy()
    np.testing.assert_allclose(cached, expected[:, 1], rtol=0, atol=1e-10)
    bpc, _ = cached_bpc(network, task, "valid", Cache(SIZE, THETA, 0.25))
    mixed = 0.75 * expected[:, 0] + 0.25 * expected[:, 1]
    assert bpc == pytest.approx(-np.log2(mixed).mean())


def test_without_a_share_the_model_speaks_alone(case):
    task, network = case
    bpc, _ = cached_bpc(network, task, "test", Cache(SIZE, THETA, 0.0))
    assert bpc == pytest.approx(task.evaluate(network, "test")["bpc"])


def test_validation_chooses_what_is_not_given(case):
    task, network = case
    best, chosen = cached_bpc(network, task, "valid", Cache(SIZE))
    for theta, weight in ((0.1, 0.1), (1.0, 0.3)):
        assert best <= cached_bpc(network, task, "valid", Cache(SIZE, theta, weight))[0]
    _, fixed = cached_bpc(network, task, "test", Cache(SIZE, theta=0.1))
    assert (chosen.size, fixed.size, fixed.theta) == (SIZE, SIZE, 0.1)


def test_validation_can_choose_a_theta_above_one(case):
    task, network = case
    best, chosen = cached_bpc(network, task, "valid", Cache(60))
    assert chosen.theta is not None
    assert chosen.theta > 1
    assert best < cached_bpc(network, task, "valid", Cache(60, theta=1.0))[0]


@pytest.mark.parametrize("theta", [-1.0, math.nan, math.inf])
def test_theta_is_a_number_from_zero(theta):
    with pytest.raises(UserError, match=r"^--theta must be a number of at least 0, not "):
        Cache(SIZE, theta)


def test_it_is_for_text_alone(case):
    config = tiny("copy")
    task = build_task(config, None)
    with pytest.raises(UserError, match="--cache is for language models"):
        cached_bpc(build_network(config, task.signature), task, "test", Cache(3))


def test_the_command_measures_with_a_cache(case, tmp_path, capsys):
    trainer = Trainer(tiny("ptb", "lstm"), case[0].data)
    run = str(tmp_path / "best.pt")
    checkpoint.save(tmp_path / "best.pt", trainer.model_state())
    assert main([run, "--cache", "20", "--lambda", "0.2", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["cache_bpc"] != measured["bpc"]
    assert main([run, "--theta", "0.3"]) == 2
    assert "give its size as well, such as --cache 500" in capsys.readouterr().err
    assert main([run, "--cache", "0"]) == 2
    assert "--cache must be at least 1, not 0" in capsys.readouterr().err
    assert main([run, "--cache", "5", "--lambda", "1"]) == 2
    assert "--lambda must be at least 0 and below 1" in capsys.readouterr().err
