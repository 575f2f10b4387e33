"""Search space of associative recall."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("recall")
space, first_guesses = SPACE.space, SPACE.first_guesses
