"""Models of a user: registered from a file, without touching the package."""

import pytest

from orchestrator.planning.arguments import comparison_options, search_options
from orchestrator.planning.plan import load_plan
from orchestrator.planning.planner import plan_from
from tardis_core import plugins
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS
from tardis_core.registry import MODEL_NAMES
from tardis_core.train import main as train

MODEL = """
from tardis_core.models.base import MODELS
from tardis_core.models.baselines.lstm import Lstm

@MODELS.register("my-lstm")
class MyLstm(Lstm):
    pass
"""
TINY = [f"--set={each}" for each in ("model.hidden=8", "training.updates=2", "training.batch=4")]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """A folder with a plugin, in a process that has none."""
    monkeypatch.chdir(tmp_path)
    forget_plugins(monkeypatch)
    (tmp_path / "my_model.py").write_text(MODEL)
    return tmp_path


def forget_plugins(monkeypatch):
    """What a new process knows."""
    monkeypatch.setattr(plugins, "_requested", {})
    monkeypatch.setattr(plugins, "_executed", set())
    packaged = {name: MODELS.get(name) for name in MODELS.names() if name != "my-lstm"}
    monkeypatch.setattr(MODELS, "_entries", packaged)


def test_a_model_from_a_file_is_trained(capsys):
    words = ["copy", "--scale", "smoke", "--model", "my-lstm", "--out", "run", *TINY]
    assert train(words) == 2
    assert "unknown model 'my-lstm'" in capsys.readouterr().err
    assert train([*words, "--plugin", "my_model.py"]) == 0
    assert "copy: my-lstm, " in capsys.readouterr().out


def test_a_plugin_may_be_named_by_a_variable(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "my_model.py")
    assert "my-lstm" in MODEL_NAMES.all()


def test_the_plan_of_a_sweep_keeps_the_source_of_its_plugins(fresh, monkeypatch):
    words = ["copy", "--smoke", "--name", "s", "--models", "my-lstm", "--plugin", "my_model.py"]
    plan = plan_from(search_options(words))
    assert plan.plugins == {"my_model.py": MODEL}
    plan.folder.mkdir(parents=True)
    plan.save()
    (fresh / "my_model.py").unlink()
    forget_plugins(monkeypatch)
    assert load_plan("s").plugins == plan.plugins
    assert plugins.requested() == {}  # reading a plan executes nothing
    assert plan_from(search_options(["--resume", "s"])) == plan
    assert plugins.requested() == plan.plugins


def test_a_comparison_of_a_model_from_a_file_is_resumed_without_the_file(fresh, monkeypatch):
    words = ["copy", "--smoke", "--name", "c", "--candidate", "my-lstm"]
    plan = plan_from(comparison_options([*words, "--plugin", "my_model.py"]))
    plan.folder.mkdir(parents=True)
    plan.save()
    (fresh / "my_model.py").unlink()
    forget_plugins(monkeypatch)
    assert plan_from(comparison_options(["--resume", "c"])) == plan


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "my_model.py raised ZeroDivisionError: division by zero"),
        ("def (", "my_model.py raised SyntaxError"),
        (MODEL.replace("my-lstm", "lstm"), "model 'lstm' is registered twice"),
    ],
)
def test_a_file_that_does_not_run_is_one_sentence(fresh, source, message):
    (fresh / "my_model.py").write_text(source)
    plugins.request("my_model.py")
    with pytest.raises(UserError, match=message):
        MODELS.get("tardis")
    with pytest.raises(UserError, match="must be a Python file that can be read, not nowhere"):
        plugins.request("nowhere")
