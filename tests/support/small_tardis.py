"""Small models in float64 with random parameters, and their conversion to NumPy."""

import numpy as np
import torch

from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.models.tardis import MemoryConfig, TardisConfig, TardisNoise
from tests.support.numpy_tardis import Sample

TOLERANCE = 1e-10


def randomise(module, seed, scale=0.7):
    """Draw every parameter from a normal distribution, so that no bias is 0 and no gain is 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(scale * values)
    return module


def make_tardis(
    estimator="gumbel", *, D=3, H=5, K=4, A=2, C=3, P=3, seed=0, dtype=torch.float64, **options
):
    """A TARDIS with random parameters; the options are those of `TardisConfig`."""
    estimator_class = ESTIMATORS.get(estimator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MODELS.get("tardis")(
            D,
            TardisConfig(hidden=H, **options),
            MemoryConfig(cells=K, address=A, content=C, attention=P),
            estimator_class(estimator_class.Config(), D, H),
        )
    return randomise(model.double(), seed).to(dtype)


def inputs(T, B, D, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(T, B, D, generator=generator, dtype=torch.float64).to(dtype)


def noise_of(model, x, seed=0):
    return model.draw_noise(x, torch.Generator().manual_seed(2000 + seed))


def slice_noise(noise, start, stop):
    """A part of the noise of a sequence."""
    return TardisNoise(*(part if part is None else part[start:stop] for part in noise))


def array(tensor):
    return None if tensor is None else tensor.detach().numpy()


def parameters_of(module):
    """The state of a module as float64 arrays."""
    return {name: array(value).astype(np.float64) for name, value in module.state_dict().items()}


def noise_arguments(noise):
    """The noise of the model under the names of the reference."""
    if noise is None:
        return {}
    return {
        "read_noise_TBK": array(noise.read_TBK),
        "reset_noise_TB2": array(noise.reset_TB2),
        "dropout_TBH": array(noise.dropout_TBH),
    }


def samples_of(state):
    """The state of the model in the form of the reference: one record per sequence."""
    samples = []
    for n in range(len(state.memory.steps_B)):
        last = array(state.memory.last_read_BK[n])
        samples.append(
            Sample(
                h=array(state.controller.h_BH[n]),
                c=array(state.controller.c_BH[n]),
                content=array(state.memory.content_BKC[n]),
                counts=array(state.memory.reads_BK[n]),
                last=int(last.argmax()) if last.any() else -1,
                steps=int(state.memory.steps_B[n]),
            )
        )
    return samples
