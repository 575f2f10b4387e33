"""From options to a plan: errors come before anything is started or written."""

import optuna
import pytest

from orchestrator import sweep_session
from orchestrator.execution import cluster as ray_cluster
from orchestrator.execution import gpu_probe
from orchestrator.planning import dry_run
from orchestrator.planning.arguments import comparison_options, search_options
from orchestrator.planning.configs import space_of
from orchestrator.planning.options import ComparisonOptions, SearchOptions
from orchestrator.planning.placement import Footprint, slots
from orchestrator.planning.plan import load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.sweep_command import main
from tardis_core.errors import UserError
from tests.support.sweep_logs import comparison_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def plan(*arguments):
    return plan_from(search_options(list(arguments)))


def saved(*arguments):
    saved_plan = plan(*arguments)
    saved_plan.folder.mkdir(parents=True)
    saved_plan.save()
    return saved_plan


def test_a_plan_survives_being_saved(here):
    original = saved("copy", "--smoke", "--name", "one", "--set", "memory.cells=4", "--trials", "3")
    assert load_plan("one") == original
    assert original.fixed == {"memory.cells": "4"}


def test_reports_are_the_validations_of_a_full_trial():
    longer = plan(
        "copy", "--smoke", "--set", "training.updates=45", "--set", "training.evaluate_every=10"
    )
    assert longer.reports == 5


def test_time_budgets_have_units():
    assert plan("copy", "--time-budget", "90s").time_budget == 90
    assert plan("copy", "--time-budget", "1.5h").time_budget == 5400


def test_sweeps_in_one_storage_have_folders_of_their_own(monkeypatch):
    monkeypatch.setenv("TARDIS_STORAGE", "s3://bucket/ray/")
    one, other = plan("copy", "--name", "one"), plan("copy", "--name", "one")
    assert one.ray_storage.startswith("s3://bucket/ray/one-")
    assert one.ray_storage != other.ray_storage


def test_autoscaling_requests_more_than_the_cluster_has():
    has = [{"CPU": 2.0}]
    assert slots(plan("copy", "--concurrency", "8"), has) == 2
    assert slots(plan("copy", "--concurrency", "8", "--autoscale"), has) == 8


@pytest.mark.parametrize(
    ("gpus", "cluster", "expected"),
    [
        ("1", [{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 2}], 4),
        ("0.5", [{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 1}], 6),
        ("0.75", [{"CPU": 8, "GPU": 4}], 4),  # not five: a trial is on one GPU
        ("0.1", [{"CPU": 16, "GPU": 1}], 10),
        ("2", [{"CPU": 8, "GPU": 3}, {"CPU": 8, "GPU": 1}], 1),  # nor on two machines
        ("1", [{"CPU": 8, "GPU": 2}, {"CPU": 8}], 2),
        ("1", [{"CPU": 1, "GPU": 4}], 1),
        ("1", [{"CPU": 8}], 0),
        ("0.25", [{"CPU": 2, "GPU": 1}, {"CPU": 64}], 2),  # nor without a GPU
        ("0", [{"CPU": 8, "GPU": 2}, {"CPU": 8}], 16),
        ("0.3333", [{"CPU": 8, "GPU": 2}], 6),
    ],
)
def test_trials_are_packed_on_gpus_of_one_node(gpus, cluster, expected):
    assert slots(plan("copy", "--gpus-per-trial", gpus), cluster) == expected


def test_extending_adds_trials_to_the_same_sweep(here):
    original = saved("copy", "--name", "one", "--trials", "3")
    longer = plan("--extend", "one", "--trials", "+20")
    assert longer.trials == 23
    assert longer.sweep_id == original.sweep_id


