"""Search space of selective copying."""

from search_spaces.engine.generated import generated_space

SPACE = generated_space("selective-copy")
space, first_guesses = SPACE.space, SPACE.first_guesses
