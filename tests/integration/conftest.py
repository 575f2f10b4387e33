"""Every test of this folder is an integration test."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before the tests are ordered by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.integration)
