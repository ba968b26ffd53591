"""Plans of primitives: which native loops one call of them ran, found by watching it.

The arrays of a watched call are of a class that NumPy asks before it computes with them. Loops of ours are run and written
down; so is what a kernel answered to a question (`if wrong:`), which must be answered alike when the plan is carried out.
Whatever else is done with the elements (NumPy's own functions, reading a value) ends the watch without a plan.
A forward function that makes its memory with `allocation.empty` and computes by kernels alone has a plan, then, and needs
nothing else for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import re
import threading
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..._backend.copies import LARGE, fill
from ..._backend.cpu import native_call
from ..._core import allocation
from ..._core.collector import uncollected
from ..._core.dtypes import BY_NUMPY
from ..._core.layouts import in_rows, is_dense, like_strides
from ..._core.state import CAPTURE, GRAD, WATCHING, held_over_forks, local, modes
from ..._kernel.folds.counting import any_nonzero
from ..._kernel.loops.ufunc import loops
from ..._kernel.native.entry import RESULTS
from ..._kernel.native.plan import Plan, absent, taken_apart
from ..._kernel.native.walks import arrangement, merged
from ..._kernel.threads import pool
from ..._tensor import Tensor, wrap
from ..records.casting import cast_kernel, moving
from .patterns import Unplannable, pattern_of
from .pointwise_plan import add_long_rows, add_loop
from .steps import add_words

_TURNS = 1 << 14  # how often a loop may be started again
_ROOM = 1 << 16  # bytes of memory that plans share, at least
_MOST = 1 << 22  # elements in all arrays: more take so long that there is time for Python
# elements in all arrays, up to which one thread will do where loops do not share their work by themselves
_SMALL = 1 << 19
_LONG = 1 << 14  # elements in all arrays, from which other threads of the interpreter are given a chance
_PIECE = 1 << 10  # bytes of an array's share of a row, from which joining arrays is copying them
_SPAN = 1 << 22  # bytes from the first to the last element of an operand
_lock = threading.Lock()
held_over_forks(_lock, WATCHING)
# what may be asked of an array whose elements nobody may look at
_FEATURES = frozenset(
    """
    any astype copy fill shape strides dtype ndim size nbytes itemsize flags reshape transpose T view swapaxes
    squeeze base __class__ __array_ufunc__ __array_function__ __array_finalize__ __array_priority__ __array_wrap__
    """.split()  # noqa: SIM905
)


class Watched(np.ndarray):
    """An array whose elements nobody looks at unseen. Copies are made by kernels of ours."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **named: Any) -> Any:
        current = Watch.current
        if method != "__call__" or named or ufunc not in loops or current is None:
            raise Unplannable(f"{ufunc.__name__} of NumPy's")
        if not out and not ufunc.signature and ufunc.nout == 1:
            out = (current.like(ufunc, inputs),)
        if len(out) != ufunc.nout:
            raise Unplannable("results that NumPy would make")
        current.add(ufunc, [*inputs, *out])
        ufunc(*[np.asarray(a) if isinstance(a, Watched) else a for a in inputs], *[_writable(a) for a in out])
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        if function is np.concatenate and named.keys() <= {"out"}:
            return _current().joined(*args, **named)
        if function is np.may_share_memory and _current().written is not None:  # operands of a plan that writes do not
            return np.may_share_memory(*map(np.asarray, args))
        if function is np.broadcast_to and not named:
            return np.broadcast_to(np.asarray(args[0]), args[1]).view(Watched)
        raise Unplannable(f"{function.__name__} of NumPy's")

    def __getattribute__(self, name: str) -> Any:
        if name not in _FEATURES and not (name == "__array_interface__" and Watch.current and Watch.current.shows):
            raise Unplannable(f"the attribute {name}")
        return super().__getattribute__(name)

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not all(p is None or p is Ellipsis or isinstance(p, (int, slice)) for p in parts):
            raise Unplannable("elements by index")
        made = super().__getitem__(key)
        if not isinstance(made, Watched):
            raise Unplannable("one element")
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        _current().move(self[key if any([p is Ellipsis for p in parts]) else (*parts, ...)], value)

    def fill(self, value: Any) -> None:
        _current().move(self, value)

    def copy(self, order: Any = "C") -> Any:
        return self.astype(self.dtype, order)

    def astype(  # type: ignore[override]
        self, dtype: Any, order: Any = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        if not copy and dtype == self.dtype:
            return self
        if order != "C" and self.ndim > 1 and not self.flags.c_contiguous:
            raise Unplannable("a copy in another order")
        if order == "C" or in_rows(self):
            made = _current().empty(self.shape, dtype)
        else:
            strides = like_strides(self.shape, self.strides, self.itemsize)
            made = _current().empty_strided(self.shape, dtype, [s * np.dtype(dtype).itemsize for s in strides])
        _current().move(made, self)
        return made

    def reshape(self, *shape: Any, **named: Any) -> Any:
        made = super().reshape(*shape, **named)
        if self.size and not np.may_share_memory(np.asarray(made), np.asarray(self)):  # a copy, which nobody saw
            made = self.astype(self.dtype, "C").reshape(*shape, **named)
        return made

    def _refuse(self, *args: Any, **named: Any) -> Any:
        raise Unplannable("a value")

    def __bool__(self) -> bool:
        """A question that a kernel has answered; the plan holds as long as the answer is this one."""
        current = Watch.current
        if current is None or self.dtype != np.bool_ or self.ndim:
            raise Unplannable("a value")
        return current.answer(self)

    def any(self) -> bool:  # type: ignore[override]
        """The same question to all elements."""
        return _current().any_of(self)

    __int__ = __float__ = __complex__ = __index__ = __iter__ = __contains__ = _refuse


def _current() -> Watch:
    if Watch.current is None:
        raise Unplannable("a watch that is over")
    return Watch.current


def _apart(array: Any) -> Any:
    """A copy, laid out alike, in memory that no other operand shares: an address tells whose it is."""
    if not array.size:
        return array.copy()
    first, last = np.lib.array_utils.byte_bounds(array)
    if last - first > max(_SPAN, array.nbytes):
        raise Unplannable("an operand that lies too far apart")
    start = array.__array_interface__["data"][0] - first
    memory = np.empty(last - first + 8, np.uint8)
    offset = -memory.__array_interface__["data"][0] % 8
    ctypes.memmove(memory.__array_interface__["data"][0] + offset, first, last - first)
    return np.ndarray(array.shape, array.dtype, memory, offset + start, array.strides)


class Watch:
    """What a call does: memory that it was given or made, and loops over it."""

    current: Watch | None = None
    shows = False  # whether the addresses of arrays may be asked for
    written: Any = None  # a copy of the operand that the call may write to, the first one, as it was before

    def __init__(self) -> None:
        self.memory: list[Any] = []  # (first byte, last byte + 1, number among operands, array)
        self.made: list[Any] = []
        self.calls: list[Any] = []

    def __enter__(self) -> Watch:
        _lock.acquire()
        self.thread = threading.get_ident()
        Watch.current = allocation.watcher = modes.watching = self
        return self

    def __exit__(self, *error: Any) -> None:
        Watch.current = allocation.watcher = modes.watching = None
        _lock.release()

    def here(self) -> bool:
        """Whether it is this thread's call that is watched."""
        return self.thread == threading.get_ident()

    def refuse(self) -> None:
        raise Unplannable("what Python must do each time")

    def _known(self, array: Any, number: int) -> Any:
        """Memory that only loops which are written down may write to."""
        first, last = np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
        self.memory.append((first, last, number, array))
        closed = array.view()
        closed.flags.writeable = number == 1 and self.written is not None
        return closed.view(Watched)

    def empty(self, shape: Any, dtype: Any) -> Any:
        array = np.empty(shape, dtype)
        self.made.append(array)
        return self._known(array, -len(self.made))

    def empty_strided(self, shape: Any, dtype: Any, strides: Any) -> Any:
        """Memory whose dimensions lie densely, in any order."""
        order = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d], d))
        made = self.empty([shape[d] for d in order], dtype)
        ways = dict(zip(order, made.strides))
        if any([n > 1 and s != ways[d] for d, (n, s) in enumerate(zip(shape, strides))]):
            raise Unplannable("memory with gaps")
        return np.ndarray(shape, made.dtype, made.view(np.ndarray), 0, strides).view(Watched)

    def work(self, words: Any, threads: int, places: Any, inside: Any = (), kept: Any = None) -> None:
        """The pool is about to do what words describe; operands' addresses are at places among them, and addresses of the words
        themselves (place, bytes from the first) `inside`. What other addresses point to is `kept`."""
        raise Unplannable("work for the pool")

    def words(self, engine: Any, count: int) -> Any:
        """The next words of the default stream (None stands for another), which the plan draws when it is carried out."""
        raise Unplannable("a stream")

    def side_by_side(self, call: Any, jobs: Any) -> None:
        """Calls of a kernel that threads may share."""
        for operands in jobs:
            call(*operands)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        made = self.empty(shape, dtype)
        made.fill(0)
        return made

    def move(self, target: Any, source: Any) -> None:
        """Writes an array or a number into another array, which shares no memory with it."""
        if not isinstance(source, Watched):
            if isinstance(source, np.ndarray) and source.ndim and source.flags.writeable:
                raise Unplannable("memory that was made elsewhere")
            source = np.asarray(source)
            source = source.astype(target.dtype, copy=source.flags.writeable)  # one number for all elements stays one
            source.flags.writeable = False
        elif self.place(source)[0] == self.place(target)[0]:
            raise Unplannable("a copy within one array")
        if target.dtype.kind == "c" and source.dtype.kind != "c" and target.ndim and target.flags.c_contiguous:
            parts = target.view(np.dtype(target.dtype.char.lower())).reshape(*target.shape, 2)
            self.move(parts[..., 0], source)
            self.move(parts[..., 1], 0)
            return
        if source.dtype != target.dtype:
            call = cast_kernel(BY_NUMPY[source.dtype], BY_NUMPY[target.dtype])
            if call is None:
                raise Unplannable("a conversion")
            call(source, target)
            return
        call, bits = moving(target.dtype.itemsize)
        call(source.view(bits), target.view(bits))

    def joined(self, arrays: Any, dim: int = 0, out: Any = None) -> Any:
        """`np.concatenate` of arrays of one dtype, into memory of any order or, if they are row-major but for gaps, into new memory."""
        shape = list(arrays[0].shape)
        shape[dim] = sum([a.shape[dim] for a in arrays])
        for a in arrays:
            rows = (
                out is not None or a.flags.c_contiguous or list(a.strides) == sorted(map(abs, a.strides), reverse=True)
            )
            if [*a.shape[:dim], *a.shape[dim:][1:]] != [*shape[:dim], *shape[dim:][1:]] or not rows:
                raise Unplannable("arrays that do not fit, or in another order")
        made, start = self.empty(shape, arrays[0].dtype) if out is None else out, 0
        for a in arrays:
            self.move(made[(*[slice(None)] * (dim % len(shape)), slice(start, start + a.shape[dim]))], a)
            start += a.shape[dim]
        return made

    def scratch(self, size: int) -> Any:
        """Memory that is needed for a moment."""
        return self.empty(size, np.uint8)

    def like(self, ufunc: Any, operands: Any) -> Any:
        """Memory for a pointwise result."""
        shape, strides = arrangement([np.asarray(a) for a in operands], False)
        d = np.dtype(ufunc.types[0][-1])
        return self.empty_strided(shape, d, [s * d.itemsize for s in strides])

    def has(self, array: Any) -> bool:
        start = array.__array_interface__["data"][0]
        return any([first <= start < last for first, last, *_ in self.memory])

    def place(self, array: Any) -> tuple[int, int]:
        """An array as an operand: whose memory it is (results count downwards from -1 as yet), and bytes from its beginning."""
        return self.at(np.asarray(array).__array_interface__["data"][0])

    def at(self, start: int) -> tuple[int, int]:
        """The same of an address."""
        for first, last, number, own in self.memory:
            if first <= start < last:
                return number, start - (own.__array_interface__["data"][0] if number else 0)
        raise Unplannable("memory that was made elsewhere")

    def add(self, ufunc: Any, operands: list[Any]) -> None:
        about: list[Any] = []
        for a in operands:
            array, written = np.asarray(a), len(about) >= ufunc.nin
            if not written and not self.has(array) and (not array.ndim or not array.flags.writeable):
                about.append((array, array.shape, array.strides))  # a constant: nobody writes to it
            else:
                about.append((self.place(a), a.shape, a.strides))
        dtypes = [np.dtype(c) for c in ufunc.types[0].replace("->", "")]
        for a, d in zip(operands, dtypes):
            if isinstance(a, np.ndarray) and a.ndim and a.dtype != d:
                raise Unplannable("a conversion")
        self.calls.append((ufunc, dtypes, about))

    def any_of(self, array: Any) -> bool:
        """Whether any element is not 0, which a kernel finds out."""
        found = self.empty((), np.dtype(np.bool_))
        any_nonzero((BY_NUMPY[array.dtype].code, "b1"))(array.reshape(-1), found)
        return self.answer(found)

    def answer(self, array: Any) -> bool:
        found = bool(np.asarray(array))
        self.calls.append((None, found, self.place(array)))
        return found


