"""Build the native kernel with a sanitizer and run it over edge shapes (sanitizers.c)."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import tardis_core.kernels

SOURCES = Path(tardis_core.kernels.__file__).with_name("native")
DRIVER = Path(__file__).with_suffix(".c")
SANITIZERS = ("address,undefined", "thread")
PRECISIONS = ("f32", "f64")


def available(sanitizer: str) -> bool:
    """Whether gcc is installed and its programs run under this sanitizer."""
    if shutil.which("gcc") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }")
        program = source.with_suffix("")
        build = ["gcc", f"-fsanitize={sanitizer}", str(source), "-o", str(program)]
        return all(
            subprocess.run(command, capture_output=True).returncode == 0
            for command in (build, [str(program)])
        )


def check(sanitizer: str, precision: str, folder: Path, stride: int = 1) -> str:
    """Build the kernel with its driver and run it; returns its output, raises what it detects.

    Args:
        precision: f32 or f64; the variants of the other are left out.
        folder: for the program, which is built again only if its sources have changed.
        stride: run every so many combinations of the modes; 1 runs them all.
    """
    program = _program(sanitizer, precision, folder)
    done = subprocess.run([program, str(stride)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{sanitizer}, {precision}:\n{done.stderr[:4000]}{done.stdout}")
    return done.stdout.strip()


def _program(sanitizer: str, precision: str, folder: Path) -> Path:
    """The program, from the folder if it was built there before."""
    sources = [DRIVER, SOURCES / "native.c", *sorted(SOURCES.glob(f"{precision}_*.c"))]
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-std=gnu11", "-O0", "-g"]
    flags += ["-fno-math-errno", f"-I{SOURCES}", "-Wl,--unresolved-symbols=ignore-all"]
    flags += ["-DDOUBLE"] if precision == "f64" else []
    texts = [path.read_bytes() for path in (*sources, *sorted(SOURCES.glob("*.h")))]
    digest = hashlib.sha256(b"\0".join([repr(flags).encode(), *texts])).hexdigest()[:16]
    program = folder / f"{sanitizer.partition(',')[0]}-{precision}-{digest}"
    if not program.exists():
        for old in folder.glob(f"{program.name.rpartition('-')[0]}-*"):
            old.unlink()
        unfinished = str(program.with_suffix(".unfinished"))
        build = ["gcc", *flags, *map(str, sources), "-o", unfinished, "-lm", "-lpthread"]
        subprocess.run(build, check=True, capture_output=True)
        Path(unfinished).rename(program)
    return program
