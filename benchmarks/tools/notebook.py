"""Run a notebook from top to bottom and store its outputs in it, without Jupyter.

python -m benchmarks.tools.notebook examples/walkthrough.ipynb
"""

import ast
import base64
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.figure import Figure

from tardis_core.cli import Parser, command

Output = dict[str, Any]  # as the format of notebooks has it


def execute(source: str, names: dict[str, Any]) -> list[Output]:
    """Run one cell; what it prints, the value of its last line, and the plots that it leaves."""
    body = ast.parse(source).body
    shown = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "notebook", "exec"), names)
        if shown is not None:
            value = eval(compile(ast.Expression(shown.value), "notebook", "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append({"output_type": "execute_result", "metadata": {}, "data": _data(value)})
    for number in pyplot.get_fignums():
        data = _data(pyplot.figure(number))
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return outputs


def _data(value: Any) -> dict[str, Any]:
    """A value in every form that it has."""
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    if isinstance(value, Figure):
        image = io.BytesIO()
        value.savefig(image, format="png", bbox_inches="tight")
        data["image/png"] = base64.b64encode(image.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    return data


def _lines(text: str) -> list[str]:
    """Lines keep the differences between two versions of a notebook readable."""
    return text.splitlines(keepends=True)


def run(notebook: dict[str, Any]) -> None:
    """Replace the outputs of all cells of code."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, start=1):
        cell["execution_count"] = count
        cell["outputs"] = execute("".join(cell["source"]), names)
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebook in an empty folder, and write it back with its outputs."""
    parser = Parser(
        prog="python -m benchmarks.tools.notebook", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("notebook", type=Path)
    path = parser.parse_args(arguments).notebook.resolve()
    matplotlib.use("agg")
    notebook = json.loads(path.read_text())
    # The workers of Ray must find the packages from that folder, too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        run(notebook)
    text = json.dumps(notebook, indent=1, ensure_ascii=False).replace(folder, ".")
    path.write_text(text + "\n")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
