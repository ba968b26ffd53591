"""Operators that write to what they are given, as functions that give new tensors instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor

__all__ = ["auto_functionalized_v2"]

_NUMBER = "_{}_base_index"


def auto_functionalized_v2(op: Any, *, _all_bases: Sequence[Tensor], **named: Any) -> tuple[Any, ...]:
    """What an operator gives, then what it would have written to `_all_bases`; `_x_base_index` says which of them is its argument `x`.

    >>> import flambeau as torch
    >>> x = torch.ones(2)
    >>> auto_functionalized_v2(torch.ops.aten.mul_.Tensor, other=3, _self_base_index=0, _all_bases=[x])[1], x
    (tensor([3., 3.]), tensor([1., 1.]))
    """
    bases = [base.clone() for base in _all_bases]
    given = {}
    for argument in op._schema.arguments:
        name, number = argument.name, _NUMBER.format(argument.name)
        if number in named:
            given[name] = None if named[number] is None else bases[named[number]]
        elif name in named:
            given[name] = named[name]
    out = op(**given)
    return (*(out if isinstance(out, tuple) else (out,)), *bases)


def numbered(written: dict[str, Any]) -> dict[str, Any]:
    """The arguments for what an operator writes to, by its arguments' names."""
    bases = list(dict.fromkeys(written.values()))
    return {**{_NUMBER.format(name): bases.index(a) for name, a in written.items()}, "_all_bases": bases}
