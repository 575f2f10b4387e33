"""The systems that tests go through: every model, and TARDIS with every estimator."""

from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS

# Another model that chooses cells is tested with one estimator of each kind.
ONE_OF_EACH_KIND = ("gumbel", "reinforce")


def estimators_of(model: str) -> list[str | None]:
    """The estimators to test a model with."""
    if not MODELS.get(model).discrete:
        return [None]
    return [*(ESTIMATORS.names() if model == "tardis" else ONE_OF_EACH_KIND)]


SYSTEMS = [(model, estimator) for model in MODELS.names() for estimator in estimators_of(model)]
