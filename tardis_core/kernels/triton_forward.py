"""A whole sequence forward on a GPU: two matrix products and two kernels per step.

The state before a step is multiplied once, by all matrices that it meets: those of the gates, of
the read logits, of the micro-state that the step before writes, and of that micro-state's own read
logits, (W_c W_m) h. No number is ever needed on the host, so the loop can be captured in a graph.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tardis_core.kernels import triton_kernels as kernels
from tardis_core.kernels.inputs import Fixed, Maybe, Outputs, Trained

GATE_TILE = 256  # units per program of the gates, where no sum over all of them is needed
CELL_TILE = 4096  # numbers in a tile of cells


class Tape(NamedTuple):
    """What backward needs beside the inputs; states have one row more than there are steps."""

    z_TBG: Tensor  # alpha's and beta's logits, then f, i, o, g (normalised: before gain and bias)
    h_TBH: Tensor
    c_TBH: Tensor
    deviation_TB4: Maybe = None  # one over the deviation of each gate, with layer normalisation
    reset_TB2: Maybe = None
    r_part_TBH: Maybe = None  # W_r r and W_h h of the candidate, where there are RESET gates
    h_part_TBH: Maybe = None
    r_TBQ: Maybe = None
    pi_TBK: Maybe = None
    common_TBP: Maybe = None  # the read logits' part that all cells share
    usage_TBK: Maybe = None
    overwritten_TBC: Maybe = None  # what the written cell held before
    overwritten_row_TBP: Maybe = None  # and its part of the read logits
    read_TB: Maybe = None
    written_TB: Maybe = None
    content_BKC: Maybe = None  # after the last step
    cells_BKP: Maybe = None  # after the last step


class Sizes(NamedTuple):
    """The letters of a problem; without a memory K, P, A and C are 0."""

    T: int
    B: int
    H: int
    G: int
    K: int = 0
    P: int = 0
    A: int = 0
    C: int = 0

    @classmethod
    def of(cls, trained: Trained, fixed: Fixed) -> "Sizes":
        """The sizes of these tensors."""
        T, B, _ = trained.x_TBD.shape
        G, H = trained.W_h_GH.shape
        if trained.W_m_CH is None:
            return cls(T, B, H, G)
        K, A = fixed.address_KA.shape
        return cls(T, B, H, G, K, trained.a_P.shape[0], A, trained.W_m_CH.shape[0])

    @property
    def gates_at(self) -> int:
        """The column of the products with h at which the gates begin."""
        return self.C + self.P

    def cell_blocks(self, wide: int) -> dict[str, int]:
        """The constants of a kernel that works on cells; from `wide` numbers on it has 8 warps.

        With the wrong number of warps a kernel needs more registers than there are: which one is
        right was found by compiling, see `benchmarks.speed.gpu_kernels`.
        """
        block_p, block_q = _power(self.P), _power(max(self.A, self.C))
        rows = max(1, CELL_TILE // max(block_p, block_q))
        return {
            "K": self.K,
            "P": self.P,
            "A": self.A,
            "C": self.C,
            "BLOCK_K": _power(self.K),
            "BLOCK_P": block_p,
            "BLOCK_Q": block_q,
            "TILE_K": min(_power(self.K), rows),
            "num_warps": 4 if max(block_p, block_q, self.K) < wide else 8,
        }

    def gate_blocks(self, whole: bool) -> dict[str, int]:
        """The constants of the kernels of the gates; `whole` where sums go over all units."""
        tile = _power(self.H) if whole else min(_power(self.H), GATE_TILE)
        warps = min(16, max(2, tile // 128))
        return {"H": self.H, "G": self.G, "FIRST": self.gates_at, "TILE": tile, "num_warps": warps}

    def gate_grid(self, whole: bool) -> tuple[int, int]:
        """One program per sequence and tile."""
        return self.B, -(-self.H // self.gate_blocks(whole)["TILE"])


def _power(size: int) -> int:
    """The next power of two: Triton's ranges have no other lengths."""
    return 1 << max(0, size - 1).bit_length()


def reset_first(weights: Tensor, H: int) -> Tensor:
    """The rows of the gates in the order of the kernels: alpha, beta, f, i, o, g."""
    return weights.roll(weights.shape[0] - 4 * H, 0)


def readable(tensor: Tensor | None, otherwise: Tensor) -> Tensor:
    """A tensor as a kernel reads it; `otherwise` takes the place of one that it will not read."""
    if tensor is None:
        return otherwise
    return tensor.contiguous().view(torch.uint8 if tensor.dtype == torch.bool else tensor.dtype)


def product_dtype(trained: Trained, fixed: Fixed) -> torch.dtype:
    """The precision of the matrix products: that of the state, or a lower one."""
    return fixed.product_dtype or trained.x_TBD.dtype


