"""The differentiating transforms, and what they do with `argnums`, where PyTorch keeps them."""

from __future__ import annotations

from typing import Any

from ..func import checks
from ..func.functionalization import functionalize
from ..func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ..utils._pytree import tree_flatten, tree_map, tree_map_only, tree_unflatten
from .vmap import vmap

__all__ = [
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "tree_flatten", "tree_map",
    "tree_map_only", "tree_unflatten", "vjp", "vmap",
]  # fmt: skip


def _as_tuple(val: Any) -> Any:
    return val if isinstance(val, tuple) else (val,)


def _validate_and_wrap_argnums(argnums: Any, num_args: int) -> Any:
    """`argnums`, counted from the front."""
    found = checks.positions(argnums, num_args)
    return found[0] if isinstance(argnums, int) else found


def _slice_argnums(args: Any, argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments that `argnums` names."""
    chosen = tuple(args[n] for n in checks.positions(argnums, len(args)))
    return chosen[0] if isinstance(argnums, int) and not as_tuple else chosen
