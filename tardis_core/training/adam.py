"""Adam, without PyTorch's compiler."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


class Adam(torch.optim.Adam):
    """PyTorch's Adam, which would import PyTorch's compiler on its first call: two seconds.

    It does so to be left out of what is compiled, and nothing is compiled here. Wrapped in other
    functions, its methods are all there.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of all parameters."""
        return inspect.unwrap(torch.optim.Adam.step)(self, closure)
