"""What is the memory worth to a trained model? The same weights, reading cells drawn uniformly."""

import torch

from tardis_core.errors import UserError
from tardis_core.models.baselines.uniform import Urmann
from tardis_core.models.network import Network
from tardis_core.models.tardis import Tardis


def with_uniform_reads(network: Network, seed: int = 0) -> Network:
    """A trained TARDIS as urMANN: all weights but those that choose the cell, which nothing does.

    Args:
        seed: of the cells.
    """
    model = network.model
    if not isinstance(model, Tardis):
        raise UserError(
            "uniform reads take the place of the reads of TARDIS, and this model is "
            f"{type(model).__name__}; choose a run of --model tardis"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        uniform = Urmann(network.encoder.width, model.config, model.memory_config, None)
    uniform.controller, uniform.W_m = model.controller, model.W_m
    uniform.address_KA = model.address_KA
    uniform_network = Network(
        network.encoder, uniform, network.head, network.memory_head, network.dropout
    )
    return uniform_network.train(network.training)
