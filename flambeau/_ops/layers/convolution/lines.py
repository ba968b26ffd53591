"""Convolutions of one dimension, as those of images with one row; or with one column, whose rows threads can share."""

from __future__ import annotations

from typing import Any

from . import groups
from .description import Conv, Ints, run

_LINES = 16  # channels from which images stand upright for several threads


def suits(conv: Conv, role: str) -> bool:
    """Whether there is one dimension, and enough to do, or small groups."""
    if len(conv.kernel) != 1 or not conv.has_kernels:
        return False
    return conv.is_large or (conv.groups > 1 and groups.suits(_flat(conv, False), role))


def _goes_down(conv: Conv) -> bool:
    """Whether a line is best a column: threads that have no image of their own share its rows."""
    return conv.groups == 1 and conv.images < conv.threads and min(conv.inputs, conv.outputs) >= _LINES


def _flat(conv: Conv, down: bool) -> Conv:
    def with_one(n: Ints, one: int = 1) -> Ints:
        return (*n, one) if down else (one, *n)

    return conv._replace(
        size=with_one(conv.size), kernel=with_one(conv.kernel), stride=with_one(conv.stride),
        padding=with_one(conv.padding, 0), dilation=with_one(conv.dilation), counts=with_one(conv.counts),
        part=conv.is_large,
    )  # fmt: skip


def _run(conv: Conv, role: str, down: bool, a: Any, b: Any, *bias: Any) -> Any:
    given = (a[..., None], b[..., None]) if down else (a[:, :, None], b[:, :, None])
    made = run(_flat(conv, down), role, *given, *bias)
    return made[..., 0] if down else made[:, :, 0]


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    return _run(conv, "products", _goes_down(conv), x, weight, bias)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    return _run(conv, "adjoint", False, g, weight, bias)


def sums(conv: Conv, x: Any, g: Any) -> Any:
    return _run(conv, "sums", _goes_down(conv), x, g)
