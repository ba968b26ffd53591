"""Tables of operators in terms of others, for `make_fx` and compilers that programs bring.

They hold what programs register: graphs of ours are taken below autograd, where `linear` and its like are in parts already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["core_aten_decompositions", "decomposition_table", "get_decompositions", "register_decomposition", "remove_decompositions"]  # fmt: skip

decomposition_table: dict[Any, Callable[..., Any]] = {}


def _overloads(op: Any) -> list[Any]:
    """The overloads of an operator, or itself if it is one."""
    return [getattr(op, name) for name in op.overloads()] if hasattr(op, "overloads") else [op]


def register_decomposition(
    aten_op: Any, registry: dict[Any, Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the decomposition of one or several operators; a decorator.

    >>> import flambeau as torch
    >>> from flambeau._decomp import get_decompositions, register_decomposition
    >>> table = {}
    >>> @register_decomposition(torch.ops.aten.silu.default, table)
    ... def silu(x):
    ...     return x * x.sigmoid()
    >>> list(table)
    [<OpOverload(op='aten.silu', overload='default')>]
    """
    table = decomposition_table if registry is None else registry

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in aten_op if isinstance(aten_op, (list, tuple)) else [aten_op]:
            table.update(dict.fromkeys(_overloads(op), function))
        return function

    return register


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> dict[Any, Callable[..., Any]]:
    """The decompositions of some operators that are registered; others stay whole."""
    wanted = [overload for op in aten_ops for overload in _overloads(op)]
    return {op: decomposition_table[op] for op in wanted if op in decomposition_table}


def remove_decompositions(decompositions: dict[Any, Any], aten_ops: Iterable[Any]) -> None:
    """Takes operators out of a table."""
    for op in aten_ops:
        for overload in _overloads(op):
            decompositions.pop(overload, None)


def core_aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """A table of all that is registered, to be changed."""
    return dict(decomposition_table)
