"""All models of a task on the same data and budget: `python -m benchmarks.tools.rivals copy`.

Runs are folders in `--out`; a run that is finished is left alone, one that was stopped goes on, so
the command may be stopped at any moment and given again until its table is whole.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tardis_core import paper, train
from tardis_core.build import build_network, build_task, load_data
from tardis_core.cli import EXIT_DIVERGED, Parser, command, setting
from tardis_core.config import NO_ESTIMATOR, Config, make_config
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS, Metric, Signature
from tardis_core.training.loop import Trainer

TIMED_UPDATES, TIMED_SECONDS = 5, 2.0  # at least, by --speed
MEMORIES = (
    "lstm",
    "ntm",
    "dntm",
    "dntm-discrete+gumbel",
    "dntm-discrete+reinforce",
    "tardis+gumbel",
    "tardis+reinforce",
)
RECURRENT = ("clockwork", "bnlstm", "zoneout", "hyperlstm", "hmlstm")
MODELS = {
    "copy": MEMORIES,
    "recall": MEMORIES,
    "ptb": (*RECURRENT, *MEMORIES, "umann", "urmann"),
    "strokes": ("lstm", "tardis+gumbel", "tardis+reinforce"),
    "snli": ("attention", "attention-two-way", "lstm", "tardis+gumbel", "tardis+reinforce"),
}


@dataclass(frozen=True)
class Plan:
    """One table."""

    task: str
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    scale: str
    parameters: int  # 0: the preset's sizes, whatever they come to
    overrides: dict[str, str]
    folder: Path
    data: tuple[str | None, str]  # --data-dir, --data
    signatures: list[Signature] = field(default_factory=list)  # of the task, once it is known

    def config(self, model: str, seed: int) -> Config:
        """The configuration of one run."""
        config = self._config(model, seed, {})
        if not self.parameters or "model.hidden" in self.overrides:
            return config
        return self._config(model, seed, {"model.hidden": self._hidden(model)})

    def _config(self, model: str, seed: int, more: dict[str, Any]) -> Config:
        name, _, estimator = model.partition("+")
        overrides = self.overrides | more
        return make_config(self.task, name, estimator or None, self.scale, seed, overrides)

    def _hidden(self, model: str) -> int:
        """The hidden size whose number of parameters comes nearest to the one asked for."""

        def size(hidden: int) -> int:
            return self.count(self._config(model, 0, {"model.hidden": hidden}))

        high = 32
        while size(high) < self.parameters:
            high *= 2
        low = 8
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if size(middle) < self.parameters else (low, middle)
        return min((low, high), key=lambda hidden: abs(size(hidden) - self.parameters))

    def count(self, config: Config) -> int:
        """The parameters of a network."""
        if not self.signatures:
            self.signatures.append(build_task(config, load_data(config, *self.data)).signature)
        network = build_network(config, self.signatures[0])
        return sum(each.numel() for each in network.parameters())

    def run_folder(self, model: str, seed: int) -> Path:
        """Where a run is: what sets it apart is in the name."""
        settings = [f"{key.partition('.')[2]}={value}" for key, value in self.overrides.items()]
        size = [f"{self.parameters}p"] if self.parameters else []
        name = "-".join([model.replace("+", "-"), *size, *settings, f"seed{seed}"])
        return self.folder / f"{self.task}-{self.scale}" / name


def run(plan: Plan, model: str, seed: int) -> int:
    """Make, or finish, one run; returns the exit code of the training command."""
    folder = plan.run_folder(model, seed)
    directory, source = plan.data
    data = ["--data", source, *(["--data-dir", directory] if directory else [])]
    if (folder / "checkpoint.pt").exists():
        return int(train.main(["--resume", str(folder), *data]))
    config = plan.config(model, seed)
    name, _, estimator = model.partition("+")
    settings = {**plan.overrides, "model.hidden": config.model_settings.hidden}
    return int(
        train.main(
            [plan.task, "--model", name, "--scale", plan.scale, "--seed", str(seed)]
            + (["--estimator", estimator] if config.estimator != NO_ESTIMATOR else [])
            + [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            + ["--out", str(folder), *data]
        )
    )


def finished(folder: Path) -> dict[str, Any] | None:
    """The result of a run with its speed, if it is finished."""
    try:
        result = json.loads((folder / "result.json").read_text())
        with open(folder / "metrics.csv") as file:
            speeds = [float(row["symbols_per_second"]) for row in csv.DictReader(file)]
    except OSError:
        return None
    return {**result, "symbols_per_second": statistics.median(speeds)}


def table(plan: Plan) -> str:
    """The runs so far as Markdown, a row a model."""
    metric = TASKS.get(plan.task).metric
    bits = TASKS.get(plan.task).metric.name == "bce"
    solved = ["solved"] if bits else []
    head = ["model", "hidden", "parameters", "seeds", f"validation {metric.name}"]
    head += [f"test {metric.name}", *solved, "symbols a second", "the paper"]
    rows = [head, ["---"] * len(head)]
    for model in plan.models:
        found = [finished(plan.run_folder(model, seed)) for seed in plan.seeds]
        rows.append(_row(plan, model, [each for each in found if each], metric, bits))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(
    plan: Plan, model: str, results: Sequence[dict[str, Any]], metric: Metric, bits: bool
) -> list[str]:
    config = plan.config(model, plan.seeds[0])
    size = [str(config.model_settings.hidden), f"{plan.count(config):,}"]
    told = _reported(model, config)
    if not results:
        return [model, *size, "0", "", "", *([""] if bits else []), "", told]
    valid, test = (
        [result[split][metric.name] for result in results] for split in ("validation", "test")
    )
    solved = sum(value < paper.SUCCESS for value in valid)
    return [
        model,
        *size,
        str(len(results)),
        _spread(valid),
        _spread(test),
        *([f"{solved} of {len(results)}"] if bits else []),
        f"{statistics.median(result['symbols_per_second'] for result in results):,.0f}",
        told,
    ]


def _reported(model: str, config: Config) -> str:
    """What the paper's table has for the model, at its own sizes and budgets; its best row."""
    name, _, estimator = model.partition("+")
    labels = [
        row.label
        for row in paper.rows(config.task)
        if (row.settings.get("model"), row.settings.get("estimator", "")) == (name, estimator)
    ]
    told = paper.reported(config.task, labels[-1], config.task_settings) if labels else None
    return "" if told is None else str(told)


