"""The figure of shortest paths from step 50 to step 5 against the size of the memory."""

from typing import ClassVar

import numpy as np
import pandas as pd

from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from tardis_core.analysis.access import sources
from tardis_core.analysis.path_plots import draw_shortest_paths
from tardis_core.analysis.paths import Paths, shortest_paths, simulate

FROM, TO, SIMULATIONS = 50, 5, 200  # steps as the paper counts them, from 1
SIZES = [1, 2, 3, 5, 8, 12, 20, 30, 50]  # the paper does not name its sizes
SMALL, LARGE = (2, 3, 5, 8, 12), (20, 30, 50)
KINDS = {"tardis": "TARDIS", "umann": "uMANN", "urmann": "urMANN"}
Lengths = dict[str, dict[int, float]]  # mean by kind and size


@REPRODUCTIONS.register("figure-shortest-path")
class ShortestPath(Reproduction):
    """A simulation: the paper's own numbers at every scale."""

    title = "shortest path from step 50 to 5 by memory size, TARDIS, uMANN and urMANN"
    costs: ClassVar = dict.fromkeys(("smoke", "small", "paper"), "3 s")

    def run(self, request: Request) -> Outcome:
        rng = np.random.default_rng(request.seed)
        found = {
            name: [_simulated(kind, cells, rng) for cells in SIZES] for kind, name in KINDS.items()
        }
        table, picture = request.folder / "shortest_paths.csv", request.folder / "shortest_path.png"
        _table(found).to_csv(table, index=False)
        draw_shortest_paths(SIZES, found, FROM - TO, picture)
        claims = _claims(_means(found, 0), _means(found, 1))
        holding = sum(holds for _, holds, _ in claims)
        rows = [
            Row(claim, f"{'yes' if holds else 'no'}: {figures}", "claims so")
            for claim, holds, figures in claims
        ]
        return Outcome(
            rows,
            f"{holding} of {len(claims)} claims of the paper hold in our simulation. The paper "
            "prints no numbers for this figure and does not say which sizes it swept.",
            f"{SIMULATIONS} simulations a size, {', '.join(map(str, SIZES))} cells, reads of any "
            f"cell, full or empty, seed {request.seed}",
            [table, picture],
        )


def _simulated(kind: str, cells: int, rng: np.random.Generator) -> Paths:
    """Length and length outside wormholes of every simulation."""
    source_TN = sources(*simulate(kind, FROM, cells, SIMULATIONS, rng))
    found = shortest_paths(source_TN, TO - 1)
    return Paths(found.length_TN[FROM - 1], found.outside_TN[FROM - 1])


def _means(found: dict[str, list[Paths]], part: int) -> Lengths:
    return {
        name: {size: float(paths[part].mean()) for size, paths in zip(SIZES, by_size, strict=True)}
        for name, by_size in found.items()
    }


def _table(found: dict[str, list[Paths]]) -> pd.DataFrame:
    rows = [
        {
            "memory": name,
            "cells": size,
            "length": paths.length_TN.mean(),
            "length_error": paths.length_TN.std(ddof=1) / np.sqrt(SIMULATIONS),
            "outside": paths.outside_TN.mean(),
            "outside_error": paths.outside_TN.std(ddof=1) / np.sqrt(SIMULATIONS),
        }
        for name, by_size in found.items()
        for size, paths in zip(SIZES, by_size, strict=True)
    ]
    return pd.DataFrame(rows).round(4)


def _claims(length: Lengths, outside: Lengths) -> list[tuple[str, bool, str]]:
    """What the paper says of the figure, whether it holds here, and the figures."""
    few, many = SMALL[0], LARGE[0]
    drops = {name: f"{by[few]:.1f} to {by[many]:.1f}" for name, by in length.items()}
    rises = [name for name, by in length.items() if by[LARGE[-1]] > by[many]]
    return [
        (
            f"more cells make the path shorter, from {few} to {many}",
            all(by[many] < by[few] for by in length.values()),
            ", ".join(f"{name} {drop}" for name, drop in drops.items()),
        ),
        (
            f"and still shorter from {many} to {LARGE[-1]}",
            not rises,
            ", ".join(
                f"{name} {by[many]:.1f} to {by[LARGE[-1]]:.1f}" for name, by in length.items()
            ),
        ),
        (
            f"TARDIS has the shortest path where the memory is small, {few} to {SMALL[-1]} cells",
            all(
                length["TARDIS"][size] < min(length["uMANN"][size], length["urMANN"][size])
                for size in SMALL
            ),
            f"at 5 cells {_three(length, 5)}",
        ),
        (
            "uniform writes use a large memory worse than the others",
            all(
                length["uMANN"][size] > max(length["TARDIS"][size], length["urMANN"][size])
                for size in LARGE
            ),
            f"at {LARGE[-1]} cells {_three(length, LARGE[-1])}",
        ),
        (
            f"the path outside the wormholes falls with the memory, from {few} to {many}",
            all(by[many] < by[few] for by in outside.values()),
            ", ".join(f"{name} {by[few]:.1f} to {by[many]:.1f}" for name, by in outside.items()),
        ),
    ]


def _three(means: Lengths, size: int) -> str:
    return ", ".join(f"{name} {by[size]:.1f}" for name, by in means.items())
