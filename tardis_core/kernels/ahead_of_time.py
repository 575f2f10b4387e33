"""The Triton kernels without a GPU: which launches a step makes, and what they compile to.

Sequences are run on meta tensors, which have shapes and no numbers: whatever needs a number on the
host, and so could not be captured in a CUDA graph, fails here.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tardis_core.kernels import triton_kernels

KERNELS = ("write_and_read", "gates", "gates_backward", "unread_unwrite")
OPTIONS = ("num_warps", "num_stages")  # of a launch; all other keywords are constants
TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.uint8: "*u8",
}
# Bytes of shared memory that one block may have, by compute capability.
SHARED_MEMORY = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


class Launch(NamedTuple):
    """One launch of a kernel: its program, the types of its arguments, its constants."""

    kernel: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]


class Resources(NamedTuple):
    """What a compiled kernel needs of a GPU."""

    registers: int  # per thread
    spilled: int  # bytes per thread that did not fit into registers
    shared: int  # bytes per block
    cubin: int  # bytes of the program


@contextmanager
def recorded_launches() -> Iterator[list[Launch]]:
    """Launch no kernel, and collect what would have been launched."""
    launches: list[Launch] = []
    originals = {name: getattr(triton_kernels, name) for name in KERNELS}
    for name, kernel in originals.items():
        setattr(triton_kernels, name, _Recorder(name, kernel, launches))
    try:
        yield launches
    finally:
        for name, kernel in originals.items():
            setattr(triton_kernels, name, kernel)


class _Recorder:
    """Takes the place of a kernel."""

    def __init__(self, name: str, kernel: Any, launches: list[Launch]) -> None:
        self.name, self.launches = name, launches
        self.arguments = kernel.arg_names

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **keywords: Any) -> None:
            constants = {key: value for key, value in keywords.items() if key not in OPTIONS}
            options = {key: value for key, value in keywords.items() if key in OPTIONS}
            types = map(_type, arguments)  # the constants come after the arguments
            signature = dict(zip(self.arguments, types, strict=False))
            signature |= dict.fromkeys(constants, "constexpr")
            ordered = tuple((name, signature[name]) for name in self.arguments)
            self.launches.append(
                Launch(self.name, ordered, tuple(constants.items()), tuple(options.items()))
            )

        return launch


def _type(argument: Any) -> str:
    return TYPES[argument.dtype] if isinstance(argument, Tensor) else "i32"


def compiled(launch: Launch, capability: int) -> Resources:
    """Compile a launch for GPUs of a compute capability: 80, 90 or 100."""
    source = ASTSource(
        fn=getattr(triton_kernels, launch.kernel),
        signature=dict(launch.signature),
        constexprs=dict(launch.constants),
    )
    target = GPUTarget("cuda", capability, 32)
    program = triton.compile(source, target=target, options=dict(launch.options))
    cubin = program.asm["cubin"]
    registers, stack, static, local = _usage(cubin)
    shared = max(static, program.metadata.shared)  # the latter is asked for at the launch
    return Resources(registers, stack + local, shared, len(cubin))


def _usage(cubin: bytes) -> tuple[int, int, int, int]:
    """Registers, stack, static shared and local memory, as NVIDIA's own tool reads them."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    usage = _USAGE.search(text)
    assert usage is not None, text
    registers, stack, shared, local = map(int, usage.groups())
    return registers, stack, shared, local
