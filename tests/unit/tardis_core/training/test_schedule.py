"""The learning rate of every update, by hand and as a property."""

from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_core.errors import UserError
from tardis_core.training.schedule import TrainingConfig, learning_rate


def rates(**chosen) -> list[float]:
    config = TrainingConfig(**chosen)
    return [learning_rate(update, config) for update in range(config.updates)]


def test_a_constant_rate_stays():
    assert rates(updates=4, learning_rate=0.5) == [0.5] * 4


def test_warm_up_rises_in_equal_steps_to_the_full_rate():
    expected = [0.1, 0.2, 0.3, 0.4, 0.4, 0.4]
    assert rates(updates=6, learning_rate=0.4, warmup=4) == pytest.approx(expected)


def test_linear_decay_falls_in_equal_steps_from_its_start_to_the_last_update():
    chosen = {"updates": 9, "learning_rate": 1.0, "final_rate": 0.2, "decay": "linear"}
    expected = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    assert rates(**chosen, decay_from=0.0) == pytest.approx(expected)


def test_linear_decay_starts_where_it_is_told():
    chosen = {"updates": 10, "learning_rate": 1.0, "final_rate": 0.2, "decay": "linear"}
    expected = [1.0] * 6 + [0.8, 0.6, 0.4, 0.2]
    assert rates(**chosen, decay_from=0.5) == pytest.approx(expected)


def test_cosine_decay_is_half_a_wave():
    chosen = {"updates": 5, "learning_rate": 1.0, "final_rate": 0.0, "decay": "cosine"}
    expected = [1.0, 0.85355339, 0.5, 0.14644661, 0.0]
    assert rates(**chosen, decay_from=0.0) == pytest.approx(expected)


def test_warm_up_comes_before_decay():
    chosen = {"updates": 5, "learning_rate": 1.0, "final_rate": 0.2, "decay": "linear"}
    expected = [0.5, 1.0, 0.6, 0.4, 0.2]
    assert rates(**chosen, decay_from=0.0, warmup=2) == pytest.approx(expected)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize("decay_from", [0.0, 0.5, 0.85])
def test_the_last_update_has_the_final_rate(decay, decay_from):
    chosen = {"updates": 10, "learning_rate": 1.0, "final_rate": 0.2}
    assert rates(**chosen, decay=decay, decay_from=decay_from)[-1] == pytest.approx(0.2)


@pytest.mark.parametrize("decay", ["linear", "cosine"])
@pytest.mark.parametrize(
    ("leaves_one", "leaves_none"),
    [({"decay_from": 0.85}, {"decay_from": 0.9}), ({"warmup": 9}, {"warmup": 10})],
)
def test_the_help_says_when_the_last_update_has_the_final_rate(decay, leaves_one, leaves_none):
    chosen = {"updates": 10, "learning_rate": 1.0, "final_rate": 0.2, "decay": decay}
    assert rates(**chosen, **leaves_one)[-1] == pytest.approx(0.2)
    assert rates(**chosen, **leaves_none)[-1] == 1.0
    (field,) = (each for each in fields(TrainingConfig) if each.name == "final_rate")
    assert "warmup and decay_from must leave at least one update" in field.metadata["help"]


def test_after_the_end_the_rate_stays_at_the_final_one():
    config = TrainingConfig(updates=10, learning_rate=1.0, final_rate=0.2, decay="linear")
    assert learning_rate(99, config) == pytest.approx(0.2)


@pytest.mark.parametrize("rate", [0, -0.1, 10, 11])
def test_a_learning_rate_is_above_0_and_below_10(rate):
    with pytest.raises(UserError, match=rf"above 0 and below 10, not {rate}$"):
        TrainingConfig(learning_rate=rate)


def test_a_decay_must_not_rise():
    with pytest.raises(UserError, match=r"final_rate must be at most .*0\.001, not 0\.01$"):
        TrainingConfig(learning_rate=0.001, final_rate=0.01, decay="linear")


def test_a_constant_rate_may_lie_below_the_final_rate_that_it_does_not_use():
    assert rates(updates=2, learning_rate=1e-6) == [1e-6] * 2


@st.composite
def schedules(draw) -> TrainingConfig:
    rate = draw(st.floats(1e-6, 9))
    return TrainingConfig(
        updates=draw(st.integers(1, 60)),
        learning_rate=rate,
        warmup=draw(st.integers(0, 70)),
        decay=draw(st.sampled_from(["constant", "linear", "cosine"])),
        decay_from=draw(st.floats(0, 1, exclude_max=True)),
        final_rate=draw(st.floats(0, rate)),
    )


@given(schedules())
def test_after_warm_up_the_rate_falls_and_stays_between_its_ends(config):
    after = [learning_rate(update, config) for update in range(config.warmup, config.updates)]
    slack = 1e-12 * config.learning_rate
    assert all(config.final_rate - slack <= rate <= config.learning_rate + slack for rate in after)
    assert all(later <= sooner + slack for sooner, later in pairwise(after))


@given(schedules())
def test_warm_up_rises_and_never_exceeds_the_full_rate(config):
    rising = [learning_rate(update, config) for update in range(config.warmup)]
    assert rising == sorted(rising)
    assert all(0 < rate <= config.learning_rate * (1 + 1e-12) for rate in rising)
