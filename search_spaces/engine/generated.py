"""The space that generated tasks share: the paper uses the same setup for copy and recall."""

from collections.abc import Mapping

from optuna.distributions import FloatDistribution

from search_spaces.engine.ranges import (
    ESTIMATOR,
    MEMORY,
    SWITCH,
    Ranges,
    choices,
    rate,
    share,
    steps,
)
from search_spaces.engine.task_space import TaskSpace

# No dropout: the sequences never repeat, and the cost has to reach zero.
COMMON: Ranges = {
    "task.draws": steps(1, 3),  # 1: all lengths equally often; 3: mostly long ones
    "task.grow_share": share(0.8, 0.2),  # a policy learns much more from short sequences
    "model.layer_norm": SWITCH,
    "model.norm_gain": rate(0.05, 1.0),
    "model.reset_gates": SWITCH,
    "model.reset_bias": share(4.0, 1.0),  # from half open to open
    # Large addresses hide the contents in the read logits: bad for recall, which looks up contents,
    # and good for copy, which reads by position. The gain scales both.
    "memory.address_scale": rate(0.1, 4.0),
    "memory.gain": rate(0.5, 8.0),
    "memory.match": SWITCH,
    "training.learning_rate": rate(3e-4, 1e-2),
    "training.clip": rate(0.1, 2.0),
    **ESTIMATOR,
    # If every cell is evaluated, reads tolerate a larger weight and need a smaller bonus.
    "estimator.weight": rate(0.01, 10.0),
    "estimator.entropy": rate(0.003, 0.3),
    "estimator.gamma": FloatDistribution(0.8, 1.0),
    "estimator.auxiliary_share": share(1.0, 0.1),  # the rest is the model's own likelihood
    "estimator.auxiliary_until": share(0.5, 0.1),
    "estimator.attached": SWITCH,
    "estimator.rate": rate(0.3, 10.0),  # a low rate averages a noisy gradient, a high one adapts
}
OF_TARDIS: Ranges = {
    "memory.vary_cells_from": share(1.0, 0.25),  # 1: all cells in every batch
}
# A memory that empties a cell at every step needs more of them.
OF_SAM: Ranges = {"memory.cells": steps(16, 128, 16)}


SIZES: Mapping[str, Ranges] = {
    "smoke": {"model.hidden": steps(24, 48, 8), **MEMORY["smoke"]},
    "small": {"model.hidden": steps(80, 160, 20), **MEMORY["small"]},
    "paper": {
        "model.hidden": steps(80, 200, 20),
        **MEMORY["paper"],
        "memory.content": choices(16, 32, 64),
    },
}


def generated_space(task: str, own: Mapping[str, Ranges] | None = None) -> TaskSpace:
    """Ranges around the paper's H 120, K 16, A 4, C 32; `own` has those of the task by scale."""
    return TaskSpace(
        task,
        {
            scale: {**sizes, **COMMON, **(own or {}).get(scale, {})}
            for scale, sizes in SIZES.items()
        },
        paper_settings={
            "estimator.auxiliary_share": 1.0,
            "estimator.auxiliary_until": 0.0,
            "memory.vary_cells_from": 1.0,
        },
        model_ranges={"tardis": OF_TARDIS, "sam": OF_SAM},
    )
