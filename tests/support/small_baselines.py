"""Small baselines with random parameters, and their comparison with programs in NumPy."""

import dataclasses

import numpy as np
import torch

from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tests.support.small_tardis import randomise

T, B, D, H = 7, 3, 3, 5


def make(name, estimator=None, seed=0, **settings):
    """A model with random parameters; a setting belongs to whichever section knows it."""
    kind = MODELS.get(name)
    sections = []
    for section in (kind.Config, kind.Memory):
        expected_names = {field.name for field in dataclasses.fields(section)} if section else set()
        own = {
            key: value for key, value in {"hidden": H, **settings}.items() if key in expected_names
        }
        sections.append(section(**own) if section else None)
    result = (
        ESTIMATORS.get(estimator)(ESTIMATORS.get(estimator).Config(), D, H) if estimator else None
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return randomise(kind(D, *sections, result).double(), seed)


def assert_same(found_TBx, reference, x, **arguments):
    """The model's outputs, sequence by sequence."""
    for n in range(x.shape[1]):
        expected = reference(x[:, n].numpy(), **arguments)
        np.testing.assert_allclose(found_TBx[:, n].detach().numpy(), expected, rtol=0, atol=1e-10)


def assert_outputs(hidden, reference, x):
    """`h` and `r` of a model, sequence by sequence."""
    for name, actual in (("h", hidden.h_TBH), ("r", hidden.r_TBQ)):
        assert_same(actual, lambda x, name=name: reference(x)[name], x)


def run(model, x, state=None, *, noise=None, mask=None):
    with torch.no_grad():
        return model(x, state, mask, noise)


def noise_of(model, x):
    return model.draw_noise(x, torch.Generator().manual_seed(5))
