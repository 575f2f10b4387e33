"""Whether the Triton kernels compile on this GPU and agree with the torch backend.

Done once per kind of GPU and versions of the software; the answer is kept in Triton's own cache.
"""

import functools
import json
import logging
from collections.abc import Callable

import torch
import triton
from triton.runtime.cache import get_cache_manager

from tardis_core._version import __version__
from tardis_core.kernels import torch_sequence, triton_sequence
from tardis_core.kernels.inputs import Fixed, Outputs, Trained

Run = Callable[[Trained, Fixed], Outputs]
TOLERANCE = 1e-3  # of single precision, relative to the size of a result
T, B, D, H, K, P, A, C = 8, 2, 8, 48, 6, 16, 4, 24
_log = logging.getLogger("tardis_core")


def obstacle() -> str | None:
    """Why the kernels cannot be used on the present GPU, or None if they can."""
    return _checked(torch.cuda.current_device())


@functools.cache
def _checked(device: int) -> str | None:
    name, version = torch.cuda.get_device_name(device), torch.__version__
    key = f"tardis-check-{name}-{version}-{triton.__version__}-{__version__}"
    cache = get_cache_manager(key.encode().hex()[:200])
    path = cache.get_file("check.json")
    if path is not None:
        with open(path) as file:
            return json.load(file)["obstacle"]
    reason = _check(torch.device("cuda", device))
    cache.put(json.dumps({"obstacle": reason}), "check.json", binary=False)
    if reason is not None:
        _log.warning("Using the torch backend on %s: %s.", name, reason)
    return reason


def _check(device: torch.device) -> str | None:
    trained, fixed = problem(device)
    try:
        difference = largest_difference(trained, fixed)
    except Exception as error:  # whatever a compiler or a driver raises
        return f"its kernels do not run there ({type(error).__name__}: {str(error)[:120]})"
    if difference > TOLERANCE:
        return f"its kernels disagree with the torch backend by {difference:.2g}"
    return None


def problem(device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[Trained, Fixed]:
    """A small random sequence with everything that a model can have."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3
        return values.to(device, dtype).requires_grad_()

    def constant(*shape: int) -> torch.Tensor:
        return random(*shape).detach()

    trained = Trained(
        x_TBD=random(T, B, D),
        W_x_GD=random(4 * H + 2, D),
        b_G=random(4 * H + 2),
        W_h_GH=random(4 * H + 2, H),
        W_r_GQ=random(4 * H + 2, A + C),
        gain_4H=random(4, H),
        h_BH=random(B, H),
        c_BH=random(B, H),
        W_m_CH=random(C, H),
        read_W_x_PD=random(P, D),
        read_b_P=random(P),
        read_W_h_PH=random(P, H),
        read_W_c_PC=random(P, C),
        read_W_u_PK=random(P, K),
        address_KP=random(K, P),
        a_P=random(P),
        w_tau_1H=random(1, H),
        b_tau_1=random(1),
    )
    fixed = Fixed(
        mask_TB=constant(T, B) > -0.3,
        dropout_TBH=constant(T, B, H).abs(),
        reset=True,
        attached=True,
        address_KA=constant(K, A),
        read_noise_TBK=constant(T, B, K),
        reset_noise_TB2=constant(T, B, 2),
    )
    return trained, fixed


def largest_difference(trained: Trained, fixed: Fixed) -> float:
    """Between the two backends, of all outputs and gradients, relative to their size."""
    results = [_results(run, trained, fixed) for run in (torch_sequence.run, triton_sequence.run)]
    return max(
        float((one - other).abs().max() / (1 + one.abs().max()))
        for one, other in zip(*results, strict=True)
    )


def _results(run: Run, trained: Trained, fixed: Fixed) -> list[torch.Tensor]:
    outputs = run(trained, fixed)
    results = [each for each in outputs if each is not None]
    loss = sum(each.square().sum() for each in results if each.requires_grad)
    assert isinstance(loss, torch.Tensor)
    leaves = [each for each in trained if each is not None]
    return [*(each.detach() for each in results), *torch.autograd.grad(loss, leaves)]
