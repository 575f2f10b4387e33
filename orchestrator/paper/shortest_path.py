"""The figure of the shortest path from step 50 to step 5 by the size of the memory."""

from typing import ClassVar, NamedTuple

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
    """A simulation with the paper's own sizes at every scale."""

    title = "shortest path from step 50 to 5 by memory size, TARDIS, uMANN and urMANN"
    costs: ClassVar = dict.fromkeys(("smoke", "small", "paper"), "3 s")

    def run(self, request: Request) -> Outcome:
        rng = np.random.default_rng(request.seed)
        paths = {
            name: [_simulated(kind, cells, rng) for cells in SIZES] for kind, name in KINDS.items()
        }
        table, plot = request.folder / "shortest_paths.csv", request.folder / "shortest_path.png"
        _table(paths).to_csv(table, index=False)
        draw_shortest_paths(SIZES, paths, FROM - TO, plot)
        claims = _claims(_means(paths, 0), _means(paths, 1))
        holding = sum(claim.holds for claim in claims)
        rows = [
            Row(claim.text, f"{'yes' if claim.holds else 'no'}: {claim.numbers}", "claimed")
            for claim in claims
        ]
        return Outcome(
            rows,
            f"{holding} of {len(claims)} claims of the paper hold in our simulation. The paper "
            "prints no numbers for this figure and does not say which sizes it swept.",
            f"{SIMULATIONS} simulations per size, {', '.join(map(str, SIZES))} cells, reads of any "
            f"cell, full or empty, seed {request.seed}",
            [table, plot],
        )


def _simulated(kind: str, cells: int, rng: np.random.Generator) -> Paths:
    """The length, and the length outside wormholes, of every simulation."""
    source_TN = sources(*simulate(kind, FROM, cells, SIMULATIONS, rng))
    paths = shortest_paths(source_TN, TO - 1)
    return Paths(paths.length_TN[FROM - 1], paths.outside_TN[FROM - 1])


def _means(paths: dict[str, list[Paths]], part: int) -> Lengths:
    return {
        name: {size: float(each[part].mean()) for size, each in zip(SIZES, by_size, strict=True)}
        for name, by_size in paths.items()
    }


def _table(paths: dict[str, list[Paths]]) -> pd.DataFrame:
    rows = [
        {
            "memory": name,
            "cells": size,
            "length": each.length_TN.mean(),
            "length_error": each.length_TN.std(ddof=1) / np.sqrt(SIMULATIONS),
            "outside": each.outside_TN.mean(),
            "outside_error": each.outside_TN.std(ddof=1) / np.sqrt(SIMULATIONS),
        }
        for name, by_size in paths.items()
        for size, each in zip(SIZES, by_size, strict=True)
    ]
    return pd.DataFrame(rows).round(4)


class Claim(NamedTuple):
    """What the paper says about the figure, and whether it holds in our simulation."""

    text: str
    holds: bool
    numbers: str


def _claims(length: Lengths, outside: Lengths) -> list[Claim]:
    few, many = SMALL[0], LARGE[0]
    drops = {name: f"{by[few]:.1f} to {by[many]:.1f}" for name, by in length.items()}
    rises = [name for name, by in length.items() if by[LARGE[-1]] > by[many]]
    return [
        Claim(
            f"more cells make the path shorter, from {few} to {many}",
            all(by[many] < by[few] for by in length.values()),
            ", ".join(f"{name} {drop}" for name, drop in drops.items()),
        ),
        Claim(
            f"and still shorter from {many} to {LARGE[-1]}",
            not rises,
            ", ".join(
                f"{name} {by[many]:.1f} to {by[LARGE[-1]]:.1f}" for name, by in length.items()
            ),
        ),
        Claim(
            f"TARDIS has the shortest path where the memory is small, {few} to {SMALL[-1]} cells",
            all(
                length["TARDIS"][size] < min(length["uMANN"][size], length["urMANN"][size])
                for size in SMALL
            ),
            f"at 5 cells {_three(length, 5)}",
        ),
        Claim(
            "uniform writes make worse use of a large memory than the others",
            all(
                length["uMANN"][size] > max(length["TARDIS"][size], length["urMANN"][size])
                for size in LARGE
            ),
            f"at {LARGE[-1]} cells {_three(length, LARGE[-1])}",
        ),
        Claim(
            f"the path outside the wormholes falls with the memory, from {few} to {many}",
            all(by[many] < by[few] for by in outside.values()),
            ", ".join(f"{name} {by[few]:.1f} to {by[many]:.1f}" for name, by in outside.items()),
        ),
    ]


def _three(means: Lengths, size: int) -> str:
    return ", ".join(f"{name} {by[size]:.1f}" for name, by in means.items())
