"""As many threads as there are free cores, and none that spins."""

import subprocess
import sys

import pytest

from tardis_core import threads


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A quiet machine with 8 cores."""
    monkeypatch.delenv(threads.NUMBER, raising=False)
    monkeypatch.delenv(threads.WAIT_POLICY, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr(threads, "_cores", lambda: 8)
    monkeypatch.setattr(threads, "_busy", lambda: 0.0)


@pytest.mark.parametrize(
    ("cores", "busy", "count"),
    [(8, 0.0, 8), (8, 3.0, 5), (8, 8.0, 1), (8, 40.0, 1), (4, 4.0, 2), (1, 0.2, 1)],
)
def test_there_are_no_more_threads_than_free_cores(monkeypatch, cores, busy, count):
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    monkeypatch.setattr(threads, "_busy", lambda: busy)
    assert threads.thread_count() == count


@pytest.mark.parametrize(("given", "count"), [("3", 3), ("", 8), ("many", 8), ("0", 8)])
def test_a_number_that_the_user_sets_decides(monkeypatch, given, count):
    monkeypatch.setenv(threads.NUMBER, given)
    assert threads.thread_count() == count


@pytest.mark.slow
def test_the_command_sets_the_wait_policy_before_torch_is_imported():
    code = (
        "import os, sys, tardis_core.train as train\n"
        "assert 'torch' not in sys.modules\n"
        "train.main(['copy', '--set', 'help'])\n"
        "assert 'torch' in sys.modules\n"
        "print(os.environ['OMP_WAIT_POLICY'], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "passive", done.stderr
