"""Obeys what people ask of a running sweep; see `requests` for how they ask."""

import time
from typing import Any

from optuna.trial import TrialState
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from orchestrator.execution import ray_internals, requests, study
from orchestrator.execution.callbacks import end_of, number_of
from orchestrator.execution.requests import Request
from orchestrator.planning.plan import SearchPlan, SweepPlan
from orchestrator.planning.points import checked_point
from orchestrator.tracking.event_log import open_log
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.states import INTERRUPTED_TAG, STOPPED_BY_TAG, State
from tardis_core.errors import UserError
from tardis_core.stopping import stop_signals

POLL_SECONDS = 0.5


class LeaveTune(Exception):
    """Ends Ray Tune from a callback: it stops all trials, and forgets them."""


class Control(tune.Callback):
    """Reads the requests of a sweep, obeys each of them once, and records it in the event log."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan, self.folder = plan.without_secrets(), plan.folder.absolute()
        self.stopped = False  # somebody has asked for it
        self.in_tune = False  # whether Tune calls this object
        self.paused_seconds = 0.0
        self._started, self._polled = time.monotonic(), 0.0
        self._controller: Any = None  # of Ray Tune
        self._answered = set(requests.answers(self.folder))
        log = open_log(self.folder)
        self.paused = requests.is_paused(event for event, _ in log.read(0))

    def __getstate__(self) -> dict[str, Any]:
        # Ray pickles its callbacks, and a controller belongs to one run of Tune.
        return {**self.__dict__, "_controller": None}

    def attach(self, scheduler: TrialScheduler | None) -> None:
        """Get to know the controller of Ray Tune, which only schedulers are told."""
        self._controller, self.in_tune = None, False
        if scheduler is None:
            return
        add = scheduler.on_trial_add

        def on_trial_add(tune_controller: Any, trial: Trial) -> None:
            self._controller = tune_controller
            add(tune_controller, trial)

        scheduler.on_trial_add = on_trial_add  # type: ignore[method-assign]

    def begin(self) -> None:
        """Obey what was asked of an earlier driver, which did not live to obey it.

        A request to stop is none any more: that driver has ended, and this one was started later.
        """
        for request in self._new():
            if request.action == "stop":
                self._answer(request, "the sweep had ended before it was obeyed")
        self._obey([])

    def setup(self, *arguments: Any, **info: Any) -> None:
        """Tune starts, and has just installed a handler of SIGUSR1."""
        self.in_tune = True
        stop_signals.listen()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Ray calls this ten times per second or more often."""
        if stop_signals.number is not None:
            raise LeaveTune
        if time.monotonic() - self._polled < POLL_SECONDS:
            return
        self._obey(trials)
        if self.stopped or self.paused:
            raise LeaveTune

    def wait(self) -> None:
        """Return when the sweep is not paused, or is to stop."""
        if not self.paused or self.stopped:
            return
        started = time.monotonic()
        self._interrupt_open_trials()
        print(f"paused; continue with: {command(self.plan.name, 'resume')}", flush=True)
        while self.paused and not self.stopped and stop_signals.number is None:
            time.sleep(POLL_SECONDS)
            self._obey([])
        self.paused_seconds += time.monotonic() - started
        if not self.paused:
            print("resumed", flush=True)

    def time_left(self) -> float:
        """Seconds of the time budget that are left; 0 if there is no budget."""
        budget = self.plan.time_budget
        return max(1e-3, budget - self.running_seconds()) if budget else 0.0

    def running_seconds(self) -> float:
        """Seconds since the start, without those in which the sweep was paused."""
        return time.monotonic() - self._started - self.paused_seconds

    def _interrupt_open_trials(self) -> None:
        """Say that trials do not run, in the log and in MLflow, until they are resumed."""
        log = open_log(self.folder)
        for number in log.open_trials():
            log.append(State.STOPPED.event(number, {INTERRUPTED_TAG: "true"}))

    def _new(self) -> list[Request]:
        every = requests.read(self.folder)
        return [request for request in every if request.id not in self._answered]

    def _obey(self, trials: list[Trial]) -> None:
        self._polled = time.monotonic()
        for request in self._new():
            try:
                if self._is_obeyed(request, trials):
                    self._answer(request)
            except UserError as error:
                self._answer(request, str(error))

    def _answer(self, request: Request, refused: str = "") -> None:
        self._answered.add(request.id)
        open_log(self.folder).append(request.answer(refused))

    def _is_obeyed(self, request: Request, trials: list[Trial]) -> bool:
        """Obey a request; False if that has to wait. A repetition changes nothing."""
        match request.action:
            case "stop":
                self.stopped = True
            case "pause" | "resume":
                self._switch(request.action == "pause")
            case "stop-trial":
                assert request.trial is not None
                self._stop_trial(request.trial, trials)
            case "enqueue":
                return self._enqueue(request)
        return True

    def _switch(self, pause: bool) -> None:
        if self.paused == pause:
            raise UserError(f"{self.plan.name} is {'paused already' if pause else 'not paused'}")
        self.paused = pause

    def _stop_trial(self, number: int, trials: list[Trial]) -> None:
        plan, log = _search(self.plan, "stop-trial"), open_log(self.folder)
        if number not in log.trials():
            started = ", ".join(map(str, sorted(log.trials()))) or "none"
            raise UserError(f"no trial {number} of {plan.name} has started; started are: {started}")
        frozen = study.stop_by_user(self.folder, plan.name, number)
        running = [each for each in trials if number_of(each) == number and not each.is_finished()]
        for trial in running:
            trial.config[STOPPED_BY_TAG] = "user"  # read when Ray says that it has ended
            ray_internals.stop_trial(self._controller, trial)
        if not running:
            Recorder(log).ended(number, *end_of(frozen))

    def _enqueue(self, request: Request) -> bool:
        plan = _search(self.plan, "enqueue")
        point = checked_point(plan, request.settings)
        trials = study.study_trials(self.folder, plan.name)
        if not trials:
            return False  # the study does not exist yet
        if any(each.user_attrs.get(study.REQUEST) == request.id for each in trials):
            return True  # by a driver that was killed before it could say so
        check_room(plan, trials)
        study.enqueue(study.open_study(self.folder, plan.name), point, request.id)
        return True


def check_room(plan: SearchPlan, trials: list[Any]) -> None:
    """Raise `UserError` if every trial of the search has been proposed, or is enqueued."""
    if len(trials) >= plan.trials:
        waiting = sum(each.state is TrialState.WAITING for each in trials)
        also = f" or enqueued ({waiting})" if waiting else ""
        raise UserError(
            f"all {plan.trials} trials of {plan.name} are proposed{also}; there is room after: "
            f"python -m orchestrator.sweep --extend {plan.name} --trials +1"
        )


def _search(plan: SweepPlan, action: str) -> SearchPlan:
    """The plan if it is that of a search, to which the request applies."""
    if not isinstance(plan, SearchPlan):
        raise UserError(
            f"{action} is for searches, and {plan.name} is a comparison, which needs all of its "
            "trials; stop, pause and resume apply to it"
        )
    return plan


def command(name: str, *words: str) -> str:
    """The command that asks a sweep for something."""
    return " ".join(["python -m orchestrator.control", name, *words])