class CallWatch(Watch):
    """The watch over a small call, which becomes a plan."""

    rooms = [np.empty(0, np.uint8), np.empty(0, np.uint8)]  # memory that plans share, and of those that are long
    used = array("q", [0])  # whether a long plan uses its room
    shows = True  # what is done by addresses unseen, `_carry_out` does not find

    def __init__(self, plan: Plan, inputs: Sequence[Any], long: bool = False, writes: bool = False):
        super().__init__()
        if sum([a.size for a in inputs]) > _MOST:
            raise Unplannable("too much")
        self.plan = plan
        self.shares = False  # memory with other plans
        self.works = False  # whether the pool is given words, in which one call at a time writes its addresses
        self.schedules = (
            long  # whether there may be a better way for large operands: the short one, threads, another order
        )
        self.written = _apart(inputs[0]) if writes else None
        self.begun = False  # whether that has been written to: the plan has no way back
        self.engine: Any = None  # whose words are drawn; what it was like before is kept
        self.before: Any = None
        self.given = [self._known(_apart(a), i + 1) for i, a in enumerate(inputs)]

    def add(self, ufunc: Any, operands: list[Any]) -> None:
        self.check_written(operands[ufunc.nin :])
        super().add(ufunc, operands)

    def check_written(self, results: list[Any]) -> None:
        numbers = [self.place(a)[0] for a in results]
        self.begun = self.begun or (1 in numbers and self.written is not None)
        if max(numbers) > int(self.begun):
            raise Unplannable("a write to an argument")

    def __exit__(self, *error: Any) -> None:
        if self.engine is not None:
            self.engine.put_back(self.before)
            self.engine.lock.release()
        super().__exit__(*error)

    def words(self, engine: Any, count: int) -> Any:
        if engine is None or self.engine is not None or not count:
            raise Unplannable("words of several streams, or none")
        engine.lock.acquire()
        self.engine, self.before = engine, engine.kept()
        made = self.empty(count, np.uint32)
        engine.fill(self.made[-1])
        self.calls.append((engine, count, self.place(made), None, None))
        return made

    def answer(self, array: Any) -> bool:
        if self.engine is not None:
            raise Unplannable("a question after numbers were drawn")
        if self.begun:
            raise Unplannable("a question after a write to an argument")
        return super().answer(array)

    def size(self) -> int:
        """Elements in all arrays."""
        return sum([array.size for *_, number, array in self.memory if number])

    def scratch(self, size: int) -> Any:
        """Memory that plans write to and none reads what another wrote: loops run one after the other.

        Such plans keep other threads of the interpreter waiting; long ones do not, but only one of them runs at a time."""
        long = bool(self.plan.long) or self.size() > _SMALL
        if long and self.shares and not self.plan.long:
            raise Unplannable("memory of short plans in a long one")
        self.shares, self.plan.long = True, CallWatch.used.buffer_info()[0] if long else 0
        if CallWatch.rooms[long].size < size:
            CallWatch.rooms[long] = allocation.fresh(max(size, _ROOM), np.uint8)
        self.plan.keep.append(CallWatch.rooms[long])
        return self._known(CallWatch.rooms[long], 0)

    def work(self, words: Any, threads: int, places: Any, inside: Any = (), kept: Any = None) -> None:
        """Its words lie where they are as long as the plan does, which another number of threads ends."""
        if self.written is not None:
            raise Unplannable("work for the pool, which may write to an argument")
        self.works = True
        self.plan.keep.append(kept)
        self.calls.append((words, threads, [(p, self.at(words[p])) for p in places], inside))

    def side_by_side(self, call: Any, jobs: Any) -> None:
        found = [native_call(call, operands) for operands in jobs] if len(jobs) > 1 else [None]
        if None in found:
            self.schedules = True
            super().side_by_side(call, jobs)
        else:
            for operands in jobs:
                self.check_written(operands[getattr(call, "ufunc", call).nin :])
            pool.run_calls(found, min(len(found), pool.settings[0]))  # type: ignore[arg-type]

    def move(self, target: Any, source: Any) -> None:
        copies = isinstance(source, Watched) and not (source.flags.c_contiguous and target.flags.c_contiguous)
        many = target.nbytes >= allocation.SHARED or target.size >= LARGE
        if copies and many and source.dtype == target.dtype:
            if source.shape == target.shape and self.place(source)[0] != self.place(target)[0]:
                fill(target, source)  # lines by kernels of their own, which threads share
                return
        self.schedules |= copies
        super().move(target, source)

    def joined(self, arrays: Any, dim: int = 0, out: Any = None) -> Any:
        short = any([not a.flags.c_contiguous or math.prod(a.shape[dim:]) * a.itemsize < _PIECE for a in arrays])
        self.schedules |= short  # the short way walks along results
        return super().joined(arrays, dim, out)

    def finish(self, returned: Sequence[Any], kept: Sequence[Any]) -> None:
        """Writes the plan: results, in the order that they are returned, what the node keeps, other memory, then loops."""
        plan = self.plan
        plan.kept = len(returned) + len(kept)
        order: list[int] = []
        if self.written is not None:
            if returned[0] is not self.given[0] or len(returned) > 1 or kept:
                raise Unplannable("another result than what is written to")
            starts = [a.__array_interface__["data"][0] for a in self.given]
            ends = [np.lib.array_utils.byte_bounds(np.asarray(a)) for a in self.given]
            plan.written(BY_NUMPY[returned[0].dtype], [(a - s, b - s, 0) for s, (a, b) in zip(starts, ends)])
            order, returned = [1], ()
        for i, made in enumerate((*returned, *kept)):
            if made is None:
                order.append(0)
                plan.nothing()
                continue
            number, offset = self.place(made)
            own = None if number > 0 else self.made[-number - 1]
            if own is None or offset or own.nbytes != made.nbytes or number in order:
                raise Unplannable("a result that is a part of something")
            if not is_dense(made.shape, made.strides, made.itemsize):
                raise Unplannable("a result with gaps")
            order.append(number)
            strides = None if in_rows(made) else made.strides
            plan.result(BY_NUMPY[made.dtype], made.shape, strides, returned=i < len(returned))
        for i, own in enumerate(self.made):
            if -i - 1 not in order:
                order.append(-i - 1)
                plan.result(BY_NUMPY[own.dtype], own.shape, returned=False)
        size = self.size()
        if self.engine is not None and plan.long:
            raise Unplannable("a lock of the interpreter's without it")
        if not self.shares and not self.works and self.engine is None:
            plan.long = int(size >= _LONG)
        held = self.schedules or (self.shares and not plan.long)
        if size > (_SMALL if held else _MOST) or plan.counts[0] > RESULTS:
            raise Unplannable("too much")
        self._carry_out([n for n in order[: plan.kept] if n])
        numbers = {number: plan.inputs + 1 + i for i, number in enumerate(order)}
        numbers |= {number: number for number in range(plan.inputs + 1)}
        for call in self.calls:
            if len(call) == 5:
                add_words(plan, call[0], call[1], (numbers[call[2][0]], call[2][1]))
                continue
            if len(call) == 4:
                words, threads, operands, inside = call
                plan.work(
                    pool.entry(), words, threads, [(numbers[n], offset, at) for at, (n, offset) in operands], inside
                )
                continue
            ufunc, dtypes, about = call
            if ufunc is None:
                plan.expect((numbers[about[0]], about[1]), dtypes)
            else:
                _loop(plan, ufunc, dtypes, about, numbers, size <= _SMALL)

    def _carry_out(self, results: Sequence[int]) -> None:
        """Does what was written down, in other memory, to see that nothing was done unseen."""
        memory = [np.full(own.nbytes, 0xA5, np.uint8) for own in self.made]
        starts = {number: own.__array_interface__["data"][0] for _, _, number, own in self.memory if number > 0}
        if self.written is not None:
            starts[1] = self.written.__array_interface__["data"][0]
        starts |= {-i - 1: own.__array_interface__["data"][0] for i, own in enumerate(memory)} | {0: 0}
        for call in self.calls:
            if len(call) == 5:
                self.engine.put_back(self.before)
                self.engine.fill(memory[-call[2][0] - 1].view(np.uint32))
                continue
            if len(call) == 4:
                _work(call, starts)
                continue
            ufunc, dtypes, about = call
            if ufunc is None:
                if bool(_at(starts[about[0]] + about[1], np.dtype(np.bool_), (), ())) != dtypes:
                    raise Unplannable("an answer that was written unseen")
                continue
            ufunc(
                *[
                    where if isinstance(where, np.ndarray) else _at(starts[where[0]] + where[1], d, shape, strides)
                    for (where, shape, strides), d in zip(about, dtypes)
                ]
            )
        if self.written is not None and self.written.tobytes() != np.asarray(self.given[0]).tobytes():
            raise Unplannable("an argument that was written to unseen")
        if any([memory[-number - 1].tobytes() != self.made[-number - 1].tobytes() for number in results if number < 0]):
            raise Unplannable("a result that was written unseen")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=lambda: CallWatch.used.__setitem__(0, 0))


