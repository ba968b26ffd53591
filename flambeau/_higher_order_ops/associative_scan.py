"""Running results of an associative function, in a number of steps that grows with the logarithm of the length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.sizes import wrap_dim
from .._ops.registry import ops
from .._tensor import Tensor
from ..utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Along a dimension, what combine_fn makes of all slices up to each one; xs may be a tree of tensors.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import associative_scan
    >>> associative_scan(lambda x, y: x * y, torch.tensor([1, 2, 3, 4]), dim=0, combine_mode="generic")
    tensor([ 1,  2,  6, 24])
    """
    if not callable(combine_fn):
        raise ValueError(f"associative_scan: combine_fn must be callable, got {combine_fn!r}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("associative_scan: xs must hold tensors")
    dim = wrap_dim(dim, leaves[0].ndim)
    if any(x.shape[dim] != leaves[0].shape[dim] for x in leaves):
        raise ValueError(f"associative_scan: tensors of different extents along dimension {dim}")

    def combine(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
        return tree_flatten(combine_fn(tree_unflatten(first, spec), tree_unflatten(second, spec)))[0]

    if reverse:
        leaves = [ops.flip(x, (dim,)) for x in leaves]
    made = _scan(combine, leaves, dim)
    return tree_unflatten([ops.flip(x, (dim,)) for x in made] if reverse else made, spec)


def _scan(combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor], dim: int) -> list[Tensor]:
    """Combines neighbours, scans those half as many, and fills in the places between."""
    count = xs[0].shape[dim]
    if count < 2:
        return xs

    def part(x: Tensor, start: int, stop: int, step: int = 1) -> Tensor:
        return x[(slice(None),) * dim + (slice(start, stop, step),)]

    pairs = count // 2 * 2
    odd = _scan(combine, combine([part(x, 0, pairs, 2) for x in xs], [part(x, 1, pairs, 2) for x in xs]), dim)
    later = [part(x, 2, count, 2) for x in xs]
    even = combine([part(x, 0, later[0].shape[dim]) for x in odd], later) if count > 2 else []
    made = []
    for i, x in enumerate(xs):
        evens = ops.cat([part(x, 0, 1), even[i]], dim) if even else part(x, 0, 1)
        woven = ops.stack([part(evens, 0, count // 2), odd[i]], dim + 1).flatten(dim, dim + 1)
        made.append(ops.cat([woven, part(evens, count // 2, evens.shape[dim])], dim) if count % 2 else woven)
    return made
