"""Search space of the adding problem."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("adding")
space, first_guesses = SPACE.space, SPACE.first_guesses
