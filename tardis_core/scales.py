"""The scales of a run, from the smallest; in a file that takes no time to import."""

SCALES = ("smoke", "small", "paper")
