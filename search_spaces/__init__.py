"""What a sweep searches: one file per task.

A space is a module with `space(trial, scale, estimators, models)`, which asks an Optuna trial for
settings of `tardis_core` by name, and `first_guesses(scale, estimators, models)`, the paper's own
configurations. A new file with a `space` function is registered automatically.
"""

from search_spaces.engine.describe import describe
from search_spaces.engine.fixed_space import BoundSpace, FixedSpace, bind, fix
from search_spaces.engine.grid import count_combinations
from search_spaces.engine.loader import FileSpace, SpaceModule, load, load_file, names
from search_spaces.engine.samplers import SAMPLERS, make_sampler
from search_spaces.engine.task_space import DEFAULT_MODELS

__all__ = [
    "DEFAULT_MODELS",
    "SAMPLERS",
    "BoundSpace",
    "FileSpace",
    "FixedSpace",
    "SpaceModule",
    "bind",
    "count_combinations",
    "describe",
    "fix",
    "load",
    "load_file",
    "make_sampler",
    "names",
]