def _writable(a: Any) -> Any:
    array = np.asarray(a)
    return _at(array.__array_interface__["data"][0], array.dtype, array.shape, array.strides) if array.size else array


def _at(address: int, d: Any, shape: Any, strides: Any) -> Any:
    """The array at an address."""
    low = sum([min(0, (n - 1) * s) for n, s in zip(shape, strides)])
    high = sum([max(0, (n - 1) * s) for n, s in zip(shape, strides)]) + d.itemsize
    memory = (ctypes.c_char * (high - low)).from_address(address + low)
    return np.ndarray(shape, d, memory, -low, strides)


def _work(call: tuple[Any, int, Any, Any], starts: dict[int, int]) -> None:
    """Lets the pool do what words describe, in memory that starts at these addresses."""
    words, threads, operands, inside = call
    own = words[:]
    for place, (number, offset) in operands:
        own[place] = starts[number] + offset
    for place, offset in inside:
        own[place] = own.buffer_info()[0] + offset
    pool.run(own.buffer_info()[0], threads)


@functools.cache
def cores_of(signature: str) -> list[list[str]]:
    """The names of the extents that the loop of a ufunc knows, operand by operand."""
    return [re.findall(r"\w+", part) for part in re.findall(r"\(([^)]*)\)", signature)]


