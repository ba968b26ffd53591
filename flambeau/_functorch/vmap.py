"""Steps of `vmap` under the names that PyTorch's private module has for them."""

from __future__ import annotations

from typing import Any

from .._C._functorch import _add_batch_dim, _remove_batch_dim
from .._tensor import Tensor
from ..func.vmap import _name as _get_name
from ..func.vmap import vmap
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_get_name", "_maybe_remove_batch_dim", "_remove_batch_dim",
    "tree_flatten", "tree_unflatten", "vmap",
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
