"""Gradient flow: how much a change of h affects h many steps later, with and without wormholes."""

from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch

from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from orchestrator.paper.training import best_network, trained
from tardis_core.analysis.gradients import Norms, all_norms, over_pairs, step_jacobians
from tardis_core.analysis.path_plots import draw_flow
from tardis_core.build import build_network, build_task
from tardis_core.config import make_config
from tardis_core.models.network import Network
from tardis_core.tasks.copy import Copy

SEQUENCES = {"smoke": 2, "small": 4, "paper": 4}
UPPER = 90  # percentile


class Model(NamedTuple):
    """A network and its test binary cross-entropy."""

    network: Network
    bce: float


@REPRODUCTIONS.register("gradient-flow")
class GradientFlow(Reproduction):
    """dh_t1/dh_t0 = Q + R of an LSTM and of TARDIS, untrained and trained, on the copy task."""

    title = "norms of dh_t1/dh_t0 by distance, LSTM, TARDIS untrained and trained (copy)"
    costs: ClassVar = {"smoke": "20 s", "small": "20 min", "paper": "40 min"}

    def run(self, request: Request) -> Outcome:
        folders = {name: _trained(name, request) for name in ("lstm", "tardis")}
        task, models = _models(folders)
        norms = {
            name: _norms(model.network, task, SEQUENCES[request.scale])
            for name, model in models.items()
        }
        table, plot = request.folder / "flow.csv", request.folder / "gradient_flow.png"
        _table(norms).to_csv(table, index=False)
        lines = {name: (over_pairs(each), over_pairs(each, UPPER)) for name, each in norms.items()}
        draw_flow(lines, plot, "largest singular value")
        distance = task.config.longest + 1  # from an item of copy to its answer
        arrives = {name: _from_item_to_answer(each, distance) for name, each in norms.items()}
        rows = [
            Row(f"{name}: sigma_1 of Q, R, Q + R at {distance} steps", _three(values), "")
            for name, values in arrives.items()
        ]
        costs = ", ".join(f"{name} {model.bce:.3f}" for name, model in models.items())
        return Outcome(
            rows,
            _verdict(arrives, distance),
            f"copy of length {task.config.longest}, one training run per model, "
            f"seed {request.seed}, {SEQUENCES[request.scale]} test sequences; medians over their "
            f"items, from the step of an item to that of its answer; test cross-entropy: {costs}",
            [table, plot],
        )


def _trained(model: str, request: Request) -> Path:
    config = make_config("copy", model, scale=request.scale, seed=request.seed)
    return trained(model, config, None, request)


def _models(folders: dict[str, Path]) -> tuple[Copy, dict[str, Model]]:
    lstm, config = best_network(folders["lstm"])
    tardis, config = best_network(folders["tardis"])
    task = build_task(config, None)
    assert isinstance(task, Copy)
    networks = {
        "LSTM trained": lstm,
        "TARDIS untrained": build_network(config, task.signature),
        "TARDIS trained": tardis,
    }
    return task, {
        name: Model(network, task.evaluate(network, "test")["bce"])
        for name, network in networks.items()
    }


@torch.no_grad()
def _norms(network: Network, task: Copy, count: int) -> list[Norms]:
    """The norms of all pairs of steps, for each sequence."""
    batch = task.examples("test", range(count))
    dtype = network.head.W_o.weight.dtype
    x_TBD = network.encoder(batch.inputs, dtype)
    return [all_norms(step_jacobians(network.model, x_TD)) for x_TD in x_TBD.unbind(1)]


def _from_item_to_answer(norms: list[Norms], distance: int) -> Norms:
    """The median over the items: item i is read at step i, its answer is due `distance` later."""
    items = slice(1, distance)
    parts = zip(*norms, strict=True)
    return Norms(*(np.median([part[items, distance] for part in each]) for each in parts))


def _table(norms: dict[str, list[Norms]]) -> pd.DataFrame:
    rows = []
    for name, each in norms.items():
        middle, upper = over_pairs(each), over_pairs(each, UPPER)
        for distance in range(len(middle.Q)):
            row: dict[str, object] = {"model": name, "distance": distance}
            for part in Norms._fields:
                row[f"{part}_median"] = getattr(middle, part)[distance]
                row[f"{part}_p{UPPER}"] = getattr(upper, part)[distance]
            rows.append(row)
    return pd.DataFrame(rows)


def _three(values: Norms) -> str:
    return ", ".join(f"{float(value):.2g}" for value in values)


def _verdict(arrives: dict[str, Norms], distance: int) -> str:
    trained, lstm = arrives["TARDIS trained"], arrives["LSTM trained"]
    through = float(trained.R) > float(trained.Q)
    most = "through the wormholes" if through else "along the recurrence"
    more = float(trained.sum) / max(float(lstm.sum), 1e-300)
    compared = f"{more:.1f} times" if more < 1000 else "more than 1,000 times"
    return (
        f"In the trained TARDIS most of the gradient over {distance} steps flows {most}; it is "
        f"{compared} that of the LSTM. One training run of each: an illustration of the paper's "
        "argument, for which it prints no numbers."
    )
