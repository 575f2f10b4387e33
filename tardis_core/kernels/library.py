"""The compiled library: finding it, and calling it through ctypes."""

import ctypes
import struct
from collections.abc import Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

_SIZES = "T B D H K A C P reset norm soft softmaxes attached keep threads"
_POINTERS = """
    x_TBD W_x_GD b_G W_h_GH W_r_GQ gain_4H W_m_CH
    read_W_x_PD read_b_P read_W_h_PH read_W_c_PC read_W_u_PK
    address_KP a_P w_tau_1H b_tau_1 address_KA
    read_noise_TBK reset_noise_TB2 dropout_TBH mask_TB p_STBK scale_S
    h0_BH c0_BH content0_BKC reads0_BK last0_BK steps0_B
    h_TBH h_out_TBH r_TBQ pi_TBK reset_TB2 read_TB written_TB tape
    h_BH c_BH content_BKC reads_BK last_BK steps_B
    dh_out_TBH dr_TBQ dpi_TBK dreset_TB2
    dh_BH dc_BH dcontent_BKC
    dx_TBD dW_x_GD db_G dW_h_GH dW_r_GQ dgain_4H dW_m_CH
    dread_W_x_PD dread_b_P dread_W_h_PH dread_W_c_PC dread_W_u_PK
    daddress_KP da_P dw_tau_1H db_tau_1
"""

_INTEGERS = ("read_TB", "written_TB", "steps0_B", "steps_B")
# The types of what is not of the type of the sequence.
_OTHER_DTYPES = {"mask_TB": torch.bool, **dict.fromkeys(_INTEGERS, torch.int64)}

LAYOUT = 7  # of `Problem` and the entry points; as in native/common.h: no old library is ever used
LEVELS = ("base", "avx2", "avx512")  # instruction sets, as native.c numbers them
BF16_LEVELS = {3: "bf16", 4: "amx"}  # those whose products round their factors to bfloat16


# `Problem` of native/problem.h, its names in their order; all are integers of 8 bytes. Packed by
# `struct`, as a `ctypes.Structure` would take longer to fill than a short sequence to run.
_FIELDS = (*_SIZES.split(), "parallel", *_POINTERS.split())
_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_PROBLEM = struct.Struct(f"{len(_FIELDS)}q")


@cache
def load() -> ctypes.CDLL | None:
    """The library that was built when the package was installed, or None."""
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_native{suffix}")
        if path.exists():
            try:
                library = ctypes.CDLL(str(path))
                library.tardis_tape_size.restype = ctypes.c_int64
                fits = (library.tardis_layout(), library.tardis_size())
            except (OSError, AttributeError):  # built for another machine, or long ago
                return None
            return library if fits == (LAYOUT, _PROBLEM.size) else None
    return None


@cache
def best_level() -> int:
    """The best instruction set of this machine, an index of `LEVELS`."""
    library = load()
    assert library is not None
    return library.tardis_best_level()


@cache
def bf16_level() -> int | None:
    """The best of `BF16_LEVELS` on this machine, if it has any."""
    library = load()
    return None if library is None else library.tardis_bf16_level() or None


@cache
def _pool() -> int:
    """The OpenMP runtime that torch has loaded, or 0: sharing its threads saves starting others."""
    start = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    return 0 if start is None else ctypes.cast(start, ctypes.c_void_p).value or 0


class Sizes(NamedTuple):
    """The sizes and switches of `Problem`, in its order."""

    T: int
    B: int
    D: int
    H: int
    K: int
    A: int
    C: int
    P: int
    reset: bool
    norm: bool
    soft: bool
    softmaxes: int
    attached: bool
    keep: bool
    threads: int


def _problem(sizes: Sizes) -> list[int]:
    """A problem without any tensor."""
    return [*sizes, *[0] * (len(_FIELDS) - len(sizes))]


def tape_size(sizes: Sizes) -> int:
    """The number of values that forward leaves for backward."""
    library = load()
    assert library is not None
    return library.tardis_tape_size(_PROBLEM.pack(*_problem(sizes)))


def run(
    sizes: Sizes,
    tensors: Mapping[str, Tensor],
    *,
    backward: bool,
    level: int | None = None,
    share_pool: bool = True,
) -> None:
    """Run the sequence forward or backward; the tensors are read and written where they are.

    Args:
        tensors: contiguous, by the names of `Problem`; what is missing is NULL.
        level: the instruction set, an index of `LEVELS` or one of `BF16_LEVELS`; the best one of
            `LEVELS` unless given.
        share_pool: use torch's threads rather than new ones.
    """
    library = load()
    assert library is not None, "the caller has asked whether there is a library"
    real = tensors["x_TBD"].dtype
    problem = _problem(sizes)
    if share_pool:
        problem[_PLACES["parallel"]] = _pool()
    for name, tensor in tensors.items():
        dtype = _OTHER_DTYPES.get(name, real)
        if tensor.dtype != dtype or not tensor.is_cpu:  # C would misread it, or what lies beyond it
            raise TypeError(
                f"{name} is {tensor.dtype} on {tensor.device}, "
                f"but the native kernel needs {dtype} on cpu"
            )
        problem[_PLACES[name]] = tensor.data_ptr()
    chosen = best_level() if level is None else level
    is_double = int(real == torch.float64)
    if library.tardis_run(_PROBLEM.pack(*problem), is_double, int(backward), chosen):
        raise MemoryError("the native kernel could not get the memory that it needs")
