"""The one thing that pyproject.toml cannot say: the optional native kernel.

It is plain C, loaded with ctypes: it needs neither torch nor Python's headers. Where there is no
compiler the installation goes on without it.
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
            # -march=native: the library chooses among instruction sets when it runs.
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"],
            libraries=["m", "pthread"],
            optional=True,
        )
    ]
)
