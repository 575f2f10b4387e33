"""The model of a trial as a LoggedModel of MLflow: its files, its metrics, and its run.

Every step checks first, so that doing it twice changes nothing.
"""

from mlflow import MlflowClient
from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Metric, Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from orchestrator.tracking.events import Model

METRIC = "metric"  # the tag of a model that names the metric of its value
VALUE = "value"


def log_model(client: MlflowClient, run_id: str, model: Model) -> LoggedModel:
    """Upload the model of a run; if that was done before, the model that is there."""
    run = client.get_run(run_id)
    logged = _existing(client, run, model) or _create(client, run, model)
    if logged.status != LoggedModelStatus.READY:
        client.log_model_artifacts(logged.model_id, model.path)
        logged = client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    metrics = _metrics(client, run, model)
    if not any(each.model_id == logged.model_id for each in _outputs(run)):
        step = metrics[0].step if metrics else 0
        client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step)])
    client.log_batch(run_id, [_of_model(each, run, logged) for each in metrics])
    return logged


def _existing(client: MlflowClient, run: Run, model: Model) -> LoggedModel | None:
    """The model that an earlier delivery has begun, if any.

    A trial that was trained longer has a model per length; they differ in their value.
    """
    query = f"source_run_id = '{run.info.run_id}' AND name = '{model.name}'"
    models = client.search_logged_models([run.info.experiment_id], query)
    value = str(model.value)  # older versions did not note it
    return next((each for each in models if each.tags.get(VALUE, value) == value), None)


def _create(client: MlflowClient, run: Run, model: Model) -> LoggedModel:
    return client.create_logged_model(
        run.info.experiment_id,
        model.name,
        run.info.run_id,
        tags={**model.tags, VALUE: str(model.value), MLFLOW_RUN_NOTE: model.description},
        params=run.data.params,
    )


def _outputs(run: Run) -> list[LoggedModelOutput]:
    return list(run.outputs.model_outputs) if run.outputs else []


def _metrics(client: MlflowClient, run: Run, model: Model) -> list[Metric]:
    """What the run measured of these weights: their validation, and the test if there was one."""

    def history(name: str) -> list[Metric]:
        return list(client.get_metric_history(run.info.run_id, name))

    name = model.tags.get(METRIC, "")
    validation = [each for each in history(name) if each.value == model.value] if name else []
    tests = [history(name)[-1] for name in run.data.metrics if name.startswith("test_")]
    return [*validation[:1], *tests]


def _of_model(metric: Metric, run: Run, logged: LoggedModel) -> Metric:
    """The same metric with the id of the model: nothing is added to the run, which has it."""
    inputs = run.inputs.dataset_inputs if run.inputs else []
    return Metric(
        metric.key,
        metric.value,
        metric.timestamp,
        metric.step,
        model_id=logged.model_id,
        dataset_name=inputs[0].dataset.name if inputs else None,
        dataset_digest=inputs[0].dataset.digest if inputs else None,
        run_id=run.info.run_id,
    )
