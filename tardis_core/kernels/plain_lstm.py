"""An LSTM without normalisation, dropout or mask, by PyTorch's own function: cuDNN on a GPU."""

import torch
from torch import Tensor

from tardis_core.kernels.inputs import Fixed, Outputs, Trained


def applies(trained: Trained, fixed: Fixed) -> bool:
    """Whether the sequence is one that PyTorch's function computes."""
    parts = (trained.W_m_CH, trained.gain_4H, fixed.dropout_TBH, fixed.mask_TB)
    return all(each is None for each in parts)


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    dtype = fixed.product_dtype or trained.x_TBD.dtype
    bias_4H = _their_order(trained.b_G)
    weights = [_their_order(trained.W_x_GD), _their_order(trained.W_h_GH)]
    weights += [bias_4H, torch.zeros_like(bias_4H)]  # they have two biases
    state = [each.unsqueeze(0).to(dtype) for each in (trained.h_BH, trained.c_BH)]
    gradients = torch.is_grad_enabled()
    h_TBH, h_1BH, c_1BH = torch.lstm(
        trained.x_TBD.to(dtype),
        state,
        [each.to(dtype) for each in weights],
        True,  # with biases
        1,  # layer
        0.0,  # dropout between layers
        gradients,  # keep what backward needs
        False,  # one direction
        False,  # time comes first
    )
    own = trained.x_TBD.dtype
    empty = Outputs._make([None] * len(Outputs._fields))
    return empty._replace(h_TBH=h_TBH.to(own), h_BH=h_1BH[0].to(own), c_BH=c_1BH[0].to(own))


def _their_order(rows: Tensor) -> Tensor:
    """The gates in PyTorch's order, i, f, g, o; ours is f, i, o, g."""
    f, i, o, g = rows.chunk(4)
    return torch.cat([i, f, g, o])
