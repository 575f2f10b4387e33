"""The native code under sanitizers: no access beyond an array, no undefined step, no race.

A sample of the modes; `python -m benchmarks.tools.sanitize` takes them all.
"""

import pytest

from tests.support import sanitizers

# Of how many combinations of the modes one is run: that of the threads takes four times as long.
STRIDES = {"address,undefined": 61, "thread": 121}


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", sanitizers.SANITIZERS)
def test_edges_are_clean(sanitizer, request):
    if not sanitizers.available(sanitizer):
        pytest.skip(f"no gcc here can build for {sanitizer}")
    folder = request.config.cache.mkdir("sanitized")  # kept: building takes most of the time
    said = sanitizers.check(sanitizer, "f32", folder, STRIDES[sanitizer])
    assert said.endswith("sequences")
    assert int(said.split()[0]) >= 27  # three modes of nine sizes, on the plainest processor
