"""Build the optional native kernel, which pyproject.toml cannot describe.

It is plain C, loaded with ctypes, and needs neither torch nor Python's headers. Without a compiler
the installation succeeds without it.
"""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("tardis_core/kernels/native")

setup(
    ext_modules=[
        Extension(
            "tardis_core.kernels._native",
            sources=sorted(str(path) for path in SOURCES.glob("*.c")),
            depends=sorted(str(path) for path in SOURCES.glob("*.h")),
            # No -ffast-math, which changes the rounding of the whole process, and no
            # -march=native, because the library chooses the instruction set at run time.
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"],
            libraries=["m", "pthread"],
            optional=True,
        )
    ]
)
