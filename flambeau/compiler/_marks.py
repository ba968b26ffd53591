"""What programs say about sizes of tensors: that they change, and between which limits, or that they do not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from .._tensor import Tensor
from ..nn.modules.module import Module
from ..utils._pytree import tree_leaves
from ..utils.weak import WeakTensorKeyDictionary


class Mark(NamedTuple):
    """What is said of a size that changes; one that is not `strict` may also stay as it is."""

    low: int | None
    high: int | None
    strict: bool


# Tensors of which a program said that their sizes change (a mark for each dimension), or that they do not.
changing, fixed = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()


def mark(t: Tensor, dims: Collection[int], found: Mark) -> None:
    """Says that sizes of a tensor change; what was said before stays."""
    own = changing.get(t, {})
    strict = {d: found.strict or (d in own and own[d].strict) for d in dims}
    changing[t] = {**own, **{d: found._replace(strict=strict[d]) for d in dims}}


def marked(leaves: Sequence[Any]) -> list[tuple[int, int]]:
    """Where sizes change: the number of an argument's part, and of a dimension."""
    return [(i, d) for i, a in enumerate(leaves) if isinstance(a, Tensor) for d in changing.get(a, ())]


def check_limits(leaves: Sequence[Any]) -> None:
    """Raises if a size is not between the limits that were given for it."""
    for i, d in marked(leaves):
        (low, high, _), n = changing[leaves[i]][d], leaves[i]._array.shape[d]
        if n < (n if low is None else low) or n > (n if high is None else high):
            from ..fx.experimental.symbolic_shapes import ConstraintViolationError  # fx is loaded by those who use it

            raise ConstraintViolationError(f"{n} not in range [{low or 0}, {'int_oo' if high is None else high}]")


def check_followed(
    function: Callable[..., Any], args: Any, named: Any, free: Collection[tuple[int, int]], all_free: bool
) -> None:
    """Raises if a function that changes nothing takes no other size where sizes were said to change: it is run with some.

    `free` are other places where sizes change, or all with `all_free`.
    """
    leaves = tree_leaves((args, named))
    if not any([m.strict for a in leaves if isinstance(a, Tensor) for m in changing.get(a, {}).values()]):
        return
    from ..export._marked import specialized_size  # which is loaded by those who use it
    from ..fx.experimental.symbolic_shapes import ConstraintViolationError

    strict, soft = [], []
    for i, a in enumerate(leaves):
        for d in range(a.dim()) if isinstance(a, Tensor) else ():
            said = changing.get(a, {}).get(d)
            if said is not None and said.strict:
                strict.append((i, d))
            elif said is not None or all_free or (i, d) in free:
                soft.append((i, d))
    found = specialized_size(function, args, named, strict, soft)
    if found is not None:
        name, size = _path(function, args, named, leaves[found[0]]), leaves[found[0]]._array.shape[found[1]]
        label = f"L[{name!r}].size()[{found[1]}]"
        raise ConstraintViolationError(
            f'Constraints violated ({label})! For more information, run with TORCH_LOGS="+dynamic".\n  - You marked {label} as dynamic '
            f"but your code specialized it to be a constant ({size}). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic."
        )


def _path(function: Any, args: Any, named: Any, leaf: Tensor) -> str:
    """What a function calls the argument that a tensor is, or is in."""
    called = function.forward if isinstance(function, Module) else function
    try:
        given = inspect.signature(called).bind(*args, **named).arguments
    except (TypeError, ValueError):
        return "args"
    return next((name for name, a in given.items() if any([b is leaf for b in tree_leaves(a)])), "args")
