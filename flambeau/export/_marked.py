"""Sizes that `torch._dynamo.mark_dynamic` says change: whether a function takes others, which is found as it is for exported programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..jit._tracer import Value
from ..nn.modules.module import Module
from ._export import _Function
from ._sizes import Run, Study
from .dynamic_shapes import Place, Wish

_NEAR = (1, 2, 3, 4, 5, -1, -2, -3, -4)
_MANY = 3  # runs that tell whether a number follows a size


def specialized_size(
    function: Callable[..., Any], args: Any, named: Any, wanted: Sequence[tuple[int, int]], free: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:  # fmt: skip
    """The first of the wanted sizes (number of a leaf, dimension) that a function treats in another way than all others; `free` ones may
    change with it. None also for a function of which that cannot be said."""
    wishes = [(Place(i, d, f"{i}.{d}"), Wish(None, 1, 0, 0, None, True, "")) for i, d in (*wanted, *free)]
    try:
        study = Study(function if isinstance(function, Module) else _Function(function), args, named, wishes, ())
    except Exception:  # what else is wrong with it, calls will say
        return None
    own, numbers = _said(study.base)
    for leaf, dim in wanted:
        size = study.leaves[leaf]._array.shape[dim]
        if size < 2:
            continue
        steps = [s for s in study.symbols if any([(p.leaf, p.dim) == (leaf, dim) for p, _ in s.places])]
        others = []
        for n in _NEAR:
            sizes = {(p.leaf, p.dim): e.value({s.name: s.value + n}) for s in steps for p, e in s.places}
            sizes = sizes or {(leaf, dim): size + n}
            if min(sizes.values()) < 2:
                continue
            try:
                run = Run(study.mod, study.leaves, study.spec, sizes, {}, ())
            except Exception:
                continue
            form, found = _said(run.without_elements())
            others += [found] if form == own else []
        alone = [
            len({*rest}) == 1 and a != rest[0] for a, *rest in zip(numbers, *others)
        ]  # other sizes agree, and not with this one
        if not others or (len(others) >= _MANY and any(alone)):
            return leaf, dim
    return None


def _said(run: Run) -> tuple[list[Any], list[Any]]:
    """What a recording does, without its numbers, and these."""
    numbers: list[Any] = []

    def read(a: Any) -> Any:
        if isinstance(a, Value):
            return run.place(a)
        if isinstance(a, (list, tuple)):
            return list(map(read, a))
        if type(a) is int or type(a) is float:
            numbers.append(repr(a))
            return type(a)
        return a

    form = [[n.op, read(n.args), {k: read(v) for k, v in n.named.items()}, [v.kind for v in n.outs]] for n in run.nodes]
    return [form, read(run.results)], numbers
