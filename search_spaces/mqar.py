"""Search space of multi-query associative recall: more cells, since there are more pairs."""

from search_spaces.engine.generated import generated_space
from search_spaces.engine.ranges import choices, steps

EMBEDDING = {"model.embedding": choices(32, 64, 128)}
SPACE = generated_space(
    "mqar",
    {
        "smoke": EMBEDDING,
        "small": {**EMBEDDING, "memory.cells": steps(16, 64, 8)},
        "paper": {**EMBEDDING, "memory.cells": steps(32, 160, 32)},
    },
)
space, first_guesses = SPACE.space, SPACE.first_guesses
