"""`vmap` under the older name that programs still import; random operations are refused inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .func import vmap as _of_func

_RANDOM = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of "
    "vmap, or use torch.func.vmap, which has an argument for them."
)


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """Like `func.vmap`; with `allow_none_pass_through` results may be None."""
    left: list[Any] = []

    def chosen(*args: Any) -> Any:
        made = func(*args)
        if not allow_none_pass_through:
            return made
        parts = made if isinstance(made, tuple) else (made,)
        left[:] = [isinstance(made, tuple), [i for i, t in enumerate(parts) if t is not None], len(parts)]
        return tuple(parts[i] for i in left[1])

    def mapped(*args: Any) -> Any:
        try:
            found = _of_func(chosen, in_dims, out_dims)(*args)
        except RuntimeError as error:
            if "random operation" in str(error):
                raise RuntimeError(_RANDOM) from error
            raise
        if not allow_none_pass_through:
            return found
        several, places, count = left
        parts = tuple(dict(zip(places, found)).get(i) for i in range(count))
        return parts if several else parts[0]

    return mapped


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Like `func.vmap`.

    >>> import flambeau as torch
    >>> from flambeau._vmap_internals import vmap
    >>> vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    return _vmap(func, in_dims, out_dims)


__all__ = ["vmap"]
