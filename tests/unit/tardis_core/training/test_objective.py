"""The objective: what it counts of a batch, and which sequences it runs."""

import pytest
import torch

from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.training.loop import Trainer
from tardis_core.training.objective import objective


def test_reset_gates_are_averaged_over_existing_steps():
    overrides = {"model.hidden": 8, "model.reset_gates": True}
    config = make_config("copy", scale="smoke", overrides=overrides)
    task = build_task(config, None)
    network = build_network(config, task.signature)
    batch = task.train_batch(0)
    padding = torch.full_like(batch.inputs, 50.0)  # would push the gates to an end
    padded = batch._replace(
        inputs=torch.cat([batch.inputs, padding]),
        targets=torch.cat([batch.targets, torch.zeros_like(batch.targets)]),
        scored_TB=torch.cat([batch.scored_TB, torch.zeros_like(batch.scored_TB)]),
        mask_TB=torch.arange(2 * len(batch.inputs))[:, None].expand(-1, batch.inputs.shape[1])
        < len(batch.inputs),
    )
    plain = objective(network, task.signature, batch, None, None, 0.0).metrics
    masked = objective(network, task.signature, padded, None, None, 0.0).metrics
    torch.testing.assert_close(masked["alpha"], plain["alpha"])
    torch.testing.assert_close(masked["beta"], plain["beta"])


def test_an_estimator_gets_the_rewards_of_both_heads(monkeypatch):
    overrides = {"model.hidden": 8, "estimator.auxiliary_share": 0.3}
    config = make_config("copy", estimator="reinforce", scale="smoke", overrides=overrides)
    task = build_task(config, None)
    network, batch, episodes = build_network(config, task.signature), task.train_batch(2), []
    learn = network.model.estimator.loss
    monkeypatch.setattr(
        network.model.estimator, "loss", lambda each: (episodes.append(each), learn(each))[1]
    )
    objective(network, task.signature, batch, None, None, 0.0)
    prediction, _ = network(batch.inputs, None, batch.mask_TB, None, batch.scored_TB)
    expected = [
        task.signature.log_likelihood(logits, batch)
        for logits in (prediction.logits_TBO, prediction.memory_logits_TBO)
    ]
    torch.testing.assert_close(episodes[0].reward_TB, expected[0].detach())
    torch.testing.assert_close(episodes[0].memory_reward_TB, expected[1].detach())
    assert not torch.allclose(*expected)


def test_an_estimator_learns_from_the_logits_alone(monkeypatch):
    """And nothing that is worth watching has a gradient."""
    config = make_config(
        "ptb",
        estimator="reinforce",
        scale="smoke",
        overrides={"model.hidden": 8, "model.embedding": 3, "model.reset_gates": True},
    )
    task = build_task(config, load_data(config, None, "standin"))
    network, episodes = build_network(config, task.signature), []
    learn = network.model.estimator.loss
    monkeypatch.setattr(
        network.model.estimator, "loss", lambda each: (episodes.append(each), learn(each))[1]
    )
    generator = torch.Generator().manual_seed(0)
    result = objective(network, task.signature, task.train_batch(0), None, generator, 0.0)
    (episode,) = episodes
    assert episode.pi_TBK.requires_grad
    for part in (episode.x_TBD, episode.reward_TB, episode.memory_reward_TB):
        assert not part.requires_grad
    assert set(result.metrics) == {"memory_loss", "reward", "read_entropy", "alpha", "beta"}
    assert not any(metric.requires_grad for metric in result.metrics.values())


def test_the_loss_is_the_sum_of_its_parts(monkeypatch):
    config = make_config("copy", estimator="reinforce", scale="smoke")
    task = build_task(config, None)
    network, batch = build_network(config, task.signature), task.train_batch(0)
    monkeypatch.setattr(network.model.estimator, "loss", lambda _: (torch.tensor(5.0), {}))
    result = objective(network, task.signature, batch, None, None, 0.0)
    parts = result.task_loss + result.metrics["memory_loss"] + 5
    assert result.loss.item() == pytest.approx(parts.item())
    monkeypatch.setattr(network.model.estimator, "loss", lambda _: (None, {}))
    result = objective(network, task.signature, batch, None, None, 0.0)
    assert result.loss.item() == pytest.approx(parts.item() - 5)


def test_alpha_and_beta_are_not_swapped():
    config = make_config("copy", scale="smoke", overrides={"model.reset_gates": True})
    task = build_task(config, None)
    network = build_network(config, task.signature)
    with torch.no_grad():
        network.model.controller.b[-2:] = torch.tensor([9.0, -9.0])  # alpha open, beta closed
    metrics = objective(network, task.signature, task.train_batch(0), None, None, 0.0).metrics
    assert 0.99 < metrics["alpha"] <= 1
    assert metrics["beta"] < 0.01


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_an_estimator_that_wants_copies_gets_them_side_by_side(copies):
    task = build_task(make_config("copy", scale="smoke", overrides={"training.batch": 7}), None)
    batch = task.train_batch(3)
    batch = batch._replace(mask_TB=torch.ones_like(batch.scored_TB))
    copied = batch.copied(copies)
    for one, other in zip(batch[:4], copied[:4], strict=True):
        expected = [one[:, number] for number in range(7) for _ in range(copies)]
        assert torch.equal(other, torch.stack(expected, 1))


def test_copies_are_run_with_reads_of_their_own():
    overrides = {"estimator.copies": 2, "model.hidden": 8, "training.batch": 6}
    config = make_config("copy", estimator="rloo", scale="smoke", overrides=overrides)
    task = build_task(config, None)
    network, generator = build_network(config, task.signature), torch.Generator().manual_seed(0)
    result = objective(network, task.signature, task.train_batch(2), None, generator, 0.0)
    read_TB = result.hidden.reads.read_TB
    assert read_TB.shape[1] == 12
    for first in range(0, 12, 2):
        assert not torch.equal(read_TB[:, first], read_TB[:, first + 1])


def test_copies_of_a_text_that_goes_on_are_refused():
    config = make_config("ptb", estimator="rloo", scale="smoke")
    with pytest.raises(UserError, match=r"estimator.copies=2 .* not continue .*; choose another"):
        Trainer(config, load_data(config, None, "standin"))


def test_the_number_of_copies_is_checked():
    with pytest.raises(UserError, match=r"estimator\.copies must be at least 2, not 1"):
        make_config("copy", estimator="rloo", overrides={"estimator.copies": 1})
