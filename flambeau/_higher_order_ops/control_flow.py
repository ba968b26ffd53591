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


def _refuse_others(name: str, what: str, found: Any, expected: Any) -> None:
    """Raises if tensors that are carried on are not like those that they take the place of."""
    (leaves, form), (before, known) = tree_flatten(found), tree_flatten(expected)
    looks = [[_look(a) for a in group] for group in (leaves, before)]
    if looks[0] == looks[1] and form == known:
        return
    from .._dynamo.exc import UncapturedHigherOrderOpError  # which is loaded by those who use it

    unlike = [f"{i}: {a} and {b}" for i, (a, b) in enumerate(zip(*looks)) if a != b]
    raise UncapturedHigherOrderOpError(
        f"{name}: Expected {what} to have same "
        + (
            f"number of outputs but got {len(leaves)} and {len(before)}"
            if len(leaves) != len(before)
            else f"metadata but found: {'; '.join(unlike) or f'{form} and {known}'}"
        )
    )


def _look(a: Any) -> Any:
    return (tuple(a.shape), a.dtype, a.device) if isinstance(a, Tensor) else "a number"


def _refuse_numbers(name: str, what: str, leaves: list[Any], others: tuple[type, ...] = ()) -> None:
    for a in leaves:
        if not isinstance(a, (Tensor, *others)):
            raise RuntimeError(f"{name}: All {what} leaves must be a Tensor but got {a}")


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
        _refuse_others("while_loop", "body_fn_output and carried_inputs", made, carried)
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
    if not callable(combine_fn):
        raise RuntimeError(f"scan: Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"scan: Reverse must be a bool, but got {type(reverse)}")
    if not tree_flatten(init)[0]:
        raise RuntimeError("scan() operator requires init leaves.")
    _refuse_numbers("scan", "init", tree_flatten(init)[0])
    _refuse_numbers("scan", "xs", leaves)
    if not leaves:
        return init, xs
    dim = wrap_dim(dim, leaves[0].ndim)
    if any([x.ndim <= dim or not x.shape[dim] for x in leaves]):
        raise RuntimeError("scan: All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    count = leaves[0].shape[dim]
    if any([x.shape[dim] != count for x in leaves]):
        raise RuntimeError(f"scan: All xs leaves must have the same extent along dimension {dim}")
    carry, outs = init, []
    for i in reversed(range(count)) if reverse else range(count):
        found = combine_fn(carry, tree_unflatten([x.select(dim, i) for x in leaves], spec))
        if not outs:
            if not isinstance(found, (tuple, list)) or len(found) != 2:
                raise RuntimeError("scan: combine_fn must give a carry and an output")
            _refuse_others("scan", "init and carry", found[0], init)
            _refuse_numbers("scan", "output", tree_flatten(found[1])[0])
        carry, out = found
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
    _refuse_numbers("map", "xs", leaves)
    if not leaves or any(x.shape[:1] != leaves[0].shape[:1] for x in leaves):
        shapes = [x.shape for x in leaves]
        raise RuntimeError(f"map: Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if not leaves[0].shape[0]:
        raise RuntimeError("map: Leading dimensions of mapped xs cannot be 0.")
    if local.function_modes and getattr(local.function_modes[-1], "exports", False):
        with suppress(Exception):  # what cannot be mapped is unrolled
            return vmap(f, (0, *[None] * len(args)))(xs, *args)
    return _stacked([f(tree_map(lambda x, i=i: x[i], xs), *args) for i in range(leaves[0].shape[0])])
