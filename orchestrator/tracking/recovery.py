"""Events of trials from what MLflow has of them: the way back, if the event log has lost some."""

from collections import defaultdict

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from orchestrator.tracking.events import Event, Metrics, TrialEnded, TrialStarted
from orchestrator.tracking.mlflow_runs import TRIAL, runs_of_sweep
from orchestrator.tracking.states import ENDING_TAGS

ENDED = ("FINISHED", "KILLED", "FAILED")


def events_in_mlflow(
    client: MlflowClient, experiment_id: str, sweep_id: str
) -> dict[int, list[Event]]:
    """The events of each trial, with the times that MLflow has: sent again, they change nothing."""
    return {
        int(run.data.tags[TRIAL]): _events(client, run)
        for run in runs_of_sweep(client, experiment_id, sweep_id)
        if TRIAL in run.data.tags and run.data.params
    }


def _events(client: MlflowClient, run: Run) -> list[Event]:
    number, info = int(run.data.tags[TRIAL]), run.info
    tags = {MLFLOW_RUN_NAME: info.run_name}
    events: list[Event] = [TrialStarted(number, run.data.params, tags, at=info.start_time)]
    values: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for name in run.data.metrics:
        for each in client.get_metric_history(info.run_id, name):
            values[each.step, each.timestamp][name] = each.value
    events += [Metrics(number, step, row, at=at) for (step, at), row in sorted(values.items())]
    if info.status in ENDED:
        marks = {key: run.data.tags[key] for key in ENDING_TAGS if key in run.data.tags}
        events.append(TrialEnded(number, info.status, marks, at=info.end_time or 0))
    return events
