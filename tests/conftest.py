"""Shared by all tests: one thread per process, no downloads, a cache folder per test run."""

import gc
import os

import hypothesis
import pytest

# Set before torch is imported and inherited by child processes: on two cores, two test processes
# with two threads each take three times as long. Torch itself is not imported here, because the
# process that only hands out tests would wait for it.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TARDIS_OFFLINE", "1")
# The same examples in every run, on a busy machine, too.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")
gc.disable()  # until everything is imported, which would take an eighth longer


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One per processor, and one more if slow tests run, which often wait for other processes."""
    fast = "not slow" in config.getoption("markexpr")
    return min((os.cpu_count() or 1) + (not fast), 8)


def pytest_collection_finish() -> None:
    """Leave out of garbage collections what was imported: it would take most of their time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, then integration tests, so that no worker waits for the other."""
    items.sort(key=_priority)


def _priority(item: pytest.Item) -> int:
    markers = {marker.name for marker in item.iter_markers()}
    return 0 if "slow" in markers else 1 if "integration" in markers else 2


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Keep converted and parsed data of a test run in its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        if "TARDIS_CACHE" not in os.environ:
            patch.setenv("TARDIS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
