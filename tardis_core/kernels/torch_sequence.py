"""The sequence in torch operations, on any device, as one function with a gradient.

Autograd would record every operation of every step; here one function is recorded, whose backward
is written by hand: less memory, and the weights' gradients are one product each.
"""

from tardis_core.kernels import sequence_function
from tardis_core.kernels.inputs import Fixed, Outputs, Trained, check
from tardis_core.kernels.torch_backward import backward
from tardis_core.kernels.torch_forward import Tape, forward

PASSES = sequence_function.Passes("torch", forward, backward, Tape)


def run(trained: Trained, fixed: Fixed) -> Outputs:
    """Run a sequence; the outputs are connected to the gradients of `trained`."""
    check(trained, fixed)
    return sequence_function.run(PASSES, trained, fixed)
