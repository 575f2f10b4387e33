"""The services of docker/compose.yaml as processes on machines of their own, and a sweep on them.

    sudo python -m benchmarks.reliability.cluster

PostgreSQL, an S3 store, `mlflow server` behind its login, a Ray head and two workers, each in its
own network namespace, all started by docker/entrypoint.sh as in the image. The S3 store is moto's
server, which keeps everything in memory and asks for no password. Everything is gone at the end.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mlflow import MlflowClient

from benchmarks.reliability.namespaces import Network, Node
from orchestrator.execution.cluster import RAY_SETTINGS
from tests.support.real_sweeps import TINY

ROOT = Path(__file__).parents[2]
ENTRYPOINT = str(ROOT / "docker" / "entrypoint.sh")
BIN = Path(sys.executable).parent
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
PATIENCE = 400.0  # seconds, on a machine that may be busy with something else


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.2)


def listens(address: str, port: int) -> bool:
    """Whether somebody answers there."""
    try:
        socket.create_connection((address, port), 1).close()
        return True
    except OSError:
        return False


class Cluster:
    """All services, each on a node of its own."""

    def __init__(self, workers: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tardis-cluster-"))
        self.folder.chmod(0o755)
        self.secrets = self.folder / "secrets"
        subprocess.run(
            [ROOT / "docker" / "make-secrets.sh", self.secrets], check=True, capture_output=True
        )
        self.network = Network()
        node = lambda name: Node(self.network, self.folder, name)  # noqa: E731
        self.postgres, self.s3, self.mlflow, self.head = map(node, ("pg", "s3", "mlflow", "head"))
        self.workers = [node(f"worker{number}") for number in range(1, workers + 1)]
        self.driver = node("driver")

    def secret(self, name: str) -> str:
        """The file of a secret."""
        return str(self.secrets / name)

    def environment(self, **more: str) -> dict[str, str]:
        """What every container of the image has."""
        image = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            **{name: value for name, value in RAY_SETTINGS.items() if "health_check" in name},
            "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "AWS_SHARED_CREDENTIALS_FILE": self.secret("s3_credentials"),
            "AWS_ENDPOINT_URL": f"http://{self.s3.address}:9000",
            "AWS_REGION": "us-east-1",
        }
        return {**image, **more}

    def ray_environment(self, **more: str) -> dict[str, str]:
        """What head, workers and driver have."""
        return self.environment(
            RAY_HEAD_ADDRESS=f"{self.head.address}:6379",
            RAY_AUTH_TOKEN_PATH=self.secret("ray_token"),
            RAY_OBJECT_STORE_BYTES="200000000",
            **more,
        )

    def start(self) -> None:
        """Start everything, in the order of the compose file."""
        self._make_database()
        self.start_postgres()
        self.s3.start([str(BIN / "moto_server"), "-H", "0.0.0.0", "-p", "9000"], self.environment())
        wait_until(lambda: listens(self.s3.address, 9000), "the S3 store")
        self.s3.start([ENTRYPOINT, "buckets", "mlflow", "ray"], self.environment()).wait(120)
        self.start_head()
        self.start_mlflow()
        for worker in self.workers:
            self.start_worker(worker)

    def _make_database(self) -> None:
        data = self.postgres.home / "data"
        shutil.copy(self.secret("postgres_password"), self.postgres.home / "password")
        for path in (self.postgres.home, self.postgres.home / "password"):
            shutil.chown(path, "postgres")
        made = f"-D {data} -U mlflow --auth-local trust --auth-host scram-sha-256 --no-sync"
        self._as_postgres("initdb", *made.split(), "--pwfile", f"{self.postgres.home}/password")
        with open(data / "pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/24 scram-sha-256\n")

    def _as_postgres(self, program: str, *arguments: str) -> None:
        command = ["runuser", "-u", "postgres", "--", str(POSTGRES[-1] / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def start_postgres(self) -> None:
        """Start the database server and wait for it."""
        home = self.postgres.home
        options = ["-c", "listen_addresses=*", "-c", f"unix_socket_directories={home}"]
        command = ["runuser", "-u", "postgres", "--", str(POSTGRES[-1] / "postgres")]
        self.postgres.start([*command, "-D", str(home / "data"), *options], self.environment())
        wait_until(lambda: listens(self.postgres.address, 5432), "PostgreSQL")
        createdb = [str(POSTGRES[-1] / "createdb"), "-h", str(home), "-U", "mlflow", "mlflow"]
        subprocess.run(createdb, check=False, capture_output=True)  # it may be there

    def start_mlflow(self) -> None:
        """Start the tracking server and wait for it."""
        store = f"postgresql://mlflow@{self.postgres.address}/mlflow"
        login = (ROOT / "docker" / "mlflow-auth.ini").read_text()
        (self.mlflow.home / "auth.ini").write_text(
            login.replace("postgresql://mlflow@postgres/mlflow", store)
        )
        environment = self.environment(
            MLFLOW_STORE=store,
            MLFLOW_ALLOWED_HOSTS=f"{self.mlflow.address}:5000",
            MLFLOW_AUTH_CONFIG_PATH=str(self.mlflow.home / "auth.ini"),
            PGPASSWORD_FILE=self.secret("postgres_password"),
            MLFLOW_AUTH_ADMIN_PASSWORD_FILE=self.secret("mlflow_password"),
            MLFLOW_FLASK_SERVER_SECRET_KEY_FILE=self.secret("mlflow_secret_key"),
            MLFLOW_S3_ENDPOINT_URL=f"http://{self.s3.address}:9000",
        )
        self.mlflow.start([ENTRYPOINT, "mlflow"], environment)
        wait_until(lambda: listens(self.mlflow.address, 5000), "MLflow")

    def start_head(self) -> None:
        """Start the head of Ray and wait for it."""
        self.head.start([ENTRYPOINT, "head"], self.ray_environment())
        wait_until(lambda: listens(self.head.address, 6379), "the head of Ray")

    def start_worker(self, worker: Node) -> None:
        """Start a worker with the restart policy of the compose file."""
        environment = self.ray_environment(RAY_WORKER_CPUS="1")
        worker.start([ENTRYPOINT, "worker"], environment, again=True)
        wait_until(lambda: worker.named("raylet"), "a worker")

    def driver_environment(self) -> dict[str, str]:
        """What the service `sweep` has."""
        return self.ray_environment(
            TARDIS_STORAGE="s3://ray",
            MLFLOW_TRACKING_URI=f"http://{self.mlflow.address}:5000",
            MLFLOW_TRACKING_USERNAME="admin",
            MLFLOW_TRACKING_PASSWORD_FILE=self.secret("mlflow_password"),
        )

    def sweep(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a sweep, as `docker compose run sweep` does."""
        return self.driver.start([ENTRYPOINT, "sweep", *arguments], self.driver_environment())

    def driver_runs(self, module: str, *arguments: str) -> int:
        """Run another command where the sweeps are; returns its exit code."""
        command = [ENTRYPOINT, "python", "-m", module, *arguments]
        return self.driver.start(command, self.driver_environment()).wait(PATIENCE)

    def client(self) -> MlflowClient:
        """A client of the tracking server that is logged in."""
        os.environ["MLFLOW_TRACKING_USERNAME"] = "admin"
        os.environ["MLFLOW_TRACKING_PASSWORD"] = Path(self.secret("mlflow_password")).read_text()
        return MlflowClient(f"http://{self.mlflow.address}:5000")

    def close(self, keep: bool = False) -> None:
        """Tear everything down."""
        self.network.close()
        if not keep:
            shutil.rmtree(self.folder)


def short_trials(updates: int) -> list[str]:
    """Options of a sweep of copy whose trials take seconds."""
    settings = {**TINY, "training.updates": updates, "training.evaluate_every": updates // 10}
    return ["--smoke", *(word for k, v in settings.items() for word in ("--set", f"{k}={v}"))]


def main() -> int:
    """A sweep on the cluster, as a smoke test."""
    began, cluster = time.monotonic(), Cluster()
    try:
        cluster.start()
        print(f"up in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        code = cluster.sweep("copy", "--name", "smoke", "--trials", "4", *short_trials(60)).wait()
        print((cluster.driver.home / "log").read_text()[-3000:])
        print(f"the sweep ended with {code} after {time.monotonic() - began:.0f} s")
        return code
    finally:
        cluster.close(keep="--keep" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
