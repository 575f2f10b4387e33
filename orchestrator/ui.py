"""Open the MLflow UI on the store of a sweep: `python -m orchestrator.ui NAME`."""

import os
import sys
from collections.abc import Sequence

from orchestrator.mlflow_store import check_uri
from orchestrator.options import default_tracking_uri
from orchestrator.plan import load_plan
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m orchestrator.ui", description=__doc__)
    made.add_argument("name", nargs="?", help="of a sweep (default: the store of this folder)")
    made.add_argument("--tracking-uri", default="", help="of another store")
    made.add_argument("--port", type=int, default=5000, help="on 127.0.0.1 (default: 5000)")
    return made


def server_command(uri: str, port: int) -> list[str]:
    """The command that serves a store on this machine alone."""
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, *where]


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Say where to look, and become the server."""
    options = parser().parse_args(arguments)
    uri = options.tracking_uri
    if not uri:
        uri = load_plan(options.name).tracking_uri if options.name else default_tracking_uri()
    check_uri(uri)
    if uri.startswith(("http://", "https://")):
        print(f"the sweep is tracked by a server: open {uri}")
        return 0
    file = uri.removeprefix("sqlite:///")
    if uri.startswith("sqlite:") and not os.path.exists(file):
        raise UserError(f"there is no store {file} yet; run a sweep first, or name one")
    print(f"open http://127.0.0.1:{options.port} (up in about 15 s; stop with Ctrl-C)", flush=True)
    # Its job queue takes half a minute to start and is not needed to look at runs.
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    command_line = server_command(uri, options.port)
    os.execv(command_line[0], command_line)


if __name__ == "__main__":
    sys.exit(main())
