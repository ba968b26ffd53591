"""Small helpers of the models."""

from __future__ import annotations


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of `divisor` nearest to v, but never more than a tenth below it.

    >>> _make_divisible(37, 8)
    40
    """
    least = divisor if min_value is None else min_value
    rounded = max(least, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded
