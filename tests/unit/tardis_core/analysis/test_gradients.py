"""The split Jacobians are the ones that autograd finds, and the theorem's case holds."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tardis_core.analysis.gradients import (
    StepJacobians,
    all_norms,
    norms,
    over_pairs,
    split_jacobians,
    step_jacobians,
)
from tardis_core.errors import UserError
from tardis_core.estimators.base import Estimator
from tardis_core.estimators.gumbel import Gumbel, GumbelConfig
from tardis_core.models.base import SequenceModel
from tardis_core.models.baselines.lstm import Lstm
from tardis_core.models.controller import ControllerState, LstmConfig
from tardis_core.models.tardis import MemoryConfig, Tardis, TardisConfig, TardisState

INPUTS, HIDDEN, STEPS = 3, 5, 12


def tardis(seed: int = 0, *, cells: int = 3, estimator: Estimator | None = None, **model) -> Tardis:
    torch.manual_seed(seed)
    config = TardisConfig(hidden=HIDDEN, backend="reference", **model)
    memory = MemoryConfig(cells=cells, address=2, content=4)
    chooser = estimator or Gumbel(GumbelConfig(), INPUTS, HIDDEN)
    return Tardis(INPUTS, config, memory, chooser).double()


def inputs(seed: int = 0, steps: int = STEPS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(steps, INPUTS, generator=generator, dtype=torch.float64)


def whole_jacobian(model: Tardis, x_TD: Tensor, start: int) -> Tensor:
    """dh_t/dh_start of every later step by autograd through the model itself.

    The model runs up to `start`; there h is made a free variable, in the controller and in the
    cell that was just written from it; then the model runs on.
    """
    hidden, state = model(x_TD[: start + 1, None])
    cell = int(hidden.reads.written_TB[start, 0])

    def run_on(h_H: Tensor) -> Tensor:
        content = state.memory.content_BKC.clone()
        content[0, cell] = model.W_m(h_H)
        changed = TardisState(
            ControllerState(h_H[None], state.controller.c_BH),
            state.memory._replace(content_BKC=content),
        )
        return model(x_TD[start + 1 :, None], changed)[0].h_TBH[:, 0]

    return torch.autograd.functional.jacobian(run_on, hidden.h_TBH[start, 0].detach())


def recurrent_jacobian(model: SequenceModel, x_TD: Tensor, start: int) -> Tensor:
    """The same with all that was read held fixed: Q."""
    hidden, _ = model(x_TD[:, None])
    state = model.initial_state(1, x_TD)
    state = state.controller if isinstance(state, TardisState) else state
    zx_TBG = model.controller.project_inputs(x_TD[:, None])
    reads = [None] * len(x_TD) if hidden.r_TBQ is None else hidden.r_TBQ.detach()
    for t in range(start + 1):
        state, _ = model.controller(zx_TBG[t], reads[t], state)
    state_at_start = state

    def run_on(h_H: Tensor) -> Tensor:
        state, result = ControllerState(h_H[None], state_at_start.c_BH), []
        for t in range(start + 1, len(x_TD)):
            state, _ = model.controller(zx_TBG[t], reads[t], state)
            result.append(state.h_BH[0])
        return torch.stack(result)

    return torch.autograd.functional.jacobian(run_on, state_at_start.h_BH[0].detach())


@pytest.mark.parametrize("start", [0, 2, 7])
@pytest.mark.parametrize(
    "settings",
    [{}, {"reset_gates": False}, {"layer_norm": True}],
    ids=["reset gates", "no reset gates", "layer norm"],
)
def test_the_parts_are_those_of_autograd(settings, start):
    model, x_TD = tardis(seed=start, **settings), inputs(start)
    steps = step_jacobians(model, x_TD)
    assert (steps.source_T >= start).sum() > 2, "there are wormholes to be seen"
    split = split_jacobians(steps, start)
    Q_THH = recurrent_jacobian(model, x_TD, start)
    torch.testing.assert_close(split.Q_THH[1:], Q_THH)
    torch.testing.assert_close(
        split.Q_THH[1:] + split.R_THH[1:], whole_jacobian(model, x_TD, start)
    )
    assert float(split.R_THH.abs().max()) > 1e-4


def test_the_lstm_has_a_recurrence_alone():
    torch.manual_seed(0)
    model = Lstm(INPUTS, LstmConfig(hidden=HIDDEN, backend="reference"), None, None).double()
    x_TD = inputs()
    split = split_jacobians(step_jacobians(model, x_TD), 3)
    torch.testing.assert_close(split.Q_THH[1:], recurrent_jacobian(model, x_TD, 3))
    assert not split.R_THH.any()


def test_a_model_in_float32_and_any_backend_gives_the_same():
    model, x_TD = tardis(), inputs()
    single = Tardis(INPUTS, TardisConfig(hidden=HIDDEN), model.memory_config, model.estimator)
    single.load_state_dict(model.state_dict())
    ours = split_jacobians(step_jacobians(single, x_TD.float()), 0)
    torch.testing.assert_close(
        ours.Q_THH, split_jacobians(step_jacobians(model, x_TD), 0).Q_THH, rtol=1e-4, atol=1e-6
    )
    assert single.W_m.weight.dtype == torch.float32, "the model itself stays as it is"


def test_norms_by_hand():
    # One step of a recurrence that halves h, and a wormhole that brings back all of it.
    half, whole = 0.5 * torch.eye(4), torch.eye(4, 2)
    steps = StepJacobians(torch.stack([half] * 3), torch.stack([whole] * 3), np.array([-1, -1, 0]))
    split = split_jacobians(steps, 0)
    actual = norms(split)
    assert actual.Q.tolist() == [1, 0.5, 0.25]
    assert actual.R.tolist() == [0, 0, 1]
    assert actual.sum.tolist() == [1, 0.5, 1.25]
    np.testing.assert_allclose(norms(split, "fro").R, [0, 0, np.sqrt(2)])


def test_over_pairs_takes_percentiles_over_pairs_of_equal_distance():
    sequences = [all_norms(step_jacobians(tardis(), inputs(seed))) for seed in (0, 1)]
    at_three = [float(each.sum[start, 3]) for each in sequences for start in range(STEPS - 3)]
    assert over_pairs(sequences).sum[3] == pytest.approx(np.median(at_three))
    assert over_pairs(sequences, 90).sum[3] == pytest.approx(np.percentile(at_three, 90))
    assert over_pairs(sequences).Q[0] == 1


def test_all_norms_are_those_from_each_start():
    steps = step_jacobians(tardis(), inputs())
    actual = all_norms(steps)
    from_four = norms(split_jacobians(steps, 4))
    np.testing.assert_allclose(actual.R[4, : STEPS - 4], from_four.R)
    assert np.isnan(actual.R[4, STEPS - 4 :]).all()


class Scheduled(Estimator):
    """Reads the cells it is told to, one per step."""

    def __init__(self, cells: list[int]) -> None:
        super().__init__(None, INPUTS, HIDDEN)
        self.cells, self.step = cells, 0

    def read_weights(self, pi_BK, noise_BK, h_BH, spare_BSK=None):
        cell = self.cells[self.step % len(self.cells)]
        self.step += 1
        return torch.nn.functional.one_hot(torch.tensor([cell]), pi_BK.shape[1]).to(pi_BK.dtype)


@pytest.mark.parametrize("distance", [20, 40, 80])
def test_with_a_perfect_read_the_gradient_does_not_vanish(distance):
    """The paper's theorem: T cells, every state in a cell of its own, t1 reads the cell of t0."""
    nowhere = distance + 2  # a cell that is never written
    reads = [nowhere] * distance + [0]  # the last step reads what the first one wrote
    model = tardis(cells=distance + 3, estimator=Scheduled(reads), forget_bias=-2.0)
    steps = step_jacobians(model, inputs(steps=distance + 1))
    assert steps.source_T[-1] == 0
    actual = norms(split_jacobians(steps, 0))
    read_once = float(torch.linalg.matrix_norm(steps.wormhole_TSH[-1, :HIDDEN], 2))
    assert actual.Q[-1] < 1e-6, "along the recurrence it has vanished"
    assert actual.sum[-1] == pytest.approx(read_once, rel=1e-4), "diag f' V A, at any distance"
    assert read_once > 0.02


def test_a_model_of_another_kind_is_refused():
    class Other(SequenceModel):
        def initial_state(self, batch, like): ...
        def draw_noise(self, x_TBD, generator): ...
        def forward(self, x_TBD, state=None, mask_TB=None, noise=None): ...

    with pytest.raises(
        UserError, match="for the LSTM and models with TARDIS's memory, not for Other"
    ):
        step_jacobians(Other(), inputs())