class Walk:
    """How the loop of a ufunc goes over operands: `lead` is repeated over, along which operands have the steps in `ways`; `cores` has
    the extents that the loop itself knows, `inner` their steps, operand by operand."""

    __slots__ = ("cores", "inner", "lead", "ways")

    def __init__(self, ufunc: Any, about: Sequence[tuple[Any, Any, Any]]):
        cores = cores_of(ufunc.signature or ",".join(["()"] * ufunc.nargs))
        sizes: dict[str, int] = {}
        self.inner: list[list[int]] = []
        self.ways: list[list[int]] = []
        self.lead = np.broadcast_shapes(*[shape[: len(shape) - len(core)] for (_, shape, _), core in zip(about, cores)])
        for (_, shape, strides), core in zip(about, cores):
            own = len(shape) - len(core)
            sizes.update(zip(core, shape[own:]))
            outer = [0 if n == 1 else s for n, s in zip(shape[:own], strides)]
            self.ways.append([0] * (len(self.lead) - own) + outer)
            self.inner.append(list(strides[own:]))
        self.cores = [sizes[name] for name in dict.fromkeys(name for core in cores for name in core)]

    @classmethod
    def over(cls, lead: Sequence[int], ways: list[list[int]]) -> Walk:
        """The walk of a pointwise loop."""
        made = cls.__new__(cls)
        made.lead, made.ways, made.cores, made.inner = tuple(lead), ways, [], [[] for _ in ways]
        return made

    def merged(self) -> tuple[list[int], list[int], list[int], list[list[int]]]:
        """(extents, steps) of the loop, and (extents, steps of each operand) of the dimensions around it."""
        walked, steps = merged(self.lead, self.ways)
        *outer, count = walked or [1]
        first = [w[-1] if w else 0 for w in steps]
        return [count, *self.cores], [*first, *chain(*self.inner)], outer, [w[:-1] for w in steps]


