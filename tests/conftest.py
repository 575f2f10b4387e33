"""What all tests share: one thread a process, and never a download or a home folder."""

import os

# Before torch is imported, also in the processes that tests start: two test processes with two
# threads each, on two cores, take three times as long.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TARDIS_OFFLINE", "1")

import pytest
import torch

torch.set_num_threads(1)

# Files that take longest, begun first: in the end no worker waits for the other.
LONGEST = ("test_sweep_end_to_end.py", "test_compare_end_to_end.py", "test_placement.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the tests: the longest files, then the rest as it was."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Converted and parsed data of a test run goes to a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if "TARDIS_CACHE" not in os.environ:
            patch.setenv("TARDIS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
