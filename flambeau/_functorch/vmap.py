"""Steps of `vmap` under the names that PyTorch's private module has for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._C._functorch import _add_batch_dim, _remove_batch_dim
from .._tensor import Tensor
from ..func.batched import opened, rewrapped, unwrap
from ..func.vmap import _name as _get_name
from ..func.vmap import vmap
from ..utils._pytree import _broadcast_to_and_flatten, broadcast_prefix, tree_flatten, tree_unflatten

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_get_name", "_maybe_remove_batch_dim", "_remove_batch_dim",
    "restore_vmap", "tree_flatten", "tree_unflatten", "unwrap_batched", "vmap", "wrap_batched",
]  # fmt: skip


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result without its batch; `out_dim` None for one that has none."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}; with an out_dim of "
            "None other values may be returned"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def restore_vmap(func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str) -> Callable[..., Any]:
    """A function like `vmap`'s that gives (results, where each has its batch), as they came: None for those without."""

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with opened(batch_size, randomness) as level:
            return unwrap_batched(func(*wrap_batched(args, in_dims, level), **kwargs), level)

    return inner


def wrap_batched(args: Any, bdims: Any, level: int) -> Any:
    """Arguments as the samples of a batch at a level."""
    flat, spec = tree_flatten(args)
    return tree_unflatten([rewrapped(a, d, level) for a, d in zip(flat, broadcast_prefix(bdims, args))], spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """(values, where each has its batch)."""
    flat, spec = tree_flatten(args)
    if not flat:
        return args, ()
    values, dims = zip(*[unwrap(a, level) for a in flat])
    return tree_unflatten(list(values), spec), tree_unflatten(list(dims), spec)
