"""The Triton backend against the reference in Triton's interpreter, as a process of its own.

Triton decides when a kernel is defined whether it is interpreted, so the variable is set before
anything imports it: `python -m tests.support.triton_cases` prints how far the backends differ in
each case of each group.
"""

import itertools
import json
import os
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"

import torch

from tardis_core.kernels import gpu_check, select, triton_forward
from tests.support.both_backends import difference, make_model, run

# The interpreter takes a tenth of a second per step: the memory is full after two.
SMALL = dict(D=3, H=5, K=2, A=2, C=3, P=3)
STEPS = 3
ODD = dict(D=4, H=37, K=3, A=3, C=11, P=19, scale=0.3)
SEVERAL_TILES = dict(D=2, H=6, K=3, A=3, C=4, P=2)
LEAST = dict(D=1, H=1, K=1, A=1, C=1, P=1)
KINDS = ("lstm", "gumbel", "reinforce")
THROUGH = ("straight-through", "reinmax", "gumbel-rao", "straight-through learned")


def differ(kind, T, B, how, **options):
    """How far the Triton backend is from the reference."""
    model = make_model(kind, **options)
    return difference(run(model, "reference", T, B, **how), run(model, "triton", T, B, **how))[0]


def pairs(switches):
    """Six rows in which any two of up to ten switches have all four settings.

    A switch is on in three of the rows 1 to 5, each in other three: any two of such sets overlap,
    neither contains the other, and in row 0 all are off (Kleitman and Spencer, 1973).
    """
    on = list(itertools.combinations(range(1, 6), 3))[:switches]
    return [[row in rows for rows in on] for row in range(6)]


def modes():
    """All pairs of modes, for each kind of model."""
    for switches, kind in itertools.product(pairs(7), KINDS):
        norm, reset, mask, carried, noise, dropout, pi_loss = switches
        gates = {} if kind == "lstm" else {"reset_gates": reset}
        how = dict(mask=mask, carried=carried, noise=noise, pi_loss=pi_loss)
        options = dict(SMALL, layer_norm=norm, recurrent_dropout=0.3 * dropout, **gates)
        yield f"{kind} {options} {how}", differ(kind, STEPS, 1, how, **options)


def through():
    """The straight-through estimators, each with a mask, a state and several tiles of cells."""
    for kind in THROUGH:
        how = dict(mask=True, carried=True)
        yield kind, differ(kind, STEPS, 2, how, **SMALL)
    with mock.patch.object(triton_forward, "CELL_TILE", 8):
        yield "tiles of cells", differ("gumbel-rao", 4, 1, {}, **SEVERAL_TILES)


def sizes():
    """Sequences shorter and longer than the memory, cells in several tiles, the least of sizes."""
    for kind, T in (("gumbel", 1), ("reinforce", 3), ("gumbel", 5)):
        yield f"{kind} odd T={T}", differ(kind, T, 1, {"carried": T == 3}, **ODD, layer_norm=True)
    with mock.patch.object(triton_forward, "CELL_TILE", 8):  # two cells at a time
        for kind in ("gumbel", "reinforce"):
            yield f"{kind} tiles of cells", differ(kind, 4, 1, {"mask": True}, **SEVERAL_TILES)
    yield "least", differ("gumbel", 3, 1, {"carried": True}, **LEAST)
    yield "no sequence", differ("gumbel", 3, 0, {}, **SMALL)
    with mock.patch.object(triton_forward, "GATE_TILE", 16):
        yield "tiles of gates", differ("lstm", 2, 1, {"mask": True}, **ODD)
    attached = make_model("reinforce", **SMALL)
    attached.estimator.attached = True
    results = [run(attached, name, STEPS, 1, mask=True) for name in ("reference", "triton")]
    yield "reinforce attached", difference(*results)[0]


def precision():
    """Products in single precision, the state in double precision; and the check of a GPU."""
    backend = select.BACKENDS["triton"]
    lower = backend._replace(
        run=lambda t, f: backend.run(t, f._replace(product_dtype=torch.float32))
    )
    with mock.patch.dict(select.BACKENDS, triton=lower):
        for kind in KINDS:
            yield f"{kind} lower", differ(kind, STEPS, 1, {"mask": True}, **SMALL, layer_norm=True)
    device = torch.device("cpu")
    yield "check", gpu_check.largest_difference(*gpu_check.problem(device, torch.float64))


if __name__ == "__main__":
    torch.set_num_threads(1)
    groups = (modes, through, sizes, precision)
    print(json.dumps({group.__name__: dict(group()) for group in groups}))
