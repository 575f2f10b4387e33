"""Run the native kernel under sanitizers: all modes, edge shapes, both precisions.

python -m benchmarks.tools.sanitize
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.sanitizers import PRECISIONS, SANITIZERS, available, check


def main() -> int:
    """Run every sanitizer in both precisions."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.sanitize", description=(__doc__ or "").splitlines()[0]
    )
    parser.parse_args()
    for sanitizer in SANITIZERS:
        if not available(sanitizer):
            parser.error(f"-fsanitize={sanitizer} needs a gcc that supports it; none is installed")
        for precision in PRECISIONS:
            with TemporaryDirectory() as folder:
                ran = check(sanitizer, precision, Path(folder))
            print(f"{sanitizer}, {precision}: {ran}, clean", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
