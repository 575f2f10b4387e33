"""Search space of snli: natural language inference."""

from search_spaces.engine.ranges import ESTIMATOR, MEMORY, SWITCH, rate, share, steps
from search_spaces.engine.task_space import TaskSpace

COMMON = {
    "model.recurrent_dropout": share(0.4, 0.05),
    "model.dropout": share(0.5, 0.1),
    "model.layer_norm": SWITCH,
    "model.norm_gain": rate(0.05, 1.0),
    "model.reset_gates": SWITCH,
    "training.clip": rate(0.25, 4.0),
    **ESTIMATOR,
}
SPACE = TaskSpace(
    "snli",
    {
        "smoke": {
            "model.hidden": steps(24, 48, 8),
            "model.embedding": steps(16, 32, 8),
            "training.learning_rate": rate(1e-3, 2e-2),
            **MEMORY["smoke"],
            **COMMON,
        },
        "small": {
            "model.hidden": steps(96, 192, 32),
            "model.embedding": steps(64, 128, 32),
            "training.learning_rate": rate(2e-4, 5e-3),
            **MEMORY["small"],
            **COMMON,
        },
        "paper": {
            "model.hidden": steps(200, 400, 50),
            "model.embedding": steps(200, 400, 100),
            "training.learning_rate": rate(1e-4, 4e-3),
            **MEMORY["paper"],
            **COMMON,
        },
    },
)
space, first_guesses = SPACE.space, SPACE.first_guesses
