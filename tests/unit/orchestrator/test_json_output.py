"""`--json`: one object on the standard output, everything else on the other."""

import json

import pytest

from orchestrator import compare_command, sweep_command
from orchestrator.execution.driver import Outcome
from tests.support.sweep_logs import comparison_plan, fill, fill_comparison, make_plan


@pytest.fixture(autouse=True)
def restarts(tmp_path, monkeypatch):
    """Sweeps that have run; the commands that would continue them if Ray died."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_command, "_champion", lambda plan: "none")

    commands = []

    def run(plan, address=None, restart=()):
        print("progress")
        commands.append(restart)
        return Outcome(finished=True, waiting=0, refused=2)

    monkeypatch.setattr(sweep_command.sweep_session, "run", run)
    return commands


def printed(capsys):
    out, err = capsys.readouterr()
    assert "progress" in err
    return json.loads(out)


def test_a_search_ends_with_one_object(capsys, restarts):
    plan = make_plan()
    plan.save()
    fill(plan, [0.5, 0.1, None, float("nan")])
    assert sweep_command.main(["--resume", "s", "--json"]) == 0
    values = printed(capsys)
    assert (values["name"], values["finished"], values["exit_code"]) == ("s", True, 0)
    assert values["best_config"]["trial"] == 1
    assert values["best_config"]["bce"] == 0.1
    assert values["best_config"]["config"]["task"] == "copy"
    assert values["failures"] == {"diverged": [2]}
    assert values["undelivered"]["refused"] == 2
    # If Ray dies, another process prints the object.
    assert restarts == [("orchestrator.sweep", "--resume", "s", "--json")]


def test_a_comparison_ends_with_its_candidates(capsys, restarts):
    plan = comparison_plan()
    plan.save()
    fill_comparison(plan, {"a": [0.1, 0.2, 0.3], "b": [0.4, 0.5, 0.6]})
    assert compare_command.main(["--resume", "c", "--json"]) == 0
    values = printed(capsys)
    assert [row["candidate"] for row in values["candidates"]] == ["a", "b"]
    assert restarts == [("orchestrator.compare", "--resume", "c", "--json")]


def test_sweeps_that_are_compared_are_one_object(capsys):
    plan = comparison_plan()
    plan.save()
    fill_comparison(plan, {"a": [0.5, 0.5, 0.5], "b": [0.4, 0.5, 0.6]})
    assert compare_command.main(["--sweeps", "c", "--json", "--out", "there"]) == 0
    out, err = capsys.readouterr()
    assert "written:  there/report.html" in err
    values = json.loads(out)
    assert (values["task"], values["metric"], values["split"]) == ("copy", "bce", "valid")
    assert {row["candidate"]: row["runs"] for row in values["candidates"]} == {"a": 3, "b": 3}


def test_a_plan_is_an_object_too(capsys):
    assert sweep_command.main(["copy", "--smoke", "--name", "n", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "n"
