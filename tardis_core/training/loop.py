"""Training as a loop that yields metrics; everything it needs to resume is in its `state`."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import torch

from tardis_core import kernels
from tardis_core.build import build_network, build_task
from tardis_core.config import Config
from tardis_core.data.dataset import Provenance
from tardis_core.errors import Diverged, UserError
from tardis_core.models.base import State, flatten_state, map_state
from tardis_core.tasks.base import Batch, Split
from tardis_core.training import precision
from tardis_core.training.adam import Adam
from tardis_core.training.best import best_row, phase_start
from tardis_core.training.memory_need import check_memory
from tardis_core.training.microbatches import Microbatch, check_microbatches, join, split
from tardis_core.training.objective import Objective, objective
from tardis_core.training.schedule import learning_rate

# Settings that change the shape of a state from batch to batch, unless they have these values, and
# the alternative.
NEED_BEGINNINGS = {
    "estimator.copies": (1, "choose another estimator"),
    "memory.vary_cells_from": (1.0, "leave it at 1.0"),
}
Row = dict[str, float]  # one validation: what was measured, by name


def _beyond(device: torch.device, numbers: range) -> bool:
    """Whether it is a GPU with another number than those that there are."""
    return device.type == "cuda" and device.index is not None and device.index not in numbers


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" takes the best there is."""
    available = {"cpu": True, "cuda": torch.cuda.is_available()}
    available["mps"] = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if available["cuda"] else "mps" if available["mps"] else "cpu")
    here = [each for each, usable in available.items() if usable]
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    numbers = range(torch.cuda.device_count() if available["cuda"] else 0)
    if device is None or device.type not in here or _beyond(device, numbers):
        known = ", ".join(["auto", *here, *(f"cuda:{number}" for number in numbers)])
        raise UserError(f"device {name!r} is not available; choose one of: {known}")
    return device


