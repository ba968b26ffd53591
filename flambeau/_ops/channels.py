"""Results with channels last where the operand has them so, as PyTorch's image operations give them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_channels_last(a: Any) -> bool:
    """Whether an array (N, C, …) of images or volumes has its channels side by side in memory, and nothing else."""
    if a.ndim not in (4, 5) or a.flags.c_contiguous:
        return False
    return bool(a.transpose(0, *range(2, a.ndim), 1).flags.c_contiguous)


def with_channels_last(backend: Any, a: Any) -> Any:
    """The same elements with channels last."""
    last = a.ndim - 1
    made = backend.xp.ascontiguousarray(a.transpose(0, *range(2, a.ndim), 1))
    return made.transpose(0, last, *range(1, last))


def keeps_channels_last(count: int = 1) -> Callable[[Any], Any]:
    """For the function of a primitive: its results have channels last if one of the first `count` operands has."""

    def decorate(forward: Any) -> Any:
        @functools.wraps(forward)
        def compute(backend: Any, *args: Any) -> Any:
            made = forward(backend, *args)
            for a in args[:count]:
                if a is not None and is_channels_last(a):
                    break
            else:
                return made
            if isinstance(made, (tuple, list)):
                return [with_channels_last(backend, a) if a.ndim == args[0].ndim else a for a in made]
            return with_channels_last(backend, made)

        compute.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
        return compute

    return decorate
