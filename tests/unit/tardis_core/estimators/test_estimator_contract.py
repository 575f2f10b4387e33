"""What every registered estimator must do."""

import pytest
import torch

from tardis_core.build import build_network
from tardis_core.config import make_config
from tardis_core.estimators.base import ESTIMATORS, Episode, Estimator, Tried, one_hot_argmax
from tardis_core.tasks.base import TASKS

every_estimator = pytest.mark.parametrize("name", ESTIMATORS.names())
OF_ONE_CELL = [name for name in ESTIMATORS.names() if ESTIMATORS.get(name).one_cell]
SIGNATURE = TASKS.get("recall").signature


def make(name):
    kind = ESTIMATORS.get(name)
    return kind(kind.Config(), inputs=2, hidden=4)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_one_hot_argmax_marks_the_greatest_score():
    result = one_hot_argmax(torch.tensor([[0.5, -1.0, 2.0], [3.0, 3.5, -9.0]]))
    assert result.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert result.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "noisy"),
    [(name, False) for name in ESTIMATORS.names()] + [(name, True) for name in OF_ONE_CELL],
)
def test_the_read_is_exactly_the_one_hot_of_the_greatest_noisy_logit(name, noisy):
    pi, noise = 5 * draw(200, 6), 5 * draw(200, 6, seed=1)
    w = make(name).read_weights(pi, noise if noisy else None, draw(200, 4, seed=2))
    scores = pi + noise if noisy else pi
    expected = torch.zeros(200, 6)
    expected[torch.arange(200), scores.argmax(1)] = 1
    assert torch.equal(w, expected)
    assert not torch.equal(pi.argmax(1), (pi + noise).argmax(1))


@every_estimator
def test_the_view_of_the_addressing_has_the_same_values(name):
    tensor, estimator = draw(3, 4).requires_grad_(), make(name)
    view = estimator.addressing_view(tensor)
    assert torch.equal(view, tensor)
    # Score functions train the addressing alone, unless they are asked for more.
    assert view.requires_grad == (type(estimator).loss is Estimator.loss)


def test_an_estimator_asks_for_nothing_special_by_itself():
    plain = make("gumbel")
    assert (plain.copies, plain.window) == (1, 0)
    assert not plain.memory_head
    assert not plain.memory_head_attached
    with pytest.raises(NotImplementedError):
        plain.cells_to_try(draw(2, 3), torch.Generator())


@every_estimator
def test_the_loss_is_a_finite_scalar_or_none_and_its_figures_are_detached(name):
    pi = draw(5, 6, 4).requires_grad_()
    tried = Tried(torch.arange(6) % 2, torch.arange(4).expand(6, 4), -draw(5, 6, 4).abs(), None)
    episode = Episode(
        pi,
        pi.argmax(-1),
        draw(5, 6, 2),
        -draw(5, 6).abs(),
        -draw(5, 6, seed=1).abs(),
        torch.ones(5, 6),
        progress=0.1,
        tried=tried,
    )
    loss, figures = make(name).loss(episode)
    if loss is not None:
        assert loss.shape == ()
        assert loss.isfinite()
        loss.backward()
        assert pi.grad.any()
    assert not any(figure.requires_grad for figure in figures.values())
    assert all(figure.isfinite() for figure in figures.values())


@every_estimator
def test_a_read_passes_a_gradient_at_once_or_learns_from_what_follows(name):
    """Never neither; and the gradient of the logits of a step adds up to zero, as odds do."""
    estimator, pi = make(name), draw(3, 6).requires_grad_()
    noise, spare = estimator.draw_noise((3, 6), pi, torch.Generator().manual_seed(0))
    w = estimator.read_weights(pi, noise, draw(3, 4, seed=2), spare)
    assert w.requires_grad == (type(estimator).loss is Estimator.loss)
    if w.requires_grad:
        (w * draw(3, 6, seed=3)).sum().backward()
        assert pi.grad.any()
        torch.testing.assert_close(pi.grad.sum(1), torch.zeros(3), atol=1e-6, rtol=0)


@every_estimator
def test_a_read_may_have_any_number_of_axes_before_that_of_the_cells(name):
    """For a whole sequence it is what it is step by step, and so is its gradient."""
    estimator, pi, h, weight = make(name), 2 * draw(3, 5, 6), draw(3, 5, 4), draw(3, 5, 6, seed=2)
    noise, spare = estimator.draw_noise((3, 5, 6), pi, torch.Generator().manual_seed(0))

    def read(at):
        logits = pi[at].clone().requires_grad_()
        w = estimator.read_weights(logits, noise[at], h[at], None if spare is None else spare[at])
        if w.requires_grad:
            (w * weight[at]).sum().backward()
        return w.detach(), torch.zeros(()) if logits.grad is None else logits.grad

    weights, gradients = read(slice(None))
    for t in range(3):
        alone, gradient = read(t)
        torch.testing.assert_close(weights[t], alone)
        torch.testing.assert_close(gradients[t] if gradients.dim() else gradients, gradient)


def network_of(name):
    overrides = {"model.hidden": 8, "memory.cells": 4, "model.backend": "reference"}
    config = make_config("recall", "tardis", name, "smoke", overrides=overrides)
    return build_network(config, SIGNATURE).double()


@pytest.mark.parametrize("noisy", [True, False])
def test_all_estimators_run_the_same_model_given_the_same_noise(noisy):
    weights, result = None, {}
    x = draw(12, 5, SIGNATURE.inputs).double()
    for name in OF_ONE_CELL if noisy else ESTIMATORS.names():
        model = network_of(name).model
        shared = {k: v for k, v in model.state_dict().items() if not k.startswith("estimator.")}
        weights = weights or shared
        model.load_state_dict(weights, strict=False)
        noise = model.draw_noise(x, torch.Generator().manual_seed(0)) if noisy else None
        result[name], _ = model(x, None, None, noise)
    first = next(iter(result.values()))
    assert len(result) >= 2
    assert len(first.reads.read_TB.unique()) > 1
    for hidden in result.values():
        assert torch.equal(hidden.reads.read_TB, first.reads.read_TB)
        assert torch.equal(hidden.h_TBH, first.h_TBH)
        assert torch.equal(hidden.r_TBQ, first.r_TBQ)
