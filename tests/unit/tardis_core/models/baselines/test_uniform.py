"""uMANN and urMANN: TARDIS with cells drawn uniformly."""

import pytest
import torch

from tardis_core.models.base import MODELS
from tardis_core.models.tardis import CellsConfig, TardisConfig, TardisNoise
from tests.support.small_tardis import inputs, make_tardis, randomise

T, B, D, H, K = 12, 3, 3, 5, 4


def make(name, **options):
    model = MODELS.get(name)(
        D, TardisConfig(hidden=H, **options), CellsConfig(cells=K, address=2, content=3), None
    )
    return randomise(model.double(), seed=1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("reset_gates", [False, True])
def test_given_the_same_cells_urmann_is_tardis(reset_gates):
    urmann, x = make("urmann", reset_gates=reset_gates), inputs(T, B, D)
    tardis = make_tardis("gumbel", D=D, H=H, K=K, reset_gates=reset_gates, backend="reference")
    tardis.load_state_dict(
        {name: v for name, v in urmann.state_dict().items() if name != "fixed_N2"}, strict=False
    )
    noise = urmann.draw_noise(x, seeded())
    read_TB = noise.cells_TB2[..., 0]
    # A score that no logit and no penalty outweighs makes TARDIS read the same cells.
    loud = 1e6 * torch.nn.functional.one_hot(read_TB, K).double()
    expected, _ = tardis(x, noise=TardisNoise(loud, noise.reset_TB2, None))
    actual, _ = urmann(x, noise=noise)
    assert torch.equal(actual.reads.read_TB, read_TB)
    assert torch.equal(actual.reads.written_TB, expected.reads.written_TB)
    torch.testing.assert_close(actual.h_TBH, expected.h_TBH, rtol=0, atol=1e-12)
    torch.testing.assert_close(actual.r_TBQ, expected.r_TBQ, rtol=0, atol=1e-12)


def test_umann_writes_where_it_was_told_to():
    model, x = make("umann"), inputs(T, B, D)
    noise = model.draw_noise(x, seeded())
    hidden, state = model(x, noise=noise)
    assert torch.equal(hidden.reads.read_TB, noise.cells_TB2[..., 0])
    assert torch.equal(hidden.reads.written_TB, noise.cells_TB2[..., 1])
    for n in range(B):
        last_write = {int(cell): t for t, cell in enumerate(noise.cells_TB2[:, n, 1])}
        for cell in range(K):
            content = state.memory.content_BKC[n, cell]
            if cell in last_write:
                torch.testing.assert_close(content, model.W_m(hidden.h_TBH[last_write[cell], n]))
            else:
                assert not content.any()


@pytest.mark.parametrize("name", ["umann", "urmann"])
def test_cells_are_drawn_uniformly(name):
    cells = make(name).draw_noise(torch.zeros(200, 100, D), seeded()).cells_TB2
    shares = torch.bincount(cells.flatten(), minlength=K) / cells.numel()
    torch.testing.assert_close(shares, torch.full((K,), 1 / K), rtol=0, atol=0.01)
    assert (cells[..., 0] == cells[..., 1]).double().mean().item() == pytest.approx(1 / K, abs=0.01)


def test_at_evaluation_the_cells_are_spread_and_the_same_every_time():
    model, x = make("umann"), inputs(60, B, D)
    reads = model(x)[0].reads
    assert torch.equal(reads.read_TB, model(x)[0].reads.read_TB)
    assert set(reads.read_TB.unique().tolist()) == set(range(K))
    assert not torch.equal(reads.read_TB, reads.written_TB)
