"""Search space of priority sort."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("priority-sort")
space, first_guesses = SPACE.space, SPACE.first_guesses
