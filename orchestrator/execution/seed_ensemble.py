"""One configuration trained with several seeds side by side, judged by their mean or their worst.

The winner of a search over single runs is often a lucky seed; several seeds per trial find settings
that work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from tardis_core.config import Config
from tardis_core.tasks.base import Task
from tardis_core.training.best import best_row, phase_start
from tardis_core.training.loop import Row, Trainer


class SeedEnsemble:
    """Several trainers with the interface of one `Trainer`: all seeds are validated together."""

    def __init__(
        self,
        config: Config,
        data: Any,
        device: str,
        seeds: Sequence[int],
        aggregate: str,
        race: bool = False,
    ) -> None:
        """
        Args:
            race: train the first seed alone, then the others; its validations are joined to theirs.
        """
        self.config, self.aggregate, self.race = config, aggregate, race
        self.trainers = [Trainer(replace(config, seed=seed), data, device) for seed in seeds]
        self.best: float | None = None
        self.best_update = 0
        self.history: list[Row] = []

    @property
    def task(self) -> Task:
        """The task of the first seed."""
        return self.trainers[0].task

    @property
    def device(self) -> torch.device:
        """The device of all seeds."""
        return self.trainers[0].device

    @property
    def backend(self) -> str:
        """The backend of all seeds."""
        return self.trainers[0].backend

    @property
    def update(self) -> int:
        """The update of the seed that is furthest: patience may have ended others.

        In a race the other seeds count on where the first one ends.
        """
        if not self.race:
            return max(trainer.update for trainer in self.trainers)
        rest = max(trainer.update for trainer in self.trainers[1:])
        return self.config.training.updates + rest if rest else self.trainers[0].update

    @property
    def finished(self) -> bool:
        """Whether every seed has finished."""
        return all(trainer.finished for trainer in self.trainers)

    def run(self) -> Iterator[Row]:
        """Train all seeds from validation to validation; yield one row for all of them."""
        first, *others = self.trainers
        while self.race and not first.finished:
            yield self._add([_next_row(first)])
        while not self.finished:
            trained = [_next_row(trainer) for trainer in (others if self.race else self.trainers)]
            yield self._add([self._row_of_first(others[0]), *trained] if self.race else trained)

    def _row_of_first(self, other: Trainer) -> Row:
        """What the first seed measured when it was as far as another one is now."""
        rows = self.trainers[0].history
        return rows[min(len(other.history), len(rows)) - 1]

    def seed_values(self, validations: int) -> list[float]:
        """The best validation of each seed, if the first seed or all of them had ended then."""
        history, key = self.history[:validations], f"valid_{self.task.metric.name}_seed"
        done = validations == len(self.history) and self.finished
        if not self.race or not (done or validations == len(self.trainers[0].history)):
            return []
        if not (done or self.trainers[0].finished):
            return []
        pick = min if self.task.metric.better == "lower" else max
        names = [f"{key}{trainer.config.seed}" for trainer in self.trainers]
        columns = [[row[name] for row in history if name in row] for name in names]
        return [pick(values) for values in columns if values]

    def _add(self, rows: Sequence[Row]) -> Row:
        metric = self.task.metric
        key = f"valid_{metric.name}"
        values = [row[key] for row in rows]
        shared = set.intersection(*(set(row) for row in rows))
        merged: Row = {name: fmean(row[name] for row in rows) for name in rows[0] if name in shared}
        seeds = [trainer.config.seed for trainer in self.trainers]  # of a race, only the first
        merged |= {f"{key}_seed{s}": value for s, value in zip(seeds, values, strict=False)}
        merged |= {"update": self.update, key: self._aggregated(values)}
        self.history.append(merged)
        best = best_row(self.history, key, metric.better, self.phase_start)
        if best is not None:
            self.best, self.best_update = best[key], int(best["update"])
        return merged

    @property
    def phase_start(self) -> float:
        """The update after which the best validation is sought: in a race, of all seeds."""
        return phase_start(self.config.settings(), self.race)

    def _aggregated(self, values: Sequence[float]) -> float:
        if self.aggregate == "mean":
            return fmean(values)
        return max(values) if self.task.metric.better == "lower" else min(values)

    def model_state(self) -> dict[str, Any]:
        """The weights of the seed that is best now."""
        key = f"valid_{self.task.metric.name}"
        pick = min if self.task.metric.better == "lower" else max
        trained = [trainer for trainer in self.trainers if trainer.history]
        return pick(trained, key=lambda trainer: trainer.history[-1][key]).model_state()

    def state(self) -> dict[str, Any]:
        """Everything needed to resume."""
        return {
            "seeds": [trainer.state() for trainer in self.trainers],
            "best": self.best,
            "best_update": self.best_update,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a state that `state` returned."""
        for trainer, saved in zip(self.trainers, state["seeds"], strict=True):
            trainer.restore(saved)
        self.best, self.best_update = state["best"], state["best_update"]
        self.history = list(state["history"])


def _next_row(trainer: Trainer) -> Row:
    """The next validation, or the last one again if patience has ended the seed."""
    return next(trainer.run(), None) or trainer.history[-1]
