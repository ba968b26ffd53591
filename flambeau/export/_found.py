"""What the elements of a tensor decide in a recorded program: lengths of results (`nonzero`, masks) and numbers that are read (`item`).

A recording notes each of them when it comes (`Found`), and can be made with another value in its place: then results are
lengthened or cut, and an operator that refuses elements which do not fit them gives a result of the right shape.
"""

from __future__ import annotations

from typing import Any

from .._core.state import local
from .._ops.records.shape_rules import DataDependent
from .._ops.registry import ops
from .._tensor import Tensor
from ..jit._operators import find
from ..jit._tracer import Value
from ..utils._pytree import tree_flatten, tree_map

Place = tuple[int, int]  # (result, dimension)


class Found:
    """A number that elements decide: `value` is the number itself, or the tensor that has it as its size in `dim`."""

    def __init__(self, value: Value, number: int | float, dim: int | None = None):
        self.value, self.number, self.dim = value, number, dim


_dependent: dict[tuple[str, bool], bool] = {}


def found_sizes(op: str, args: list[Any], named: dict[str, Any], out: Any) -> list[list[Place]]:
    """The sizes of an operator's results that elements decide; those that are always equal stand together."""
    leaves = tree_flatten((args, named))[0]
    key = op, any(isinstance(t, Tensor) and t.dtype.name == "bool" for t in leaves)  # a mask is another index
    if _dependent.get(key) is False:
        return []
    modes, local.function_modes = local.function_modes, ()
    try:
        space, _, name = op.rpartition("::")
        places = _found_sizes(find(space or "aten", name), (args, named), out)
    finally:
        local.function_modes = modes
    _dependent[key] = _dependent.get(key, False) or places is not None
    return places or []


def _found_sizes(function: Any, given: Any, out: Any) -> list[list[Place]] | None:
    """The same; None for an operator whose shape rule asks for no elements."""
    try:
        args, named = tree_map(without_elements, given)
        function(*args, **named)
    except DataDependent:
        pass
    except Exception as error:
        if "no data" not in str(error):  # what meta tensors cannot do
            return None
    else:
        return None
    shapes = [_shapes(out)]
    for fill in (_zeros, _ones, _steps):
        try:
            args, named = tree_map(lambda t: fill(t) if isinstance(t, Tensor) else t, given)
            shapes.append(_shapes(function(*args, **named)))
        except Exception:
            continue
    groups: dict[tuple[int, ...], list[Place]] = {}
    for i, shape in enumerate(shapes[0]):
        for d in range(len(shape)):
            seen = tuple(s[i][d] for s in shapes)
            if len(set(seen)) > 1:
                groups.setdefault(seen, []).append((i, d))
    return list(groups.values())


def without_elements(t: Any) -> Any:
    """A tensor that has a shape only."""
    return t.detach().to("meta") if isinstance(t, Tensor) else t


def _shapes(out: Any) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for t in tree_flatten(out)[0]]


def _zeros(t: Tensor) -> Tensor:
    return ops.zeros_like(t)


def _ones(t: Tensor) -> Tensor:
    return ops.ones_like(t)


def _steps(t: Tensor) -> Tensor:
    return (ops.arange(t.numel()) % 3).reshape(t.shape).to(t.dtype)


def of_length(t: Tensor, dim: int, n: int) -> Tensor:
    """A tensor with another size, filled with its own elements, over and over."""
    have = t._array.shape[dim]
    if n == have:
        return t
    if not have:
        return ops.zeros([n if d == dim else size for d, size in enumerate(t._array.shape)], dtype=t.dtype)
    history, t = t.requires_grad, t.detach()[(slice(None),) * dim + ([i % have for i in range(n)],)].contiguous()
    return t.requires_grad_() if history else t


def with_sizes(out: Any, places: list[Place], n: int) -> Any:
    """The results of an operator with another size in these places."""
    leaves, spec = tree_flatten(out)
    for i, dim in places:
        leaves[i] = of_length(leaves[i], dim, n)
    return spec.unflatten(leaves)


def shaped_as(function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Zeros of the shapes that a function gives; what it writes to is given back as it is."""
    given, options = tree_map(without_elements, (tuple(args), dict(named)))
    out = function(*given, **options)
    if given and out is given[0]:
        return args[0]
    return tree_map(lambda t: ops.zeros(t.shape, dtype=t.dtype) if isinstance(t, Tensor) else t, out)
