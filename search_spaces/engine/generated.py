"""What the spaces of copy and recall share: the paper sets both tasks up alike."""

from optuna.distributions import FloatDistribution

from search_spaces.engine.ranges import (
    MEMORY,
    REINFORCE,
    SWITCH,
    Ranges,
    choices,
    rate,
    share,
    steps,
)
from search_spaces.engine.task_space import TaskSpace

# There is no dropout: the sequences never repeat, and the cost has to go to zero.
ALWAYS: Ranges = {
    "task.draws": steps(1, 3),  # 1: all lengths alike; 3: mostly long ones
    "task.grow_until": steps(0, 12_000, 4_000),  # short sequences teach a policy much more
    "model.layer_norm": SWITCH,
    "model.reset_gates": SWITCH,
    "model.reset_bias": share(4.0, 1.0),  # from half open to open
    # Loud addresses drown the contents in the read logits: bad for recall, which looks contents up,
    # and good for copy, which goes by places. The gain raises both.
    "memory.address_scale": rate(0.1, 4.0),
    "memory.gain": rate(0.5, 8.0),
    "memory.match": SWITCH,
    "training.learning_rate": rate(3e-4, 1e-2),
    "training.clip": rate(0.1, 2.0),
    **REINFORCE,
    # Reads that are judged by every cell bear a greater weight, and need less of a bonus.
    "estimator.weight": rate(0.01, 10.0),
    "estimator.entropy": rate(0.003, 0.3),
    "estimator.gamma": FloatDistribution(0.8, 1.0),
    "estimator.auxiliary_share": share(1.0, 0.1),  # the rest: the model's own likelihood
    "estimator.auxiliary_until": share(0.5, 0.1),
    "estimator.attached": SWITCH,
    "estimator.rate": rate(0.3, 10.0),  # slower averages a noisy gradient, faster keeps up
    "estimator.copies": choices(1, 2),  # twice the time, and reads judged much better
}
# A model that chooses also where to write cannot have its reads tried alone.
OF_TARDIS: Ranges = {
    "memory.vary_cells_from": share(1.0, 0.25),  # 1: all cells in every batch
    "estimator.tried": choices(0, 8),  # three times the time, and reads judged without chance
}


def generated_space(task: str) -> TaskSpace:
    """Around the paper's H 120, K 16, A 4, C 32."""
    return TaskSpace(
        task,
        {
            "smoke": {"model.hidden": steps(24, 48, 8), **MEMORY["smoke"], **ALWAYS},
            "small": {"model.hidden": steps(80, 160, 20), **MEMORY["small"], **ALWAYS},
            "paper": {
                "model.hidden": steps(80, 200, 20),
                **MEMORY["paper"],
                "memory.content": choices(16, 32, 64),
                **ALWAYS,
            },
        },
        as_in_the_paper={
            "estimator.auxiliary_share": 1.0,
            "estimator.auxiliary_until": 0.0,
            "memory.vary_cells_from": 1.0,
        },
        of_models={"tardis": OF_TARDIS},
    )
