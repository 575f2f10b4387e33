"""One configuration trained with several seeds side by side, judged by all of them together.

The winner of a search over single runs is often a lucky seed. A search for settings that work gives
every trial several seeds, and takes the mean of them, or the worst.
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

JUDGES = ("mean", "worst")


class SeveralSeeds:
    """Looks to a trial like a `Trainer`: a validation of all seeds is one validation of it."""

    def __init__(
        self, config: Config, data: Any, device: str, seeds: Sequence[int], judge: str
    ) -> None:
        self.config, self.judge = config, judge
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
        """Where they all are."""
        return self.trainers[0].device

    @property
    def backend(self) -> str:
        """That of all seeds."""
        return self.trainers[0].backend

    @property
    def update(self) -> int:
        """Of the seed that is furthest: patience may have ended others."""
        return max(trainer.update for trainer in self.trainers)

    @property
    def finished(self) -> bool:
        """Whether every seed is."""
        return all(trainer.finished for trainer in self.trainers)

    def run(self) -> Iterator[Row]:
        """Train all seeds from validation to validation; yield a row for all of them."""
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
        merged |= {"update": self.update, key: self._judged(values)}
        self.history.append(merged)
        best = best_row(self.history, key, metric.better, phase_start(self.config.settings()))
        if best is not None:
            self.best, self.best_update = best[key], int(best["update"])
        return merged

    def _judged(self, values: Sequence[float]) -> float:
        if self.judge == "mean":
            return fmean(values)
        return max(values) if self.task.metric.better == "lower" else min(values)

    def model_state(self) -> dict[str, Any]:
        """Of the seed that is best now."""
        key = f"valid_{self.task.metric.name}"
        pick = min if self.task.metric.better == "lower" else max
        return pick(self.trainers, key=lambda trainer: trainer.history[-1][key]).model_state()

    def state(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {
            "seeds": [trainer.state() for trainer in self.trainers],
            "best": self.best,
            "best_update": self.best_update,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        for trainer, held in zip(self.trainers, state["seeds"], strict=True):
            trainer.restore(held)
        self.best, self.best_update = state["best"], state["best_update"]
        self.history = list(state["history"])


def _next_row(trainer: Trainer) -> Row:
    """The next validation; of a seed that patience has ended, its last one again."""
    return next(trainer.run(), None) or trainer.history[-1]