class Trainer:
    """One training run: network, optimiser, position in the data, and the measurements so far."""

    def __init__(self, config: Config, data: Any, device: str = "cpu") -> None:
        self.config, self.device = config, pick_device(device)
        check_memory(config)
        check_microbatches(config)
        self.task = build_task(config, data)
        self.provenance: Provenance = self.task.provenance(config.task_settings, data)
        self.network = build_network(config, self.task.signature).to(self.device)
        training = config.training
        own_rate = float(config.settings().get("estimator.rate", 1.0))
        self._rate_factors = (1.0, own_rate)  # by parameter group; there may be only the first
        self.optimizer = Adam(
            self._parameter_groups(),
            training.learning_rate,
            weight_decay=training.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),  # one call for all parameters
        )
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        # Even a text begins with its first batch: whether it continues shows in the second.
        self._continues = self.task.train_batch(1).continues
        self.carried: State | None = None  # recurrent state, for text that continues
        self.update = 0
        self.started_from: dict[str, Any] | None = None  # weights of another run, if not random
        self.history: list[Row] = []
        self._sums: Row = {}  # of the updates since the last validation
        self._seconds = 0.0
        self._check_beginnings()
        _ = self.backend  # one that cannot run this is refused now, before anything is written

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters; those that choose cells apart, if they have a rate of their own."""
        apart = self.network.model.choosing() if self._rate_factors[1] != 1 else ()
        choosing = [each for part in apart for each in part.parameters()]
        set_apart = set(choosing)
        rest = [each for each in self.network.parameters() if each not in set_apart]
        return [{"params": group} for group in (rest, choosing) if group]

    def _check_beginnings(self) -> None:
        settings = self.config.settings()
        for name, (plain, alternative) in NEED_BEGINNINGS.items():
            value = settings.get(name, plain)
            if value != plain and self._continues:
                raise UserError(
                    f"{name}={value} needs sequences that do not continue from batch to batch, as "
                    f"those of {self.config.task} do; {alternative}"
                )

    @property
    def backend(self) -> str:
        """The backend of `tardis_core.kernels` that really runs, whatever the settings ask for."""
        with self._precision():
            return kernels.resolve(self.network.model, next(self.network.parameters()))

    @property
    def finished(self) -> bool:
        """Whether all updates are done, or patience has run out."""
        return self.update >= self.config.training.updates or self._out_of_patience

    @property
    def _out_of_patience(self) -> bool:
        patience = self.config.training.patience
        if not patience or self.best is None:
            return False
        since = max(self.best_update, self._phase_start)
        return sum(row["update"] > since for row in self.history) >= patience

    @property
    def best(self) -> float | None:
        """The best validation metric so far."""
        row = self._best_row()
        return None if row is None else row[self._metric_column]

    @property
    def best_update(self) -> int:
        """The update that it was measured after; 0 if there is none yet."""
        row = self._best_row()
        return 0 if row is None else int(row["update"])

    @property
    def _metric_column(self) -> str:
        return f"valid_{self.task.metric.name}"

    @property
    def _phase_start(self) -> float:
        return phase_start(self.config.settings())

    def _best_row(self) -> Row | None:
        better = self.task.metric.better
        return best_row(self.history, self._metric_column, better, self._phase_start)

    @property
    def _progress(self) -> float:
        """The share of the training that is done."""
        return self.update / self.config.training.updates

    @property
    def validation_due(self) -> bool:
        """Whether a validation follows the update just done."""
        training = self.config.training
        return self.update % training.evaluate_every == 0 or self.update == training.updates

    def run(
        self,
        on_update: Callable[[float], None] = lambda loss: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Row]:
        """Train to the end, or until `should_stop`; yield a row after every validation.

        Args:
            on_update: called with the loss of the task after every update.
            should_stop: asked after every update; the run can be saved and resumed from there.
        """
        while not self.finished:
            on_update(self.step())
            if self.validation_due:
                yield self.validate()
            if should_stop():
                return

    def step(self) -> float:
        """One update; returns the loss of the task, in nats."""
        started = time.perf_counter()
        batch = self.task.train_batch(self.update).to(self.device)
        self.network.model.before_batch(self._progress)
        with precision.products(self.config.training.precision):
            done = self._differentiate(batch)
        whole = join(done, self._continues)
        norm = self._descend(whole.loss)
        for _, result in done:
            self.network.model.after_batch(result.hidden, self._progress)
        self.carried, loss = whole.state, whole.task_loss
        self.update += 1
        steps = batch.scored_TB.numel() if batch.mask_TB is None else int(batch.mask_TB.sum())
        seconds = time.perf_counter() - started
        self._seconds += seconds
        self._count({"updates": 1, "symbols": steps, "seconds": seconds})
        self._count({"loss": loss, "gradient_norm": norm, **whole.metrics})
        return loss

    def _differentiate(self, batch: Batch) -> list[tuple[Microbatch, Objective]]:
        """The loss of each part of the batch; their gradients add up in the parameters."""
        self.optimizer.zero_grad(set_to_none=True)
        parts = split(
            batch, self.carried if batch.continues else None, self.config.training.accumulate
        )
        done = []
        for part in parts:
            result = self._objective(part)
            (result.loss * part.share).backward()
            done.append((part, result))
        return done

    def _objective(self, part: Microbatch) -> Objective:
        batch, state, signature = part.batch, part.state, self.task.signature
        with self._precision():
            return objective(self.network, signature, batch, state, self.generator, self._progress)

    def _precision(self) -> AbstractContextManager[Any]:
        return precision.mixed(self.config.training.precision, self.device)

    def _descend(self, loss: float) -> float:
        """One step of the optimiser; nothing is changed if a number is not finite."""
        limit = self.config.training.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), limit))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise self._diverged(loss, norm)
        rate = learning_rate(self.update, self.config.training)
        for group, factor in zip(self.optimizer.param_groups, self._rate_factors, strict=False):
            group["lr"] = factor * rate
        self.optimizer.step()
        return norm

    def _diverged(self, loss: float, norm: float) -> Diverged:
        training = self.config.training
        clipping = "clip the gradient, for example with training.clip=1"
        if training.clip:
            clipping = f"a lower training.clip (it was {training.clip})"
        return Diverged(
            f"update {self.update + 1}: the loss is {loss} and the norm of the gradient {norm}; "
            f"try a lower training.learning_rate (it was {training.learning_rate}) or {clipping}"
        )

    def _count(self, metrics: Row) -> None:
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value

    def validate(self) -> Row:
        """Measure on the validation split and add a row to the history."""
        sums, self._sums = self._sums, {}
        updates, symbols, seconds = sums.pop("updates"), sums.pop("symbols"), sums.pop("seconds")
        measured = self.evaluate("valid")
        row: Row = {
            "update": self.update,
            **{name: total / updates for name, total in sums.items()},
            **{f"valid_{name}": value for name, value in measured.items()},
            "learning_rate": learning_rate(self.update - 1, self.config.training),
            "symbols_per_second": symbols / seconds,
            "training_seconds": self._seconds,
        }
        self.history.append(row)
        return row

    def evaluate(self, split: Split) -> Row:
        """All metrics of the task on a split, with the weights as they are."""
        with precision.products("float32"):
            return self.task.evaluate(self.network, split)

    def model_state(self) -> dict[str, Any]:
        """Everything needed to use the model without its data, and the provenance of the data."""
        return {
            "config": self.config.to_dict(),
            "signature": asdict(self.task.signature),
            "vocabulary": self.task.vocabulary,
            "provenance": asdict(self.provenance),
            "backend": self.backend,
            "started_from": self.started_from,
            "update": self.update,
            "network": self.network.state_dict(),
        }

    def state(self) -> dict[str, Any]:
        """Everything needed to resume the run as if it had never stopped."""
        return {
            **self.model_state(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "carried": None if self.carried is None else flatten_state(self.carried),
            "history": self.history,
            "sums": self._sums,
            "seconds": self._seconds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self._check_device(state["generator"])
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.carried = self._unflatten(state["carried"])
        self.update = state["update"]
        self.started_from = state.get("started_from")  # older checkpoints do not have it
        self.history, self._sums = list(state["history"]), dict(state["sums"])
        self._seconds = state["seconds"]

    def _check_device(self, generator_state: torch.Tensor) -> None:
        """Raise `UserError` where the random numbers of the run cannot be continued."""
        if generator_state.shape != self.generator.get_state().shape:
            raise UserError(
                f"the run was trained on another kind of device than {self.device.type}, which "
                "cannot continue its random numbers; resume it there (--device), or start a new "
                "run with its weights (--start-from)"
            )

    def _unflatten(self, tensors: list[torch.Tensor] | None) -> State | None:
        if tensors is None:
            return None
        parts = iter(tensor.to(self.device) for tensor in tensors)
        like = next(self.network.parameters())
        return map_state(lambda _: next(parts), self.network.model.initial_state(1, like))
