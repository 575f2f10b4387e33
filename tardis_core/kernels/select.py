"""Which backend runs a sequence, and running it.

`reference` is the readable loop of the model itself, which says what the others must compute;
`torch` runs on any device; `native` is compiled code for the CPU. `auto` takes the fastest that
can; a backend that was asked for by name and cannot is an error.
"""

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tardis_core.errors import UserError
from tardis_core.estimators.gumbel import Gumbel
from tardis_core.estimators.reinforce import Reinforce
from tardis_core.kernels import inputs, library, native, torch_sequence, triton_sequence
from tardis_core.models.base import Hidden, SequenceModel, State

if TYPE_CHECKING:
    from tardis_core.models.baselines.lstm import Lstm
    from tardis_core.models.tardis import Tardis

_RUN = {
    "native": native.run,
    "torch": torch_sequence.run,
    "triton": triton_sequence.run,
}  # the fastest first
_log = logging.getLogger("tardis_core")


def resolve(model: SequenceModel, x: Tensor) -> str:
    """The backend that runs `model` on inputs of the type and device of `x`."""
    asked = model.config.backend
    if asked == "reference":
        return asked
    if asked == "auto":
        found = next((name for name in _RUN if _obstacle(name, model, x) is None), "reference")
        if found == "torch" and x.device.type == "cpu":
            _say_why_not_native()
        return found
    obstacle = _obstacle(asked, model, x)
    if obstacle is not None:
        raise UserError(
            f"model.backend={asked} cannot run this: {obstacle}; "
            "choose model.backend=auto, which takes the fastest that can"
        )
    return asked


@cache  # once
def _say_why_not_native() -> None:
    _log.warning(
        "The torch backend is used: the native one, several times faster on the CPU, was not built "
        "when the package was installed. With a C compiler, install the package again."
    )


@cache  # looked up once: the models import this module
def _models() -> tuple[type, ...]:
    """Those that have kernels."""
    from tardis_core.models.baselines.lstm import Lstm
    from tardis_core.models.tardis import Tardis

    return Lstm, Tardis


def _obstacle(backend: str, model: SequenceModel, x: Tensor) -> str | None:
    """Why a backend cannot run this model on such inputs, or None if it can."""
    # The exact classes: a subclass may compute something else.
    if type(model) not in _models():
        return f"it has no kernel for the model {type(model).__name__}"
    parts = inputs.modules_of(model)
    if "estimator" in parts and type(parts["estimator"]) not in (Gumbel, Reinforce):
        return f"it has no kernel for the estimator {type(parts['estimator']).__name__}"
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return "it does not compute in mixed precision"
    weight = inputs.parameter_of(parts["controller"], "b")
    if x.dtype not in (torch.float32, torch.float64) or weight.dtype != x.dtype:
        return "it computes in float32 or float64 alone"
    if backend == "native":
        if kind != "cpu":
            return f"it is for the CPU, not for {kind}"
        if library.load() is None:
            return "its library was not built when the package was installed (is there a compiler?)"
    return None


def run_lstm(
    backend: str, model: "Lstm", x_TBD: Tensor, state: State, mask_TB: Tensor | None, noise: Any
) -> tuple[Hidden, Any]:
    """`Lstm.forward` by a backend other than the reference."""
    trained, fixed = inputs.of_lstm(model, x_TBD, state, mask_TB, noise)
    return inputs.lstm_result(_RUN[backend](trained, fixed))


def run_tardis(
    backend: str, model: "Tardis", x_TBD: Tensor, state: State, mask_TB: Tensor | None, noise: Any
) -> tuple[Hidden, Any, Any]:
    """`Tardis.forward` by a backend other than the reference; the state comes in its two parts."""
    estimator = inputs.modules_of(model)["estimator"]
    trained, fixed = inputs.of_tardis(
        model,
        x_TBD,
        state,
        mask_TB,
        noise,
        soft=noise is not None and isinstance(estimator, Gumbel),
        attached=estimator.attached,
    )
    return inputs.tardis_result(_RUN[backend](trained, fixed))
