"""The training loop: what it measures, when it stops, and what it does not survive."""

import copy
import dataclasses
import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from tardis_core.build import load_data
from tardis_core.config import lengthened, make_config
from tardis_core.errors import Diverged, UserError
from tardis_core.train import main
from tardis_core.training import checkpoint, loop, memory_need
from tardis_core.training.loop import Trainer, pick_device
from tardis_core.training.schedule import learning_rate
from tests.support.tiny import MEMORY, command_line, settings, tiny

ALWAYS = ["update", "loss", "gradient_norm"]
LAST = ["valid_bce", "learning_rate", "symbols_per_second", "training_seconds"]


def finish(trainer: Trainer) -> list[loop.Row]:
    return list(trainer.run())


def gradient_norm(trainer: Trainer) -> float:
    gradients = [each.grad for each in trainer.network.parameters() if each.grad is not None]
    return math.sqrt(sum(float(each.double().square().sum()) for each in gradients))


# What is measured


@pytest.mark.parametrize(
    ("model", "estimator", "figures"),
    [
        ("lstm", None, []),
        ("tardis", "gumbel", ["alpha", "beta"]),
        ("tardis", "reinforce", ["memory_loss", "reward", "read_entropy", "alpha", "beta"]),
    ],
)
def test_a_row_has_the_documented_columns(model, estimator, figures):
    rows = finish(Trainer(tiny("copy", model, estimator), None))
    assert all(list(row) == [*ALWAYS, *figures, *LAST] for row in rows)


def test_a_row_comes_at_every_interval_and_at_the_end():
    trainer = Trainer(tiny(updates=10), None)
    rows = finish(trainer)
    assert [row["update"] for row in rows] == [4, 8, 10]
    assert trainer.history == rows


def test_the_loss_of_a_row_is_the_mean_of_its_interval():
    losses: list[float] = []
    rows = list(Trainer(tiny(updates=6), None).run(losses.append))
    assert [row["loss"] for row in rows] == pytest.approx(
        [sum(losses[:4]) / 4, sum(losses[4:]) / 2]
    )


def test_the_learning_rate_of_a_row_is_that_of_its_last_update():
    config = tiny(decay="linear", decay_from=0.0, warmup=2)
    rows = finish(Trainer(config, None))
    expected = [learning_rate(update, config.training) for update in (3, 7, 11)]
    assert [row["learning_rate"] for row in rows] == expected


def test_the_optimiser_uses_the_schedule():
    config = tiny(decay="linear", decay_from=0.0, warmup=2)
    trainer, used = Trainer(config, None), []
    list(trainer.run(lambda loss: used.append(trainer.optimizer.param_groups[0]["lr"])))
    assert used == [learning_rate(update, config.training) for update in range(12)]


@pytest.mark.parametrize("model", ["tardis", "dntm-discrete"])
def test_what_chooses_cells_may_have_a_rate_of_its_own(model):
    # The first step of Adam moves every weight that has a gradient by the learning rate.
    own = {"estimator.rate": 0.25, "training.clip": 0.0, "training.learning_rate": 0.01}
    sizes = settings(model=model) | own
    trainer = Trainer(make_config("copy", model, "reinforce", "smoke", 0, sizes), None)
    choosing = {id(each) for part in trainer.network.model.choosing() for each in part.parameters()}
    assert choosing
    before = [(each, each.detach().clone()) for each in trainer.network.parameters()]
    trainer.step()
    moved = {True: 0.0, False: 0.0}  # the farthest, of what chooses and of the rest
    for parameter, old in before:
        chooses, far = id(parameter) in choosing, float((parameter.detach() - old).abs().max())
        moved[chooses] = max(moved[chooses], far)
    assert moved == pytest.approx({True: 0.0025, False: 0.01}, rel=1e-2)


def test_without_a_rate_of_its_own_all_parameters_are_one_group():
    (group,) = Trainer(tiny(estimator="gumbel"), None).optimizer.param_groups
    assert group["fused"]  # one call for all parameters