@pytest.mark.parametrize(("asked", "updates"), [("x2", 400), ("x1.5", 300), ("350", 350)])
def test_extending_makes_trials_longer(here, asked, updates):
    original = saved("copy", "--smoke", "--name", "one", "--trials", "3")
    longer = plan("--extend", "one", "--updates", asked)
    assert longer.fixed["training.updates"] == str(updates)
    assert (original.reports, longer.reports) == (200 // 50, updates // 50)
    assert (longer.trials, longer.part, longer.longer_since) == (3, 1, 1)
    both = plan("--extend", "one", "--updates", asked, "--trials", "+2")
    assert (both.trials, both.part, both.longer_since) == (5, 2, 1)


def test_a_space_that_decides_the_length_itself_cannot_be_made_longer(here, capsys):
    (here / "own.py").write_text(
        "def space(trial, scale, estimators):\n"
        "    return {'training.updates': trial.suggest_int('training.updates', 50, 90)}\n"
    )
    saved("copy", "--smoke", "--name", "one", "--space", "own.py")
    assert main(["--extend", "one", "--updates", "x2"]) == 2
    message = "--updates cannot extend one: its space sets training.updates itself"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a task: "),
        (["chess"], "unknown task 'chess'; choose one of: "),
        (["copy", "--scale", "huge"], "--scale: invalid choice: 'huge' (choose from"),
        (["copy", "--data", "maybe"], "--data: invalid choice: 'maybe'"),
        (["copy", "--aggregate", "best"], "--aggregate: invalid choice: 'best'"),
        (["copy", "--seeds-per-trial", "0"], "--seeds-per-trial must be a whole number from 1"),
        (["copy", "--confirm-seeds", "-1"], "--confirm-seeds must be a whole number from 0"),
        (["copy", "--models", ","], "name at least one model: "),
        (["copy", "--estimators", "magic"], "unknown estimator 'magic'"),
        (["copy", "--trials", "none"], "--trials: invalid int value: 'none'"),
        (["copy", "--trials", "0"], "--trials must be a whole number from 1, not 0"),
        (["copy", "--time-budget", "soon"], "such as 90s, 30m or 2h, not 'soon'"),
        (["copy", "--name", "../../x"], "the name of a sweep has letters"),
        (["copy", "--set", "memory"], "--set takes section.key=value"),
        (["copy", "--set", "training.updates=many"], "training.updates must be a whole number"),
        (["copy", "--trials", "²"], "--trials: invalid int value: '²'"),
        (["copy", "--set", "memory.cels=4"], "unknown setting 'memory.cels'"),
        (["copy", "--set", "memory.cells=many"], "memory.cells must be a whole number"),
        (
            ["copy", "--estimators", "gumbel", "--set", "estimator.gamma=0.9"],
            "unknown setting 'estimator.gamma'",
        ),
        (["copy", "--space", "nothing.py"], "nothing.py"),
        (["copy", "--gpus-per-trial", "all"], "--gpus-per-trial: must be 'auto' or a number"),
        (["copy", "--gpus-per-trial", "nan"], "must be 'auto', a share from 0 to 1 or a whole"),
        (["copy", "--gpus-per-trial", "-1"], "must be 'auto', a share from 0 to 1 or a whole"),
        (["copy", "--gpus-per-trial", "1.5"], "a share from 0 to 1 or a whole number, not 1.5"),
        (["copy", "--cpus-per-trial", "nan"], "--cpus-per-trial must be a number from 0, not nan"),
        (["copy", "--autoscale"], "with --autoscale a whole number from 1, not 0"),
        (["--resume", "nothing"], "there is no sweep 'nothing'"),
        (["--extend", "../x"], "the name of a sweep has letters"),
        (["copy", "--race"], "--race needs at least two seeds, not --seeds-per-trial 1"),
        (
            ["copy", "--race", "--seeds-per-trial", "3", "--scheduler", "promote"],
            "--race cannot be combined with --scheduler promote",
        ),
        (["copy", "--updates", "x2"], "--updates belongs to --extend; a new sweep has --set "),
    ],
)
def test_an_error_is_one_line_and_leaves_nothing_behind(here, capsys, arguments, message):
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1
    assert list(here.iterdir()) == []


