"""Training speed on the Penn Treebank in symbols per second, by backend."""

import time

import torch

from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.training.loop import Trainer

SECONDS_PER_BACKEND = 6


def training_rates(data_dir: str | None) -> tuple[dict[tuple[str, int], float], str]:
    """Symbols per second by backend and number of threads, and the name of the data."""
    rates, trainer = {}, None
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for backend in ("reference", "torch", "native"):
            config = make_config("ptb", scale="small", overrides={"model.backend": backend})
            trainer = Trainer(config, load_data(config, data_dir))
            rates[backend, threads] = _rate(trainer)
    assert trainer is not None
    return rates, trainer.provenance.name


def _rate(trainer: Trainer) -> float:
    trainer.step()  # to warm up
    symbols, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS_PER_BACKEND:
        symbols += trainer.task.train_batch(trainer.update).scored_TB.numel()
        trainer.step()
    return symbols / (time.perf_counter() - started)
