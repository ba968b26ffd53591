"""Results with channels last where the operand has them so, as PyTorch's image operations give them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..._backend.copies import rows_of
from ..._core.layouts import is_channels_last as strides_channels_last
from ..._core.layouts import strides_in_order


def channels_at_end(a: Any) -> Any:
    """A view of (N, C, …) as (N, …, C)."""
    return a.transpose(0, *range(2, a.ndim), 1)


def channels_second(a: Any) -> Any:
    """A view of (N, …, C) as (N, C, …)."""
    last = a.ndim - 1
    return a.transpose(0, last, *range(1, last))


def is_channels_last(a: Any) -> bool:
    """Whether an array (N, C, …) of images or volumes has its channels side by side in memory, and nothing else."""
    if a.ndim not in (4, 5) or a.flags.c_contiguous:
        return False
    return bool(channels_at_end(a).flags.c_contiguous)


def has_channels_last(a: Any) -> bool:
    """The same, but there may be gaps, and (N, C, length) counts as images of one row."""
    if a.flags.c_contiguous:
        return False
    if a.ndim != 3:
        return strides_channels_last(a.shape, a.strides)
    (n, c, length), (first, second, third) = a.shape, a.strides
    return strides_channels_last((n, c, 1, length), (first, second, length * third, third))


def volume_has_channels_last(a: Any) -> bool:
    """Whether (C, depth, height, width) has its channels side by side in memory."""
    if a.flags.c_contiguous:
        return False
    whole = max(n * stride for n, stride in zip(a.shape, a.strides))
    return bool(strides_channels_last((1, *a.shape), (whole, *a.strides)))


def with_channels_last(a: Any) -> Any:
    """The same elements with channels last."""
    made = rows_of(channels_at_end(a))
    if 1 in made.shape:  # whose strides NumPy leaves as they were
        made = made.reshape(-1).reshape(made.shape)
    return channels_second(made)


def room_like(backend: Any, x: Any, shape: tuple[int, ...], d: Any) -> Any:
    """Memory for a result of as many dimensions as `x`, with channels last if `x` has them so: `keeps_channels_last` then copies nothing."""
    if not has_channels_last(x):
        return backend.empty(shape, d)
    return channels_second(backend.empty((shape[0], *shape[2:], shape[1]), d))


def keeps_channels_last(count: int = 1, takes: Callable[..., bool] | None = None) -> Callable[[Any], Any]:
    """For the function of a primitive: its results have channels last if one of the first `count` operands has.

    `takes` says of the operands whether they are looked at; usually images and volumes are.
    """

    def decorate(forward: Any) -> Any:
        def applies(args: Any) -> bool:
            if not any([a is not None and has_channels_last(a) for a in args[:count]]):
                return False
            return bool(args[0].ndim > 3 if takes is None else takes(*args))

        @functools.wraps(forward)
        def compute(backend: Any, *args: Any) -> Any:
            made = forward(backend, *args)
            if not applies(args):
                return made
            if isinstance(made, (tuple, list)):
                return tuple([with_channels_last(a) if a.ndim == args[0].ndim else a for a in made])
            return with_channels_last(made)

        def layout(number: int, shape: tuple[int, ...], args: Any) -> tuple[int, ...] | None:
            if len(shape) != args[0].ndim or not applies(args):
                return None
            return strides_in_order(shape, (0, *range(2, len(shape)), 1))

        compute.layout = layout  # type: ignore[attr-defined]
        compute.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
        return compute

    return decorate