SPACE = """
def space(trial, scale, estimators):
    return {"model.hidden": trial.suggest_int("model.hidden", LOW, 16)}
"""


def test_a_sweep_keeps_its_space_when_the_file_changes(here):
    (here / "mine.py").write_text(SPACE.replace("LOW", "8"))
    original = saved("copy", "--smoke", "--name", "one", "--space", "mine.py")
    (here / "mine.py").write_text("not Python any more")
    plan("--extend", "one", "--trials", "+2").save()
    settings = space_of(load_plan("one"))(optuna.trial.FixedTrial({"model.hidden": 8}))
    assert settings == {"model.hidden": 8}
    assert load_plan("one").space == original.space == "mine.py"


def test_a_space_whose_trials_would_all_fail_is_refused_at_once(here, capsys):
    (here / "mine.py").write_text(SPACE.replace("model.hidden", "model.hiden").replace("LOW", "8"))
    assert main(["copy", "--smoke", "--space", "mine.py"]) == 2
    assert "unknown setting 'model.hiden'" in capsys.readouterr().err
    (here / "mine.py").write_text(SPACE.replace("LOW", "-8"))
    assert plan("copy", "--smoke", "--space", "mine.py").space == "mine.py"  # some will not


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        (["--set", "memory.cells=8", "--trials", "9"], "--set, --trials"),
        (["copy"], "the task"),
        (["--extend", "one"], "--extend"),
    ],
)
def test_options_cannot_change_a_resumed_sweep(capsys, more, changed):
    saved("copy", "--smoke", "--name", "one")
    assert main(["--resume", "one", *more]) == 2
    output = capsys.readouterr().err
    assert output == f"error: --resume continues a sweep as it was planned: omit {changed}\n"


def test_a_resumed_sweep_may_have_another_concurrency():
    saved("copy", "--smoke", "--name", "one", "--concurrency", "4")
    assert plan("--resume", "one").concurrency == 4
    assert plan("--resume", "one", "--concurrency", "1").concurrency == 1
    assert plan("--extend", "one", "--trials", "+2", "--concurrency", "2").concurrency == 2


def test_a_search_can_get_more_trials_and_a_comparison_cannot(here, capsys):
    saved("copy", "--smoke", "--name", "one")
    assert main(["--extend", "one", "--trials", "+2", "--seed", "3"]) == 2
    assert "--extend continues a sweep as it was planned: omit --seed" in capsys.readouterr().err
    comparison_plan("two").save()
    assert main(["--extend", "two", "--trials", "+2"]) == 2
    assert "only a search can be extended, and two is a comparison" in capsys.readouterr().err


def test_a_sweep_is_not_overwritten(here):
    saved("copy", "--name", "one")
    with pytest.raises(UserError, match="--resume it, or choose another --name"):
        plan("copy", "--name", "one")


