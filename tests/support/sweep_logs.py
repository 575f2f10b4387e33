"""Sweeps as if they had run: a plan with an event log and a study written by hand."""

from pathlib import Path

import optuna
from optuna.trial import TrialState

from orchestrator.execution.study import study_storage
from orchestrator.planning.plan import Candidate, ComparisonPlan, SearchPlan, SweepPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Metrics, TrialEnded, TrialStarted
from tardis_core.build import load_data
from tardis_core.config import make_config
from tardis_core.training import checkpoint
from tardis_core.training.loop import Trainer

COMMON = {"task": "copy", "scale": "smoke", "trials": 6, "metric": "bce", "better": "lower"}


def make_plan(name: str = "s", **more) -> SearchPlan:
    """A search with its own folder."""
    plan = SearchPlan(name, **{**COMMON, **more})
    plan.folder.mkdir(parents=True)
    return plan


def params_of(rate: float, seed: int = 0, estimator: str = "gumbel") -> dict[str, object]:
    overrides = {"training.learning_rate": rate, "model.hidden": 16}
    config = make_config("copy", "tardis", estimator, "smoke", seed, overrides)
    names = {"task": "copy", "model": "tardis", "estimator": estimator}
    names |= {"scale": "smoke", "seed": str(seed)}
    return {**names, **config.settings()}


def record(
    plan: SweepPlan, number: int, values: list[float], ending, params, test: float | None = None
) -> None:
    """Log one trial: a validation every 10 updates, then its end."""
    log = EventLog(plan.folder)
    log.append(TrialStarted(number, params))
    for place, value in enumerate(values, start=1):
        row = {"valid_bce": value, "training_seconds": 0.5 * place}
        log.append(Metrics(number, 10 * place, row))
    if test is not None:
        log.append(Metrics(number, 10 * max(1, len(values)), {"test_bce": test}))
    if ending is not None:
        log.append(TrialEnded(number, *ending))
    log.close()


COMPLETE, FAILED = ("FINISHED", {}), ("FAILED", {"error": "diverged"})
PRUNED = ("FINISHED", {"pruned": "true"})


def fill(plan: SearchPlan, values: list) -> None:
    """Log trials with these values: None is a failed trial, a tuple the last value if pruned."""
    study = optuna.create_study(
        study_name=plan.name,
        storage=study_storage(plan.folder),
        direction="minimize",
        sampler=optuna.samplers.RandomSampler(seed=0),
    )
    for number, value in enumerate(values):
        trial = study.ask()
        rate = trial.suggest_float("training.learning_rate", 1e-4, 1e-2, log=True)
        estimator = trial.suggest_categorical("estimator", ["gumbel", "reinforce"])
        params = params_of(rate, estimator=estimator)
        if value is None:
            study.tell(trial, state=TrialState.FAIL)
            record(plan, number, [], FAILED, params)
        elif isinstance(value, tuple):
            trial.report(value[0], 1)
            study.tell(trial, state=TrialState.PRUNED)
            record(plan, number, [value[0]], PRUNED, params)
        else:
            study.tell(trial, value)
            record(plan, number, [value + 1, value, value + 0.5], COMPLETE, params)


def comparison_plan(name: str = "c", labels=("a", "b"), seeds=(1, 2, 3), **more) -> ComparisonPlan:
    """A comparison with its own folder."""
    candidates = tuple(Candidate(label, {"model": "tardis"}) for label in labels)
    plan = ComparisonPlan(name, **{**COMMON, **more}, candidates=candidates, seeds=tuple(seeds))
    plan.folder.mkdir(parents=True)
    return plan


def fill_comparison(plan: ComparisonPlan, values: dict[str, list[float]]) -> None:
    """Log the values of each candidate, one per seed."""
    for job in plan.jobs():
        value = values[job.candidate.label][plan.seeds.index(job.seed)]
        record(plan, job.number, [value], COMPLETE, params_of(3e-3, job.seed))


def put_weights(plan: SweepPlan, number: int, task: str = "copy") -> Path:
    """Write a checkpoint where Ray would have left the last one of the trial."""
    config = make_config(task, scale="smoke", overrides={"model.hidden": 16})
    data = load_data(config, None, "standin") if task in ("ptb", "snli", "strokes") else None
    trainer = Trainer(config, data)
    folder = Path(plan.ray_storage) / "trials-0" / f"trial-{number}-x" / "checkpoint_000001"
    folder.mkdir(parents=True)
    checkpoint.save(folder / "best.pt", {**trainer.model_state(), "metric": 0.5})
    return folder / "best.pt"
