"""Wrong calls: one sentence and exit code 2, before anything is started or written."""

import os
import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import (
    commands,
    doctor,
    evaluate,
    inspect,
    reproduce,
    sample,
    ui,
)
from orchestrator.planning.arguments import comparison_options, search_options
from orchestrator.planning.planner import plan_from
from tardis_core import train
from tardis_core.cli import shortened
from tardis_core.errors import UserError

COMMANDS = {
    "sweep": commands.sweep,
    "compare": commands.compare,
    "evaluate": evaluate.main,
    "inspect": inspect.main,
    "sample": sample.main,
    "reproduce": reproduce.main,
    "doctor": doctor.main,
    "ui": ui.main,
    "train": train.main,
}
LONG = "x" * 5000
# A call, and what its answer says.
CALLS = [
    ("sweep copy --set foo=1", "a setting is section.key=value"),
    ("sweep copy --set foo", "section.key=value"),
    ("sweep copy --set .cells=1", "a setting is section.key=value"),
    ("sweep copy --set memory.=1", "a setting is section.key=value"),
    ("sweep copy --set memory.cells=many", "a whole number"),
    ("sweep copy --set memory.cells=-3", "memory.cells"),
    ("sweep copy --set memory.color=3", "memory.color"),
    ("train copy --set foo=1", "unknown setting 'foo'"),
    ("compare copy --candidate lstm,foo=1", "a setting is section.key=value"),
    ("compare copy --candidate lstm,memory.cells=3", "memory.cells"),
    ("compare copy --candidate robot", "robot"),
    ("compare copy --candidate lstm --candidate lstm", "each of them only once"),
    ("compare copy --candidate ''", "unknown model ''"),
    ("compare copy --seeds 0", "--seeds must be a whole number from 1"),
    ("compare copy --parameters 0", "--parameters must be a whole number from 1"),
    ("compare copy --models robot", "robot"),
    ("compare --runs a --sweeps b", "not both"),
    ("compare --sweeps nothing", "there is no sweep 'nothing'"),
    ("compare --resume nothing", "there is no sweep 'nothing'"),
    ("sweep copy --data bogus", "invalid choice: 'bogus'"),
    ("sweep copy --data-dir /nonexistent", "must be a folder that exists"),
    ("train copy --data-dir /nonexistent", "must be a folder that exists"),
    ("sweep copy --cpus-per-trial nan", "--cpus-per-trial must be a number from 0"),
    ("sweep copy --cpus-per-trial inf", "--cpus-per-trial must be a number from 0"),
    ("sweep copy --cpus-per-trial -1", "--cpus-per-trial"),
    ("sweep copy --gpus-per-trial nan", "--gpus-per-trial must be"),
    ("sweep copy --gpus-per-trial 1.5", "--gpus-per-trial must be"),
    ("sweep copy --gpus-per-trial many", "--gpus-per-trial"),
    ("sweep copy --cpus-per-trial 0 --gpus-per-trial 0", "one of the two must be more than 0"),
    ("sweep copy --time-budget 0s", "more than no time"),
    ("sweep copy --time-budget 10", "a number with a unit"),
    ("sweep copy --name ''", "--name must not be empty"),
    ("sweep copy --name ../up", "the name of a sweep"),
    (f"sweep copy --name {LONG}", "the name of a sweep"),
    ("sweep copy --space ''", "--space must not be empty"),
    (f"sweep copy --space {LONG}", "a search space must be a Python file"),
    ("sweep copy --seed -1", "--seed must be a whole number from 0"),
    ("sweep copy --trials 0", "--trials must be a whole number from 1"),
    ("sweep copy --grace nan", "--grace must be a share"),
    ("sweep copy --models ,", "name at least one model"),
    ("sweep copy --estimators robot", "robot"),
    ("sweep copy --concurrency -1", "--concurrency"),
    ("sweep copy --autoscale", "--concurrency must be with --autoscale"),
    ("sweep juggling", "juggling"),
    ("sweep", "name a task"),
    ("sweep --resume nothing", "there is no sweep 'nothing'"),
    (f"sweep --resume {LONG}", "the name of a sweep"),
    ("sweep --extend nothing --trials +2", "there is no sweep 'nothing'"),
    ("sweep copy --address nowhere", "--address must be HOST:PORT"),
    ("sweep copy --tracking-uri sqlite:///{here}", "must be a file"),
    ("sweep copy --tracking-uri ftp://x", "a tracking URI must be"),
    (f"evaluate {LONG}", "RUN must be the folder of a run"),
    (f"inspect {LONG}", "RUN must be the folder of a run"),
    (f"sample {LONG}", "RUN must be the folder of a run"),
    ("evaluate nothing", "RUN must be the folder of a run"),
    (f"train copy --scale smoke --out {LONG}", "--out must be a folder that can be written"),
    (f"train --resume {LONG}", "there is no checkpoint"),
    ("train copy --scale smoke --set memory.cells=100000000", "lower memory.cells=100000000"),
    ("train copy --scale smoke --set model.hidden=100000000", "lower model.hidden=100000000"),
    ("train copy --scale smoke --set task.longest=100000000", "lower task.longest=100000000"),
    ("train copy --scale smoke --device tpu", "device 'tpu' is not available"),
    ("reproduce figure-path-length --seed -1", "--seed must be a whole number from 0"),
    ("reproduce figure-path-length --device tpu", "device 'tpu' is not available"),
    ("reproduce nothing", "nothing"),
    ("doctor nothing", "there is no sweep 'nothing'"),
    (f"doctor {LONG}", "the name of a sweep"),
    ("ui --port -1", "must be a number from 1 to 65535"),
    ("ui --port 99999", "must be a number from 1 to 65535"),
    ("ui --port http", "must be a number from 1 to 65535"),
    ("ui --tracking-uri http://127.0.0.1:1", "cannot be used"),
    ("ui --tracking-uri sqlite:////nonexistent/mlflow.db", "there is no store"),
    ("ui nothing", "there is no sweep 'nothing'"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


@pytest.mark.parametrize(("call", "answer"), CALLS, ids=[call[:50] for call, _ in CALLS])
def test_a_wrong_call_is_answered_with_one_sentence(call, answer, here, capsys):
    name, *arguments = shlex.split(call.replace("{here}", str(here)))
    assert COMMANDS[name](arguments) == 2
    output = capsys.readouterr()
    assert answer in output.err
    lines = output.err.removeprefix("starting ...\n")
    assert lines.startswith("error: ")
    assert lines.count("\n") == 1
    assert len(lines) < 2000
    written = [os.path.join(folder, each) for folder, _, files in os.walk(here) for each in files]
    assert written == [], "nothing half-written"


SPACE = """
def space(trial, scale, estimators):
    {space}
    return {{"training.learning_rate": trial.suggest_float("training.learning_rate", 1e-4, 1e-2)}}
def first_guesses(scale, estimators):
    {guesses}
"""


@pytest.mark.parametrize(
    ("space", "guesses", "answer"),
    [
        (
            "pass",
            "raise RuntimeError('no')",
            "must not fail, but raised RuntimeError: no",
        ),
        ("pass", "return 7", "first_guesses must not fail, but raised TypeError"),
        ("pass", "return ['x']", "first_guesses must return at most 1000 dictionaries"),
        ("pass", "while True: yield {}", "first_guesses must return at most 1000 dictionaries"),
        ("pass", "while True: pass", "did not end within"),
        ("import sys; sys.exit(0)", "return []", "space must not fail, but raised SystemExit"),
        ("raise KeyboardInterrupt", "return []", "space must not fail, but raised KeyboardInter"),
        ("return 7", "return []", "space must return a dictionary"),
    ],
)
def test_a_space_that_misbehaves_is_answered_with_one_sentence(
    space, guesses, answer, here, capsys, monkeypatch
):
    monkeypatch.setattr("search_spaces.engine.loader.SECONDS", 0.5)
    (here / "own.py").write_text(SPACE.format(space=space, guesses=guesses))
    assert commands.sweep(["copy", "--smoke", "--space", "own.py"]) == 2
    error = capsys.readouterr().err.removeprefix("starting ...\n")
    assert answer in error
    assert error.count("\n") == 1


def test_a_relative_storage_becomes_absolute(here):
    plan = plan_from(search_options(["copy", "--smoke", "--storage", "relative/path"]))
    assert plan.ray_storage.startswith(f"{here}/relative/path/")


TEXTS = st.one_of(
    st.sampled_from(["", " ", "nan", "inf", "-1", "0", "1e9", "1.5", "x", "a=b", "é", "..", "/"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12),
    st.integers(-(10**9), 10**9).map(str),
    st.just(LONG),
)
SHARED = ["--name", "--scale", "--set", "--seed", "--cpus-per-trial", "--gpus-per-trial"]
SHARED += ["--concurrency", "--storage", "--tracking-uri", "--data-dir", "--data"]
SEARCH = [*SHARED, "--trials", "--time-budget", "--estimators", "--models", "--space"]
SEARCH += ["--updates"]
SEARCH += ["--seeds-per-trial", "--aggregate", "--grace", "--confirm-seeds", "--extend", "--resume"]
COMPARISON = [*SHARED, "--seeds", "--models", "--candidate", "--resume"]


def call_of(flags):
    """Any task with up to three options that have any values."""
    option = st.tuples(st.sampled_from(flags), TEXTS).map(lambda pair: f"{pair[0]}={pair[1]}")
    return st.builds(
        lambda task, options: [task, *options],
        st.sampled_from(["copy", "copy", "copy", "juggling"]),
        st.lists(option, min_size=1, max_size=3),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options_of", "flags"),
    [(search_options, SEARCH), (comparison_options, COMPARISON)],
    ids=["sweep", "compare"],
)
def test_any_call_is_a_plan_or_one_sentence(options_of, flags):
    """Parsing and planning in this process, where Ray and MLflow are not started."""

    @given(call=call_of(flags))
    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], database=None)
    def check(call):
        try:
            plan = plan_from(options_of(call))
        except UserError as error:
            message = shortened(str(error))
        else:
            plan.check()
            message = ""
        assert "\n" not in message
        assert len(message) < 4000

    check()
