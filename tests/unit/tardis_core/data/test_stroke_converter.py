"""From images to strokes: each step by hand, properties on random images, reference digits."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tardis_core.data import mnist
from tardis_core.data import stroke_converter as converter


def grid(text):
    """An image drawn with # for ink."""
    return np.array([[mark == "#" for mark in line] for line in text.split()])


def image_of(text):
    return grid(text).astype(np.uint8) * 255


def rows_of(text):
    return np.array([line.split() for line in text.strip().splitlines()], int)


def rng(seed=0):
    return np.random.default_rng(seed)


def points_of(rows):
    """The points that rows visit, in their order, counted from 1."""
    visits = np.cumsum(rows[:, :2].astype(int), axis=0)[rows[:, 2] == 0]
    return [tuple(point) for point in visits.tolist()]


grey_images = arrays(
    np.uint8, (12, 12), elements=st.sampled_from([0, 0, 0, 20, 60, 130, 200, 240, 255])
)
inks = arrays(np.bool_, (9, 9))


# ---------------------------------------------------------------------------------- thresholds


def count_by_flood(ink, steps):
    todo, count = set(map(tuple, np.argwhere(ink).tolist())), 0
    while todo:
        count, front = count + 1, [todo.pop()]
        while front:
            y, x = front.pop()
            near = {(y + dy, x + dx) for dy, dx in steps} & todo
            todo -= near
            front += near
    return count


@given(inks)
@settings(max_examples=100, deadline=None)
def test_parts_are_counted_as_a_flood_counts_them(ink):
    four, eight = converter.count_parts(ink[None])[0]
    assert four == count_by_flood(ink, converter.CLOCKWISE[::2])
    assert eight == count_by_flood(ink, converter.CLOCKWISE)


def test_parts_up_to_the_last_of_28_columns():
    ink = np.zeros((1, 28, 28), bool)
    ink[0, [0, 0, 27, 27, 26], [0, 27, 0, 27, 26]] = True
    np.testing.assert_array_equal(converter.count_parts(ink), [[5, 4]])


def levels(*values):
    return np.array([[values]], np.uint8)


@pytest.mark.parametrize(
    ("values", "ink"),
    [
        ((0, 255, 255, 0), "0110"),  # the highest threshold is 225, below the ink
        ((0, 226, 225, 0), "0100"),  # ink is what is above the threshold, not at it
        ((255, 40, 255, 0), "1110"),  # 50 would cut the line in two
        ((255, 1, 255, 0), "1110"),  # 25 would already
        ((30, 60, 200, 210), "0011"),  # 175 leaves 2 of 4, which is half; 200 would leave less
        ((10, 10, 10, 255), "1111"),  # 25 would leave less than half
        ((0, 0, 0, 0), "0000"),
    ],
)
def test_threshold(values, ink):
    np.testing.assert_array_equal(
        converter.threshold(levels(*values))[0, 0], [c == "1" for c in ink]
    )


def test_threshold_stops_where_only_the_4_connected_parts_change():
    image = np.array([[[255, 40], [0, 255]]], np.uint8)  # without the 40 a diagonal: 8-connected
    np.testing.assert_array_equal(converter.threshold(image)[0], [[True, True], [False, True]])


# ------------------------------------------------------------------------------ thinning, specks


@pytest.mark.parametrize(
    "text",
    [
        "..... .###. .....",
        "..... ..#.. ..#.. ..#.. .....",
        "..... .#... ..#.. ...#. .....",
    ],
)
def test_thinning_keeps_a_line_one_pixel_wide(text):
    ink = grid(text)
    np.testing.assert_array_equal(converter.thin(ink), ink)


def test_thinning_takes_the_rim_of_a_bar():
    # The first half of an iteration takes the south and east rim and the corner in the north-west:
    #     .######.    ..####..
    #     .######. -> .#####..
    #     .######.    ........
    # The second takes what is left in the north, and the two ends.
    before = grid("........ .######. .######. .######. ........")
    after = grid("........ ........ ..###... ........ ........")
    np.testing.assert_array_equal(converter.thin(before), after)


