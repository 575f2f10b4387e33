"""Which backend runs, how a refusal is explained, and what backward supports."""

import gc
import weakref

import pytest
import torch

from tardis_core.build import build_network, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.estimators.gumbel import Gumbel
from tardis_core.kernels import library, resolve, select
from tardis_core.models.base import MODELS, map_state
from tardis_core.models.tardis import Tardis
from tardis_core.tasks.base import TASKS
from tardis_core.training.loop import Trainer
from tests.support.both_backends import make_model, set_backend

BACKENDS = ("native", "torch")
KINDS = ("lstm", "gumbel", "reinforce")
backends = pytest.mark.parametrize("backend", BACKENDS)
kinds = pytest.mark.parametrize("kind", KINDS)

X = torch.zeros(2, 3, 3, dtype=torch.float64)


class OtherTardis(Tardis):
    """It may compute something else."""


class OtherGumbel(Gumbel):
    """It may read in another way."""


@kinds
def test_auto_selects_the_native_backend(kind):
    assert resolve(make_model(kind), X) == "native"


@kinds
def test_the_reference_can_be_selected(kind):
    assert resolve(set_backend(make_model(kind), "reference"), X) == "reference"


def test_a_subclass_runs_its_own_code():
    model = make_model("gumbel")
    model.__class__ = OtherTardis
    assert resolve(model, X) == "reference"
    with pytest.raises(UserError, match="no kernel for the model OtherTardis; choose"):
        resolve(set_backend(model, "native"), X)


def test_an_unknown_estimator_runs_on_the_reference():
    model = make_model("gumbel")
    model.estimator.__class__ = OtherGumbel
    assert resolve(model, X) == "reference"
    with pytest.raises(UserError, match="no kernel for the estimator OtherGumbel"):
        resolve(set_backend(model, "native"), X)


@pytest.mark.parametrize("name", MODELS.names())
def test_a_model_without_a_kernel_runs_on_the_reference(name):
    config = make_config("copy", name, scale="smoke")
    signature = TASKS.get("copy").signature
    model, x = build_network(config, signature).model, torch.zeros(2, 3, signature.inputs)
    backend = resolve(model, x)
    assert backend == ("native" if name in ("lstm", "tardis") else "reference")
    if backend == "reference":
        with pytest.raises(UserError, match="no kernel for the model"):
            resolve(set_backend(model, "native"), x)


def test_mixed_precision_runs_on_the_reference_without_instructions_for_it(monkeypatch):
    monkeypatch.setattr(library, "bf16_level", lambda: None)
    model = make_model("lstm", dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert resolve(model, X.float()) == "reference"
        with pytest.raises(UserError, match="no instructions for bfloat16"):
            resolve(set_backend(model, "native"), X.float())


@pytest.mark.skipif(library.bf16_level() is None, reason="this CPU has no AVX512_BF16")
def test_mixed_precision_in_bfloat16_and_no_other_type_is_native():
    model = make_model("lstm", dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert resolve(model, X.float()) == "native"
    cannot = pytest.raises(UserError, match="it cannot round to float16")
    with torch.autocast("cpu", dtype=torch.float16), cannot:
        resolve(set_backend(model, "native"), X.float())


def test_half_precision_runs_on_the_reference():
    model = make_model("lstm", dtype=torch.bfloat16)
    assert resolve(model, X.bfloat16()) == "reference"


def test_the_name_of_a_backend_is_checked():
    with pytest.raises(UserError, match=r"model\.backend must be one of auto"):
        make_config("copy", overrides={"model.backend": "fast"})


@backends
@kinds
def test_retain_graph_gives_the_same_gradient_again(backend, kind):
    model = set_backend(make_model(kind), backend)
    x = torch.randn(6, 3, 3, dtype=torch.float64, requires_grad=True)
    loss = model(x)[0].h_TBH.square().sum()
    parameters = [x, model.controller.W_h.weight, model.controller.b]
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    second = torch.autograd.grad(loss, parameters, retain_graph=True)
    third = torch.autograd.grad(loss, parameters)
    for one, two, three in zip(first, second, third, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, parameters)


def test_a_second_backward_without_a_retained_graph_is_refused(monkeypatch):
    monkeypatch.setattr("tardis_core.kernels.native._graph_is_kept", lambda: False)
    model = set_backend(make_model("gumbel"), "native")
    loss = model(X)[0].h_TBH.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"overwritten.*model\.backend=reference"):
        loss.backward()


@backends
def test_second_derivatives_are_refused(backend):
    model = set_backend(make_model("lstm"), backend)
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"no second derivative.*model\.backend=reference"):
        torch.autograd.grad(model(x)[0].h_TBH.sum(), x, create_graph=True)


@backends
def test_weights_changed_before_backward_are_noticed(backend):
    model = set_backend(make_model("lstm"), backend)
    loss = model(X)[0].h_TBH.sum()
    with torch.no_grad():
        model.controller.W_h.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@backends
