"""Plans of calls on a GPU: found by watching a call with arrays that have no memory, when its like comes a second time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import _dispatch
from ..._backend.cuda_watch import Shadow, Unwatchable, Watch, watching
from ..._core.dtypes import BY_NUMPY, uint8
from ..._core.layouts import pieces
from ..._core.sizes import Size
from ..._core.state import CUDA, GRAD, local
from ..._dispatch import backend_of
from ..._kernel.native.device_plan import CALLS, RESULTS, DevicePlan
from ..._kernel.native.plan import NO_PLAN, Several, Table, absent, description, taken_apart
from ..._kernel.native.site import Site, site
from ..._tensor import Tensor, wrap
from .patterns import pattern_of


class Memory:
    """Plans of one site for tensors on a GPU."""

    def __init__(self, table: Table, names: Sequence[str], positional: int, writes: Sequence[str] = ()):
        self.table, self.names, self.positional, self.writes = table, names, positional, writes

    def remember(self, function: Callable[..., Any], values: Sequence[Any], history: int) -> bool:
        """Makes the plan of a call that comes again, if it is one on a GPU; whether it is."""
        tensors = [v for v in taken_apart(values) if isinstance(v, Tensor)]
        if not any([t._k & CUDA for t in tensors]):
            return False
        if Watch.current is not None and Watch.current.here():
            return True
        backend = backend_of(CUDA)
        usual = all([t._k | GRAD == CUDA | GRAD and t._array.__class__ is backend.xp.ndarray for t in tensors])
        if usual and backend.ready():
            words = description(values, Tensor, history, form=backend.form())
            self.table.add(words, self.plan(backend, function, values, bool(history)) or NO_PLAN, values)
        return True

    def remember_views(self, plan: Callable[[], Any], values: Sequence[Any], history: int) -> None:
        """The same of views, whose plan is known."""
        backend = backend_of(CUDA)
        if backend.ready() and values[0]._array.__class__ is backend.xp.ndarray:
            words = description(values, Tensor, history, form=backend.form())
            self.table.add(words, plan() or NO_PLAN, values)

    def plan(self, backend: Any, function: Any, values: Sequence[Any], history: bool) -> DevicePlan | None:
        try:
            return self._watched(backend, function, values, history)
        except Exception:  # whatever went wrong, the call itself did not: it only has no plan
            return None

    def _watched(self, backend: Any, function: Any, values: Sequence[Any], history: bool) -> DevicePlan:
        parts = taken_apart(values)
        written = [
            i for name, i in zip(self.names, _places(values)) if name in self.writes and isinstance(parts[i], Tensor)
        ]
        order = [i for i, v in enumerate(parts) if isinstance(v, Tensor)]
        watch = Watch(backend, [parts[i]._array for i in order], [order.index(i) for i in written])
        watch.numbers, shadows = {}, iter(watch.given)
        bits = CUDA | GRAD if history or local.casting else CUDA  # autocast keeps copies of what requires gradients
        parts = [wrap(next(shadows), v.dtype, v._k & bits) if isinstance(v, Tensor) else v for v in parts]
        rest = iter(parts)
        given = [_rebuilt(v, next(rest), rest) for v in values]
        lead = 0
        while lead < self.positional and given[lead] is not absent:
            lead += 1
        named = {name: v for name, v in zip(self.names[lead:], given[lead:]) if v is not absent}
        before, local.grad = local.grad, history
        try:
            with watch:
                out = function(*given[:lead], **named)
        finally:
            local.grad = before
        several, first = isinstance(out, (tuple, list)), bool(written) and out is parts[written[0]]
        if first and history:
            raise Unwatchable("a history that is rewritten")
        outs = () if first else out if several else (out,)
        kept: list[Any] = []
        pattern = pattern_of(outs, parts, kept) if history else None
        made = _written(backend, watch, outs, kept)
        made.together = (tuple if isinstance(out, list) else type(out)) if several else None
        made.pattern = pattern
        if written:
            made.written(written, first, _spans(watch.given))
        return made


def _places(values: Sequence[Any]) -> Iterator[int]:
    """Where arguments begin among their parts."""
    place = 0
    for v in values:
        yield place
        place += len(taken_apart([v]))


def _spans(given: Sequence[Shadow]) -> list[tuple[int, ...]]:
    """Between which bytes from their addresses arrays lie, and in which pieces; those that are laid out alike have the same number."""
    layouts: dict[Any, int] = {}
    found: list[tuple[int, ...]] = []
    for x in given:
        ends = [(n - 1) * s for n, s in zip(x.shape, x.strides)] if x.size else []
        number = layouts.setdefault((x.shape, x.strides, x.dtype), len(layouts))
        low, high = sum([e for e in ends if e < 0]), sum([e for e in ends if e > 0]) + x.dtype.itemsize
        found.append((low, high, number, *pieces(x.shape, x.strides, x.dtype.itemsize)))
    return found


def _rebuilt(value: Any, first: Any, rest: Iterator[Any]) -> Any:
    """An argument like `value` of parts; `first` is all of it, or stands before the parts of a list."""
    if first.__class__ is not Several:
        return first
    items = [next(rest) for _ in value]
    return value if value.__class__ is Size else value.__class__(items)


def _written(backend: Any, watch: Watch, outs: Sequence[Any], kept: Sequence[Any]) -> DevicePlan:
    """The plan of what was seen: results, in the order that they are returned, what the node keeps, other memory, then calls."""
    inputs = len(watch.given)
    plan = DevicePlan(inputs)
    plan.keep.append(watch.keep)
    numbers = {i: i for i in range(inputs)}
    for i, x in enumerate((*[None if t is None else t._array for t in outs], *kept)):
        if x is None:
            plan.nothing()
            continue
        own = watch.made[x.owner - inputs] if isinstance(x, Shadow) and x.owner >= inputs else None
        if own is None or x.offset or x.nbytes != own.nbytes or x.owner in numbers:
            raise Unwatchable("a result that is a part of something")
        d = outs[i].dtype if i < len(outs) else BY_NUMPY[x.dtype]
        numbers[x.owner] = plan.result(_maker(backend, x), d, i < len(outs))
    plan.kept = plan.counts[0]
    for owner, give in (watch.numbers or {}).items():
        numbers[owner] = plan.number(give)
    places, size = watch.on_the_way(numbers)
    if size:
        number = plan.result(functools.partial(backend.xp.ndarray, (size,), uint8.numpy), uint8, False)
        numbers.update(dict.fromkeys(places, number))
    if plan.counts[0] > RESULTS or len(watch.calls) > CALLS:
        raise Unwatchable("too much")
    for kernel, address, sizes, args in watch.calls:
        plan.call(kernel, address, sizes, [(s, v) if s < 0 else (numbers[s], v + places.get(s, 0)) for s, v in args])
    return plan


def address_of(array: Any) -> int:
    """Where an array on a GPU begins."""
    return int(array.data.ptr)


def maker(array: Any) -> Callable[..., Any]:
    """What makes arrays like one on a GPU, of a place in its memory and strides."""
    kind: Callable[..., Any] = type(array)
    return functools.partial(kind, array.shape, array.dtype)


def _maker(backend: Any, x: Shadow) -> Callable[[], Any]:
    if x._c_contiguous:
        return functools.partial(backend.xp.ndarray, x.shape, x.dtype)
    return functools.partial(backend.xp.ndarray, x.shape, x.dtype, None, x.strides)


def _bits(args: Sequence[Any]) -> int:
    """Which arguments require gradients; 0 if nothing is recorded."""
    if not local.grad:
        return 0
    return sum([1 << i for i, a in enumerate(taken_apart(args)) if isinstance(a, Tensor) and a._k & GRAD])


def record_site(op: Any, slow: Callable[..., Any]) -> Callable[..., Any]:
    """A record's call with tensors on a GPU: `slow`, with plans before it unless its own call has them."""
    if not backend_of(CUDA).ready():
        return slow
    if isinstance(getattr(op.call, "__self__", None), Site) or len(op.names) > 12:
        return slow
    return _site(op.name, op.names, slow)


