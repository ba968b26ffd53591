"""Curves in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille character, by row and column


def curve(values: Sequence[float], width: int = 64, height: int = 10, title: str = "", under: str = "") -> str:
    """A curve as text, in Braille dots; what is not finite is left out. `under` says what the horizontal axis is, if not numbers from 1 on.

    >>> print(curve([4.0, 2.0, 1.0, 0.5], 8, 2, "loss"))
    loss
    4   ⠑⠤⡀⠀⠀⠀⠀⠀
    0.5 ⠀⠀⠈⠑⠢⠤⢄⣀
        1 to 4, last 0.5
    """
    points = [(i, float(v)) for i, v in enumerate(values) if math.isfinite(v)]
    if not points:
        return f"{title}: nothing to draw".lstrip(": ")
    low, high = min(v for _, v in points), max(v for _, v in points)
    columns, rows, last = width * 2, height * 4, max(len(values) - 1, 1)
    cells = [[0] * width for _ in range(height)]
    before: tuple[int, int] | None = None
    for i, v in points:
        x, y = round(i / last * (columns - 1)), round((high - v) / ((high - low) or 1) * (rows - 1))
        for a, b in _line(before or (x, y), (x, y)):
            cells[b // 4][a // 2] |= _DOTS[b % 4][a % 2]
        before = x, y
    names = [f"{high:.4g}", f"{low:.4g}"]
    room = max(map(len, names))
    lines = [title] if title else []
    for i, row in enumerate(cells):
        name = names[0] if i == 0 else names[1] if i == height - 1 else ""
        lines.append(f"{name:<{room}} " + "".join(chr(0x2800 + dots) for dots in row))
    return "\n".join([*lines, f"{'':<{room}} {under or f'1 to {len(values)}'}, last {points[-1][1]:.4g}"])


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots from one to another."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (start[0] + round((end[0] - start[0]) * k / steps), start[1] + round((end[1] - start[1]) * k / steps))
        for k in range(steps + 1)
    ]
