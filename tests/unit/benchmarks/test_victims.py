"""The processes that kill rounds choose from."""

import os
import subprocess

import pytest

from tests.support.victims import victims

COMMAND_LINES = {
    "worker": "ray::ImplicitFunc.train",
    "raylet": "/site-packages/ray/core/src/ray/raylet/raylet",
    "gcs": "/site-packages/ray/core/src/ray/gcs/gcs_server",
}


@pytest.mark.parametrize(
    ("part", "name"),
    [
        *COMMAND_LINES.items(),
        ("agent", "python -u /site-packages/ray/dashboard/agent.py"),
        ("agent", "python -u /site-packages/ray/_private/runtime_env/agent/main.py"),
        ("agent", "ray::DashboardAgent"),
        ("agent", "ray::RuntimeEnvAgent"),
    ],
)
def test_a_part_is_found_by_its_name(part, name):
    started = subprocess.Popen([name, "60"], executable="/bin/sleep")
    try:
        assert victims(os.getpid(), part) == [started.pid]
        others = {"worker", "delivery", "raylet", "gcs", "agent"} - {part}
        assert not any(started.pid in victims(os.getpid(), other) for other in others)
    finally:
        started.kill()
        started.wait()