def test_thinning_stops_after_two_iterations():
    ink = np.zeros((28, 28), bool)
    ink[4:24, 4:24] = True
    # Each half takes two sides: the square of 20 has 20 - 2 * 2 left but for its corners.
    thinned = converter.thin(ink)
    assert thinned[6:22, 6:22].sum() == thinned.sum()
    assert thinned[7:21, 7:21].all()


def test_thinning_never_takes_the_border():
    ink = np.ones((3, 6), bool)
    thinned = converter.thin(ink)
    assert thinned[[0, -1]].all()
    assert thinned[:, [0, -1]].all()


def test_specks_are_parts_of_one_or_two_pixels():
    before = grid("#...## ...... .#...# ..#..# ..#..# ...... #...#. ...#..")
    after = grid("...... ...... .#...# ..#..# ..#..# ...... ...... ......")
    np.testing.assert_array_equal(converter.drop_specks(before), after)


@given(inks)
@settings(max_examples=100, deadline=None)
def test_no_part_of_fewer_than_three_pixels_is_left(ink):
    kept = converter.drop_specks(ink)
    parts = converter.count_parts(np.stack([ink, kept]))[:, 1]
    dropped = (ink & ~kept).sum()
    assert not (kept & ~ink).any()
    assert 3 * parts[1] <= kept.sum()
    assert (parts[0] - parts[1]) <= dropped <= 2 * (parts[0] - parts[1])


# ------------------------------------------------------------------------------------ pen paths


def test_pen_starts_at_the_end_nearest_to_the_corner():
    # (2, 0) has the smallest sum of a point, but the ends of the arch are (0, 3) and (4, 2).
    points = np.array([[0, 3], [0, 2], [1, 1], [2, 0], [3, 1], [4, 2]])
    np.testing.assert_array_equal(converter.pen_path(points, rng()), points)


def test_pen_starts_a_ring_at_its_first_point():
    ring = np.array([[2, 1], [1, 2], [2, 3], [3, 2]])
    path = converter.pen_path(ring, rng()).tolist()
    assert path[0] == [2, 1]
    assert sorted(path) == sorted(ring.tolist())


def test_pen_prefers_a_straight_step_to_a_diagonal_one():
    path = converter.pen_path(np.array([[0, 0], [1, 1], [1, 0]]), rng())
    np.testing.assert_array_equal(path, [[0, 0], [1, 0], [1, 1]])


def test_pen_cost_is_cubic():
    # To (4, 0) it is 64, to (3, 3) it is 54; as the crow flies (4, 0) would be nearer.
    path = converter.pen_path(np.array([[0, 0], [4, 0], [3, 3]]), rng())
    np.testing.assert_array_equal(path, [[0, 0], [3, 3], [4, 0]])


def test_pen_ties_are_decided_by_the_generator():
    ring = np.array([[2, 1], [1, 2], [2, 3], [3, 2]])
    seconds = {tuple(converter.pen_path(ring, rng(seed))[1].tolist()) for seed in range(20)}
    assert seconds == {(1, 2), (3, 2)}


def test_pen_takes_the_run_with_the_cheapest_closed_tour():
    # From (0, 0) both (2, 0) and (0, 2) cost 8.
    # First (2, 0): 8 + 2 + 28, and 8 to close the tour: 46.
    # First (0, 2): 8 + 16 + 2, and 28 to close the tour: 54, though it is cheaper when left open.
    points = np.array([[0, 0], [0, 2], [2, 0], [3, 1]])
    run_of = {2: [0, 0.4, 0.1, 0], 1: [0, 0.1, 0.4, 0]}
    for firsts in ([1, 2], [2, 1], [1, 1, 2]):
        ties = np.array([[run_of[first] for first in firsts]], np.float32)
        assert converter.pen_orders(points[None], ties).tolist() == [[0, 2, 3, 1]]


# ----------------------------------------------------------------------------------------- rows


def test_rows_of_two_strokes():
    path = np.array([[1, 1], [2, 1], [3, 1], [5, 1], [6, 1], [7, 1]])
    expected = rows_of("2 2 0 0\n1 0 0 0\n1 0 0 0\n0 0 1 0\n2 0 0 0\n1 0 0 0\n1 0 0 0\n0 0 1 1")
    rows = converter.to_rows(path)
    assert rows.dtype == np.int8
    np.testing.assert_array_equal(rows, expected)


