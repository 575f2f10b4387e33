"""What a result was made with: code and hardware."""

import os
import platform
import subprocess
from pathlib import Path

import torch


def git_commit() -> str:
    """The commit of the code in use, with a mark if files differ from it; or "unknown".

    An image has no history: it is told when it is built.
    """
    here = Path(__file__).parent
    asked = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=here)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("TARDIS_COMMIT") or "unknown"
    return told.stdout.strip()


def hardware() -> str:
    """Processor, cores and GPUs of this machine."""
    gpus = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    return f"{_processor()}, {os.cpu_count()} cores, {', '.join(gpus) or 'no GPU'}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
