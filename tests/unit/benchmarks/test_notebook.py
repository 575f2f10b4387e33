"""A notebook is run without Jupyter."""

import json

from benchmarks.tools.notebook import execute, main, run


def cell(source):
    return {"cell_type": "code", "source": [source], "execution_count": None, "outputs": ["old"]}


def test_a_cell_shows_what_it_prints_and_the_value_of_its_last_line():
    printed, result = execute("x = 2\nprint('hello')\nx + 1", {})
    assert printed == {"output_type": "stream", "name": "stdout", "text": ["hello\n"]}
    assert result["data"] == {"text/plain": ["3"]}
    assert execute("x = 2", {}) == execute("3;", {}) == []


def test_a_plot_is_an_image():
    (output,) = execute("from matplotlib import pyplot\npyplot.plot([1, 2]);", {})
    assert output["output_type"] == "display_data"
    assert output["data"]["image/png"].startswith("iVBOR")


def test_cells_share_their_names_and_are_counted():
    notebook = {"cells": [cell("x = 5"), {"cell_type": "markdown", "source": []}, cell("x")]}
    run(notebook)
    first, _, last = notebook["cells"]
    assert (first["execution_count"], first["outputs"]) == (1, [])
    assert last["outputs"][0]["execution_count"] == last["execution_count"] == 2
    assert last["outputs"][0]["data"]["text/plain"] == ["5"]


def test_the_file_gets_the_outputs_and_its_folder_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")  # put back after the test: the command extends it
    path = tmp_path / "one.ipynb"
    source = "import os; open('left', 'w').close(); os.path.abspath('left')"
    path.write_text(json.dumps({"cells": [cell(source)]}))
    assert main([str(path)]) == 0
    (done,) = json.loads(path.read_text())["cells"]
    assert done["outputs"][0]["data"] == {"text/plain": ["'./left'"]}
    assert list(tmp_path.iterdir()) == [path]
