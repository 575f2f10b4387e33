"""Our Adam is PyTorch's; that it leaves the compiler out is in test_resume.py."""

import copy

import torch
from torch import nn

from tardis_core.training.adam import Adam


def trained(kind, restored=None):
    """A small layer and its optimiser after three updates."""
    torch.manual_seed(0)
    layer = nn.Linear(4, 3)
    optimizer = kind(layer.parameters(), 0.1, weight_decay=0.01, fused=True)
    if restored is not None:
        optimizer.load_state_dict(copy.deepcopy(restored))
    x = torch.randn(5, 4)
    for _ in range(3):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()
    return layer, optimizer


def test_the_updates_and_the_state_are_those_of_pytorch():
    restored = None
    for _ in range(2):
        (ours, our_optimizer), (theirs, their_optimizer) = (
            trained(kind, restored) for kind in (Adam, torch.optim.Adam)
        )
        assert torch.equal(ours.weight, theirs.weight)
        state, expected = our_optimizer.state_dict(), their_optimizer.state_dict()
        assert state["param_groups"] == expected["param_groups"]
        for number, values in expected["state"].items():
            for name, tensor in values.items():
                assert torch.equal(state["state"][number][name], tensor)
        restored = expected
