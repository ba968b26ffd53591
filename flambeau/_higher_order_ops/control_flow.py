"""Branches and loops over tensors as functions, as compiled programs need them; here they simply run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .._core.sizes import wrap_dim
from .._core.state import local
from .._core.steps import chosen_by_elements
from .._functorch.vmap import vmap
from .._names.rare import cond as cond
from .._ops.registry import ops
from .._tensor import Tensor
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten


def _holds(name: str, pred: Any) -> bool:
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"{name}: expected a bool or a tensor of one element, got {pred}")
    return bool(pred)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> tuple[Any, ...]:
    """Puts the results of body_fn in place of its arguments as long as cond_fn of them holds.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import while_loop
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.tensor(1.0)))
    (tensor(3), tensor(8.))
    """
    return chosen_by_elements(_loop, (cond_fn, body_fn), tuple(carried_inputs))


def _loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], *carried: Any) -> tuple[Any, ...]:
    while _holds("while_loop", cond_fn(*carried)):
        made = body_fn(*carried)
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(carried):
            raise RuntimeError(f"while_loop: body_fn gave {len(made)} results for {len(carried)} inputs")
        carried = made
    return carried


def _stacked(trees: list[Any], dim: int = 0) -> Any:
    leaves = [tree_flatten(tree)[0] for tree in trees]
    return tree_unflatten(
        [ops.stack(list(each), min(dim, each[0].ndim)) for each in zip(*leaves)], tree_flatten(trees[0])[1]
    )


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """(carry, out) = combine_fn(carry, x) for the slices of xs; gives the last carry and all outs stacked along `dim`.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c + x), torch.tensor(0), torch.tensor([1, 2, 3]))
    (tensor(6), tensor([1, 3, 6]))
    """
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise RuntimeError("scan: xs holds no tensor")
    dim = wrap_dim(dim, leaves[0].ndim)
    count = leaves[0].shape[dim]
    carry, outs = init, []
    for i in reversed(range(count)) if reverse else range(count):
        carry, out = combine_fn(carry, tree_unflatten([x.select(dim, i) for x in leaves], spec))
        outs.append(out)
    return carry, _stacked(outs[::-1] if reverse else outs, dim)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f(x, *args) for the slices of xs along their first dimension, stacked.

    >>> import flambeau as torch
    >>> from flambeau._higher_order_ops import map
    >>> map(lambda x, y: x + y, torch.tensor([[1, 2], [3, 4]]), torch.tensor([10, 20]))
    tensor([[11, 22],
            [13, 24]])
    """
    leaves = tree_flatten(xs)[0]
    if not leaves or any(x.shape[0] != leaves[0].shape[0] for x in leaves):
        raise RuntimeError("map: xs must hold tensors of the same first extent")
    if local.function_modes and getattr(local.function_modes[-1], "exports", False):
        with suppress(Exception):  # what cannot be mapped is unrolled
            return vmap(f, (0, *[None] * len(args)))(xs, *args)
    return _stacked([f(tree_map(lambda x, i=i: x[i], xs), *args) for i in range(leaves[0].shape[0])])
