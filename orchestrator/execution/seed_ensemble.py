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
        self, config: Config, data: Any, device: str, seeds: Sequence[int], aggregate: str
    ) -> None:
        self.config, self.aggregate = config, aggregate
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
        """The update of the seed that is furthest: patience may have ended others."""
        return max(trainer.update for trainer in self.trainers)

    @property
    def finished(self) -> bool:
        """Whether every seed has finished."""
        return all(trainer.finished for trainer in self.trainers)

    def run(self) -> Iterator[Row]:
        """Train all seeds from validation to validation; yield one row for all of them."""
        while not self.finished:
            rows = [_next_row(trainer) for trainer in self.trainers]
            yield self._add(rows)

    def _add(self, rows: Sequence[Row]) -> Row:
        metric = self.task.metric
        key = f"valid_{metric.name}"
        values = [row[key] for row in rows]
        shared = set.intersection(*(set(row) for row in rows))
        merged: Row = {name: fmean(row[name] for row in rows) for name in rows[0] if name in shared}
        seeds = [trainer.config.seed for trainer in self.trainers]
        merged |= {f"{key}_seed{s}": value for s, value in zip(seeds, values, strict=True)}
        merged |= {"update": self.update, key: self._aggregated(values)}
        self.history.append(merged)
        best = best_row(self.history, key, metric.better, phase_start(self.config.settings()))
        if best is not None:
            self.best, self.best_update = best[key], int(best["update"])
        return merged

    def _aggregated(self, values: Sequence[float]) -> float:
        if self.aggregate == "mean":
            return fmean(values)
        return max(values) if self.task.metric.better == "lower" else min(values)

    def model_state(self) -> dict[str, Any]:
        """The weights of the seed that is best now."""
        key = f"valid_{self.task.metric.name}"
        pick = min if self.task.metric.better == "lower" else max
        return pick(self.trainers, key=lambda trainer: trainer.history[-1][key]).model_state()

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
