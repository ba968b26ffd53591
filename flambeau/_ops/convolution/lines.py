"""Convolutions of one dimension, as those of images with one row; or with one column, whose rows threads can share."""

from __future__ import annotations

from typing import Any

from .description import Conv, run

_LINES = 16  # channels from which images stand upright for several threads


def suits(conv: Conv, role: str) -> bool:
    """Whether there is one dimension, and enough to do."""
    return conv.is_large and len(conv.kernel) == 1


def _goes_down(conv: Conv) -> bool:
    """Whether a line is best a column: threads that have no image of their own share its rows."""
    return conv.groups == 1 and conv.images < conv.threads and min(conv.inputs, conv.outputs) >= _LINES


def _run(conv: Conv, role: str, down: bool, a: Any, b: Any, *bias: Any) -> Any:
    def with_one(n: tuple[int, ...], one: int = 1) -> tuple[int, ...]:
        return (*n, one) if down else (one, *n)

    flat = conv._replace(
        size=with_one(conv.size), kernel=with_one(conv.kernel), stride=with_one(conv.stride),
        padding=with_one(conv.padding, 0), dilation=with_one(conv.dilation), counts=with_one(conv.counts), part=True,
    )  # fmt: skip
    made = run(flat, role, *((a[..., None], b[..., None]) if down else (a[:, :, None], b[:, :, None])), *bias)
    return made[..., 0] if down else made[:, :, 0]


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    return _run(conv, "products", _goes_down(conv), x, weight, bias)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    return _run(conv, "adjoint", False, g, weight, bias)


def sums(conv: Conv, x: Any, g: Any) -> Any:
    return _run(conv, "sums", _goes_down(conv), x, g)
