"""The readable model is what these tests are about, not the kernels that must equal it."""

import pytest

from tardis_core.kernels import select


@pytest.fixture(autouse=True, scope="module")
def _auto_is_the_reference():
    """`model.backend=auto` runs the readable loop; a backend named by a test runs as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_fastest", lambda model, x: "reference")
        yield
