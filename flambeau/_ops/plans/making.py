"""Plans of functions that make tensors of numbers alone: calls that are alike give the same elements, which a plan writes again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.allocation import SHARED
from ..._core.config import config, when_changed
from ..._core.dtypes import float32, float64, int64
from ..._core.sizes import Size
from ..._kernel.native.plan import NO_PLAN, Plan, Table, description, taken_apart
from ..._kernel.native.site import site
from ..._tensor import Tensor
from ..records.casting import moving
from ..registry import put_before
from .pointwise_plan import add_loop, bare
from .sites import described, native

_SIZES = 6  # that are given one by one, at most
_OPTIONS = "dtype", "device", "requires_grad"
_COPIED = 1 << 14  # bytes that a plan keeps for a result, at most
_MADE = 1 << 24  # bytes that are only made, at most
_LONG = 1 << 14  # elements from which other threads of the interpreter are given a chance
# Where an entry has a number as each of these, and bytes from one number of a list to the next.
_PLACES, _STEP = {float64: 0, float32: 8, int64: 16}, 24


def makes_the_same(slow: Any) -> Any:
    """Gives plans to a function whose result depends on its arguments alone, which are numbers and sizes."""
    return makes(slow, lambda values, out: _constant(out))


def makes_memory(slow: Any) -> Any:
    """The same for a function that leaves memory as it is, unless deterministic algorithms are demanded."""
    made = makes(slow, lambda values, out: None if config.deterministic else _constant(out, False))
    if made is not slow:
        when_changed.append(made.__self__.table.forget)
    return made


def makes_of_numbers(slow: Any) -> Any:
    """The same for a function whose first argument is a number or a list of numbers, which become the elements."""
    return makes(slow, _written, -1)


def makes(slow: Any, plan: Callable[[Sequence[Any], Tensor], Plan | None], runtime: int = 0) -> Any:
    """Gives plans to a function that makes tensors of numbers alone; `plan` is told of a call's arguments and its result, which is plain.
    Numbers in places of `runtime` (bits) are others in each call."""
    if not native:
        return slow
    given = inspect.signature(slow).parameters
    several = [p.name for p in given.values() if p.kind is p.VAR_POSITIONAL]
    others = any([p.kind is p.VAR_KEYWORD for p in given.values()])
    options = [name for name in _OPTIONS if name in given or others]
    names = (
        [*map(str, range(_SIZES))] if several else [p.name for p in given.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    )
    positional, table = len(names), Table()

    def remember(values: Sequence[Any], out: Any) -> None:
        made = None
        if out.__class__ is Tensor and not out._k and not any([isinstance(a, Tensor) for a in taken_apart(values)]):
            made = plan(values, out)
        table.add(description(values, Tensor, 0, runtime), made or NO_PLAN, values)

    names += [name for name in options if name not in names]
    doc = described(slow.__name__, slow, given, others=True)
    made = site(slow, remember, table, names, positional, runtime, name=slow.__name__, doc=doc, makes=True)
    put_before(slow, made)
    inner = slow
    while inner is not None:  # classes and modes that take over are given the site
        inner.public = made
        inner = getattr(inner, "__wrapped__", None)
    return made


def _constant(out: Tensor, filled: bool = True) -> Plan | None:
    """What makes a copy of a tensor."""
    array, d = out._array, out.dtype
    size = array.itemsize
    if not array.flags.c_contiguous or array.nbytes >= (SHARED if filled else _MADE) or size > 8:
        return None
    plan = Plan()
    target = plan.result(d, array.shape), 0
    plan.long = int(filled and array.size >= _LONG)
    if filled and array.size:
        copy, bits = moving(size)
        flat = array.reshape(-1).view(bits)
        alike = bool((flat[:1] == flat).all())
        if not alike and array.nbytes > _COPIED:
            return None
        source = plan.constant(flat[:1].copy() if alike else flat.copy())
        add_loop(plan, bare(copy), [flat.size], [0 if alike else size, size], [source, target], [], [[], []])
    return plan


def _written(values: Sequence[Any], out: Tensor) -> Plan | None:
    """What writes numbers into a tensor."""
    numbers = values[0] if values[0].__class__ in (list, tuple, Size) else [values[0]]
    kinds, place = {n.__class__ for n in numbers}, _PLACES.get(out.dtype)
    if place is None or not numbers or not kinds <= ({int} if out.dtype is int64 else {int, float}):
        return None
    if any([v.__class__ in (int, float) for v in values[1:]]):  # an option
        return None
    plan, (copy, _) = Plan(len(numbers)), moving(out.dtype.itemsize)
    target = plan.result(out.dtype, out._array.shape), 0
    add_loop(plan, bare(copy), [len(numbers)], [_STEP, out.dtype.itemsize], [(1, place), target], [], [[], []])
    return plan
