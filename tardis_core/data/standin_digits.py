"""Images of digits that the program draws itself, for machines without MNIST.

Ten templates of pen strokes, each drawn with its own shift, size, slant, wobble and pen.
"""

import numpy as np

SIZE = 28

Stroke = list[tuple[float, float]]


def _arc(x: float, y: float, rx: float, ry: float, start: float, stop: float) -> Stroke:
    """Points of an ellipse; degrees clockwise from the right, as y points down."""
    angles = np.radians(np.linspace(start, stop, 14))
    return list(zip(x + rx * np.cos(angles), y + ry * np.sin(angles), strict=True))


# Strokes of points (x, y) in the unit square, y downwards.
TEMPLATES: dict[int, list[Stroke]] = {
    0: [_arc(0.5, 0.5, 0.36, 0.5, -80, 280)],
    1: [[(0.36, 0.2), (0.55, 0.0), (0.55, 1.0)]],
    2: [[*_arc(0.5, 0.28, 0.34, 0.28, -170, 35), (0.16, 1.0), (0.88, 0.97)]],
    3: [
        [*_arc(0.46, 0.25, 0.32, 0.25, -155, 90), *_arc(0.46, 0.74, 0.37, 0.26, -90, 155)],
    ],
    4: [[(0.28, 0.0), (0.12, 0.56), (0.9, 0.56)], [(0.68, 0.1), (0.64, 1.0)]],
    5: [[(0.84, 0.0), (0.3, 0.0), (0.24, 0.44), *_arc(0.46, 0.69, 0.36, 0.31, -110, 150)]],
    6: [[(0.7, 0.0), (0.4, 0.22), (0.2, 0.55), *_arc(0.5, 0.72, 0.32, 0.28, 180, -170)]],
    7: [[(0.12, 0.04), (0.86, 0.0), (0.6, 0.45), (0.42, 1.0)]],
    8: [_arc(0.5, 0.24, 0.27, 0.24, 90, 450), _arc(0.5, 0.74, 0.33, 0.26, -90, 270)],
    9: [[*_arc(0.48, 0.28, 0.31, 0.28, -20, -360), (0.78, 0.5), (0.7, 1.0)]],
}


def make_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 28, 28) and labels (count,), bytes; every digit as often as every other."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 10).astype(np.uint8)
    images = np.empty((count, SIZE, SIZE), np.uint8)
    for label, strokes in TEMPLATES.items():
        chosen = np.flatnonzero(labels == label)
        starts = np.array([point for stroke in strokes for point in stroke[:-1]])
        stops = np.array([point for stroke in strokes for point in stroke[1:]])
        ends = _hand(np.stack([starts, stops]), len(chosen), rng)
        radius = rng.uniform(0.9, 1.7, (len(chosen), 1, 1))
        images[chosen] = _draw(ends[:, 0], ends[:, 1], radius)
    return images, labels


def _hand(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points (..., 2) of the unit square as `count` hands put them, in pixels (count, ..., 2)."""

    def draw(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, (count, *[1] * (points.ndim - 1), 2))

    # A wobble that is smooth in the place keeps strokes connected; a vertex of its own would not.
    wobble = draw(0.0, 0.05) * np.sin(draw(3.0, 7.0) * points[..., ::-1] + draw(0.0, 2 * np.pi))
    centred = points + wobble - 0.5
    slant = draw(-0.1, 0.25)[..., 0]
    centred[..., 0] -= slant * centred[..., 1]
    return centred * draw(14.0, 18.5) + SIZE / 2 - 0.5 + draw(-1.0, 1.0)


def _draw(start: np.ndarray, stop: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Images of segments from `start` to `stop` (G, S, 2), drawn by a round pen (G, 1, 1)."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    nearest = np.full((len(start), SIZE, SIZE), np.inf, np.float32)
    for (x0, y0), (x1, y1) in zip(_columns(start), _columns(stop), strict=True):
        dx, dy = x1 - x0, y1 - y0
        # How far along the segment its point nearest to the pixel lies, from 0 to 1.
        along = ((x - x0) * dx + (y - y0) * dy) / np.maximum(dx**2 + dy**2, 1e-6)
        along = np.clip(along, 0, 1)
        distance = np.hypot(x - x0 - along * dx, y - y0 - along * dy)
        nearest = np.minimum(nearest, distance)
    return (255 * np.clip(radius + 0.5 - nearest, 0, 1)).astype(np.uint8)


def _columns(points: np.ndarray) -> list[np.ndarray]:
    """For each segment the coordinates x, y (2, G, 1, 1) of all digits."""
    return list(points.transpose(1, 2, 0)[..., None, None].astype(np.float32))
