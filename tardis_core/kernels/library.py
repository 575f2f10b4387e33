"""The compiled library: finding it, and calling it through ctypes."""

import ctypes
from collections.abc import Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from torch import Tensor

_SIZES = "T B H K A C P reset norm soft attached keep shares"
_POINTERS = """
    W_GS gain_4H bias_4H W_m_CH W_h_PH W_c_PC address_KP W_u_KP a_P w_tau_H b_tau address_KA
    read_noise_TBK reset_noise_TB2 dropout_TBH mask_TB content0_BKC usage0_BP
    gates_TBG common_TBP h_TBH c_TBH h_out_TBH r_TBQ pi_TBK reset_TB2 read_TB written_TB
    content_BKC reads_BK last_B steps_B
    micro_TBC tau_TB usage_scale_TB norm_scale_TB4 before_TB
    dh_out_TBH dr_TBQ dpi_TBK dreset_TB2
    dh_BH dc_BH dcontent_BKC dmicro_TBC drow_TBP dtau_TB drow0_BKP dusage_BP
    da_1P daddress_1KP dW_u_1KP dgain_1_4H dbias_1_4H
"""

LEVELS = ("base", "avx2", "avx512")  # instruction sets, as native.c numbers them


class Problem(ctypes.Structure):
    """`Problem` of native/problem.h: the names and their order are the same."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES.split()),
        ("parallel", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in _POINTERS.split()),
    )


@cache
def load() -> ctypes.CDLL | None:
    """The library that was built when the package was installed, or None."""
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_native{suffix}")
        if path.exists():
            try:
                library = ctypes.CDLL(str(path))
            except OSError:  # built for another machine
                return None
            return library if library.tardis_problem_size() == ctypes.sizeof(Problem) else None
    return None


@cache
def _pool() -> int | None:
    """The OpenMP runtime that torch has loaded: sharing its threads saves starting others."""
    start = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    return None if start is None else ctypes.cast(start, ctypes.c_void_p).value


def run(
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor | None],
    *,
    backward: bool,
    level: int | None = None,
    share_pool: bool = True,
) -> None:
    """Run the sequence forward or backward; the tensors are read and written where they are.

    Args:
        sizes: the sizes and switches of `Problem`.
        tensors: by the names of `Problem`; what is missing or None is NULL.
        level: the instruction set, an index of `LEVELS`; the best there is unless given.
        share_pool: use torch's threads rather than new ones.
    """
    library = load()
    assert library is not None, "the caller has asked whether there is a library"
    problem = Problem(**sizes, parallel=_pool() if share_pool else None)
    gates_TBG = tensors["gates_TBG"]
    assert gates_TBG is not None
    real = gates_TBG.dtype
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.is_floating_point() and tensor.dtype != real:
            raise TypeError(f"{name} is {tensor.dtype}, but the sequence is {real}")
        assert tensor.is_contiguous(), name
        setattr(problem, name, tensor.data_ptr())
    is_double = real == torch.float64
    best = library.tardis_best_level() if level is None else level
    if library.tardis_run(ctypes.byref(problem), int(is_double), int(backward), best):
        raise MemoryError("the native kernel could not get the memory that it needs")
