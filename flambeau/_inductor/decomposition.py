"""Operators in terms of others, registered by programs for PyTorch's compiler. Programs run eagerly: nothing reads them
but programs themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["decompositions", "register_decomposition"]

decompositions: dict[Any, Callable[..., Any]] = {}


def register_decomposition(ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the decomposition of operators; a decorator."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        decompositions.update(dict.fromkeys(ops if isinstance(ops, (list, tuple)) else [ops], function))
        return function

    return register
