"""The figure of the expected path length in each memory cell: T = 200, K = 50, 100 simulations."""

from typing import ClassVar

import numpy as np
import pandas as pd

from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from tardis_core.analysis.path_plots import draw_cell_lengths
from tardis_core.analysis.paths import cell_lengths, expected_cell_length, simulate

STEPS, CELLS, SIMULATIONS = 200, 50, 100
KINDS = {"tardis": "TARDIS", "umann": "uMANN"}


@REPRODUCTIONS.register("figure-path-length")
class PathLength(Reproduction):
    """A simulation with the paper's own sizes at every scale."""

    title = "expected path length by memory cell, TARDIS and uMANN"
    costs: ClassVar = dict.fromkeys(("smoke", "small", "paper"), "2 s")

    def run(self, request: Request) -> Outcome:
        expected = expected_cell_length(STEPS, CELLS)
        rng = np.random.default_rng(request.seed)
        lengths = {
            name: cell_lengths(simulate(kind, STEPS, CELLS, SIMULATIONS, rng))
            for kind, name in KINDS.items()
        }
        table, plot = request.folder / "lengths.csv", request.folder / "path_length.png"
        by_cell = {name: length_NK.mean(0) for name, length_NK in lengths.items()}
        pd.DataFrame(by_cell).rename_axis("cell").to_csv(table)
        draw_cell_lengths(lengths, expected, plot)
        means = {name: _mean(length_NK) for name, length_NK in lengths.items()}
        fits = [abs(mean - expected) <= 2 * error + 1e-9 for mean, error in means.values()]
        verdict = (
            "Both agree with the paper's T/K - 1 within two standard errors."
            if all(fits)
            else "Not all agree with the paper's T/K - 1 within two standard errors."
        )
        rows = [
            Row(f"{name}, mean over cells", f"{mean:.3f} ± {error:.3f}", f"{expected:g}")
            for name, (mean, error) in means.items()
        ] + [
            Row(f"{name}, from cell to cell", f"{each.min():.2f} to {each.max():.2f}", "")
            for name, each in by_cell.items()
        ]
        measured_on = f"T = {STEPS}, K = {CELLS}, {SIMULATIONS} simulations, seed {request.seed}"
        return Outcome(rows, verdict, measured_on, [table, plot])


def _mean(length_NK: np.ndarray) -> tuple[float, float]:
    """The mean over cells and simulations, and its standard error over simulations."""
    each = length_NK.mean(1)
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))
