"""The batch script for Slurm, with commands of Slurm and Ray that only write down their calls."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "slurm.sh"
FAKES = {
    # Runs what follows its options here, as it would on each of its nodes.
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"',
    "scontrol": '[ "$1" = show ] && printf "node1\\nnode2\\n"\ntrue',
    # Ray is up once its head was started, which the script leaves to the background.
    "ray": '[ "$1" = status ] && exec grep -q "^ray start" calls.txt\nexec sleep 60',
    # A sweep that runs until it is asked to stop, and one that is resumed and finishes.
    "python": """case "$*" in *--resume*) exit 0 ;; esac
mkdir -p sweeps/mine && touch sweeps/mine/sweep.json
trap 'echo "driver got USR1" >> calls.txt; sleep 0.1; exit 138' USR1
trap 'echo "driver got TERM" >> calls.txt; exit 143' TERM
echo "driver ready" >> calls.txt
while true; do sleep 0.05; done""",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FAKES.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> calls.txt\n{text}\n')
        path.chmod(0o755)
    return tmp_path


def start(folder, nodes=2):
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_JOB_ID": "12345",
        "SLURM_CPUS_PER_TASK": "8",
    }
    command = ["bash", str(SCRIPT), "mine", "ptb", "--trials", "100"]
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)


def calls(folder):
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


def stopped(folder, number):
    """The exit code of the script after a signal."""
    job = start(folder)
    deadline = time.monotonic() + 20
    while "driver ready" not in calls(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    job.send_signal(number)
    return job.wait(20)


@pytest.mark.slow
def test_ray_starts_on_all_nodes_and_the_sweep_on_that_cluster(folder):
    stopped(folder, signal.SIGUSR1)
    start_ray = "ray start --block --disable-usage-stats --num-cpus=8"
    commands = calls(folder)
    assert (
        f"srun --overlap --nodes=1 --ntasks=1 --nodelist=node1 {start_ray} --head --port=32345"
        in commands
    )
    assert (
        f"srun --overlap --nodes=1 --ntasks=1 --exclude=node1 {start_ray} --address node1:32345"
        in commands
    )
    sweep = "python -m orchestrator.sweep ptb --trials 100 --name mine --address node1:32345"
    assert sweep in commands


@pytest.mark.slow
def test_before_the_time_limit_the_sweep_stops_and_the_next_run_resumes_it(folder):
    assert stopped(folder, signal.SIGUSR1) == 138
    assert "driver got USR1" in calls(folder)
    assert calls(folder)[-1] == "scontrol requeue 12345"
    assert start(folder).wait(20) == 0
    last = [each for each in calls(folder) if each.startswith("python")][-1]
    assert last == "python -m orchestrator.sweep --resume mine --address node1:32345"
    assert calls(folder).count("scontrol requeue 12345") == 1


@pytest.mark.slow
def test_a_preempted_sweep_stops_and_slurm_alone_queues_it_again(folder):
    assert stopped(folder, signal.SIGTERM) == 143
    assert "driver got TERM" in calls(folder)
    assert "scontrol requeue 12345" not in calls(folder)


@pytest.mark.slow
def test_one_node_has_no_workers(folder):
    (folder / "sweeps" / "mine").mkdir(parents=True)
    (folder / "sweeps" / "mine" / "sweep.json").touch()
    assert start(folder, nodes=1).wait(20) == 0
    assert sum(each.startswith("srun") for each in calls(folder)) == 1


def test_the_script_asks_slurm_for_the_signal_and_the_requeue():
    lines = SCRIPT.read_text().splitlines()
    assert "#SBATCH --signal=B:USR1@120" in lines
    assert "#SBATCH --requeue" in lines
