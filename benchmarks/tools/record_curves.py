"""Record the learning curves of random configurations, to replay schedulers and races on them.

python -m benchmarks.tools.record_curves --seconds 150      # again and again, until it says so
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import torch

import search_spaces
from orchestrator.planning.configs import trial_config
from tardis_core.build import load_data
from tardis_core.cli import Parser, command
from tardis_core.data.disk import write_atomically
from tardis_core.training.loop import Trainer

RECORDED = Path(__file__).parents[1] / "recorded" / "copy.json"
TASK, SCALE, METRIC = "copy", "smoke", "bce"
CONFIGURATIONS, SEEDS, VALIDATIONS = 24, 4, 27
# Small enough for seconds per run, long enough for some configurations to learn the task.
FIXED = {
    "training.updates": 540,
    "training.evaluate_every": 540 // VALIDATIONS,
    "training.batch": 16,
    "model.hidden": 32,
    "memory.cells": 6,
    "task.longest": 5,
    "task.valid_sequences": 64,
}


def configurations() -> list[dict[str, Any]]:
    """Settings drawn at random from the search space of the task."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = search_spaces.bind(
        search_spaces.fix(search_spaces.load(TASK), FIXED), SCALE, ("gumbel", "reinforce")
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space(study.ask()) for _ in range(CONFIGURATIONS)]


def curve(settings: dict[str, Any], seed: int) -> list[float]:
    """The validations of one training."""
    config = trial_config(TASK, SCALE, seed, settings)
    trainer = Trainer(config, load_data(config))
    return [round(row[f"valid_{METRIC}"], 5) for row in trainer.run()]


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is not recorded yet, for some time."""
    parser = Parser(
        prog="python -m benchmarks.tools.record_curves",
        description=(__doc__ or "").splitlines()[0],
    )
    parser.add_argument("--seconds", type=float, default=150.0, help="when to stop (default: 150)")
    deadline = time.monotonic() + parser.parse_args(arguments).seconds
    torch.set_num_threads(1)
    text = RECORDED.read_text() if RECORDED.exists() else "{}"
    curves: dict[str, list[float]] = json.loads(text).get("curves", {})
    for number, settings in enumerate(configurations()):
        for seed in range(SEEDS):
            name = f"{number}/{seed}"
            if name not in curves and time.monotonic() < deadline:
                curves[name] = curve(settings, seed)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(curves[name])}" for name in curves)
    about = f'"task": "{TASK}", "metric": "{METRIC}", "settings": {json.dumps(FIXED)}'
    RECORDED.parent.mkdir(exist_ok=True)
    write_atomically(RECORDED, f'{{{about}, "curves": {{\n{lines}\n}}}}\n'.encode())
    print(f"{len(curves)} of {CONFIGURATIONS * SEEDS} curves are in {RECORDED.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
