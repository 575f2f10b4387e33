"""Another number of memory cells for a trained model: can it use a memory it never had?"""

import copy
from dataclasses import replace

import torch

from tardis_core.errors import UserError, require
from tardis_core.models import memory as mem
from tardis_core.models.network import Network
from tardis_core.models.tardis import Tardis


def with_cells(network: Network, cells: int, seed: int = 0) -> Network:
    """A trained TARDIS with fewer or more cells; nothing is trained.

    The cells that it had keep their addresses. Further ones get random addresses of the same kind,
    and how often they were read does not count, since W_u has no weights for them.

    Args:
        seed: of the further addresses.
    """
    if not isinstance(network.model, Tardis):
        raise UserError(
            "another number of cells is for the memory of TARDIS, and this model is "
            f"{type(network.model).__name__}; choose a run of --model tardis"
        )
    require(cells >= 1, f"--cells must be at least 1, not {cells}")
    network = copy.deepcopy(network)
    model = network.model
    assert isinstance(model, Tardis)
    old, kept = model.memory_config, min(cells, model.memory_config.cells)
    address_KA = mem.sparse_addresses(
        cells,
        old.address,
        old.address_density,
        old.address_scale,
        torch.Generator().manual_seed(seed),
    )
    address_KA[:kept] = model.address_KA[:kept]
    model.address_KA = address_KA.to(model.address_KA)
    model.addressing.resize(cells)
    model.memory_config = replace(old, cells=cells)
    return network