def linear(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """`F.linear` with its product in `dtype`, the result in the precision of x."""
    product = F.linear(x.to(dtype), weight.to(dtype)).to(x.dtype)
    return product.add_(bias)


def state_weights(trained: Trained) -> Tensor:
    """All rows that a state is multiplied by: micro-state, its read logits, gates, read logits."""
    gates_GH = reset_first(trained.W_h_GH, trained.W_h_GH.shape[1])
    if trained.W_m_CH is None:
        return gates_GH
    row_PH = trained.read_W_c_PC @ trained.W_m_CH
    return torch.cat([trained.W_m_CH, row_PH, gates_GH, trained.read_W_h_PH])


def _gate_inputs(trained: Trained, H: int, dtype: torch.dtype) -> Tensor:
    """W_x x + b; with layer normalisation the bias of the gates comes after it."""
    b_G = reset_first(trained.b_G, H)
    if trained.gain_4H is not None:
        b_G = torch.cat([b_G[: -4 * H], torch.zeros_like(b_G[-4 * H :])])
    return linear(trained.x_TBD, reset_first(trained.W_x_GD, H), b_G, dtype)


def _tape(trained: Trained, fixed: Fixed, size: Sizes) -> Tape:
    """An empty tape, but for z, which begins as W_x x + b, and the first states."""
    T, B, H = size.T, size.B, size.H
    new: Any = trained.x_TBD.new_empty
    h_TBH, c_TBH = new(2, T + 1, B, H).unbind()
    h_TBH[0], c_TBH[0] = trained.h_BH, trained.c_BH
    tape = Tape(_gate_inputs(trained, H, product_dtype(trained, fixed)), h_TBH, c_TBH)
    if trained.gain_4H is not None:
        tape = tape._replace(deviation_TB4=new(T, B, 4))
    if fixed.reset:
        r_part_TBH, h_part_TBH = new(2, T, B, H).unbind()
        tape = tape._replace(reset_TB2=new(T, B, 2), r_part_TBH=r_part_TBH, h_part_TBH=h_part_TBH)
    if not size.K:
        return tape
    return tape._replace(
        r_TBQ=new(T, B, size.A + size.C),
        pi_TBK=new(T, B, size.K),
        common_TBP=new(T, B, size.P),
        usage_TBK=new(T, B, size.K),
        overwritten_TBC=new(T, B, size.C),
        overwritten_row_TBP=new(T, B, size.P),
        read_TB=new(T, B, dtype=torch.int64),
        written_TB=new(T, B, dtype=torch.int64),
    )


class _Memory:
    """The memory on its way through the sequence; the kernel changes it in place."""

    def __init__(self, trained: Trained, fixed: Fixed, tape: Tape, size: Sizes) -> None:
        self.trained, self.fixed, self.tape, self.size = trained, fixed, tape, size
        self._start()
        new, dtype = trained.x_TBD, product_dtype(trained, fixed)
        self.cells_BKP = F.linear(self.content_BKC, trained.read_W_c_PC) + trained.address_KP
        self.usage_logits_BP = self.reads_BK @ trained.read_W_u_PK.t()
        self.W_u_KP = trained.read_W_u_PK.t().contiguous()
        self.usage_sum_P = self.W_u_KP.sum(0)
        self.x_logits_TBP = linear(new, trained.read_W_x_PD, trained.read_b_P, dtype)
        self.address_KP = trained.address_KP.contiguous()
        self.address_KA = fixed.address_KA.contiguous()
        self.noise_TBK = readable(fixed.read_noise_TBK, new)
        self.mask_TB = readable(fixed.mask_TB, new)
        self.r_BQ = new.new_empty(size.B, size.A + size.C, dtype=dtype)

    def _start(self) -> None:
        size, new = self.size, self.trained.x_TBD
        if self.trained.content_BKC is None:
            self.content_BKC = new.new_zeros(size.B, size.K, size.C)
            self.reads_BK, self.last_BK = new.new_zeros(2, size.B, size.K).unbind()
            self.steps_B = torch.zeros(size.B, dtype=torch.int64, device=new.device)
        else:
            fixed = self.fixed
            state = self.trained.content_BKC, fixed.reads_BK, fixed.last_read_BK, fixed.steps_B
            self.content_BKC, self.reads_BK, self.last_BK, self.steps_B = (
                each.clone(memory_format=torch.contiguous_format) for each in state
            )

    def write_and_read(self, t: int, products_BW: Tensor) -> None:
        """Store the micro-state of the step before, then read; after the last step only store."""
        tape, fixed = self.tape, self.fixed
        kernels.write_and_read[(self.size.B,)](
            products_BW,
            self.x_logits_TBP,
            self.content_BKC,
            self.cells_BKP,
            self.reads_BK,
            self.last_BK,
            self.steps_B,
            self.usage_logits_BP,
            self.usage_sum_P,
            self.W_u_KP,
            self.address_KP,
            self.address_KA,
            self.trained.a_P,
            self.noise_TBK,
            self.mask_TB,
            tape.pi_TBK,
            tape.common_TBP,
            tape.usage_TBK,
            tape.overwritten_TBC,
            tape.overwritten_row_TBP,
            tape.read_TB,
            tape.written_TB,
            tape.r_TBQ,
            self.r_BQ,
            t,
            self.size.B,
            W=products_BW.shape[1],
            WRITE=t > 0,
            READ=t < self.size.T,
            NOISE=fixed.read_noise_TBK is not None,
            MASKED=fixed.mask_TB is not None,
            **self.size.cell_blocks(wide=256),
        )


class _Gates:
    """The controller: the products with what was read, and the kernel of the gates."""

    def __init__(self, trained: Trained, fixed: Fixed, tape: Tape, size: Sizes) -> None:
        self.trained, self.fixed, self.tape, self.size = trained, fixed, tape, size
        new, dtype = trained.x_TBD, product_dtype(trained, fixed)
        self.h_out_TBH = new.new_empty(size.T, size.B, size.H)
        # The state as the products have it.
        self.h_BH = trained.h_BH.to(dtype, copy=True, memory_format=torch.contiguous_format)
        self.r_products_BG = new.new_empty(size.B, size.G, dtype=dtype)
        self.W_r_QG: Maybe = None
        if size.K:
            self.W_r_QG = reset_first(trained.W_r_GQ, size.H).t().to(dtype)
        self.gain_4H = readable(trained.gain_4H, new)
        self.bias_4H = trained.b_G[: 4 * size.H].contiguous()
        self.reset_noise_TB2 = readable(fixed.reset_noise_TB2, new)
        self.dropout_TBH = readable(fixed.dropout_TBH, new)
        self.mask_TB = readable(fixed.mask_TB, new)

    def step(self, t: int, products_BW: Tensor, r_BQ: Tensor | None) -> None:
        """Eqs. (7) to (10)."""
        tape, size, fixed, none = self.tape, self.size, self.fixed, self.h_BH
        if r_BQ is not None:
            torch.mm(r_BQ, self.W_r_QG, out=self.r_products_BG)
        whole = self.trained.gain_4H is not None
        kernels.gates[size.gate_grid(whole)](
            products_BW,
            self.r_products_BG,
            tape.z_TBG,
            readable(tape.r_part_TBH, none),
            readable(tape.h_part_TBH, none),
            readable(tape.deviation_TB4, none),
            self.gain_4H,
            self.bias_4H,
            readable(tape.reset_TB2, none),
            self.reset_noise_TB2,
            self.dropout_TBH,
            self.mask_TB,
            tape.h_TBH,
            tape.c_TBH,
            self.h_out_TBH,
            self.h_BH,
            t,
            size.B,
            W=products_BW.shape[1],
            MEMORY=r_BQ is not None,
            RESET=fixed.reset,
            RESET_NOISE=fixed.reset_noise_TB2 is not None,
            NORM=whole,
            DROPOUT=fixed.dropout_TBH is not None,
            MASKED=fixed.mask_TB is not None,
            **size.gate_blocks(whole),
        )


def forward(trained: Trained, fixed: Fixed) -> tuple[Outputs, Tape]:
    """Run Algorithm 1; the tensors of the tape are the outputs' own where they are the same."""
    size = Sizes.of(trained, fixed)
    tape = _tape(trained, fixed, size)
    gates = _Gates(trained, fixed, tape, size)
    memory = _Memory(trained, fixed, tape, size) if size.K else None
    weights_HW = state_weights(trained).t().to(product_dtype(trained, fixed))
    products_BW = weights_HW.new_empty(size.B, weights_HW.shape[1])
    for t in range(size.T if size.B else 0):
        torch.mm(gates.h_BH, weights_HW, out=products_BW)
        if memory is not None:
            memory.write_and_read(t, products_BW)
        gates.step(t, products_BW, None if memory is None else memory.r_BQ)
    if memory is not None:
        if size.B:
            torch.mm(gates.h_BH, weights_HW, out=products_BW)
            memory.write_and_read(size.T, products_BW)
        tape = tape._replace(content_BKC=memory.content_BKC, cells_BKP=memory.cells_BKP)
    return _outputs(gates.h_out_TBH, memory, tape), tape


def _outputs(h_out_TBH: Tensor, memory: _Memory | None, tape: Tape) -> Outputs:
    return Outputs(
        h_TBH=h_out_TBH,
        r_TBQ=tape.r_TBQ,
        pi_TBK=tape.pi_TBK,
        reset_TB2=tape.reset_TB2,
        h_BH=tape.h_TBH[-1].clone(),  # not a piece of the sequence, which it would keep in memory
        c_BH=tape.c_TBH[-1].clone(),
        content_BKC=tape.content_BKC,
        read_TB=tape.read_TB,
        written_TB=tape.written_TB,
        reads_BK=None if memory is None else memory.reads_BK,
        last_read_BK=None if memory is None else memory.last_BK,
        steps_B=None if memory is None else memory.steps_B,
    )
