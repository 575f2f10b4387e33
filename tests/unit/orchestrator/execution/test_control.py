"""Requests to a running sweep: each is obeyed once, by whichever driver comes to it."""

import json
import signal
import threading
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState
from ray import cloudpickle
from ray.tune.schedulers import FIFOScheduler

from orchestrator.control import main
from orchestrator.execution import control, requests, tuner
from orchestrator.execution.control import Control, LeaveTune
from orchestrator.execution.requests import Request
from orchestrator.execution.status import status_of
from orchestrator.execution.study import open_study, study_storage
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.events import SweepStarted, TrialStarted
from orchestrator.tracking.states import STOPPED_BY_TAG, State
from tardis_core.stopping import Interrupted, stop_signals
from tests.support.sweep_logs import comparison_plan, make_plan

RATE = "training.learning_rate"


@pytest.fixture(autouse=True)
def no_signal():
    """What a test has heard is not heard by the next."""
    yield
    stop_signals.forget()


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A search of four trials whose driver is this process; trials 0 and 1 have started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)
    plan = make_plan(trials=4, fixed={"memory.cells": "8"})
    plan.save()
    study = optuna.create_study(study_name="s", storage=study_storage(plan.folder))
    log = open_log(plan.folder)
    log.append(SweepStarted("s"))
    for number in range(2):
        study.ask()
        log.append(TrialStarted(number, {"estimator": "gumbel"}))
    yield plan
    log.close()


def ask(plan, action, **more):
    request = Request(action, **more)
    requests.write(plan.folder, request)
    return request


def answer(plan, request):
    return requests.answers(plan.folder)[request.id]


def trials(plan):
    return open_study(plan.folder, plan.name).trials


def ray_trial(number):
    return SimpleNamespace(config={"number": number}, is_finished=lambda: False)


class Controller:
    """What a trial is stopped with; Ray then calls the callbacks."""

    _reuse_actors = True

    def __init__(self):
        self.stopped = []

    def stop_trial(self, trial):
        self.stopped.append((trial.config, self._reuse_actors))


def step(driver, *running):
    driver._polled = 0.0
    driver.on_step_end(0, list(running))


def test_a_running_trial_is_stopped_with_its_process_and_the_study_knows_by_whom(plan):
    driver, controller, scheduler = Control(plan), Controller(), FIFOScheduler()
    driver.attach(scheduler)
    cloudpickle.dumps([driver, scheduler])  # as Ray does
    scheduler.on_trial_add(SimpleNamespace(_tune_controller=controller), ray_trial(1))
    request = ask(plan, "stop-trial", trial=1, user="ann")
    step(driver, ray_trial(0), ray_trial(1))
    assert controller.stopped == [({"number": 1, STOPPED_BY_TAG: "user"}, False)]
    assert controller._reuse_actors
    assert trials(plan)[1].state is TrialState.PRUNED
    assert trials(plan)[1].user_attrs == {STOPPED_BY_TAG: "user"}
    assert (answer(plan, request).user, answer(plan, request).refused) == ("ann", "")
    step(driver, ray_trial(0))
    assert len(controller.stopped) == 1


def test_a_trial_that_does_not_run_now_is_ended_in_the_log(plan):
    log = open_log(plan.folder)
    log.append(State.STOPPED.event(0, {}))
    ask(plan, "stop-trial", trial=0)
    Control(plan).begin()
    assert log.state(0) is State.PRUNED
    assert trials(plan)[0].state is TrialState.PRUNED


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (7, "no trial 7 of s has started; started are: 0, 1"),
        (1, "trial 1 of s has ended already: it is complete"),
    ],
)
def test_a_trial_that_cannot_be_stopped_is_refused(plan, number, reason):
    open_study(plan.folder, "s").tell(1, 0.5)
    request = ask(plan, "stop-trial", trial=number)
    Control(plan).begin()
    assert answer(plan, request).refused == reason


def test_enqueued_settings_become_one_trial_whoever_is_killed_in_between(plan, monkeypatch):
    request = ask(plan, "enqueue", settings={RATE: "0.003", "estimator": "gumbel"})
    killed = Control(plan)
    monkeypatch.setattr(killed, "_answer", lambda *_: None)  # killed before it could say so
    killed.begin()
    Control(plan).begin()
    Control(plan).begin()
    waiting = [each for each in trials(plan) if each.state is TrialState.WAITING]
    assert [each.system_attrs["fixed_params"] for each in waiting] == [
        {RATE: 0.003, "estimator": "gumbel"}
    ]
    assert not answer(plan, request).refused


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"nosuch.key": "1"}, "nosuch.key is not searched by s"),
        ({"memory.cells": "4"}, "it is fixed with --set memory.cells=8"),
        ({RATE: "99"}, "must be in the range of the search"),
        ({RATE: "fast"}, "the search has"),
        ({"estimator": "none"}, "estimator must be in the range"),
        ({"estimator.gamma": "0.9"}, "only with some values"),
        ({"estimator": "gumbel", "estimator.gamma": "0.9"}, "estimator.gamma is not searched"),
    ],
)
def test_settings_outside_the_space_are_refused(plan, settings, reason):
    request = ask(plan, "enqueue", settings=settings)
    Control(plan).begin()
    assert reason in answer(plan, request).refused
    assert len(trials(plan)) == 2