class Writing:
    """A function that writes to its first argument, a tensor on a GPU, and counts that; with plans, and without history."""

    __slots__ = ("call", "name", "names", "slow")

    def __init__(self, name: str, names: Sequence[str], slow: Callable[..., Any]):
        self.name, self.names, self.slow = name, names, slow
        self.call: Callable[..., Any] | None = None

    def __call__(self, t: Tensor, *rest: Any) -> None:
        call, watch = self.call, watching()
        if watch is not None and not watch.may_write(t._array):
            raise Unwatchable("a write to an argument")
        if call is None:
            ready = backend_of(CUDA).ready() and len(self.names) <= 12
            call = self.call = _site(self.name, self.names, self.slow, self.names[:1]) if ready else self.slow
        before, local.grad = local.grad, False
        try:
            call(t, *rest)
        finally:
            local.grad = before


def _site(name: str, names: Sequence[str], slow: Callable[..., Any], writes: Sequence[str] = ()) -> Callable[..., Any]:
    table = Table()
    memory = Memory(table, names, len(names), writes)
    return site(slow, lambda values, out: memory.remember(slow, values, _bits(values)), table, names, name=name)


def prepare(native: bool) -> None:
    """Lets the dispatcher make sites of records, where there can be machine code."""
    if native:
        _dispatch.record_site = record_site
