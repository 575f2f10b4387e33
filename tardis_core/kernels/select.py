"""The choice of the backend that runs a sequence, and the call of it.

`reference` is the readable loop of the model itself, which says what the others must compute;
`torch` runs on any device; `native` is compiled code for the CPU, `triton` for NVIDIA GPUs. `auto`
takes the fastest backend that can run the sequence; a backend requested by name that cannot is an
error.

A model states what it needs (`Needs`), a backend what it provides (`Backend`). A new backend is one
entry in `BACKENDS`.
"""

import importlib.util
import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from tardis_core.errors import UserError
from tardis_core.kernels import library, native, torch_sequence
from tardis_core.kernels.inputs import Fixed, Outputs, Trained

_log = logging.getLogger("tardis_core")


class Needs(NamedTuple):
    """What a model needs of a backend; None where only the model's own loop computes it."""

    recurrence: str | None = None  # what a step computes: "lstm" or "tardis"
    # The gradient of the read weights with respect to the logits: "none", or "straight-through",
    # by softmaxes or by one with a learned inverse temperature.
    read_gradient: str | None = "none"
    dtype: torch.dtype | None = None  # of the weights
    estimator: str = ""  # its class, for messages


class Model(Protocol):
    """The part of a sequence model that `resolve` uses."""

    config: Any  # with the setting `backend`

    def kernel_needs(self) -> Needs:
        """What the model needs of a backend."""


def _cannot_round(dtype: torch.dtype) -> str | None:
    return "it does not compute in mixed precision"


class Backend(NamedTuple):
    """What a backend provides."""

    run: Callable[[Trained, Fixed], Outputs]
    obstacle: Callable[[str], str | None]  # why it cannot run on a type of device, if it cannot
    recurrences: tuple[str, ...] = ("lstm", "tardis")
    read_gradients: tuple[str, ...] = ("none", "straight-through")
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)
    # Why matrix products cannot round their factors to a type, if they cannot.
    rounding_obstacle: Callable[[torch.dtype], str | None] = _cannot_round


def _native_obstacle(device: str) -> str | None:
    if device != "cpu":
        return f"it is for the CPU, not for {device}"
    if library.load() is None:
        return "its library was not built when the package was installed (is there a compiler?)"
    return None


def _run_triton(trained: Trained, fixed: Fixed) -> Outputs:
    # Only now: on a machine without a GPU Triton need not be installed.
    from tardis_core.kernels import triton_sequence

    return triton_sequence.run(trained, fixed)


def _triton_obstacle(device: str) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return None  # Triton's interpreter, on any device
    if device != "cuda":
        return f"it is for NVIDIA GPUs, not for {device}"
    from tardis_core.kernels import gpu_check

    return gpu_check.obstacle()


BACKENDS = {  # the fastest first
    "native": Backend(native.run, _native_obstacle, rounding_obstacle=native.rounding_obstacle),
    "triton": Backend(_run_triton, _triton_obstacle, rounding_obstacle=lambda dtype: None),
    "torch": Backend(torch_sequence.run, lambda device: None),
}


def run(backend: str, trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence by a backend other than the reference."""
    device = trained.x_TBD.device.type
    if _autocast(device):
        fixed = fixed._replace(product_dtype=torch.get_autocast_dtype(device))
        dtype = trained.x_TBD.dtype  # some of the weights are products of weights: rounded
        trained = Trained._make(None if each is None else each.to(dtype) for each in trained)
        with torch.autocast(device, enabled=False):  # the kernels round by themselves
            return BACKENDS[backend].run(trained, fixed)
    return BACKENDS[backend].run(trained, fixed)


def _autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def resolve(model: Model, x: Tensor) -> str:
    """The backend that runs `model` on inputs of the type and device of `x`."""
    setting = model.config.backend
    if setting == "reference":
        return setting
    if setting == "auto":
        return _fastest(model, x)
    obstacle = _obstacle(BACKENDS[setting], model, x)
    if obstacle is not None:
        raise UserError(
            f"model.backend={setting} cannot run this: {obstacle}; "
            "choose model.backend=auto, which takes the fastest that can"
        )
    return setting


def _fastest(model: Model, x: Tensor) -> str:
    for name, backend in BACKENDS.items():
        if _obstacle(backend, model, x) is None:
            if name == "torch" and x.device.type == "cpu":
                _warn_that_native_is_missing()
            return name
    return "reference"


@cache  # once
def _warn_that_native_is_missing() -> None:
    _log.warning(
        "Using the torch backend: the native one, several times faster on the CPU, was not built "
        "when the package was installed. With a C compiler, install the package again."
    )


def _obstacle(backend: Backend, model: Model, x: Tensor) -> str | None:
    """Why a backend cannot run this model on such inputs, or None if it can."""
    needs, device = model.kernel_needs(), x.device.type
    if needs.recurrence not in backend.recurrences:
        return f"it has no kernel for the model {type(model).__name__}"
    if needs.read_gradient not in backend.read_gradients:
        return f"it has no kernel for the estimator {needs.estimator}"
    if x.dtype not in backend.dtypes or needs.dtype != x.dtype:
        return "it computes in float32 or float64 alone"
    return backend.obstacle(device) or _rounding_obstacle(backend, x)


def _rounding_obstacle(backend: Backend, x: Tensor) -> str | None:
    device = x.device.type
    if not _autocast(device):
        return None
    if x.dtype != torch.float32:
        return "in mixed precision it computes in float32 alone"
    return backend.rounding_obstacle(torch.get_autocast_dtype(device))
