"""Functions without writes for those who transform them, and modules without running statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core.state import local
from .._ops.registry import ops
from .._tensor import Tensor
from ..utils._pytree import tree_flatten, tree_unflatten
from .batched import Batched
from .tracking import root

__all__ = ["debug_unwrap", "functionalize", "replace_all_batch_norm_modules_"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that gives what `func` gives and works on copies, so that nothing but its inputs is written to.

    Inputs that `func` writes to get their new values once, at the end. A graph that `make_fx` records of it has no other write;
    with `remove="mutations_and_views"` it has operators that copy in the place of those that give views.

    >>> import flambeau as torch
    >>> x = torch.zeros(2)
    >>> torch.func.functionalize(lambda x: x.add_(1) * 2)(x), x
    (tensor([2., 2.]), tensor([1., 1.]))
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations') or 'mutations_and_views' are the two possibilities, got remove={remove!r}"
        )

    @functools.wraps(func)
    def function(*args: Any, **named: Any) -> Any:
        flat, spec = tree_flatten((args, named))
        for mode in reversed(local.dispatch_modes):  # nobody but a recorder of operators can tell
            if hasattr(mode, "functionalized"):
                return mode.functionalized(lambda: func(*args, **named), flat, remove == "mutations_and_views")
        copies = [ops.clone(a) if isinstance(a, Tensor) else a for a in flat]
        versions = [root(c)._version if isinstance(c, Tensor) else 0 for c in copies]
        given, options = tree_unflatten(copies, spec)
        out = func(*given, **options)
        for a, c, before in zip(flat, copies, versions):
            if isinstance(a, Tensor) and root(c)._version != before:
                ops.copy_(a, c)
        return out

    return function


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The whole batch behind a tensor inside `vmap`; for looking at, not for computing with."""
    while isinstance(tensor, Batched):
        tensor = tensor.value
        if not recurse:
            break
    return tensor


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Lets all batch norms below `root` forget their running statistics, which they could not update inside `vmap`.

    >>> import flambeau as torch
    >>> layer = torch.func.replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(2))
    >>> layer.running_mean is None
    True
    """
    for module in root.modules():
        if any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__):  # `nn` lies above this package
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
