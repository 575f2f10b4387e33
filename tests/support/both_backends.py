"""Run the same sequence on two backends and compare outputs, final state and all gradients."""

import dataclasses

import torch

from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS, flatten_state, map_state
from tardis_core.models.controller import LstmConfig
from tardis_core.models.tardis import MemoryConfig, TardisConfig


def randomise(module, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, scale, generator=generator)
    return module


def make_model(
    kind="gumbel",
    *,
    D=3,
    H=5,
    K=4,
    A=2,
    C=3,
    P=3,
    seed=0,
    scale=0.6,
    dtype=torch.float64,
    **options,
):
    """A model with random parameters; `kind` is an estimator of TARDIS, or "lstm".

    An estimator may be followed by the name of one of its switches, as "straight-through learned".
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # that of all devices takes milliseconds
        if kind == "lstm":
            model = MODELS.get("lstm")(D, LstmConfig(hidden=H, **options), None, None)
        else:
            name, *switches = kind.split()
            estimator = ESTIMATORS.get(name)
            settings = estimator.Config(**dict.fromkeys(switches, True))
            memory = MemoryConfig(cells=K, address=A, content=C, attention=P)
            config = TardisConfig(hidden=H, **options)
            model = MODELS.get("tardis")(D, config, memory, estimator(settings, D, H))
    return randomise(model.to(dtype), seed, scale)


def set_backend(model, backend):
    model.config = dataclasses.replace(model.config, backend=backend)
    return model


def random_state(model, B, seed, generator):
    """A state in the middle of a text, with some cells written and some reads counted."""
    like = next(model.parameters())
    state = map_state(torch.clone, model.initial_state(B, like))
    parts = getattr(state, "controller", state)
    parts.h_BH.normal_(0, 0.5, generator=generator)
    parts.c_BH.normal_(0, 0.5, generator=generator)
    if hasattr(state, "memory"):
        memory = state.memory
        K = memory.reads_BK.shape[1]
        memory.steps_B.copy_(torch.randint(0, 2 * K, (B,), generator=generator))
        written = torch.arange(K) < memory.steps_B.unsqueeze(1)
        noise = torch.randn(memory.content_BKC.shape, generator=generator, dtype=like.dtype)
        memory.content_BKC.copy_(noise * written.unsqueeze(2))
        reads = torch.randint(0, 5, (B, K), generator=generator)
        memory.reads_BK.copy_(reads * (memory.steps_B > 0).unsqueeze(1))
        last = torch.randint(0, K, (B,), generator=generator)
        one_hot = torch.nn.functional.one_hot(last, K) * (memory.steps_B > 0).unsqueeze(1)
        memory.last_read_BK.copy_(one_hot)
    return state


def differentiable(state):
    parts = getattr(state, "controller", state)
    chosen = [parts.h_BH, parts.c_BH]
    if hasattr(state, "memory"):
        chosen.append(state.memory.content_BKC)
    return chosen


def run(model, backend, T, B, *, seed=0, noise=True, mask=False, carried=False, pi_loss=True):
    """All outputs of a sequence and the gradients of a random function of them, by name."""
    set_backend(model, backend)
    generator = torch.Generator().manual_seed(100 + seed)
    like = next(model.parameters())
    D = model.controller.W_x.in_features
    x = torch.randn(T, B, D, generator=generator, dtype=like.dtype).requires_grad_()
    state = None
    if carried:
        state = random_state(model, B, seed, generator)
        for each in differentiable(state):
            each.requires_grad_()
    mask_TB = torch.rand(T, B, generator=generator) < 0.7 if mask else None
    drawn = model.draw_noise(x, generator) if noise else None
    model.zero_grad()
    hidden, final = model(x, state, mask_TB, drawn)

    outputs = {"h": hidden.h_TBH}
    for n, each in enumerate(differentiable(final)):
        outputs[f"final {n}"] = each
    if hidden.r_TBQ is not None:
        outputs["r"] = hidden.r_TBQ
        if pi_loss:
            outputs["pi"] = torch.log_softmax(hidden.reads.pi_TBK, -1)
    if hidden.reset_TB2 is not None:
        outputs["reset"] = hidden.reset_TB2
    loss = sum(
        (each * torch.randn(each.shape, generator=generator, dtype=each.dtype)).sum()
        for each in outputs.values()
    )
    loss.backward()

    results = {name: each.detach() for name, each in outputs.items()}
    for n, each in enumerate(flatten_state(final)):
        results[f"state {n}"] = each.detach()
    if hidden.reads is not None:
        results |= {"read": hidden.reads.read_TB, "written": hidden.reads.written_TB}
        results["logits"] = hidden.reads.pi_TBK.detach()
    results["gradient x"] = x.grad
    for name, parameter in model.named_parameters():
        results[f"gradient {name}"] = parameter.grad
    if carried:
        for n, each in enumerate(differentiable(state)):
            results[f"gradient state {n}"] = each.grad
    return results


def difference(one, other):
    """The largest relative difference of any output or gradient, and its name."""
    assert one.keys() == other.keys()
    worst, where = 0.0, ""
    for name, a in one.items():
        b = other[name]
        assert (a is None) == (b is None), name
        if a is None:
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        if not a.numel():
            continue
        distance = float((a - b).abs().max() / (1 + a.abs().max()))
        if not distance <= worst:  # also if it is NaN
            worst, where = distance, name
    return worst, where
