"""Simulated machines: network namespaces on a bridge, each with its own address.

Needs Linux and root. A node has its own processes, /tmp/ray and /dev/shm, because Ray would find
its neighbours through them.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

SUBNET = "10.77.0"


def call(command: str) -> str:
    """Run a command that must succeed; returns its output."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """A bridge; this machine has the first address."""

    def __init__(self) -> None:
        self.bridge, self.nodes = f"tl{os.getpid()}", list[Node]()
        call(f"ip link add {self.bridge} type bridge")
        call(f"ip addr add {SUBNET}.1/24 dev {self.bridge}")
        call(f"ip link set {self.bridge} up")

    def close(self) -> None:
        """Remove all processes, namespaces and the bridge."""
        while self.nodes:
            node = self.nodes.pop()
            node.kill()
            subprocess.run(["ip", "netns", "del", node.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)


class Node:
    """A machine whose processes can be killed, disconnected and restarted."""

    def __init__(self, network: Network, folder: Path, name: str) -> None:
        number = len(network.nodes) + 2
        self.name, self.address = f"{network.bridge}-{name}", f"{SUBNET}.{number}"
        self.home, self._link = folder / name, f"{network.bridge}v{number}"
        self.home.mkdir()
        self.home.chmod(0o755)
        call(f"ip netns add {self.name}")
        network.nodes.append(self)
        call(f"ip link add {self._link} type veth peer name eth0 netns {self.name}")
        call(f"ip link set {self._link} master {network.bridge} up")
        call(f"ip -n {self.name} addr add {self.address}/24 dev eth0")
        call(f"ip -n {self.name} link set eth0 up")
        call(f"ip -n {self.name} link set lo up")
        call(f"ip -n {self.name} route add default via {SUBNET}.1")

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], again: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a command here.

        Args:
            again: restart it whenever it ends, as a restart policy does.
        """
        own = "mount -t tmpfs -o size=1g ray /tmp/ray; mount -t tmpfs -o size=1g shm /dev/shm; "
        last = 'while true; do "$@"; sleep 2; done' if again else 'exec "$@"'
        script = f"set -e; hostname {self.name}; {own} set +e; cd {self.home}; {last}"
        inside = ["ip", "netns", "exec", self.name, "unshare", "--mount", "--uts", "--pid"]
        Path("/tmp/ray").mkdir(exist_ok=True)
        with open(self.home / "log", "ab") as log:
            return subprocess.Popen(
                [*inside, "--fork", "--mount-proc", "sh", "-c", script, "sh", *command],
                env={**environment, "HOME": str(self.home)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def pids(self) -> list[int]:
        """The processes of this machine."""
        return [int(pid) for pid in call(f"ip netns pids {self.name}").split()]

    def named(self, text: str) -> list[int]:
        """The processes of this machine whose command line contains the text."""
        matching = []
        for pid in self.pids():
            try:
                if text in Path(f"/proc/{pid}/cmdline").read_text():
                    matching.append(pid)
            except OSError:
                pass
        return matching

    def kill(self) -> None:
        """Kill everything on it, as a power failure would."""
        deadline = time.monotonic() + 30
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def link(self, up: bool) -> None:
        """Connect or disconnect its network."""
        call(f"ip link set {self._link} {'up' if up else 'down'}")
