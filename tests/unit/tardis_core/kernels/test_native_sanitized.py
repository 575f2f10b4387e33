"""The native code under sanitizers: no access beyond an array, no undefined step, no race.

A sample of the modes; `python -m benchmarks.tools.sanitize` takes them all.
"""

import pytest

from tests.support import sanitizers


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", sanitizers.SANITIZERS)
def test_edges_are_clean(sanitizer, request):
    if not sanitizers.available(sanitizer):
        pytest.skip(f"no gcc here can build for {sanitizer}")
    folder = request.config.cache.mkdir("sanitized")  # kept: building takes most of the time
    said = sanitizers.check(sanitizer, "f32", folder, stride=61)
    assert said.endswith("sequences")
    assert int(said.split()[0]) >= 60
