"""How a sweep ended: at its end, because its time was up, or because somebody pressed Ctrl-C."""

import logging
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.execution import control, driver
from orchestrator.planning import sweep_data
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import SweepEnded, SweepTags, TrialEnded, TrialStarted
from tardis_core.data.dataset import Provenance
from tardis_core.errors import UserError
from tests.support.sweep_logs import make_plan


def test_the_headline_says_what_a_trial_gets_and_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = SearchPlan("s", "copy", "smoke", trials=1, metric="bce", better="lower")
    source = Provenance("copy", real=True, complete=True, sha256="", origin="generated")
    assert "per trial" not in driver._headline(plan, source, 2)
    packed = replace(plan, gpus_per_trial=0.25, gpu_reason="4 per GPU: small")
    expected = "per trial: 0.25 GPUs (4 per GPU: small), 1 CPUs"
    assert expected in driver._headline(packed, source, 2).splitlines()
    assert driver._params(packed)["gpus_per_trial"] == 0.25
    assert driver._params(packed)["gpu_reason"] == "4 per GPU: small"


@pytest.mark.parametrize(
    ("seconds", "ended", "finished"), [(0.0, 2, False), (60.0, 2, True), (0.0, 6, True)]
)
def test_ctrl_c_before_the_time_is_up_is_no_end(tmp_path, monkeypatch, seconds, ended, finished):
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(now=0.0)

    def run(*_):
        clock.now += seconds

    def conclude(plan, data, finished):
        return [SweepTags({"concluded": str(finished)})]

    monkeypatch.setattr(control, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(driver, "run", run)
    monkeypatch.setattr(driver, "ended", lambda plan: ended)
    plan = make_plan(time_budget=60.0)
    log = open_log(plan.folder)
    tracker = SimpleNamespace(start=lambda: None, close=lambda seconds: 0, refused=0)
    outcome = driver._run(sweep_data.load(plan), 1, log, tracker, conclude)
    *_, tags, last = [event for event, _ in log.read(0)]
    log.close()
    assert outcome.finished == finished
    assert tags.tags == {"concluded": str(finished)}
    assert isinstance(last, SweepEnded)
    assert last.status == ("FINISHED" if finished else "KILLED")


def ask_to_stop(*_):
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("moment", ["while the last trial ends", "while the report is written"])
def test_a_sweep_without_its_report_can_be_resumed(tmp_path, monkeypatch, moment):
    """Its trials have all ended; resuming it writes the report and nothing else."""
    monkeypatch.chdir(tmp_path)
    written = []
    early = moment == "while the last trial ends"
    monkeypatch.setattr(driver, "run", ask_to_stop if early else lambda *_: None)
    monkeypatch.setattr(driver, "ended", lambda plan: plan.trials)
    plan = make_plan()
    log = open_log(plan.folder)
    tracker = SimpleNamespace(start=lambda: None, close=lambda seconds: 0, refused=0)
    with driver.stop_signals.listening(), driver.stop_signals.deferring():
        conclude = written.append if early else ask_to_stop
        interrupted = driver._run(sweep_data.load(plan), 1, log, tracker, conclude)
    *_, last = [event for event, _ in log.read(0)]
    log.close()
    driver.stop_signals.forget()
    assert not interrupted.finished
    assert not written
    assert last.status == "KILLED"


@pytest.mark.parametrize(
    ("states", "failed"), [(["FAILED"] * 3, True), (["FAILED", "FINISHED"], False)]
)
def test_a_sweep_of_which_every_trial_failed_has_failed(tmp_path, monkeypatch, states, failed):
    monkeypatch.chdir(tmp_path)
    plan = make_plan(trials=len(states))
    log = open_log(plan.folder)

    def run(*_):
        for number, state in enumerate(states):
            log.append(TrialStarted(number), TrialEnded(number, state))

    monkeypatch.setattr(driver, "run", run)
    monkeypatch.setattr(driver, "ended", lambda plan: len(states))
    tracker = SimpleNamespace(start=lambda: None, close=lambda seconds: 0, refused=0)
    outcome = driver._run(sweep_data.load(plan), 1, log, tracker, lambda *_: [])
    *_, last = [event for event, _ in log.read(0)]
    log.close()
    assert (outcome.failed, outcome.exit_code) == (failed, int(failed))
    assert last.status == ("FAILED" if failed else "FINISHED")


def test_a_sweep_that_cannot_start_leaves_no_folder_and_logs_to_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fail(address, log_file):
        redirect_library_logs(log_file)
        raise UserError("no Ray")

    monkeypatch.setattr(driver, "start_ray", fail)
    monkeypatch.setattr(driver, "prepare_store", lambda *_: "1")
    monkeypatch.setattr(driver, "Tracker", lambda *_, **__: SimpleNamespace(close=lambda _: 0))
    plan = SearchPlan("s", "copy", "smoke", trials=1, metric="bce", better="lower")
    with pytest.raises(UserError, match="no Ray"):
        driver.run_sweep(plan, None, lambda *_: [], lambda reason: None)
    assert not plan.folder.exists()
    files = [getattr(each, "baseFilename", "") for each in logging.getLogger().handlers]
    assert not [each for each in files if each.startswith(str(tmp_path))]