def _spread(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def speeds(plan: Plan) -> str:
    """Symbols a second of training, as Markdown; for a machine that does nothing else."""
    rows = ["| model | hidden | parameters | backend | symbols a second |", "|---|---|---|---|---|"]
    for model in plan.models:
        config = plan.config(model, plan.seeds[0])
        trainer = Trainer(config, load_data(config, *plan.data))
        trainer.step()  # the first one pays for what the later ones find ready
        taken = []
        while len(taken) < TIMED_UPDATES or sum(taken) < TIMED_SECONDS:
            started = time.perf_counter()
            trainer.step()
            taken.append(time.perf_counter() - started)
        # Batches may differ in length: all symbols over all of the time.
        speed = _symbols(trainer, range(1, 1 + len(taken))) / sum(taken)
        size = f"{config.model_settings.hidden} | {plan.count(config):,}"
        rows.append(f"| {model} | {size} | {trainer.backend} | {speed:,.0f} |")
    return "\n".join(rows)


def _symbols(trainer: Trainer, updates: Iterable[int]) -> int:
    batches = [trainer.task.train_batch(update) for update in updates]
    return sum(
        batch.scored_TB.numel() if batch.mask_TB is None else int(batch.mask_TB.sum())
        for batch in batches
    )


def parser() -> Parser:
    """The options of the command."""
    made = Parser(prog="python -m benchmarks.tools.rivals", description=__doc__)
    made.add_argument("task", help=f"one of: {', '.join(MODELS)}")
    made.add_argument("--models", help="such as ntm,tardis+gumbel (default: those of the task)")
    made.add_argument("--seeds", default="1,2,3", help="default: %(default)s")
    made.add_argument("--scale", default="small", help="smoke, small or paper (default: small)")
    made.add_argument(
        "--parameters", type=int, default=0, help="choose the hidden size for about so many"
    )
    made.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, repeatable"
    )
    made.add_argument("--out", default="runs/rivals", metavar="DIR", help="default: %(default)s")
    made.add_argument("--table", action="store_true", help="print the table of what there is")
    made.add_argument("--speed", action="store_true", help="time some updates of each instead")
    made.add_argument("--data-dir", metavar="DIR", help="folder of the data (or TARDIS_DATA)")
    made.add_argument("--data", default="auto", help="auto, real or standin (default: auto)")
    return made


def plan_from(options: argparse.Namespace) -> Plan:
    """The plan that the options ask for."""
    if options.task not in MODELS:
        raise UserError(f"unknown task {options.task!r}; choose one of: {', '.join(MODELS)}")
    try:
        seeds = tuple(int(seed) for seed in options.seeds.split(","))
    except ValueError as error:
        raise UserError(
            f"--seeds must be whole numbers with commas, such as 1,2,3, not {options.seeds!r}"
        ) from error
    made = Plan(
        task=options.task,
        models=tuple(options.models.split(",")) if options.models else MODELS[options.task],
        seeds=seeds,
        scale=options.scale,
        parameters=options.parameters,
        overrides=dict(setting(text) for text in options.set),
        folder=Path(options.out),
        data=(options.data_dir, options.data),
    )
    for model in made.models:  # a wrong name is said before the first run
        made.config(model, seeds[0])
    return made


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then print the table."""
    options = parser().parse_args(arguments)
    plan = plan_from(options)
    if options.speed:
        print(speeds(plan))
        return 0
    # Seed by seed, so that all models have one result before any has three.
    for seed in () if options.table else plan.seeds:
        for model in plan.models:
            if finished(plan.run_folder(model, seed)) is None:
                code = run(plan, model, seed)
                if code not in (0, EXIT_DIVERGED):
                    return code
    print(table(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