def test_frozen_parameters_get_no_gradient(backend):
    model = set_backend(make_model("gumbel"), backend)
    model.controller.requires_grad_(False)
    hidden, _ = model(X, noise=model.draw_noise(X, torch.Generator().manual_seed(0)))
    hidden.h_TBH.sum().backward()
    assert model.controller.W_h.weight.grad is None
    assert model.W_m.weight.grad is not None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_a_mask_of_numbers_is_refused(dtype):
    """Each of its bytes would be taken for a step."""
    model, mask = set_backend(make_model("gumbel"), "native"), torch.ones(2, 3, dtype=dtype)
    with pytest.raises(TypeError, match=rf"mask_TB is {dtype} on cpu, .* needs torch\.bool on cpu"):
        model(X, None, mask)


def test_a_state_of_another_type_is_refused():
    model = set_backend(make_model("gumbel"), "native")
    _, state = model(X)
    with pytest.raises(TypeError, match=r"steps0_B is torch\.float64 on cpu, .* torch\.int64"):
        model(X, map_state(torch.Tensor.double, state))


def test_weights_on_another_device_than_the_inputs_are_refused():
    model = set_backend(make_model("gumbel"), "native").to("meta")
    with pytest.raises(TypeError, match=r"is torch\.float64 on meta, .* torch\.float64 on cpu"):
        model(X)


@backends
def test_a_carried_state_does_not_hold_the_sequence_in_memory(backend):
    model = set_backend(make_model("gumbel", H=6, K=3), backend)
    _, state = model(torch.zeros(500, 2, 3, dtype=torch.float64))
    for each in (*state.controller, *state.memory):
        assert each.untyped_storage().nbytes() <= 500


@backends
@pytest.mark.parametrize(("kind", "kept"), [("gumbel", True), ("reinforce", False)])
def test_read_noise_is_kept_only_where_backward_needs_it(backend, kind, kept):
    model = set_backend(make_model(kind), backend)
    noise = model.draw_noise(X, torch.Generator().manual_seed(0))
    still_there = weakref.ref(noise.read_TBK)
    hidden, _ = model(X, noise=noise)
    del noise
    gc.collect()
    assert (still_there() is not None) == kept
    (hidden.h_TBH.sum() + hidden.reads.pi_TBK.sum()).backward()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
@pytest.mark.parametrize("task", ["copy", "ptb"])
def test_a_seeded_training_run_has_the_same_losses(task, estimator):
    small = {"model.hidden": 12, "training.updates": 12}
    small |= {"task.length": 20, "task.streams": 8} if task == "ptb" else {}
    data = load_data(make_config(task, scale="smoke", overrides=small), source="standin")

    def losses(backend):
        overrides = {**small, "model.backend": backend}
        config = make_config(task, estimator=estimator, scale="smoke", overrides=overrides)
        trainer = Trainer(config, data)
        trainer.network.double()  # so that no rounding flips the choice of a cell
        assert trainer.backend == backend
        return [trainer.step() for _ in range(12)]

    expected = losses("reference")
    for backend in BACKENDS:
        assert losses(backend) == pytest.approx(expected, rel=1e-8)


def test_the_backend_is_recorded():
    config = make_config("copy", scale="smoke", overrides={"model.hidden": 8})
    assert Trainer(config, load_data(config)).model_state()["backend"] == "native"


def test_without_the_library_auto_selects_torch_and_native_is_refused(monkeypatch, caplog):
    monkeypatch.setattr(library, "load", lambda: None)
    select._warn_that_native_is_missing.cache_clear()
    model = make_model("gumbel")
    assert [resolve(model, X) for _ in range(3)] == ["torch"] * 3
    assert len(caplog.messages) == 1
    assert "torch backend" in caplog.messages[0]
    with pytest.raises(UserError, match="not built when the package was installed"):
        resolve(set_backend(model, "native"), X)


def test_only_the_cpu_has_a_native_backend():
    assert resolve(make_model("gumbel").to("meta"), X.to("meta")) == "torch"


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@kinds
def test_the_torch_backend_copies_nothing_to_the_host(kind, norm):
    """On the meta device there are no numbers: whoever asked for one would fail."""
    model = set_backend(make_model(kind, layer_norm=norm, recurrent_dropout=0.1), "torch")
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    noise = model.draw_noise(x, torch.Generator().manual_seed(0))
    model, mask = model.to("meta"), torch.ones(7, 2, dtype=torch.bool, device="meta")
    there = type(noise)(*(None if each is None else each.to("meta") for each in noise))
    hidden, state = model(x.to("meta"), None, mask, there)
    hidden, _ = model(x.to("meta"), state, mask, there)
    hidden.h_TBH.sum().backward()
    assert model.controller.W_h.weight.grad.is_meta
