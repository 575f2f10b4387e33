"""Search space of ptb: characters of the Penn Treebank."""

from search_spaces.engine.ranges import ESTIMATOR, MEMORY, SWITCH, choices, rate, share, steps
from search_spaces.engine.task_space import TaskSpace

COMMON = {
    "model.layer_norm": SWITCH,
    "model.norm_gain": rate(0.05, 1.0),
    "model.reset_gates": SWITCH,
    "training.clip": rate(0.25, 4.0),
    **ESTIMATOR,
}
SPACE = TaskSpace(
    "ptb",
    {
        "smoke": {
            "model.hidden": steps(24, 48, 8),
            "model.recurrent_dropout": share(0.3, 0.05),
            "training.learning_rate": rate(1e-3, 2e-2),
            **MEMORY["smoke"],
            **COMMON,
        },
        "small": {
            "model.hidden": steps(128, 384, 64),
            "model.recurrent_dropout": share(0.4, 0.05),
            "training.learning_rate": rate(5e-4, 1e-2),
            **MEMORY["small"],
            **COMMON,
        },
        "paper": {
            "model.hidden": steps(600, 1400, 200),
            "model.recurrent_dropout": share(0.5, 0.05),
            "training.learning_rate": rate(1e-3, 3e-2),
            **MEMORY["paper"],
            "memory.content": choices(50, 100, 200),
            **COMMON,
        },
    },
)
space, first_guesses = SPACE.space, SPACE.first_guesses