def test_no_more_is_enqueued_than_the_sweep_has_trials(plan):
    *_, last = [ask(plan, "enqueue", settings={RATE: "0.003"}) for _ in range(3)]
    Control(plan).begin()
    assert "--extend s --trials +1" in answer(plan, last).refused
    assert len(trials(plan)) == 4


def test_a_paused_sweep_stays_paused_for_the_next_driver_until_it_is_resumed(plan, capsys):
    driver = Control(plan)
    ask(plan, "pause")
    with pytest.raises(LeaveTune):
        step(driver, ray_trial(0))
    assert status_of(plan).state == "paused"
    again = Control(plan)
    again.begin()
    timer = threading.Timer(0.1, lambda: ask(plan, "resume"))
    timer.start()
    again.wait()
    timer.join()
    assert capsys.readouterr().out.splitlines() == [
        "paused; continue with: python -m orchestrator.control s resume",
        "resumed",
    ]
    assert open_log(plan.folder).state(0) is State.STOPPED  # until Ray starts it again
    assert again.paused_seconds > 0.05
    assert status_of(plan).state == "running"
    step(again, ray_trial(0))


def test_the_time_of_a_pause_does_not_count(plan, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(control, "time", SimpleNamespace(monotonic=lambda: clock.now))
    driver = Control(plan)
    driver.plan = make_plan("timed", time_budget=60.0)
    clock.now, driver.paused_seconds = 50.0, 30.0
    assert driver.time_left() == 40.0


def test_a_request_to_stop_ends_this_driver_and_no_later_one(plan):
    driver = Control(plan)
    ask(plan, "stop")
    with pytest.raises(LeaveTune):
        step(driver)
    assert driver.stopped
    late = ask(plan, "stop")
    again = Control(plan)
    again.begin()
    step(again)
    assert not again.stopped
    assert answer(plan, late).refused


def test_lines_that_are_no_requests_are_passed_over(plan):
    lines = ["", "{", "[]", "{}", '{"action": "dance"}', '{"action": "stop-trial"}']
    lines += ['{"action": "enqueue", "settings": [1]}', '{"action": "stop", "trial": 1}']
    (plan.folder / requests.REQUESTS).write_text("\n".join(lines) + '\n{"action": "pau')
    request = ask(plan, "pause")
    assert requests.read(plan.folder) == [request]


def served(plan, *arguments):
    """The exit code of the command while a driver obeys."""
    driver, done = Control(plan), threading.Event()

    def serve():
        while not done.wait(0.02):
            driver._obey([])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return main(list(arguments))
    finally:
        done.set()
        thread.join()


def test_the_command_says_what_the_driver_answers(plan, capsys):
    assert served(plan, "s", "pause") == 0
    assert "s is paused" in capsys.readouterr().out
    assert served(plan, "s", "pause") == 2
    assert capsys.readouterr().err == "error: s is paused already\n"
    assert served(plan, "s", "enqueue", f"{RATE}=0.002") == 0
    assert served(plan, "s", "stop-trial", "1") == 0
    lines = (plan.folder / "tracking.jsonl").read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    actions = [each["action"] for each in recorded if each["event"] == "Controlled"]
    assert actions == ["pause", "pause", "enqueue", "stop-trial"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nobody", "stop"), "there is no sweep 'nobody'"),
        (("s", "dance"), "invalid choice"),
        (("s", "stop", "now"), "stop takes no further words"),
        (("s", "stop-trial"), "the number of one trial"),
        (("s", "stop-trial", "one"), "the number of one trial, not 'one'"),
        (("s", "enqueue"), "KEY=VALUE"),
        (("s", "enqueue", "rate"), "KEY=VALUE"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_written(plan, capsys, words, reason):
    assert main(list(words)) == 2
    assert reason in capsys.readouterr().err
    assert not (plan.folder / requests.REQUESTS).exists()


def test_a_sweep_that_does_not_run_cannot_be_controlled(plan, capsys):
    open_log(plan.folder).close()
    assert main(["s", "pause"]) == 2
    assert "--resume s" in capsys.readouterr().err
    assert not (plan.folder / requests.REQUESTS).exists()


@pytest.mark.parametrize("action", ["stop-trial", "enqueue"])
def test_a_comparison_can_only_be_stopped_and_paused(plan, action):
    compared = comparison_plan("c", ("a", "b"), (0, 1))
    more = {"trial": 0} if action == "stop-trial" else {"settings": {RATE: "0.003"}}
    request = ask(compared, action, **more)
    Control(compared).begin()
    open_log(compared.folder).close()
    assert f"{action} is for searches, and c is a comparison" in answer(compared, request).refused


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_tune_although_tune_has_a_handler_of_its_own(plan, number):
    driver = Control(plan)
    driver.attach(None)
    with stop_signals.listening():
        with tuner._stopped_by_signals(driver):
            signal.signal(signal.SIGUSR1, lambda *_: None)  # as Tune does
            driver.setup()
            signal.raise_signal(number)
            with pytest.raises(LeaveTune):
                driver.on_step_end(0, [])
        assert stop_signals.number == number


def test_a_signal_before_tune_runs_ends_the_wait_for_it(plan):
    driver = Control(plan)
    with stop_signals.listening(), pytest.raises(Interrupted), tuner._stopped_by_signals(driver):
        signal.raise_signal(signal.SIGUSR1)
