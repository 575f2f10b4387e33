"""Search space of repeat copy."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("repeat-copy")
space, first_guesses = SPACE.space, SPACE.first_guesses
