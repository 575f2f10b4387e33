"""The native code under sanitizers, all modes on edge shapes.

python -m benchmarks.tools.sanitize
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tardis_core.kernels
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

SOURCES = Path(tardis_core.kernels.__file__).with_name("native")
DRIVER = Path(__file__).with_suffix(".c")
SANITIZERS = ("address,undefined", "thread")
PRECISIONS = ("f32", "f64")


def available(sanitizer: str) -> bool:
    """Whether there is a gcc whose programs run under this sanitizer."""
    if shutil.which("gcc") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }")
        program = source.with_suffix("")
        build = ["gcc", f"-fsanitize={sanitizer}", str(source), "-o", str(program)]
        return all(
            subprocess.run(each, capture_output=True).returncode == 0
            for each in (build, [str(program)])
        )


def check(sanitizer: str, precision: str, stride: int = 1) -> str:
    """Build the kernel with its driver and run it; returns what it says, raises what it finds.

    Args:
        precision: f32 or f64; the variants of the other are left out.
        stride: how many combinations of the modes to pass over; 1 takes them all.
    """
    sources = [DRIVER, SOURCES / "native.c", *sorted(SOURCES.glob(f"{precision}_*.c"))]
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-std=gnu11", "-O0", "-g"]
    flags += ["-fno-math-errno", f"-I{SOURCES}", "-Wl,--unresolved-symbols=ignore-all"]
    flags += ["-DDOUBLE"] if precision == "f64" else []
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "sanitized"))
        build = ["gcc", *flags, *map(str, sources), "-o", program, "-lm", "-lpthread"]
        subprocess.run(build, check=True, capture_output=True)
        done = subprocess.run([program, str(stride)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{sanitizer}, {precision}:\n{done.stderr[:4000]}{done.stdout}")
    return done.stdout.strip()


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run every sanitizer in both precisions."""
    Parser(prog="python -m benchmarks.tools.sanitize", description=__doc__).parse_args(arguments)
    for sanitizer in SANITIZERS:
        if not available(sanitizer):
            raise UserError(f"there is no gcc here that can build for -fsanitize={sanitizer}")
        for precision in PRECISIONS:
            print(f"{sanitizer}, {precision}: {check(sanitizer, precision)}, clean", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