def test_a_row_counts_updates_symbols_and_seconds(monkeypatch):
    clock = itertools.count(step=0.5)  # every look at it takes half a second
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    trainer = Trainer(tiny("snli", "lstm"), load_data(tiny("snli", "lstm"), None, "standin"))
    rows = list(itertools.islice(trainer.run(), 2))
    for place, row in enumerate(rows):
        batches = [trainer.task.train_batch(4 * place + number) for number in range(4)]
        symbols = sum(int(batch.mask_TB.sum()) for batch in batches)
        assert row["symbols_per_second"] == symbols / 2
        assert row["training_seconds"] == 2 * (place + 1)


def test_all_steps_count_where_there_is_no_padding(monkeypatch):
    clock = itertools.count(step=0.5)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    trainer = Trainer(tiny(), None)
    row = next(trainer.run())
    sizes = [trainer.task.train_batch(number).scored_TB.numel() for number in range(4)]
    assert row["symbols_per_second"] == sum(sizes) / 2


def test_a_model_is_told_of_every_batch_before_and_after(monkeypatch):
    trainer, hooks = Trainer(tiny(accumulate=2), None), []
    model = trainer.network.model
    monkeypatch.setattr(model, "before_batch", lambda progress: hooks.append(("before", progress)))
    monkeypatch.setattr(
        model,
        "after_batch",
        lambda hidden, progress: hooks.append((len(hidden.h_TBH[0]), progress)),
    )
    trainer.step()
    trainer.step()
    assert hooks == [
        *(("before", 0.0), (2, 0.0), (2, 0.0)),  # two parts of two sequences
        *(("before", 1 / 12), (2, 1 / 12), (2, 1 / 12)),
    ]


def test_copies_need_sequences_that_start_anew():
    config = tiny("ptb", estimator="rloo")
    with pytest.raises(UserError, match=r"estimator\.copies=\d needs sequences that do not"):
        Trainer(config, load_data(config, None, "standin"))
    config = tiny("ptb", estimator="gumbel")
    assert Trainer(config, load_data(config, None, "standin")).update == 0  # accepted


def test_a_run_that_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory_need, "total_bytes", lambda: 1.0)
    with pytest.raises(UserError, match=r"training needs at least .* of memory"):
        Trainer(tiny(), None)


