"""Longer sequences than in training: TARDIS with its own number of cells, and with more."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import pandas as pd

from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from orchestrator.paper.training import best_network, trained
from tardis_core import paper
from tardis_core.analysis.length_plots import draw_lengths
from tardis_core.analysis.other_cells import with_cells
from tardis_core.build import build_task
from tardis_core.config import Config, make_config
from tardis_core.models.network import Network
from tardis_core.models.tardis import Tardis
from tardis_core.tasks.recall import Recall
from tardis_core.text import counted

TASK = "recall"
MODELS = ("lstm", "tardis")
SEEDS = {"smoke": 1, "small": 3, "paper": 3}
LONGER = (1, 1.5, 2, 3, 4, 6)  # times the greatest length of training
MORE_CELLS = (1, 2, 4, 8)  # times the cells of training


class Variant(NamedTuple):
    """A trained network, its memory perhaps enlarged."""

    name: str
    network: Network


@REPRODUCTIONS.register("longer-sequences")
class LongerSequences(Reproduction):
    """The paper's claim that models with a memory generalise to longer sequences, on recall."""

    title = "associative recall of more items than in training, with more memory cells"
    costs: ClassVar = {"smoke": "10 s", "small": "40 min", "paper": "1 h"}

    def run(self, request: Request) -> Outcome:
        seeds = range(request.seed, request.seed + SEEDS[request.scale])
        table = pd.DataFrame([row for seed in seeds for row in _measured(request, seed)])
        files = request.folder / "lengths.csv", request.folder / "longer_sequences.png"
        table.to_csv(files[0], index=False)
        longest = int(table["items"].min())
        draw_lengths(table, longest, paper.SUCCESS, files[1])
        return Outcome(
            _rows(table),
            _verdict(table, longest),
            f"recall of at most {longest} items in training, "
            f"{counted(len(seeds), 'training run')} per model from seed {request.seed} on, "
            f"{_sequences(request):,} test sequences of each length; medians over the runs of the "
            "cross-entropy in nats per bit",
            list(files),
        )


def _config(model: str, request: Request, seed: int) -> Config:
    return make_config(TASK, model, scale=request.scale, seed=seed)


def _sequences(request: Request) -> int:
    return int(_config("lstm", request, 0).settings()["task.test_sequences"])


def _measured(request: Request, seed: int) -> Iterator[dict[str, object]]:
    """The test cross-entropy at every length, of all variants of one seed."""
    for model in MODELS:
        folder = trained(f"{model}-seed{seed}", _config(model, request, seed), None, request)
        network, config = best_network(folder)
        task = build_task(config, None)
        assert isinstance(task, Recall)
        lengths = [round(task.config.longest * part) for part in LONGER]
        for variant in _variants(network):
            print(f"  {variant.name}, seed {seed}: measuring at {lengths} items", flush=True)
            for items in lengths:
                bce = task.at_length(variant.network, "test", items)
                yield {"model": variant.name, "seed": seed, "items": items, "bce": bce}


def _variants(network: Network) -> Iterator[Variant]:
    """The network with memories of several sizes, if it has one."""
    if not isinstance(network.model, Tardis):
        yield Variant("LSTM", network)
        return
    own = network.model.memory_config.cells
    for part in MORE_CELLS:
        yield Variant(f"TARDIS, {own * part} cells", with_cells(network, own * part))


def _rows(table: pd.DataFrame) -> list[Row]:
    """One per model: the median over the seeds at every length."""
    medians = table.pivot_table("bce", "model", "items", aggfunc="median", sort=False)
    return [
        Row(model, ", ".join(f"{items} items {bce:.4f}" for items, bce in by_length.items()), "")
        for model, by_length in medians.iterrows()
    ]


def _verdict(table: pd.DataFrame, longest: int) -> str:
    """How far each variant goes with every seed."""
    worst = table.groupby(["model", "items"], sort=False)["bce"].max()
    worst = worst.groupby(level="model", sort=False).cummax()  # what fails once has failed
    solved = worst[worst < paper.SUCCESS].reset_index().groupby("model", sort=False)["items"].max()
    if solved.empty:
        return "No model has learned the task: nothing follows for longer sequences."
    reached = ", ".join(f"{model} {items}" for model, items in solved.items())
    return (
        f"Items up to which every seed stays below {paper.SUCCESS} nats per bit, after training "
        f"with at most {longest}: {reached}."
    )