def test_a_dry_run_counts_every_seed_of_a_trial(capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    words = ["copy", "--smoke", "--dry-run", "--set", "training.updates=50"]
    assert main([*words, "--seeds-per-trial", "3"]) == 0
    assert "150 per trial" in capsys.readouterr().out


def test_a_dry_run_describes_the_cluster_of_the_sweep(capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    monkeypatch.setattr(ray_cluster, "start_ray", lambda address, log: [{"CPU": 64.0}])
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert main(["copy", "--smoke", "--dry-run"]) == 0
    assert "head:6379 has 64 CPUs and 0 GPUs" in capsys.readouterr().out


def test_a_dry_run_says_why_trials_share_a_gpu(capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    cluster = [{"CPU": 64.0, "GPU": 2.0}]
    for module in (sweep_session, ray_cluster):
        monkeypatch.setattr(module, "start_ray", lambda address, log: cluster)
    footprint = Footprint(6e9, 24e9, 0.02)
    monkeypatch.setattr(gpu_probe, "footprint", lambda plan: footprint)
    words = ["copy", "--smoke", "--dry-run", "--address", "head:6379"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "6 trials of 1 CPU and 0.3333 GPUs each; head:6379 has 64 CPUs and 2 GPUs" in output
    assert "3 per GPU: the largest one measured takes 6 of 24 GB and 20 ms per update" in output
    assert main([*words, "--gpus-per-trial", "0"]) == 0
    assert "64 trials of 1 CPU and 0 GPUs each" in capsys.readouterr().out


def test_a_dry_run_shows_the_plan_and_starts_nothing(here, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    assert main(["ptb", "--smoke", "--dry-run", "--estimators", "gumbel"]) == 0
    output = capsys.readouterr().out
    assert "memory.cells" in output
    assert "tried first: 1\n  model=tardis, estimator=gumbel" in output
    assert "estimator.gamma" not in output
    assert list(here.iterdir()) == []


def test_grace_is_a_share_of_the_updates_and_is_saved(here, capsys):
    assert plan("copy", "--smoke").grace == pytest.approx(1 / 9)
    saved("copy", "--smoke", "--name", "one", "--grace", "0.5")
    assert load_plan("one").grace == 0.5
    assert main(["copy", "--smoke", "--grace", "2"]) == 2
    assert capsys.readouterr().err == "error: --grace must be a share from 0 to 1, not 2.0\n"


def test_the_command_line_and_python_make_the_same_options():
    words = ["copy", "--smoke", "--trials", "3", "--estimators", "gumbel,reinforce"]
    words += ["--set", "memory.cells=4", "--set", "model.hidden=8", "--time-budget", "2m"]
    assert search_options(words) == SearchOptions(
        task="copy",
        scale="smoke",
        trials=3,
        estimators=("gumbel", "reinforce"),
        set={"memory.cells": "4", "model.hidden": "8"},
        time_budget=120.0,
    )
    words = ["ptb", "--seeds", "5", "--models", "lstm,ntm", "--candidate", "lstm", "--autoscale"]
    assert comparison_options([*words, "--concurrency", "2"]) == ComparisonOptions(
        task="ptb",
        seeds=5,
        models=("lstm", "ntm"),
        candidate=("lstm",),
        autoscale=True,
        concurrency=2,
    )


@pytest.mark.parametrize("options", [search_options, comparison_options])
def test_an_empty_command_line_gives_the_default_options(options):
    assert options([]) == type(options([]))()


def test_of_two_scales_the_last_one_counts():
    assert search_options(["copy", "--scale", "paper", "--smoke"]).scale == "smoke"


def test_settings_from_python_may_be_numbers():
    assert plan_from(SearchOptions(task="copy", set={"memory.cells": 4})).fixed == {
        "memory.cells": "4"
    }


def said(capsys):
    return capsys.readouterr().err


@pytest.mark.slow
def test_extending_needs_a_number_of_trials(capsys):
    saved("copy", "--smoke", "--name", "one")
    assert main(["--extend", "one"]) == 2
    assert "--extend needs the number of additional trials" in capsys.readouterr().err
    assert main(["--extend", "one", "--updates", "more"]) == 2
    assert "--updates must be a number or a factor such as x2, not 'more'" in said(capsys)
    assert main(["--extend", "one", "--updates", "x0.5"]) == 2
    assert "--updates must be more than the 200 that the trials of one " in said(capsys)


def test_set_help_prints_the_sentence_of_each_setting_of_what_is_searched(capsys, here):
    assert main(["copy", "--set", "help", "--estimators", "gumbel", "--models", "tardis,lstm"]) == 0
    out = capsys.readouterr().out
    assert "copy, tardis gumbel, scale small:" in out
    assert "copy, lstm, scale small:" in out
    assert "share of the updates in which the maximum length grows to task.longest" in out
    assert not list(here.iterdir())
    assert main(["--set", "help"]) == 2
