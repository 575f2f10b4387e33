"""Search space of strokes: MNIST as pen strokes."""

from search_spaces.engine.ranges import ESTIMATOR, MEMORY, SWITCH, rate, share, steps
from search_spaces.engine.task_space import TaskSpace

COMMON = {
    "model.recurrent_dropout": share(0.4, 0.05),
    "model.layer_norm": SWITCH,
    "model.norm_gain": rate(0.05, 1.0),
    "model.reset_gates": SWITCH,
    "training.clip": rate(0.25, 4.0),
    **ESTIMATOR,
}
SPACE = TaskSpace(
    "strokes",
    {
        "smoke": {
            "model.hidden": steps(24, 48, 8),
            "training.learning_rate": rate(1e-3, 2e-2),
            **MEMORY["smoke"],
            **COMMON,
        },
        "small": {
            "model.hidden": steps(96, 192, 32),
            "training.learning_rate": rate(3e-4, 1e-2),
            **MEMORY["small"],
            **COMMON,
        },
        "paper": {
            "model.hidden": steps(128, 384, 64),
            "training.learning_rate": rate(3e-4, 1e-2),
            **MEMORY["paper"],
            **COMMON,
        },
    },
)
space, first_guesses = SPACE.space, SPACE.first_guesses
