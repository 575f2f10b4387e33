"""Where a result comes from: the code's commit, the command, the user and the hardware."""

import getpass
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from orchestrator.common.redaction import masked


def git_commit() -> str:
    """The commit of the running code, marked if files differ from it, or "unknown".

    A container image has no history: its build sets TARDIS_COMMIT.
    """
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    try:
        done = subprocess.run(describe, capture_output=True, text=True, check=True, cwd=folder)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("TARDIS_COMMIT") or "unknown"
    return done.stdout.strip()


def command_line() -> str:
    """The command of this process as it was typed, without passwords."""
    program, *words = sys.orig_argv
    return masked(shlex.join([Path(program).name, *words]))


def user() -> str:
    """Who runs this process; "unknown" in a container without that user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def hardware() -> str:
    """Processor, cores and GPUs of this machine."""
    import torch  # takes a second, and `user` needs none of it

    gpus = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    return f"{processor()}, {os.cpu_count()} cores, {', '.join(gpus) or 'no GPU'}"


def processor() -> str:
    """The name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