def test_rows_have_no_end_of_stroke_before_a_jump_to_the_last_point():
    path = np.array([[3, 3], [4, 4], [0, 4]])
    np.testing.assert_array_equal(
        converter.to_rows(path), rows_of("4 4 0 0\n1 1 0 0\n-4 0 0 0\n0 0 1 1")
    )


def test_rows_mark_each_of_two_jumps_in_a_row():
    path = np.array([[0, 0], [0, 2], [0, 4], [0, 5]])
    expected = rows_of("1 1 0 0\n0 0 1 0\n0 2 0 0\n0 0 1 0\n0 2 0 0\n0 1 0 0\n0 0 1 1")
    np.testing.assert_array_equal(converter.to_rows(path), expected)


def test_the_first_row_is_no_jump():
    np.testing.assert_array_equal(
        converter.to_rows(np.array([[20, 9], [20, 10]])), rows_of("21 10 0 0\n0 1 0 0\n0 0 1 1")
    )


def test_a_blank_image_has_only_its_end():
    np.testing.assert_array_equal(
        converter.convert(np.zeros((28, 28), np.uint8), rng()), rows_of("0 0 1 1")
    )


def test_the_picture_of_the_module():
    image = image_of("......... .###.###. .........")
    expected = rows_of("2 2 0 0\n1 0 0 0\n1 0 0 0\n0 0 1 0\n2 0 0 0\n1 0 0 0\n1 0 0 0\n0 0 1 1")
    np.testing.assert_array_equal(converter.convert(image, rng()), expected)


# ----------------------------------------------------------------------------------- properties


@given(grey_images, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_point_is_visited_once(image, seed):
    rows = converter.convert(image, rng(seed))
    ink = converter.drop_specks(converter.thin(converter.threshold(image[None])))[0]
    points = [(int(x) + 1, int(y) + 1) for y, x in np.argwhere(ink)]
    assert sorted(points_of(rows)) == sorted(points)


@given(grey_images, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_rows_are_well_formed(image, seed):
    rows = converter.convert(image, rng(seed)).astype(int)
    assert rows[-1].tolist() == [0, 0, 1, 1]
    assert rows[:, 3].sum() == 1
    assert not rows[rows[:, 2] == 1, :2].any()
    jumps = np.flatnonzero((np.abs(rows[1:, :2]) > 1).any(-1)) + 1
    marked = {int(at) + 1 for at in np.flatnonzero(rows[:-1, 2])}
    assert marked == set(jumps.tolist()) - {len(rows) - 2}


@pytest.mark.slow
@given(st.lists(grey_images, min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_an_image_has_the_same_rows_whatever_it_is_converted_with(images):
    together = converter.convert_all(np.stack(images), [rng(i) for i in range(len(images))])
    for i, image in enumerate(images):
        np.testing.assert_array_equal(together[i], converter.convert(image, rng(i)))


# ------------------------------------------------------------------------------ reference digits


def reference_digits():
    folder = Path(os.environ.get("TARDIS_DATA", "."), "strokes", "reference")
    return sorted(folder.glob("*img-*-inputdata.txt"))


@pytest.mark.skipif(not reference_digits(), reason="needs mnist/ and strokes/reference/")
def test_reference_digits(tmp_path, monkeypatch):
    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path))
    paths = mnist.find(download=False)
    assert paths is not None
    images = mnist.load_images(paths)
    whole = 0
    for file in reference_digits():
        split, index = re.match(r"(train|test)img-(\d+)-", file.name).groups()
        image = getattr(images, f"{split}_images")[int(index)]
        expected = np.loadtxt(file, dtype=int)
        rows = converter.convert(image, rng(int(index)))
        assert sorted(points_of(rows)) == sorted(points_of(expected)), file.name
        assert len(rows) == len(expected), file.name
        assert rows[0].tolist() == expected[0].tolist(), file.name
        whole += np.array_equal(rows, expected)
    # ties are decided at random, so a few digits may be written in another order
    assert whole >= 10
