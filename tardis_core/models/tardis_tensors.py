"""TARDIS as the tensors that a kernel takes, and what a kernel returns as TARDIS returns it."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from tardis_core.kernels.inputs import Fixed, Outputs, Trained
from tardis_core.models.base import Hidden, Reads
from tardis_core.models.controller import ControllerState
from tardis_core.models.memory import MemoryState

if TYPE_CHECKING:
    from tardis_core.models.tardis import Tardis, TardisNoise, TardisState


def modules_of(module: nn.Module) -> dict[str, Any]:
    """The submodules of a module by name.

    `nn.Module.__getattr__` takes up to a microsecond per name, and TARDIS has thirty: too long for
    a call that computes a single symbol.
    """
    return module._modules


def parameter_of(module: nn.Module, name: str = "weight") -> Any:
    """A parameter of a module, as fast; pruning and the like compute it, so `getattr` is tried."""
    parameter = module._parameters.get(name)
    return getattr(module, name) if parameter is None else parameter


def kernel_tensors(
    model: "Tardis",
    x_TBD: Tensor,
    state: "TardisState | None",
    mask_TB: Tensor | None,
    noise: "TardisNoise | None",
) -> tuple[Trained, Fixed]:
    """The weights of the model, the sequence, its state and its noise."""
    B, H = x_TBD.shape[1], model.config.hidden
    parts, weight = modules_of(model), parameter_of
    address_KA = model.address_KA[: model.cells_of(state, noise)]
    controller, addressing, estimator = (
        parts[name] for name in ("controller", "addressing", "estimator")
    )
    gates, attention = modules_of(controller), modules_of(addressing)
    memory = None if state is None else state.memory
    h_BH, c_BH = x_TBD.new_zeros(2, B, H) if state is None else state.controller
    cells = addressing.cell_weights(address_KA)
    # Without noise the read is the argmax of the logits, which has no gradient.
    through = noise is not None and estimator.read_gradient == "straight-through"
    w_tau = estimator.learned_temperature() if through else None
    trained = Trained(
        x_TBD=x_TBD,
        W_x_GD=weight(gates["W_x"]),
        b_G=weight(controller, "b"),
        W_h_GH=weight(gates["W_h"]),
        W_r_GQ=weight(gates["W_r"]),
        gain_4H=controller.gain,
        h_BH=h_BH,
        c_BH=c_BH,
        content_BKC=None if memory is None else memory.content_BKC,
        W_m_CH=weight(parts["W_m"]),
        read_W_x_PD=weight(attention["W_x"]),
        read_b_P=weight(attention["W_x"], "bias"),
        read_W_h_PH=weight(attention["W_h"]),
        read_W_c_PC=cells.content_PC,
        read_W_u_PK=cells.usage_PK,
        address_KP=cells.address_KP,
        a_P=weight(addressing, "a"),
        w_tau_1H=None if w_tau is None else w_tau.weight,
        b_tau_1=None if w_tau is None else w_tau.bias,
    )
    fixed = Fixed(
        mask_TB=mask_TB,
        dropout_TBH=noise.dropout_TBH if noise else None,
        reset=controller.reset_gates,
        attached=estimator.attached,
        softmaxes=estimator.softmaxes if through and w_tau is None else None,
        noisy_temperature=estimator.noisy_temperature,
        address_KA=address_KA,
        reads_BK=None if memory is None else memory.reads_BK,
        last_read_BK=None if memory is None else memory.last_read_BK,
        steps_B=None if memory is None else memory.steps_B,
        read_noise_TBK=noise.read_TBK if noise else None,
        spare_noise_TBSK=noise.spare_TBSK if noise else None,
        reset_noise_TB2=noise.reset_TB2 if noise else None,
    )
    return trained, fixed


def hidden_and_state(outputs: Outputs) -> tuple[Hidden, ControllerState, MemoryState]:
    """The outputs of a kernel as hidden states and the two parts of the final state."""
    reads = Reads(outputs.pi_TBK, outputs.read_TB, outputs.written_TB)
    return (
        Hidden(outputs.h_TBH, outputs.r_TBQ, reads, outputs.reset_TB2),
        ControllerState(outputs.h_BH, outputs.c_BH),
        MemoryState(outputs.content_BKC, outputs.reads_BK, outputs.last_read_BK, outputs.steps_B),
    )