def _loop(plan: Plan, ufunc: Any, dtypes: Any, about: list[Any], numbers: dict[int, int], small: bool) -> None:
    operands = []
    for (where, _, _), d in zip(about, dtypes):
        if isinstance(where, np.ndarray):
            operands.append(plan.constant(where.astype(d, copy=False)))
        else:
            operands.append((numbers[where[0]], where[1]))
    walk = Walk(ufunc, about)
    dims, steps, outer, strides = walk.merged()
    if math.prod(outer) > _TURNS or len(outer) > 7 or len(operands) > 16:
        raise Unplannable("too many loops")
    if 0 in dims or 0 in walk.lead:
        raise Unplannable("nothing to do")
    if (
        not ufunc.signature
        and ufunc.nout == 1
        and add_long_rows(plan, ufunc, walk.lead, walk.ways, operands, [d.itemsize for d in dtypes])
    ):
        return
    alone = not pool.weight(*loops[ufunc]) and not any([isinstance(w, tuple) and not w[0] for w, *_ in about])
    if alone and not small and math.prod(outer) * math.prod(dims) >= pool.WORTHWHILE:
        raise Unplannable(
            "a long loop of one thread"
        )  # those with memory of their own have been cut by who gave it to them
    add_loop(plan, ufunc, dims, steps, operands, outer, strides)


