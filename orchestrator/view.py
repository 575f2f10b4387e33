"""What a person sees while a sweep runs: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from orchestrator.plan import SweepPlan
from orchestrator.recorder import number_of
from orchestrator.search import FAILED, OBJECTIVE, outcome

REFRESH_SECONDS = 1.0
LEADERS = 5


class View(tune.Callback):
    """Counts what happens to trials, and shows it."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        self.ends: dict[str, int] = {"complete": 0, "pruned": 0, "fail": 0}
        self.values: dict[int, float] = {}
        self._started = self._shown = time.time()
        self._lines = 0

    def get_state(self) -> dict[str, Any]:
        return {"ends": self.ends, "values": self.values}

    def set_state(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._started = time.time()

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return sys.stdout.isatty()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        value = result.get(OBJECTIVE)
        if value is not None and value == value:
            self.values[number_of(trial)] = value
        if self.live:
            self._draw(trials)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._ended(trial, outcome(trial.last_result, error=False).name.lower(), trials)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._ended(trial, "fail", trials)

    def _ended(self, trial: Trial, end: str, trials: list[Trial]) -> None:
        self.ends[end] += 1
        if self.live:
            self._draw(trials, force=True)
            return
        number = number_of(trial)
        value = self.values.get(number)
        measured = "" if value is None else f"  {self.plan.metric} {value:.4f}"
        reason = (trial.last_result or {}).get(FAILED)
        print(
            f"trial {number:>4}  {end:<8}{measured}{f'  {reason}' if reason else ''}"
            f"  ({self._counts(trials)})",
            flush=True,
        )

    def _counts(self, trials: list[Trial]) -> str:
        done, best = sum(self.ends.values()), self._best()
        running = sum(trial.status == Trial.RUNNING for trial in trials)
        shown = "none yet" if best is None else f"{best[1]:.4f} (trial {best[0]})"
        return (
            f"{done}/{self.plan.trials} ended, {running} running, {self.ends['pruned']} pruned, "
            f"{self.ends['fail']} failed, best {self.plan.metric} {shown}{self._left(done)}"
        )

    def _left(self, done: int) -> str:
        if not 0 < done < self.plan.trials:
            return ""
        seconds = (time.time() - self._started) / done * (self.plan.trials - done)
        return f", about {max(1, round(seconds / 60))} min left"

    def _best(self) -> tuple[int, float] | None:
        ranked = self._ranked()
        return ranked[0] if ranked else None

    def _ranked(self) -> list[tuple[int, float]]:
        sign = 1 if self.plan.better == "lower" else -1
        return sorted(self.values.items(), key=lambda pair: sign * pair[1])

    def _draw(self, trials: list[Trial], force: bool = False) -> None:
        if not force and time.time() - self._shown < REFRESH_SECONDS:
            return
        self._shown = time.time()
        settings = {number_of(trial): trial.config["settings"] for trial in trials}
        lines = [self._counts(trials)]
        for number, value in self._ranked()[:LEADERS]:
            chosen = settings.get(number, {})
            words = [
                str(chosen.get("estimator", "")),
                f"K {chosen.get('memory.cells', '-')}",
                f"H {chosen.get('model.hidden', '-')}",
            ]
            lines.append(
                f"  trial {number:>4}  {self.plan.metric} {value:<9.4f} {'  '.join(words)}"
            )
        # Back to where the last drawing began, and clear from there on.
        print(f"\x1b[{self._lines}F\x1b[J" * bool(self._lines) + "\n".join(lines), flush=True)
        self._lines = len(lines)
