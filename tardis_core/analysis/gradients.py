"""The flow of gradients through time: dh_t1/dh_t0 = Q + R (the paper's section on gradient flow).

Q goes along the recurrence alone. R is everything that goes through at least one wormhole: a step
reads a cell, and the cell holds W_m h of the step that wrote it, its source.

The paper writes this for h_t = f(W h_{t-1} + V r_t + U x_t). Here the recurrence carries the cell
c of the LSTM beside h, so a step is s_t = (h_t, c_t), with

    A_t = ds_t / ds_{t-1}                       the recurrence
    B_t = ds_t / dh_{source(t)} = (ds_t / dr_t) W_m     the wormhole

and the derivatives of s_t with respect to h_t0 (c_t0 held fixed) follow step by step:

    Q_t = A_t Q_{t-1}                           from Q_t0 = (I, 0)
    R_t = A_t R_{t-1} + B_t (Q + R)_source(t)   from R_t0 = 0, where source(t) >= t0

The choice of the cell is discrete: as in the paper, and as in the model at evaluation, no gradient
passes it. Letters: T steps, H hidden, S = 2H, D distances.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tardis_core.analysis.access import NEVER, sources
from tardis_core.errors import UserError
from tardis_core.models.base import SequenceModel
from tardis_core.models.baselines.lstm import Lstm
from tardis_core.models.controller import Controller, ControllerState
from tardis_core.models.tardis import WormholeModel


class StepJacobians(NamedTuple):
    """What one step does to a change of what it depends on, for all steps of one sequence."""

    recurrence_TSS: Tensor  # A
    wormhole_TSH: Tensor | None  # B; None for a model without a memory
    source_T: np.ndarray  # NEVER where nothing was read that had been written


class Split(NamedTuple):
    """dh_t/dh_t0 in its two parts, for t from t0 on: the first is I and 0."""

    Q_THH: Tensor
    R_THH: Tensor


class Norms(NamedTuple):
    """Norms of the parts and of their sum; the last axis is the distance t - t0."""

    Q: np.ndarray
    R: np.ndarray
    sum: np.ndarray


@torch.no_grad()
def step_jacobians(model: SequenceModel, x_TD: Tensor) -> StepJacobians:
    """A_t and B_t along one sequence of encoded inputs, run as at evaluation, in float64."""
    if not isinstance(model, Lstm | WormholeModel):
        raise UserError(
            "the flow of gradients is known for the LSTM and models with TARDIS's memory, not for "
            f"{type(model).__name__}"
        )
    model = copy.deepcopy(model).double()
    x_T1D = x_TD.double().unsqueeze(1)
    hidden, _ = model(x_T1D)
    controller, r_T1Q = model.controller, hidden.r_TBQ
    zx_T1G = controller.project_inputs(x_T1D)
    zeros_1H = x_T1D.new_zeros(1, controller.hidden)
    state = ControllerState(zeros_1H, zeros_1H)
    jacobians = []
    for t, zx_1G in enumerate(zx_T1G):
        r_1Q = None if r_T1Q is None else r_T1Q[t]
        jacobians.append(_one_step(controller, zx_1G, r_1Q, state))
        state, _ = controller(zx_1G, r_1Q, state)
    recurrence_TSS = torch.stack([A_SS for A_SS, _ in jacobians])
    if not isinstance(model, WormholeModel):
        return StepJacobians(recurrence_TSS, None, np.full(len(x_TD), NEVER))
    of_read_TSQ = torch.stack([of_read_SQ for _, of_read_SQ in jacobians if of_read_SQ is not None])
    of_content_TSC = of_read_TSQ[..., model.memory_config.address :]  # addresses do not change
    reads = hidden.reads
    assert reads is not None, "models with wormholes report their reads"
    source_T1 = sources(reads.read_TB.numpy(), reads.written_TB.numpy(), model.memory_config.cells)
    return StepJacobians(recurrence_TSS, of_content_TSC @ model.W_m.weight, source_T1[:, 0])


def _one_step(
    controller: Controller, zx_1G: Tensor, r_1Q: Tensor | None, state: ControllerState
) -> tuple[Tensor, Tensor | None]:
    """The derivatives of (h, c) by (h, c) of the step before and by what was read."""
    hidden = controller.hidden

    def step(s_S: Tensor, r_Q: Tensor | None) -> Tensor:
        before = ControllerState(s_S[None, :hidden], s_S[None, hidden:])
        after, _ = controller(zx_1G, None if r_Q is None else r_Q[None], before)
        return torch.cat(after, 1)[0]

    s_S = torch.cat(state, 1)[0]
    if r_1Q is None:
        return torch.func.jacrev(lambda s: step(s, None))(s_S), None
    A_SS, of_read_SQ = torch.func.jacrev(step, argnums=(0, 1))(s_S, r_1Q[0])
    return A_SS, of_read_SQ


def split_jacobians(steps: StepJacobians, start: int) -> Split:
    """Q and R of dh_t/dh_start for every t from `start` to the end."""
    S = steps.recurrence_TSS.shape[1]
    identity_SH = torch.eye(S, S // 2, dtype=steps.recurrence_TSS.dtype)
    Q, R = [identity_SH], [torch.zeros_like(identity_SH)]
    for t in range(start + 1, len(steps.recurrence_TSS)):
        A_SS, source = steps.recurrence_TSS[t], int(steps.source_T[t])
        Q.append(A_SS @ Q[-1])
        R.append(A_SS @ R[-1])
        if steps.wormhole_TSH is not None and source >= start:
            of_source_SH = Q[source - start] + R[source - start]
            R[-1] = R[-1] + steps.wormhole_TSH[t] @ of_source_SH[: S // 2]
    return Split(torch.stack(Q)[:, : S // 2], torch.stack(R)[:, : S // 2])


def norms(split: Split, order: int | str = 2) -> Norms:
    """Norms by distance: order 2 is the largest singular value, "fro" that of Frobenius."""

    def norm(matrices_THH: Tensor) -> np.ndarray:
        return torch.linalg.matrix_norm(matrices_THH, order).numpy()

    return Norms(norm(split.Q_THH), norm(split.R_THH), norm(split.Q_THH + split.R_THH))


def all_norms(steps: StepJacobians, order: int | str = 2) -> Norms:
    """Norms from every start (first axis) over every distance; not a number past the end."""
    length = len(steps.source_T)
    result = Norms(*(np.full((length, length), np.nan) for _ in Norms._fields))
    for start in range(length):
        for into, values in zip(result, norms(split_jacobians(steps, start), order), strict=True):
            into[start, : length - start] = values
    return result


def over_pairs(sequences: Sequence[Norms], percentile: float = 50) -> Norms:
    """Norms against distance over all pairs of steps: the median, or another percentile.

    Norms spread over many powers of ten, so a mean would show the few greatest alone. A wormhole
    joins few pairs of steps, so what it does shows at the upper percentiles first.

    Args:
        sequences: `all_norms` of sequences of one length.
    """
    parts = zip(*sequences, strict=True)
    return Norms(*(np.nanpercentile(np.concatenate(part), percentile, axis=0) for part in parts))
