"""Path lengths against closed forms, hand-made cases and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_core.analysis.access import record_access, sources
from tardis_core.analysis.paths import (
    Choices,
    cell_lengths,
    expected_cell_length,
    mean_by_distance,
    shortest_paths,
    simulate,
)
from tardis_core.build import build_network, build_task
from tardis_core.config import make_config
from tardis_core.errors import UserError


def column(*values: int) -> np.ndarray:
    return np.array(values)[:, None]


# Question 1


@pytest.mark.parametrize("kind", ["tardis", "umann"])
@pytest.mark.parametrize(("steps", "cells"), [(200, 50), (60, 20), (100, 5), (30, 1), (8, 10)])
def test_the_closed_form_holds_within_the_error_of_the_simulation(kind, steps, cells):
    count = 4000
    length_NK = cell_lengths(simulate(kind, steps, cells, count, np.random.default_rng(1)))
    expected = expected_cell_length(steps, cells)
    error = length_NK.std(0) / np.sqrt(count)
    assert (np.abs(length_NK.mean(0) - expected) <= 4.5 * error + 1e-9).all(), "for every cell"
    assert abs(length_NK.mean() - expected) <= 4 * length_NK.mean(1).std() / np.sqrt(count) + 1e-9


def test_the_length_of_a_cell_of_tardis_counts_its_visits():
    result = simulate("tardis", 30, 4, 10, np.random.default_rng(0))
    visits_NK = (result.read_TN[4:, :, None] == np.arange(4)).sum(0)
    np.testing.assert_array_equal(cell_lengths(result), visits_NK)


def test_cell_lengths_by_hand():
    #    steps 0 and 1 fill; 2: 0 -> 1 (1); 3: 1 -> 0 (2); 4: 0 -> 0 (3)
    result = Choices(column(0, 0, 0, 1, 0), column(0, 1, 1, 0, 0), cells=2)
    assert cell_lengths(result).tolist() == [[3, 1]]


def test_the_kinds_write_where_the_paper_says():
    rng = np.random.default_rng(0)
    tardis = simulate("tardis", 9, 3, 5, rng)
    assert (tardis.written_TN[:3] == column(0, 1, 2)).all()
    assert (tardis.written_TN[3:] == tardis.read_TN[3:]).all()
    in_turn = simulate("urmann", 7, 3, 5, rng)
    assert (in_turn.written_TN == column(0, 1, 2, 0, 1, 2, 0)).all()
    anywhere = simulate("umann", 2000, 4, 1, rng)
    for head_TN in (anywhere.read_TN, anywhere.written_TN):
        shares = np.bincount(head_TN[:, 0], minlength=4) / 2000
        np.testing.assert_allclose(shares, 0.25, atol=0.05)
    assert (anywhere.read_TN == anywhere.written_TN).mean() == pytest.approx(0.25, abs=0.05)


# Question 2


def brute_force(source_T: list[int], start: int, end: int) -> tuple[int, int]:
    """Length and recurrent edges of the best of all paths, every one of them walked."""

    def walks(t: int, recurrent: int, edges: int):
        if t == start:
            yield edges, -recurrent
        elif t > start:
            yield from walks(t - 1, recurrent + 1, edges + 1)
            if source_T[t] >= start:
                yield from walks(source_T[t], recurrent, edges + 1)

    length, outside = min(walks(end, 0, 0))
    return length, -outside


@given(st.data())
def test_shortest_paths_are_those_of_brute_force(data):
    steps = data.draw(st.integers(1, 9))
    source_T = [data.draw(st.integers(-1, t - 1)) for t in range(steps)]
    start = data.draw(st.integers(0, steps - 1))
    actual = shortest_paths(column(*source_T), start)
    for end in range(start, steps):
        both = actual.length_TN[end, 0], actual.outside_TN[end, 0]
        assert both == brute_force(source_T, start, end)
    assert (actual.length_TN[:start] == -1).all()


def test_shortest_path_by_hand():
    #       0   1  2  3  4  5    a wormhole from 4 to 1: 5 -> 4 -> 1 -> 0
    source = [-1, 0, -1, -1, 1, 4]
    actual = shortest_paths(column(*source), 0)
    assert actual.length_TN[:, 0].tolist() == [0, 1, 2, 3, 2, 3]
    # The reads of the step before (1 and 5) shorten nothing, so they do not count as used.
    assert actual.outside_TN[:, 0].tolist() == [0, 1, 2, 3, 1, 2]


def test_without_wormholes_the_path_is_the_distance():
    nowhere = np.full((10, 3), -1)
    actual = mean_by_distance(nowhere)
    assert actual.length_TN.tolist() == list(range(10))
    assert actual.outside_TN.tolist() == list(range(10))


@pytest.mark.parametrize("kind", ["tardis", "umann", "urmann"])
def test_one_cell_shortens_nothing_and_more_cells_do(kind):
    lengths = []
    for cells in (1, 2, 5, 15):
        result = simulate(kind, 50, cells, 200, np.random.default_rng(0))
        actual = shortest_paths(sources(*result), 4)
        lengths.append(actual.length_TN[49].mean())
    assert lengths[0] == 45
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 10


def test_mean_by_distance_averages_over_all_pairs():
    source_TN = sources(*simulate("tardis", 12, 3, 4, np.random.default_rng(2)))
    mean = mean_by_distance(source_TN)
    for distance in (0, 5, 11):
        lengths = [
            shortest_paths(source_TN, start).length_TN[start + distance]
            for start in range(12 - distance)
        ]
        assert mean.length_TN[distance] == pytest.approx(np.mean(lengths))


def test_the_measures_fit_the_reads_of_a_model():
    config = make_config("copy", scale="smoke", overrides={"memory.cells": 3})
    task = build_task(config, None)
    batch = task.examples("valid", [0])
    access = record_access(build_network(config, task.signature), task, batch)[0]
    read_TN, written_TN = access.read_T[:, None], access.written_T[:, None]
    lengths = cell_lengths(Choices(read_TN, written_TN, access.cells))
    assert lengths.sum() == access.steps - 3  # a visit a step once the memory is full
    actual = shortest_paths(access.source_T[:, None], 0)
    assert (actual.length_TN[:, 0] <= np.arange(access.steps)).all()


# What is refused


def test_bad_input_gets_one_sentence():
    rng = np.random.default_rng(0)
    with pytest.raises(UserError, match=r"unknown kind of memory 'ntm'.*tardis, umann, urmann"):
        simulate("ntm", 5, 2, 1, rng)
    with pytest.raises(UserError, match="at least 1 of cells, not 0"):
        simulate("tardis", 5, 0, 1, rng)
    with pytest.raises(UserError, match="from 0 to 4, not at 5"):
        shortest_paths(np.full((5, 1), -1), 5)