# -- whole calls ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _switched(grad: bool, long: bool) -> Iterator[None]:
    """A moment in which operations keep history or not, and may go the `long` way, through the dispatcher."""
    before, local.grad = local.grad, grad
    if long:
        modes.enter(CAPTURE)
    try:
        yield
    finally:
        local.grad = before
        if long:
            modes.leave(CAPTURE)


def watched_plan(
    function: Any, names: Sequence[str], values: Sequence[Any], history: bool, writes: bool = False
) -> Plan | None:
    """What a function does with such arguments; None if that is more than native loops.

    Its short way is watched first; what that leaves to NumPy the long way may do by kernels. If it `writes`, it does so to its first
    argument, which it gives back: the long way is not for that.
    """
    for long in (False,) if writes else (False, True):
        try:
            return _watched(function, names, values, history, long, writes)
        except Exception:  # whatever went wrong, the call itself did not: it only has no plan
            continue
    return None


def _watched(
    function: Any, names: Sequence[str], values: Sequence[Any], history: bool, long: bool, writes: bool
) -> Plan:
    tensors = [v for v in taken_apart(values) if isinstance(v, Tensor)]
    plan = Plan(len(tensors))
    seen = CallWatch(plan, [t._array for t in tensors], long, writes)
    # Autocast keeps copies of what requires gradients, also where nothing is recorded.
    bits = GRAD if history or local.casting else 0
    copies = iter([wrap(array, t.dtype, t._k & bits) for t, array in zip(tensors, seen.given)])

    def copied(v: Any) -> Any:
        if v.__class__ is tuple or v.__class__ is list:
            return v.__class__([copied(a) for a in v])
        return next(copies) if isinstance(v, Tensor) else v

    given = [copied(v) for v in values]
    named = {name: v for name, v in zip(names, given) if v is not absent}
    with uncollected(), seen, _switched(history, long):  # what finalizers do is no part of the call
        out = function(**named)
        several = isinstance(out, (tuple, list))
        outs = out if several else (out,)
        kept: list[Any] = []
        plan.pattern = pattern_of(outs, taken_apart(given), kept) if history else None
        seen.finish([None if t is None else t._array for t in outs], kept)
    plan.together = (tuple if isinstance(out, list) else type(out)) if several else None
    if history and plan.pattern is None:
        plan.record = _without_history
    return plan


def _without_history(out: Any, *values: Any) -> Any:
    return out
