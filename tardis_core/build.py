"""From a resolved configuration to the parts of a run: its data, its task and its network."""

from typing import Any

import torch

from tardis_core.config import NO_ESTIMATOR, Config
from tardis_core.errors import UserError, choices
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.models.heads import MemoryHead, OutputHead
from tardis_core.models.network import Encoder, Network
from tardis_core.tasks.base import TASKS, Signature, Task


def load_data(config: Config, directory: str | None = None, source: str = "auto") -> Any:
    """The data of the task as NumPy arrays: loaded once, shared by any number of runs."""
    return TASKS.get(config.task).load(config.task_settings, directory, source)


def build_task(config: Config, data: Any) -> Task:
    """The task on its data."""
    kind = TASKS.get(config.task)
    task = kind(config.task_settings, data, config.training.batch, config.seed)
    task.updates = config.training.updates
    return task


def build_network(config: Config, signature: Signature) -> Network:
    """The network with its initial weights: a function of the configuration and its seed."""
    with torch.random.fork_rng(devices=[]):
        # Of the CPU alone: weights are made there, and the other devices keep their streams.
        torch.default_generator.manual_seed(config.seed)
        return _build(config, signature)


def _models_of_reads() -> str:
    return choices(name for name in MODELS.names() if MODELS.get(name).reads_alone)


def _build(config: Config, signature: Signature) -> Network:
    settings = config.model_settings
    if MODELS.get(config.model).two_parts and signature.boundary is None:
        raise UserError(
            f"model {config.model!r} reads sequences of two parts, and those of the task "
            f"{config.task!r} have one; choose another model, or a task such as snli"
        )
    encoder = Encoder(signature.inputs, signature.symbols, settings.embedding, signature.boundary)
    estimator = None
    if config.estimator != NO_ESTIMATOR:
        kind = ESTIMATORS.get(config.estimator)
        estimator = kind(config.estimator_settings, encoder.width, settings.hidden)
    model_class: Any = MODELS.get(config.model)
    model = model_class(encoder.width, settings, config.memory_settings, estimator)
    if estimator is not None and estimator.window and not model.reads_alone:
        raise UserError(
            f"estimator {config.estimator!r} tries one read at a time, and model {config.model!r} "
            f"chooses more than reads; models whose reads can be tried: {_models_of_reads()}"
        )
    width = settings.head or settings.hidden
    head = OutputHead(
        model.output_width, model.read_width, width, signature.outputs, settings.dropout
    )
    memory_head = None
    if estimator is not None and estimator.memory_head:
        memory_head = MemoryHead(
            model.read_width, encoder.width, signature.outputs, estimator.memory_head_attached
        )
    return Network(encoder, model, head, memory_head, settings.dropout)
