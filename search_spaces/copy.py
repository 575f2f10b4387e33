"""Search space of copy."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("copy")
space, first_guesses = SPACE.space, SPACE.first_guesses
