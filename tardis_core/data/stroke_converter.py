"""From images of digits to pen strokes: threshold, thin, drop specks, order the points, write rows.

Every step works on many images at once, which is what makes 70,000 digits a matter of seconds.

    N images, H rows, W columns; n points per digit, G digits with the same n, R runs.

A digit becomes rows `dx dy eos eod`, x to the right, y downwards, counted from 1:

    . . . . . . . . .       2 2 0 0     the first point, as it stands
    . # # # . # # # .       1 0 0 0     one step to the right
    . . . . . . . . .       1 0 0 0
                            0 0 1 0     the pen is lifted: the next move is longer than one pixel
                            2 0 0 0
                            1 0 0 0
                            1 0 0 0
                            0 0 1 1     the end of the digit
"""

from collections.abc import Sequence

import numpy as np

VERSION = 1  # raise it whenever the same images would give other rows: it is part of cache names

THRESHOLD_STEP, THRESHOLD_END = 25, 250
THINNING_ITERATIONS = 2
RUNS = 10

# The eight neighbours as (row, column), clockwise from the one above: P2 ... P9 of Zhang and Suen.
CLOCKWISE = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


def threshold(images: np.ndarray) -> np.ndarray:
    """The ink of each image (N, H, W): the highest threshold that leaves the digit in one shape.

    The threshold rises as long as the number of parts stays and at least half of the ink is left.
    """
    ink = images > 0
    raw_parts, raw_area = count_parts(ink), ink.sum((-2, -1))
    live = np.arange(len(images))
    for level in range(THRESHOLD_STEP, THRESHOLD_END, THRESHOLD_STEP):
        higher = images[live] > level
        same_parts = (count_parts(higher) == raw_parts[live]).all(-1)
        good = same_parts & (2 * higher.sum((-2, -1)) >= raw_area[live])
        live = live[good]
        ink[live] = higher[good]
    return ink


def count_parts(ink: np.ndarray) -> np.ndarray:
    """The number of 4-connected and 8-connected parts of each image (N, H, W): (N, 2)."""
    # One integer an image row, bit x for column x, makes a step a handful of integer operations.
    bits = np.zeros((*ink.shape[:2], 32), bool)
    bits[:, :, : ink.shape[2]] = ink
    rows = np.packbits(bits, axis=-1, bitorder="little").view("<u4")[..., 0]
    return np.stack([_shrink_and_count(rows, diagonal) for diagonal in (False, True)], axis=-1)


def _shrink_and_count(rows: np.ndarray, diagonal: bool) -> np.ndarray:
    """Count the parts of each image by Levialdi's shrinking.

    Each step eats every part from its lower right corner without ever cutting or joining parts, so
    each of them is a single pixel just before it is gone.
    """
    count = np.zeros(len(rows), np.int64)
    while rows.any():
        above, below = np.zeros_like(rows), np.zeros_like(rows)
        above[:, 1:], below[:, :-1] = rows[:, :-1], rows[:, 1:]
        right, corner = rows >> 1, below >> 1
        upright = above | below
        beside = upright | right | rows << 1
        if diagonal:
            beside |= upright << 1 | upright >> 1
        count += np.bitwise_count(rows & ~beside).sum(-1, dtype=np.int64)
        if diagonal:
            rows = rows & (right | below | corner) | right & below
        else:
            rows = rows & (right | below) | right & below & corner
    return count


def thin(ink: np.ndarray) -> np.ndarray:
    """Two iterations of Zhang and Suen's thinning (1984) of images (..., H, W).

    Two, not as many as it takes: the published strokes keep what is still thick then. Pixels on the
    border of the image stay.
    """
    inside = np.zeros(ink.shape[-2:], bool)
    inside[1:-1, 1:-1] = True
    for _ in range(THINNING_ITERATIONS):
        for first_half in (True, False):
            ink = ink & ~(inside & _removable(ink, first_half))
    return ink


def _removable(ink: np.ndarray, first_half: bool) -> np.ndarray:
    """Pixels on the rim (south-east in the first half, north-west in the second) not needed."""
    ring = _neighbours(ink)
    north, _, east, _, south, _, west, _ = ring
    count = _sum(ring)
    rises = _sum([b & ~a for a, b in zip(ring, ring[1:] + ring[:1], strict=True)])
    blocked = east & south & (north | west) if first_half else north & west & (east | south)
    return (count >= 2) & (count <= 6) & (rises == 1) & ~blocked


def drop_specks(ink: np.ndarray) -> np.ndarray:
    """The images (..., H, W) without the 8-connected parts of one or two pixels."""
    count = _sum(_neighbours(ink))
    single = ink & (count == 1)
    # Two pixels are a part of their own when each is the only neighbour of the other.
    paired = single & (_sum(_neighbours(single)) == 1)
    return ink & (count > 0) & ~paired


