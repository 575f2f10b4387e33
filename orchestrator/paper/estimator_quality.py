"""The quality of every estimator's gradient: bias, noise, direction, and signal per second.

Exact: on a model so small that every path of reads can be enumerated (copy of two vectors, four
cells), trained with the exact gradient, which favours no estimator; measured at the start, in the
middle and at the end. Large: on models of the usual size, against the mean of many estimates by
counterfactual reads of every cell.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch

from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from orchestrator.paper.training import best_network, trained
from tardis_core.analysis import estimator_quality as measure
from tardis_core.analysis.estimator_plots import draw_quality, is_unbiased
from tardis_core.analysis.estimator_quality import Estimates, Problem, Quality
from tardis_core.build import build_network, build_task
from tardis_core.config import Config, make_config
from tardis_core.models.network import Network
from tardis_core.tasks.base import Batch
from tardis_core.tasks.copy import Copy

TRUTH = "counterfactual"  # the estimator whose mean stands for the truth of large models
SYSTEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "gumbel": ("gumbel", {}),
    "gumbel-rao": ("gumbel-rao", {}),
    "straight-through": ("straight-through", {}),
    "straight-through, learned": ("straight-through", {"estimator.learned": True}),
    "reinmax": ("reinmax", {}),
    "reinforce": ("reinforce", {}),
    "rloo": ("rloo", {}),
    "counterfactual": ("counterfactual", {}),
    "counterfactual, likeliest": ("counterfactual", {"estimator.likeliest": 2}),
    "soft": ("soft", {}),
}
PARTS = ("addressing", "all")
RATE = 3e-3  # of the exact training, as in the recipes


class Budget(NamedTuple):
    """Sizes of the two measurements."""

    sequences: int  # in the batch whose gradient is measured
    updates: int  # of the exact training
    hidden: int
    repeats: int  # estimates per estimator
    cells: tuple[int, ...]  # of the large models
    large_hidden: int
    length: int  # of their sequences
    large_updates: int
    large_repeats: int
    truth_repeats: int


BUDGETS = {
    "smoke": Budget(2, 2, 4, 3, (6,), 8, 2, 2, 3, 4),
    "small": Budget(4, 1500, 32, 500, (16, 64), 120, 10, 2000, 60, 300),
    "paper": Budget(4, 5000, 32, 2000, (16, 64), 120, 20, 10_000, 200, 1000),
}


@REPRODUCTIONS.register("estimator-quality")
class EstimatorQuality(Reproduction):
    """Each estimator against the true gradient; the paper has no such measurement."""

    title = "bias, noise and signal per second of every estimator, against the true gradient"
    costs: ClassVar = {"smoke": "5 s", "small": "15 min", "paper": "2 h"}

    def run(self, request: Request) -> Outcome:
        torch.set_num_threads(1)  # the seconds are those of one processor
        budget = BUDGETS[request.scale]
        table, plot, losses = pd.DataFrame(), request.folder / "quality.png", []

        def add(more: pd.DataFrame) -> pd.DataFrame:
            """Written at once: a run that is stopped keeps what it has measured."""
            so_far = pd.concat([table, more])
            so_far.to_csv(request.folder / "quality.csv", index=False)
            draw_quality(_panels(so_far), plot)
            return so_far

        for stage, loss, problem in exact_stages(budget, request.seed):
            table = add(_judge(stage, problem, exact_truth(problem), budget.repeats))
            losses.append(f"{stage} {loss:.3f}")
        for stage, problem in _large_stages(budget, request):
            truth = _mean_truth(problem, budget.truth_repeats)
            table = add(_judge(stage, problem, truth, budget.large_repeats))
        return Outcome(
            _rows(table),
            _verdict(table),
            f"copy; exact: two vectors, four cells, hidden size {budget.hidden}, expected losses "
            f"{', '.join(losses)}, {budget.repeats} estimates each; large: {budget.length} "
            f"vectors, {' and '.join(map(str, budget.cells))} cells, {budget.large_repeats} "
            f"estimates each "
            f"against the mean of {budget.truth_repeats}; batches of {budget.sequences} sequences; "
            f"seed {request.seed}",
            [request.folder / "quality.csv", plot],
        )


class Truth(NamedTuple):
    """The true gradient, and its squared error by part where it is a mean."""

    gradient_N: torch.Tensor
    variance_N: torch.Tensor


def _config(cells: int, longest: int, seed: int, **settings: Any) -> Config:
    sizes = {"memory.cells": cells, "task.longest": longest, "task.shortest": longest}
    overrides = sizes | {"model.reset_gates": False} | settings
    return make_config("copy", "tardis", "gumbel", "small", seed, overrides)


def exact_stages(budget: Budget, seed: int) -> Iterator[tuple[str, float, Problem]]:
    """The small model at the start, in the middle and at the end of its training."""
    config = _config(
        4, 2, seed, **{"model.hidden": budget.hidden, "memory.content": 8, "memory.attention": 8}
    )
    task = build_task(config, None)
    assert isinstance(task, Copy)
    measured = _batch(task, budget.sequences, seed)
    start = Problem(
        config, build_network(config, task.signature).state_dict(), measured, task.signature
    )
    network = measure.network_of(start, "reinforce", {})
    rng = np.random.default_rng(seed + 1)
    batches = iter(lambda: task.make(2, budget.sequences, rng), None)
    half = budget.updates // 2
    for stage, updates in (("start", 0), ("middle", half), ("end", budget.updates - half)):
        for _ in measure.descend(network, task.signature, batches, updates, RATE):
            pass
        with torch.no_grad():
            loss = float(measure.expected_loss(network, task.signature, measured))
        print(f"  exact, {stage}: expected loss {loss:.4f}", flush=True)
        weights = {name: value.clone() for name, value in network.state_dict().items()}
        yield stage, loss, start._replace(weights=weights)


def _batch(task: Copy, sequences: int, seed: int) -> Batch:
    return task.make(task.config.longest, sequences, np.random.default_rng(seed))


def _large_stages(budget: Budget, request: Request) -> Iterator[tuple[str, Problem]]:
    """Models of the usual size, before and after a training by gumbel."""
    for cells in budget.cells:
        settings = {
            "training.updates": budget.large_updates,
            "training.evaluate_every": max(1, budget.large_updates // 4),
            "task.valid_sequences": 256,
            "model.hidden": budget.large_hidden,
        }
        config = _config(cells, budget.length, request.seed, **settings)
        task = build_task(config, None)
        assert isinstance(task, Copy)
        folder = trained(f"cells-{cells}", config, None, request)
        untrained = build_network(config, task.signature)
        stages: dict[str, Network] = {"start": untrained, "end": best_network(folder)[0].cpu()}
        for stage, network in stages.items():
            problem = Problem(
                config,
                network.state_dict(),
                _batch(task, budget.sequences, request.seed),
                task.signature,
            )
            yield f"K = {cells}, {stage}", problem


def exact_truth(problem: Problem) -> Truth:
    """The gradient of the expected loss over every path of reads."""
    network = measure.network_of(problem, "reinforce", {})
    loss = measure.expected_loss(network, problem.signature, problem.batch)
    gradient_N = measure.gradient_of(loss, network)
    return Truth(gradient_N, torch.zeros_like(gradient_N))


def _mean_truth(problem: Problem, repeats: int) -> Truth:
    network = measure.network_of(problem, TRUTH, {})
    gradient_RN = measure.estimates(network, problem, repeats, seed=1).gradient_RN.double()
    return Truth(gradient_RN.mean(0), gradient_RN.var(0) / repeats)


def _judge(stage: str, problem: Problem, truth: Truth, repeats: int) -> pd.DataFrame:
    """One row per estimator and part of the parameters."""
    rows = []
    for name, (estimator, settings) in SYSTEMS.items():
        network = measure.network_of(problem, estimator, settings)
        own = measure.estimates(network, problem, repeats, seed=2)
        masks = {"addressing": measure.addressing_mask(network)}
        masks["all"] = torch.ones_like(masks["addressing"])
        for part in PARTS:
            mask_N = masks[part]
            some = Estimates(own.gradient_RN[:, mask_N], own.seconds)
            error = float(truth.variance_N[mask_N].sum())
            result = measure.quality(some, truth.gradient_N[mask_N], error)
            row = {"problem": stage, "estimator": name, "parameters": part}
            rows.append({**row, **result._asdict(), "seconds": own.seconds})
        print(f"  {stage}: {name}", flush=True)
    return pd.DataFrame(rows)


def _qualities(table: pd.DataFrame, problem: str, part: str) -> dict[str, Quality]:
    chosen = table[(table["problem"] == problem) & (table["parameters"] == part)]
    return {
        row["estimator"]: Quality(*(row[name] for name in Quality._fields))
        for _, row in chosen.iterrows()
    }


def _panels(table: pd.DataFrame) -> dict[str, dict[str, Quality]]:
    """The gradient of the addressing, which is what estimators are for."""
    return {stage: _qualities(table, stage, "addressing") for stage in table["problem"].unique()}


def _rows(table: pd.DataFrame) -> list[Row]:
    rows = []
    for _, row in table.iterrows():
        what = f"{row['problem']}, {row['estimator']}, {row['parameters']} parameters"
        ours = (
            f"bias {row['bias']:.3f} (uncertainty {row['uncertainty']:.3f}), "
            f"deviation {row['deviation']:.2f}, cosine {row['cosine']:.3f}, "
            f"signal per second {row['signal_per_second']:.3g}, {1000 * row['seconds']:.1f} ms"
        )
        rows.append(Row(what, ours, ""))
    return rows


def _verdict(table: pd.DataFrame) -> str:
    """What the gradient of the addressing at the end of the exact training says."""
    end = _qualities(table, "end", "addressing")
    unbiased = [name for name, each in end.items() if is_unbiased(each)]
    biased = {name: each.bias for name, each in end.items() if name not in unbiased}
    noisy = {name: each for name, each in end.items() if each.deviation > 0}
    most = max(noisy, key=lambda name: noisy[name].signal_per_second)
    text = (
        f"At the end of the exact training no bias was found in: {', '.join(unbiased) or 'none'}."
    )
    if biased:
        least = min(biased, key=lambda name: biased[name])
        text += f" Of the others, {least} has the least bias ({biased[least]:.2f})."
    return f"{text} Most signal per second of computing: {most}. Addressing parameters, one seed."
