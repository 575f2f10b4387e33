"""The memory accesses of a model on a sequence: reads, writes, and where each read leads.

Letters: T steps, N sequences side by side, K cells.
"""

from dataclasses import dataclass

import numpy as np
import torch

from tardis_core.errors import UserError
from tardis_core.models.base import Hidden
from tardis_core.models.baselines.dntm import Dntm
from tardis_core.models.network import Network
from tardis_core.tasks.base import Batch, Task

NEVER = -1  # the source of a read from a cell that holds nothing


@dataclass(frozen=True)
class Access:
    """The memory access of one sequence, from an empty memory on."""

    labels: tuple[str, ...]  # what went in at each step, for people
    scored_T: np.ndarray  # True where the model is judged by its answer
    read_T: np.ndarray  # the cell that was read
    written_T: np.ndarray  # the cell that was written, after the read
    source_T: np.ndarray  # the step that wrote what was read: the wormhole; NEVER if none did
    probability_TK: np.ndarray  # softmax of the read logits: how sure the choice was
    alpha_T: np.ndarray | None  # RESET gates, where the model has them: how open to r,
    beta_T: np.ndarray | None  # and to h

    @property
    def steps(self) -> int:
        """T"""
        return len(self.read_T)

    @property
    def cells(self) -> int:
        """K"""
        return int(self.probability_TK.shape[1])

    @property
    def usage_TK(self) -> np.ndarray:
        """How often each cell was read so far, this step included (Eq. 6 centres and scales it)."""
        return np.cumsum(self.read_T[:, None] == np.arange(self.cells), axis=0)


def sources(read_TN: np.ndarray, written_TN: np.ndarray, cells: int) -> np.ndarray:
    """The step at which what is read was written; a step reads first and writes then.

    Returns:
        source_TN, NEVER where the cell was empty
    """
    steps, count = read_TN.shape
    last_NK = np.full((count, cells), NEVER)  # the step of the last write to each cell
    everyone = np.arange(count)
    source_TN = np.empty((steps, count), np.int64)
    for t in range(steps):
        source_TN[t] = last_NK[everyone, read_TN[t]]
        last_NK[everyone, written_TN[t]] = t
    return source_TN


@torch.no_grad()
def record_access(network: Network, task: Task, batch: Batch) -> list[Access]:
    """Run the network over sequences as at evaluation; steps that do not exist are left out.

    Raises:
        UserError: if the model does not choose single cells, as the LSTM does not
    """
    device = next(network.parameters()).device
    moved = batch.to(device)
    prediction, _ = network(moved.inputs, None, moved.mask_TB)
    hidden = prediction.hidden
    if hidden.reads is None:
        raise UserError(
            "only a model that reads one memory cell per step can be inspected; "
            f"{type(network.model).__name__} does not"
        )
    holds_K = np.ones(hidden.reads.pi_TBK.shape[2], bool)
    if isinstance(network.model, Dntm):
        holds_K = network.model.used_K.cpu().numpy() > 0  # all but the NO-OP cell
    columns = range(batch.inputs.shape[1])
    return [_column(hidden, task, batch, column, holds_K) for column in columns]


def _column(hidden: Hidden, task: Task, batch: Batch, column: int, holds_K: np.ndarray) -> Access:
    """The access of one sequence of a batch; `holds_K` says which cells hold what is written."""
    mask_TB = batch.mask_TB
    exists_T = (
        np.ones(len(batch.inputs), bool) if mask_TB is None else mask_TB[:, column].cpu().numpy()
    )

    def of(values: torch.Tensor) -> np.ndarray:
        return values[:, column].cpu().numpy()[exists_T]

    reads, reset_TB2 = hidden.reads, hidden.reset_TB2
    assert reads is not None
    read_T, written_T = of(reads.read_TB), of(reads.written_TB)
    reset_T2 = None if reset_TB2 is None else of(reset_TB2)
    labels = task.labels(batch, column)
    source_T = sources(read_T[:, None], written_T[:, None], len(holds_K))[:, 0]
    return Access(
        labels=tuple(label for label, exists in zip(labels, exists_T, strict=True) if exists),
        scored_T=of(batch.scored_TB),
        read_T=read_T,
        written_T=written_T,
        source_T=np.where(holds_K[read_T], source_T, NEVER),
        probability_TK=of(reads.pi_TBK.softmax(-1)),
        alpha_T=None if reset_T2 is None else reset_T2[:, 0],
        beta_T=None if reset_T2 is None else reset_T2[:, 1],
    )