def _neighbours(ink: np.ndarray) -> list[np.ndarray]:
    """The eight neighbours of each pixel, clockwise from north; outside the image there is none."""
    height, width = ink.shape[-2:]
    padded = np.zeros((*ink.shape[:-2], height + 2, width + 2), bool)
    padded[..., 1:-1, 1:-1] = ink
    return [padded[..., 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width] for dy, dx in CLOCKWISE]


def _sum(masks: Sequence[np.ndarray]) -> np.ndarray:
    total = np.zeros(masks[0].shape, np.uint8)
    for mask in masks:
        total += mask
    return total


def pen_path(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The points (n, 2) of one digit, as (x, y), in the order in which the pen visits them.

    Where several points could be the start, the first of them is.
    """
    return points[pen_orders(points[None], _tie_breaks(len(points), rng)[None])[0]]


def pen_orders(points: np.ndarray, tie_breaks: np.ndarray) -> np.ndarray:
    """For digits with as many points each (G, n, 2) the order of their points (G, n).

    The pen goes to the nearest point it has not visited, by |dx|^3 + |dy|^3. Of ties it takes the
    one with the smallest tie break, a number below one half (G, R, n); of the R runs the one with
    the cheapest closed tour is taken.
    """
    cost = (np.abs(points[:, :, None] - points[:, None]) ** 3).sum(-1).astype(np.float32)
    pending = tie_breaks.copy()
    digit, run = np.ogrid[: pending.shape[0], : pending.shape[1]]
    order = np.empty(pending.shape, np.int64)
    order[:, :, 0] = _starts(points, cost)[:, None]
    length = np.zeros(pending.shape[:2])
    for step in range(1, points.shape[1]):
        here = order[:, :, step - 1]
        pending[digit, run, here] = np.inf
        order[:, :, step] = there = (cost[digit, here] + pending).argmin(-1)
        length += cost[digit, here, there]
    length += cost[digit, order[:, :, -1], order[:, :, 0]]
    return order[digit[:, 0], length.argmin(-1)]


def _starts(points: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The first point of each digit (G,): the end of a line, or else any, with the least x + y."""
    # A cost of at most 2 is one step away or the point itself; an end has at most one neighbour.
    is_end = (cost <= 2).sum(-1) <= 2
    candidate = is_end | ~is_end.any(-1, keepdims=True)
    return np.where(candidate, points.sum(-1), np.iinfo(np.int64).max).argmin(-1)


def _tie_breaks(count: int, rng: np.random.Generator) -> np.ndarray:
    # Below one half, so that cost + tie break keeps the order of costs, which are whole numbers.
    return rng.random((RUNS, count), dtype=np.float32) / 2


def to_rows(path: np.ndarray) -> np.ndarray:
    """The rows `dx dy eos eod` (int8) of a path (n, 2) of points (x, y) counted from 0.

    The first row is the first point counted from 1. The end of a stroke is marked before every jump
    but one to the last point, and after the last point.
    """
    moves = np.diff(path + 1, axis=0, prepend=0)
    lifts = np.abs(moves).max(-1) > 1
    lifts[:1] = lifts[-1:] = False
    at = np.arange(len(path)) + np.cumsum(lifts)
    rows = np.zeros((len(path) + lifts.sum() + 1, 4), np.int8)
    rows[at, :2] = moves
    rows[at[lifts] - 1, 2] = 1
    rows[-1, 2:] = 1
    return rows


def convert(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows of one image (H, W) of bytes."""
    return convert_all(image[None], [rng])[0]


def convert_all(images: np.ndarray, rngs: Sequence[np.random.Generator]) -> list[np.ndarray]:
    """The rows of each image (N, H, W); each has a generator of its own, which decides its ties.

    So an image has the same rows whatever it is converted with.
    """
    ink = drop_specks(thin(threshold(images)))
    counts = ink.sum((-2, -1))
    # (x, y) of all points, image by image and column by column: of two starts alike the left one
    points = np.argwhere(ink.swapaxes(-2, -1))[:, 1:]
    firsts = np.cumsum(counts) - counts
    converted: list[np.ndarray] = [to_rows(points[:0])] * len(images)
    for count in np.unique(counts[counts > 0]).tolist():
        group = np.flatnonzero(counts == count).tolist()
        points_of = points[firsts[group, None] + np.arange(count)]
        ties = np.stack([_tie_breaks(count, rngs[i]) for i in group])
        paths = np.take_along_axis(points_of, pen_orders(points_of, ties)[..., None], axis=1)
        for i, path in zip(group, paths, strict=True):
            converted[i] = to_rows(path)
    return converted
