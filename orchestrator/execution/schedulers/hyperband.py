"""Asynchronous Hyperband: several ASHAs, of which the later ones stop trials later.

Li et al. 2018 (JMLR 18:185). Where it is unknown how soon good trials can be recognised, some of
the trials get more time before they are compared.
"""

import numpy as np

from orchestrator.execution import ray_internals
from orchestrator.execution.schedulers.asha import Asha
from orchestrator.execution.schedulers.base import SCHEDULERS, Rule

BRACKETS = 3


@SCHEDULERS.register("hyperband")
class Hyperband(Asha):
    """Ray's ASHA with several brackets; a bracket without a rung stops no trial."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, BRACKETS)

    def bracket(self, number: int) -> int:
        """Drawn with Ray's odds, by the number of the trial."""
        rungs = np.array([len(ray_internals.rungs(self, each)) for each in range(BRACKETS)])
        odds = np.exp(rungs - rungs.max())
        return int(np.random.default_rng(number).choice(BRACKETS, p=odds / odds.sum()))
