"""Small helps of PyTorch's private module that packages import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._C import _functorch

__all__ = ["argnums_t", "enable_single_level_autograd_function", "exposed_in", "unwrap_dead_wrappers"]

argnums_t = int | tuple[int, ...]


@contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """A block in which Functions run at one level; they always do here."""
    before = _functorch.get_single_level_autograd_function_allowed()
    _functorch.set_single_level_autograd_function_allowed(True)
    try:
        yield
    finally:
        _functorch.set_single_level_autograd_function_allowed(before)


def unwrap_dead_wrappers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments without the wrappers of transforms that ended; there are none here."""
    return tuple(args)


def exposed_in(module: str) -> Callable[[Any], Any]:
    """Says of a function that it lives in another module."""

    def wrapper(function: Any) -> Any:
        function.__module__ = module
        return function

    return wrapper