def test_gradients_of_different_updates_do_not_add_up():
    trainer = Trainer(tiny(clip=0.0), None)
    trainer.step()
    before = copy.deepcopy(trainer.state())
    trainer.step()
    again = Trainer(tiny(clip=0.0), None)
    again.restore(before)
    again.step()
    for one, other in zip(trainer.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
        assert torch.equal(one, other)  # the averages of Adam are restored as well


def test_training_lowers_the_loss():
    rows = finish(Trainer(tiny(updates=60, evaluate_every=20, learning_rate=0.03), None))
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_the_run_stops_after_the_update_at_which_it_is_asked_to():
    trainer = Trainer(tiny(), None)
    list(trainer.run(should_stop=lambda: trainer.update == 5))
    assert (trainer.update, trainer.finished, len(trainer.history)) == (5, False, 1)


def test_the_seed_decides_all():
    one, again, other = (Trainer(tiny(seed=seed), None) for seed in (1, 1, 2))
    losses = [[trainer.step() for _ in range(3)] for trainer in (one, again, other)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


# When it stops


def scripted(values: list[float], **training) -> Trainer:
    """A trainer whose validations measure these values, one after the other."""
    config = tiny(updates=4 * len(values), **training)
    trainer, script = Trainer(config, None), iter(values)
    trainer.evaluate = lambda split: {"bce": next(script)}
    return trainer


def test_patience_counts_validations_without_a_new_best():
    trainer = scripted([3.0, 2.0, 2.5, 2.0, 1.0], patience=2)
    finish(trainer)
    assert (trainer.update, trainer.best, trainer.best_update) == (16, 2.0, 8)
    assert trainer.finished


def test_a_new_best_renews_the_patience():
    trainer = scripted([3.0, 3.5, 2.0, 2.5, 1.0, 1.5], patience=2)
    finish(trainer)
    assert (trainer.update, trainer.best_update) == (24, 20)


def test_patience_counts_validations_also_after_a_best_between_two_of_them():
    """A run of 6 updates ends with one; made longer, it does not measure there."""
    trainer = Trainer(tiny(updates=6, evaluate_every=4, patience=2), None)
    script = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    trainer.evaluate = lambda split: {"bce": next(script)}
    finish(trainer)
    trainer.config = lengthened(trainer.config, 20)
    finish(trainer)
    assert [row["update"] for row in trainer.history] == [4, 6, 8, 12]
    assert (trainer.update, trainer.finished) == (12, True)


def test_without_patience_all_updates_are_made():
    trainer = scripted([1.0, 2.0, 3.0, 4.0, 5.0])
    finish(trainer)
    assert (trainer.update, trainer.best_update) == (20, 4)


def test_a_value_that_is_not_a_number_is_never_the_best():
    trainer = scripted([math.nan, 2.0, math.nan])
    finish(trainer)
    assert (trainer.best, trainer.best_update) == (2.0, 8)


def varied(trainer: Trainer, share: float) -> Trainer:
    """The same with cells that vary from this share of the training on."""
    memory = dataclasses.replace(trainer.config.memory_settings, vary_cells_from=share)
    trainer.config = dataclasses.replace(trainer.config, memory_settings=memory)
    return trainer


def test_the_best_weights_are_sought_from_where_the_cells_vary():
    trainer = varied(scripted([1.0, 2.0, 5.0, 4.0, 4.5]), 0.4)  # update 8
    best = [(trainer.best, trainer.best_update) for _ in trainer.run()]
    assert best == [(1.0, 4), (1.0, 4), (5.0, 12), (4.0, 16), (4.0, 16)]


@pytest.mark.parametrize(
    ("values", "last"),
    [
        ([1.0, 2.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0], 28),  # the best of the phase is its first
        ([1.0, 2.0, 2.0, 2.0, math.nan, math.nan, 4.0, 5.0], 24),  # the phase has no best yet
    ],
)
def test_patience_counts_only_validations_from_where_the_cells_vary(values, last):
    trainer = varied(scripted(values, patience=2), 0.5)  # update 16
    finish(trainer)
    assert (trainer.update, trainer.finished) == (last, True)


# Clipping


def test_clipping_limits_the_gradient_that_is_followed():
    trainer = Trainer(tiny(clip=0.01, evaluate_every=1), None)
    trainer.step()
    assert gradient_norm(trainer) == pytest.approx(0.01, rel=1e-3)
    assert trainer.validate()["gradient_norm"] > 0.02  # before clipping


@pytest.mark.parametrize("clip", [0.0, 1000.0])
def test_a_gradient_within_the_limit_is_left_alone(clip):
    trainer = Trainer(tiny(clip=clip, evaluate_every=1), None)
    trainer.step()
    assert gradient_norm(trainer) == pytest.approx(trainer.validate()["gradient_norm"])


# Numbers that are not finite


def spoil_loss(result, trainer):
    return result._replace(loss=result.loss * math.inf)


def spoil_gradient(result, trainer):
    """The loss stays finite, but the slope of the root at zero is infinite."""
    weight = next(trainer.network.parameters())
    return result._replace(loss=result.loss + torch.sqrt(weight.sum() * 0))


def spoil(monkeypatch, how, update: int) -> None:
    """Let one update of every trainer come out as `how` says."""
    honest = Trainer._objective

    def objective(self, batch):
        result = honest(self, batch)
        return how(result, self) if self.update == update else result

    monkeypatch.setattr(Trainer, "_objective", objective)


@pytest.mark.parametrize("how", [spoil_loss, spoil_gradient])
def test_a_number_that_is_not_finite_changes_no_parameter(monkeypatch, how):
    spoil(monkeypatch, how, update=2)
    trainer = Trainer(tiny(), None)
    trainer.step()
    trainer.step()
    before = {name: each.clone() for name, each in trainer.network.named_parameters()}
    moments = len(trainer.optimizer.state_dict()["state"])
    with pytest.raises(Diverged, match=r"^update 3: .*training\.learning_rate \(it was 0\.003\)"):
        trainer.step()
    after = dict(trainer.network.named_parameters())
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (trainer.update, len(trainer.optimizer.state_dict()["state"])) == (2, moments)


@pytest.mark.parametrize(
    ("clip", "advice"),
    [
        (0.5, r"or a lower training\.clip \(it was 0\.5\)$"),
        (0.0, r"or clip the gradient, for example with training\.clip=1$"),
    ],
)
def test_what_to_try_after_a_divergence_depends_on_the_clipping(monkeypatch, clip, advice):
    spoil(monkeypatch, spoil_loss, update=0)
    with pytest.raises(Diverged, match=advice):
        Trainer(tiny(clip=clip), None).step()


def test_a_poisoned_weight_is_noticed():
    trainer = Trainer(tiny(), None)
    with torch.no_grad():
        next(trainer.network.head.parameters()).fill_(math.nan)
    with pytest.raises(Diverged, match="the loss is nan"):
        trainer.step()


def test_the_command_exits_with_3_and_keeps_the_last_good_checkpoint(monkeypatch, tmp_path, capsys):
    spoil(monkeypatch, spoil_loss, update=6)
    out = tmp_path / "run"
    assert main([*command_line({}), "--out", str(out)]) == 3
    error = capsys.readouterr().err
    assert error.startswith("diverged: update 7: the loss is ")
    assert error.endswith(f"the last good checkpoint is {out / 'checkpoint.pt'}\n")
    assert error.count("\n") == 1
    kept = checkpoint.load(out / "checkpoint.pt")
    assert kept["update"] == 4
    assert all(torch.isfinite(each).all() for each in kept["network"].values())


# Precision and devices


@pytest.fixture
def _plain_kernels():
    """Without oneDNN, whose bfloat16 kernels crash where a virtual machine hides half of AMX."""
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.mark.usefixtures("_plain_kernels")
@pytest.mark.parametrize(
    ("model", "estimator"), [("lstm", None), ("tardis", "gumbel"), ("tardis", "reinforce")]
)
def test_bfloat16_trains_float32_weights(model, estimator):
    trainer = Trainer(tiny("copy", model, estimator, precision="bfloat16"), None)
    before = [each.clone() for each in trainer.network.parameters()]
    rows = finish(trainer)
    after = list(trainer.network.parameters())
    assert all(math.isfinite(row["loss"]) for row in rows)
    assert {each.dtype for each in after} == {torch.float32}
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.usefixtures("_plain_kernels")
def test_bfloat16_rounds_what_float32_does_not():
    losses = [Trainer(tiny(precision=name), None).step() for name in ("float32", "bfloat16")]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def available(monkeypatch, cuda: bool, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(False, False, "cpu"), (True, False, "cuda"), (False, True, "mps"), (True, True, "cuda")],
)
def test_auto_takes_the_best_device_there_is(monkeypatch, cuda, mps, expected):
    available(monkeypatch, cuda, mps)
    assert pick_device("auto").type == expected


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "tpu", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(monkeypatch, name):
    available(monkeypatch, False, False)
    expected = f"^device '{name}' is not available; choose one of: auto, cpu$"
    with pytest.raises(UserError, match=expected):
        Trainer(tiny(), None, name)


@pytest.mark.parametrize("name", ["cpu:x", "cpu:", "cpu:0:0"])
def test_a_device_must_be_well_written(name):
    with pytest.raises(UserError, match="choose one of: auto, cpu"):
        pick_device(name)


def test_a_numbered_device_is_taken_where_there_is_one(monkeypatch):
    available(monkeypatch, True, False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UserError, match=r"^device 'cuda:2' .*: auto, cpu, cuda, cuda:0, cuda:1$"):
        pick_device("cuda:2")


def test_the_sizes_of_the_configuration_reach_the_network():
    network = Trainer(tiny(), None).network
    assert network.model.address_KA.shape[0] == MEMORY["memory.cells"]
    assert network.model.controller.hidden == 8
