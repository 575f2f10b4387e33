"""Everything a sweep has measured: trials, their ranking, and the trial that stands for it."""

from dataclasses import replace

import pytest

from orchestrator.results.records import OUTCOME_COLUMNS, Records, TrialRecord
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, SweepStarted, SweepTags, TrialEnded, TrialStarted
from tests.support.sweep_logs import (
    COMPLETE,
    FAILED,
    comparison_plan,
    fill,
    make_plan,
    params_of,
    record,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_complete_trials_lead_then_pruned_then_failed():
    plan = make_plan()
    fill(plan, [0.5, None, 0.1, (0.05,), 0.3])
    records = Records.load(plan)
    table = records.table()
    assert tuple(table.columns[:6]) == OUTCOME_COLUMNS
    assert table["number"].tolist() == [2, 4, 0, 3, 1]
    assert table["state"].tolist() == ["complete"] * 3 + ["pruned", "failed"]
    assert table["objective"].tolist()[:4] == [0.1, 0.3, 0.5, 0.05]
    assert table["step"].tolist()[:4] == [20, 20, 20, 10]
    assert records.best(2) == [2, 4]
    assert records.best_trial() == 2


def test_the_greatest_leads_where_higher_is_better():
    plan = make_plan()
    fill(plan, [0.5, 0.1, 0.3])
    records = Records.load(replace(plan, better="higher"))
    # The best row of each trial is its greatest value: the first, which is 1 more.
    assert records.table()["number"].tolist() == [0, 2, 1]
    assert records.best(3) == [0, 2, 1]
    assert records.objective(0) == 1.5


def test_a_validation_that_is_not_a_number_is_never_the_best():
    plan = make_plan()
    record(plan, 0, [float("nan"), 0.4], COMPLETE, params_of(1e-3))
    record(plan, 1, [float("nan")], COMPLETE, params_of(1e-3))
    records = Records.load(plan)
    assert records.objective(0) == 0.4
    assert records.objective(1) is None
    assert records.best(2) == [0]


def test_the_best_validation_is_of_the_phase_whose_weights_are_kept():
    plan = make_plan()
    params = {**params_of(1e-3), "training.updates": "40", "memory.vary_cells_from": "0.5"}
    # Validations at the updates 10 to 40; the weights of the first would be the best of all.
    record(plan, 0, [0.1, 0.2, 0.4, 0.3], COMPLETE, params)
    records = Records.load(plan)
    assert records.objective(0) == 0.3
    assert records.table()["step"].tolist() == [40]


def test_running_and_stopped_trials_have_not_ended():
    plan = make_plan()
    record(plan, 0, [0.5], None, params_of(1e-3))
    record(plan, 1, [0.4], ("KILLED", {"interrupted": "true"}), params_of(1e-3))
    trials = Records.load(plan).trials.values()
    states = {trial.number: (trial.state, trial.ended) for trial in trials}
    assert states == {0: ("running", False), 1: ("stopped", False)}


def test_tags_of_the_sweep_are_those_recorded_last():
    plan = make_plan()
    log = EventLog(plan.folder)
    log.append(SweepStarted(plan.name, {"data": "copy", "hardware": "x"}))
    log.append(SweepTags({"data": "copy-standin"}))
    log.close()
    assert Records.load(plan).tags == {"data": "copy-standin", "hardware": "x"}


def test_a_sweep_that_has_not_started_has_no_trials():
    records = Records.load(make_plan())
    assert (records.trials, records.best_trial()) == ({}, None)
    assert "objective" in records.table().columns
    assert records.curves().empty


def test_a_record_gives_back_the_configuration_of_its_trial():
    plan = make_plan()
    record(plan, 0, [0.5], COMPLETE, params_of(3e-3, 7, "reinforce"))
    config = Records.load(plan).trials[0].config()
    assert (config.task, config.estimator, config.seed) == ("copy", "reinforce", 7)
    assert config.training.learning_rate == 3e-3


def test_the_study_is_opened_once():
    plan = make_plan()
    fill(plan, [0.5, 0.25])
    records = Records.load(plan)
    assert [trial.value for trial in records.study().trials] == [0.5, 0.25]
    assert records.study() is records.study()


def test_curves_have_one_row_per_validation():
    plan = make_plan()
    fill(plan, [0.5, 0.25])
    curves = Records.load(plan).curves()
    assert curves["number"].tolist() == [0, 0, 0, 1, 1, 1]
    assert curves["valid_bce"].tolist() == [1.5, 0.5, 1.0, 1.25, 0.25, 0.75]


def logged(plan, *events):
    log = EventLog(plan.folder)
    for event in events:
        log.append(event)
    log.close()
    return Records.load(plan)


def test_the_commands_and_the_times_of_a_sweep():
    plan = make_plan()
    records = logged(
        plan,
        SweepStarted(plan.name, {"command": "sweep copy"}, at=1000),
        SweepTags({"data": "copy"}, at=2000),
        SweepTags({"command": "sweep --resume s"}, at=5000),
    )
    assert records.commands == ["sweep copy", "sweep --resume s"]
    assert (records.started, records.last) == (1000, 5000)


def test_a_resumed_trial_keeps_what_it_was_and_runs_again():
    trial = logged(
        make_plan(),
        TrialStarted(0, {"seed": "1"}, {"node": "a", "note": "n"}),
        TrialEnded(0, "KILLED", {"interrupted": "true"}),
        TrialStarted(0, {}, {"node": "b"}),
    ).trials[0]
    assert (trial.state, trial.params) == ("running", {"seed": "1"})
    assert trial.tags == {"node": "b", "note": "n", "interrupted": "true"}


def test_metrics_that_were_recovered_stand_at_their_step():
    events = [Metrics(0, step, {"valid_bce": value}) for step, value in ((20, 0.2), (10, 0.1))]
    trial = logged(make_plan(), *events, Metrics(0, 10, {"loss": 1.0})).trials[0]
    assert trial.rows == [
        {"step": 10, "valid_bce": 0.1, "loss": 1.0},
        {"step": 20, "valid_bce": 0.2},
    ]


def test_trials_of_a_sweep_that_has_ended_are_stopped():
    plan = make_plan()
    record(plan, 0, [0.5], None, params_of(1e-3))
    record(plan, 1, [0.4], COMPLETE, params_of(1e-3))
    records = Records.load(plan)
    records.stop_open_trials()
    assert [trial.state for trial in records.trials.values()] == ["stopped", "complete"]


def test_the_settings_of_a_trial_are_what_a_search_space_returns():
    plan = make_plan()
    record(plan, 0, [0.5], COMPLETE, {"task": "copy", "scale": "smoke", "seed": "3", "model": "m"})
    assert Records.load(plan).trials[0].settings() == {"model": "m"}


def test_the_time_of_a_trial_is_that_of_its_last_row():
    plan = make_plan()
    record(plan, 0, [0.5, 0.4, 0.3, 0.6], COMPLETE, params_of(1e-3))
    record(plan, 1, [0.1], FAILED, params_of(1e-3))
    table = Records.load(plan).table()
    assert table["seconds"].tolist() == [2.0, 0.5]
    assert table["validations"].tolist() == [4, 1]
    assert table["step"].tolist() == [30, 10]
    assert table.index.tolist() == [0, 1]
    assert "_rank" not in table


def test_the_best_row_of_a_trial_is_a_row_of_it():
    plan = make_plan()
    record(plan, 0, [0.5, 0.4], COMPLETE, params_of(1e-3))
    trial = Records.load(plan).trials[0]
    assert trial.best_row("bce", "lower") == trial.rows[1]
    assert trial.best_row("other", "lower") is None


def test_in_a_race_the_validations_of_all_seeds_decide():
    rows = [{"step": step, "valid_bce": value} for step, value in ((20, 0.1), (40, 0.3), (60, 0.2))]
    params = {"training.updates": "40"}
    alone, race = TrialRecord(0, params, rows=rows), TrialRecord(0, params, rows=rows)
    race.tags["race"] = "true"
    assert alone.best_row("bce", "lower")["step"] == 20
    assert race.best_row("bce", "lower")["step"] == 60
    race.params = {}  # of a log that does not say how long it trains
    assert race.best_row("bce", "lower")["step"] == 20


def run_of(plan, label, seed, valid, test=None, ending=COMPLETE):
    """Record the run of one candidate and seed."""
    number = next(
        job.number for job in plan.jobs() if (job.candidate.label, job.seed) == (label, seed)
    )
    record(plan, number, [] if valid is None else [valid], ending, params_of(3e-3, seed), test)


def test_the_best_run_of_the_candidate_with_the_best_mean_stands_for_a_comparison():
    plan = comparison_plan(seeds=(1, 2))
    for seed, value in ((1, 0.1), (2, 0.9)):
        run_of(plan, "a", seed, value)
    for seed, value in ((1, 0.4), (2, 0.3)):
        run_of(plan, "b", seed, value)
    number = Records.load(plan).best_trial()
    assert plan.title(number) == "b, seed 2"


def test_no_selection_reads_a_test_metric():
    plan = comparison_plan(seeds=(1, 2))
    for seed in (1, 2):  # "a" is better on validation, "b" by far on the test split
        run_of(plan, "a", seed, 0.2 + seed / 100, test=0.9)
        run_of(plan, "b", seed, 0.4 + seed / 100, test=0.1 / seed)
    records = Records.load(plan)
    assert plan.title(records.best_trial()) == "a, seed 1"
    assert [plan.title(number) for number in records.best(2)] == ["a, seed 1", "a, seed 2"]
    for trial in records.trials.values():
        for row in trial.rows:
            row.pop("test_bce", None)  # without test metrics the choice must be the same
    assert plan.title(records.best_trial()) == "a, seed 1"


def test_a_candidate_with_failed_seeds_does_not_win_by_its_lucky_ones():
    plan = comparison_plan(seeds=(1, 2))
    run_of(plan, "a", 1, 0.1)
    run_of(plan, "a", 2, None, ending=FAILED)
    for seed in (1, 2):
        run_of(plan, "b", seed, 0.3)
    records = Records.load(plan)
    assert plan.title(records.best_trial()) == "b, seed 1"


def test_a_comparison_without_a_complete_run_has_no_best_trial():
    plan = comparison_plan(seeds=(1,))
    run_of(plan, "a", 1, None, ending=FAILED)
    assert Records.load(plan).best_trial() is None
