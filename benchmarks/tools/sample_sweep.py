"""Write a sweep of any size as if it had run, to try its report and the MLflow UI.

Settings are drawn from the search space of ptb, and the learning curves are made up: nothing is
trained.

python -m benchmarks.tools.sample_sweep big --trials 10000
"""

import argparse
import math
import random
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple, cast

import optuna
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from optuna.trial import TrialState

import search_spaces
from orchestrator.common import provenance
from orchestrator.common.defaults import default_tracking_uri
from orchestrator.execution.study import create_study
from orchestrator.planning.configs import trial_config
from orchestrator.planning.plan import SearchPlan
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import Event, Metrics, SweepEnded, SweepStarted, TrialStarted
from orchestrator.tracking.states import ERROR_TAG, State
from search_spaces.engine.probe import RecordingTrial, draw

VALIDATIONS, EVERY = 18, 50  # of a trial that runs to its end; updates between them
RUNGS = (2, 6)  # validations after which trials are stopped


class Sample(NamedTuple):
    """One trial that never ran."""

    number: int
    asked: dict[str, tuple[Any, Any]]  # distribution and value of every searched parameter
    params: dict[str, Any]
    values: list[float]  # one per validation
    state: State


def write(name: str, trials: int) -> SearchPlan:
    """Write the plan, the study and the event log of a sweep."""
    common = {"task": "ptb", "scale": "smoke", "metric": "bpc", "better": "lower"}
    uri = default_tracking_uri()
    plan = SearchPlan(name, trials=trials, reports=VALIDATIONS, tracking_uri=uri, **common)
    plan.folder.mkdir(parents=True)
    plan.save()
    samples = list(_samples(plan))
    study = create_study(plan.folder, name, plan.mode, optuna.samplers.RandomSampler())
    study.add_trials([_in_study(sample) for sample in samples])
    tags = {**plan.tags, "data": "ptb-standin", "data.real": "False", "data.sha256": "0" * 64}
    tags |= {"hardware": "made up", "user": "sample", "command": provenance.command_line()}
    with closing(EventLog(plan.folder)) as log:
        log.append(SweepStarted(name, tags, {"trials": trials}))
        for sample in samples:
            log.append(*_events(plan, sample))
        log.append(SweepEnded("FINISHED"))
    return plan


def _samples(plan: SearchPlan) -> Iterator[Sample]:
    rng, space = random.Random(0), search_spaces.load(plan.task)
    for number in range(plan.trials):
        trial = RecordingTrial(lambda _, distribution: draw(distribution, rng), number)
        asked = cast(optuna.Trial, trial)
        settings = space.space(asked, plan.scale, plan.estimators, plan.models)
        config = trial_config(plan.task, plan.scale, plan.seed, settings)
        names = ("task", "model", "estimator", "scale", "seed")
        params = {key: getattr(config, key) for key in names} | config.settings()
        values, state = _curve(settings, rng)
        yield Sample(number, dict(trial.asked), params, values, state)


def _curve(settings: dict[str, Any], rng: random.Random) -> tuple[list[float], State]:
    """A falling curve: the learning rate and the cells matter, and the worse half is stopped."""
    rate = abs(math.log10(settings["training.learning_rate"]) + 2.2)
    floor = 1.75 + 0.5 * rate + 2 / settings["memory.cells"] + abs(rng.gauss(0, 0.08))
    speed = 4 + rng.random() * 4
    curve = [
        floor + 2.4 * math.exp(-place / speed) + rng.gauss(0, 0.01)
        for place in range(1, VALIDATIONS + 1)
    ]
    if rng.random() < 0.03:
        return curve[: rng.randrange(3)], State.FAILED
    for rung in RUNGS:
        if floor > 2.3 - 0.02 * rung and rng.random() < 0.7:
            return curve[:rung], State.PRUNED
    return curve, State.COMPLETE


def _in_study(sample: Sample) -> optuna.trial.FrozenTrial:
    return optuna.trial.create_trial(
        state=TrialState[sample.state.optuna_name],
        value=min(sample.values) if sample.state is State.COMPLETE else None,
        params={name: value for name, (_, value) in sample.asked.items()},
        distributions={name: distribution for name, (distribution, _) in sample.asked.items()},
        intermediate_values=dict(enumerate(sample.values, start=1)),
    )


def _events(plan: SearchPlan, sample: Sample) -> Iterator[Event]:
    number = sample.number
    yield TrialStarted(number, sample.params, {MLFLOW_RUN_NAME: plan.title(number)})
    for place, value in enumerate(sample.values, start=1):
        row = {"valid_bpc": value, "training_seconds": 1.3 * place}
        row[plan.best_metric] = min(sample.values[:place])
        yield Metrics(number, EVERY * place, row)
    error = {ERROR_TAG: "the loss is not finite: nan at update 112"}
    yield sample.state.event(number, error if sample.state is State.FAILED else {})


def main() -> int:
    """Write the sweep that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.sample_sweep", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("name", help="name of the sweep, which is written to sweeps/NAME")
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args()
    print(f"written: {write(options.name, options.trials).folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
