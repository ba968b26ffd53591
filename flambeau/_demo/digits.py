"""Handwriting without a download: digits as strokes, turned, sheared, stretched and drawn with a soft pen.

Everything follows from a seed. A digit is a list of line segments in the unit square; an image is the distance of
each pixel from the nearest segment, seen through the pen's profile.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import flambeau as torch
from flambeau.utils.data import Dataset

SIZE = 28
_CHUNK = 256  # images that are drawn at a time

Points = list[tuple[float, float]]


def _arc(x: float, y: float, rx: float, ry: float, start: float, stop: float, pieces: int = 10) -> Points:
    """Points on an ellipse around (x, y); angles in degrees, clockwise from the right, as y points down."""
    angles = [math.radians(start + (stop - start) * i / pieces) for i in range(pieces + 1)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


# Each digit is one or more strokes; each stroke a list of points.
STROKES: list[list[Points]] = [
    [_arc(0.5, 0.5, 0.24, 0.36, 0, 360, 12)],
    [[(0.36, 0.3), (0.54, 0.14), (0.54, 0.86)]],
    [[*_arc(0.5, 0.34, 0.23, 0.2, 190, 380, 8), (0.62, 0.56), (0.27, 0.86), (0.76, 0.86)]],
    [[*_arc(0.48, 0.32, 0.22, 0.18, 200, 450, 8), *_arc(0.48, 0.67, 0.25, 0.19, 270, 520, 8)]],
    [[(0.62, 0.86), (0.62, 0.14), (0.24, 0.62), (0.78, 0.62)]],
    [[(0.72, 0.14), (0.34, 0.14), (0.31, 0.46), *_arc(0.48, 0.64, 0.24, 0.22, 240, 500, 9)]],
    [[(0.66, 0.14), (0.4, 0.36), *_arc(0.5, 0.65, 0.21, 0.21, 190, 550, 12)]],
    [[(0.26, 0.15), (0.75, 0.15), (0.42, 0.86)]],
    [_arc(0.5, 0.32, 0.19, 0.18, 0, 360, 9), _arc(0.5, 0.68, 0.23, 0.18, 0, 360, 9)],
    [[*_arc(0.5, 0.35, 0.21, 0.2, 0, 360, 12), (0.68, 0.55), (0.56, 0.86)]],
]


def _segments() -> Any:
    """(10, most segments, 2 ends, 2 coordinates); shorter digits repeat their last segment."""
    digits = [[pair for stroke in strokes for pair in pairwise(stroke)] for strokes in STROKES]
    most = max(map(len, digits))
    return torch.tensor([pairs + [pairs[-1]] * (most - len(pairs)) for pairs in digits])


def draw(labels: Any, generator: Any) -> Any:
    """Images (count, 1, 28, 28) from 0 to 1 of these digits, each distorted in its own way."""
    segments = _segments()
    return torch.cat([_draw(segments[part], generator) for part in labels.split(_CHUNK)])


def _draw(ends: Any, generator: Any) -> Any:
    count = len(ends)

    def uniform(low: float, high: float, *shape: int) -> Any:
        return torch.rand(count, *shape, generator=generator) * (high - low) + low

    turn, shear = uniform(-0.4, 0.4), uniform(-0.4, 0.4)
    wide, high = uniform(0.55, 1.1), uniform(0.65, 1.05)
    # a matrix for each image: stretch, then shear, then turn
    rows = [
        wide * turn.cos(), high * (shear * turn.cos() - turn.sin()),
        wide * turn.sin(), high * (shear * turn.sin() + turn.cos()),
    ]  # fmt: skip
    matrix = torch.stack(rows, 1).reshape(count, 1, 2, 2)
    # the hand trembles: a slow wave moves the points
    phase, strength = uniform(0.0, 6.3, 1, 1, 2), uniform(0.0, 0.08, 1, 1, 1)
    ends = ends + strength * (ends.flip(-1) * 7.0 + phase).sin()
    ends = ((ends - 0.5) @ matrix.transpose(-1, -2) + 0.5 + uniform(-0.08, 0.08, 1, 1, 2)) * SIZE

    # distance of every pixel from every segment; its two coordinates are kept apart to save memory
    axis = torch.arange(SIZE) + 0.5
    (x, y), (along_x, along_y) = ends[:, :, 0].unbind(-1), (ends[:, :, 1] - ends[:, :, 0]).unbind(-1)
    shape = (count, -1, 1, 1)
    right, down = axis - x.reshape(shape), axis.reshape(SIZE, 1) - y.reshape(shape)
    along_x, along_y = along_x.reshape(shape), along_y.reshape(shape)
    length = along_x.square() + along_y.square() + 1e-6
    place = (right * (along_x / length) + down * (along_y / length)).clamp_(0, 1)
    distance = ((right - place * along_x).square_() + (down - place * along_y).square_()).amin(1).sqrt()
    ink = ((uniform(0.7, 1.6, 1, 1) - distance) * uniform(0.7, 1.3, 1, 1)).sigmoid()
    low, high = ink.amin((1, 2), True), ink.amax((1, 2), True)
    noise = 0.12 * torch.randn(count, SIZE, SIZE, generator=generator)
    return ((ink - low) / (high - low) + noise).clamp(0, 1).unsqueeze(1)


class DrawnDigits(Dataset):
    """So many drawn digits, the ten kinds in equal numbers.

    >>> digits = DrawnDigits(20, seed=1)
    >>> image, label = digits[3]
    >>> image.shape, int(label)
    (torch.Size([1, 28, 28]), 3)
    """

    def __init__(self, count: int, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        self.targets = torch.arange(count) % 10
        with torch.no_grad():
            self.images = draw(self.targets, generator)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.images[index], self.targets[index]
