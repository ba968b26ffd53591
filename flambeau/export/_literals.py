"""Tensors that a program gives where an operator takes numbers (`torch.zeros(n)`, `x[:n]`), and numbers and tensors that it makes a tensor of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._library.schema_texts import schemas_of
from .._ops.registry import ops
from .._tensor import Tensor
from ..jit._lowering import name_of
from ..jit._tracer import TracedFloat, TracedInt
from ..utils._pytree import tree_flatten, tree_map_only


def with_numbers(read: Callable[[Tensor], Any], known: Callable[[Any], bool], func: Any, args: Any, named: Any) -> Any:
    """Arguments in which numbers stand for the tensors of one element that an operator takes as such."""

    def is_number(t: Any) -> bool:
        return isinstance(t, Tensor) and t._array.ndim == 0 and t.dtype.name != "bool" and known(t)

    def part(x: Any) -> Any:
        if isinstance(x, slice):
            return slice(*[read(v) if is_number(v) else v for v in (x.start, x.stop, x.step)])
        return x

    if getattr(func, "__name__", "") in ("__getitem__", "__setitem__"):
        index = tuple(part(x) for x in args[1]) if isinstance(args[1], tuple) else part(args[1])
        return (args[0], index, *args[2:]), named
    if not any(is_number(t) for t in tree_flatten((args, named))[0]):
        return args, named
    schemas = [s for s in schemas_of(name_of(func).removesuffix("_")).values() if not s.is_mutable]

    def numbers(value: Any, place: int | str) -> Any:
        """An argument, in which tensors are read unless some overload has them there."""
        for schema in schemas:
            some = (
                [a for a in schema.arguments if a.name == place]
                if isinstance(place, str)
                else schema.positional[place:][:1]
            )
            if any("Tensor" in a.declared for a in some or schema.positional[-1:]):
                return value
        return tree_map_only(Tensor, lambda t: read(t) if is_number(t) else t, value)

    if not schemas:
        return args, named
    return tuple(numbers(a, i) for i, a in enumerate(args)), {k: numbers(v, k) for k, v in named.items()}


def tensor_of(data: Any, known: Callable[[Any], bool], as_tensor: Callable[[Any], Tensor]) -> Tensor | None:
    """A tensor made of tensors or numbers that the recording has met; None for any other literal."""
    leaves = tree_flatten(data)[0]
    if isinstance(data, Tensor) or not any(isinstance(x, (TracedInt, TracedFloat)) or known(x) for x in leaves):
        return None
    shape, inner = [], data
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        inner = inner[0]
    parts = [x if isinstance(x, Tensor) else as_tensor(x) for x in leaves]
    if any(t._array.ndim for t in parts):
        return None
    return ops.reshape(ops.stack(parts), shape)
