"""Plans, and how machine code reads them: descriptions of arguments, what a call makes and runs, tables of both in words."""

from __future__ import annotations

import array
import math
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.sizes import Size
from ..._core.state import MOMENT, held_over_forks, local, modes
from ..loops.dialect import inline
from ..render.llvm import NOT_NUMPY
from ..threads.walking import over_all

PLANS = 512  # of one table; one takes some kilobytes
MIX = 0x9E3779B97F4A7C1  # a description's number is made with it
ABSENT, FLOAT, INT, ALIKE, SEVERAL, DEVICE = range(10, 16)  # tags in a description
CASTING = 32  # bits before the number of what autocast does, in its first word
# Places in a plan, in bytes: how many results there are is at 0; then where what describes results begins, and its size for one.
RETURNED, LOOPS, RECORD, TOGETHER, PATTERN, KEPT, LONG = 8, 16, 24, 32, 40, 48, 56
PLAN, RESULT = 64, 56
FAILS = 1  # in the place of where words are copied from: their function says whether it could do the work
VIEWS = -1  # in the place of how many results there are: a plan of another kind (see `views`)
WRITTEN = 1  # in the place of a result's dtype: it is the first argument, in its own memory
_ALL = (1 << 64) - 1
absent = object()  # stands for an argument that was not given


class Several(int):
    """Stands before the parts of a list: how many there are."""


def taken_apart(args: Sequence[Any]) -> list[Any]:
    """Arguments, those in lists and tuples one by one."""
    parts: list[Any] = []
    for a in args:
        if a.__class__ is tuple or a.__class__ is list or a.__class__ is Size:
            parts += [Several(SEVERAL + (len(a) << 8)), *a]
        else:
            parts.append(a)
    return parts


def description(
    args: Sequence[Any], tensor: type, history: int, runtime: int = 0, alike: bool = False, form: int | None = None
) -> list[int]:
    """The words that arguments are described by; `alike` leaves shapes out, `history` says which require gradients.

    The default dtype is told, too: what integers become depends on it; and what autocast does. Of calls on a GPU the `form` is (`Cuda.form`).
    """
    default = id(modes.default)
    first = history | local.casting << CASTING
    words = [first, default] if form is None else [first, DEVICE, form, default]
    if alike:
        words.append(ALIKE)
    for i, a in enumerate(taken_apart(args)):
        at_runtime, kind = runtime >> i & 1, a.__class__
        if a is absent:
            words.append(ABSENT)
        elif isinstance(a, tensor):
            x = a._array  # type: ignore[attr-defined]
            words.append(id(x.dtype))
            if not alike:
                words.append(x.ndim if form is not None else x.ndim + (x.flags.aligned << 16))
                for n, s in zip(x.shape, x.strides):
                    words += [n, s]
        elif kind is float:
            words += [FLOAT] if at_runtime else [FLOAT, *struct.unpack("q", struct.pack("d", a))]
        elif kind is int:
            words += [INT] if at_runtime else [INT, a]
        elif kind is Several:
            words.append(a)
        else:
            words.append(id(a))
    return words


class Plan:
    """What one call does, in words. `keep` are objects that the words point to.

    Operands go by numbers: 0 for constants, then the tensors and the numbers at run time among the arguments (`inputs` of
    them), then results: those that are returned, those that the node keeps besides (up to `kept`), memory on the way.
    """

    def __init__(self, inputs: int = 0, record: Callable[..., Any] | None = None) -> None:
        self.inputs, self.record = inputs, record
        self.results: list[int] = []
        self.loops: list[int] = []
        self.counts = [0, 0, 0]  # results, those returned, loops
        self.kept = 0
        self.pattern: Any = None  # words of the node that a result gets, where machine code can make it
        self.together: Any = None  # the class of tuples that several results come in
        self.keep: list[Any] = []
        self.long = 0  # whether other threads of the interpreter may run meanwhile; if the call needs memory that other plans share, the
        # address of a word that says whether somebody uses it

    def _numbers(self, numbers: Sequence[int]) -> int:
        """The address of numbers that stay where they are."""
        own = array.array("q", numbers)
        self.keep.append(own)
        return own.buffer_info()[0]

    def result(
        self, dtype: Any, shape: Sequence[int] = (), strides: Sequence[int] | None = None, returned: bool = True
    ) -> int:
        """A result of a dtype of ours, row-major unless strides (in bytes) are given; gives its number among operands."""
        where = 0 if strides is None else self._numbers(strides)
        self.results += [id(dtype.numpy), len(shape), self._numbers(shape), where, id(dtype), dtype.itemsize]
        self.results.append(math.prod(shape) * dtype.itemsize)
        self.keep.append(dtype)
        self.counts[0] += 1
        self.counts[1] += returned
        return self.inputs + self.counts[0]

    def nothing(self) -> None:
        """None, in the place of a result."""
        self.results += [0] * (RESULT // 8)
        self.counts[0] += 1
        self.counts[1] += 1

    def written(self, dtype: Any, spans: Sequence[tuple[int, int, int]]) -> int:
        """The first argument as the result, written in place. `spans` says of each argument between which bytes from its beginning it
        lies (of plans by element: for one element), and whether it may be the same memory; other memory that overlaps has no plan."""
        self.results += [
            WRITTEN,
            0,
            self._numbers([n for span in spans for n in span]),
            0,
            id(dtype),
            dtype.itemsize,
            0,
        ]
        self.keep.append(dtype)
        self.counts[0] += 1
        self.counts[1] += 1
        return self.inputs + self.counts[0]

    def constant(self, array: Any) -> tuple[int, int]:
        """An array that is the same at each call, as an operand."""
        self.keep.append(array)
        return 0, array.__array_interface__["data"][0]

    def loop(
        self, address: int, data: Any, dims: Sequence[int], steps: Sequence[int], operands: Sequence[tuple[int, int]],
        outer: Sequence[int] = (), strides: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        """A native loop over operands (their numbers, bytes from where these begin), repeated over `outer` sizes with `strides`
        of each operand."""
        given = NOT_NUMPY if data is None else data.buffer_info()[0]
        self.loops += [address, self._numbers(dims), self._numbers(steps), given]
        self.loops += [len(operands), len(outer), *outer]
        for j, (number, offset) in enumerate(operands):
            self.loops += [8 * number, offset, *(strides[j] if outer else ())]
        self.keep.append(data)
        self.counts[2] += 1

    def expect(self, operand: tuple[int, int], answer: bool) -> None:
        """From here on the plan is good only if the byte at an operand is this; otherwise the Python function is called."""
        self.loops += [0, answer, 0, 0, 1, 0, 8 * operand[0], operand[1]]
        self.counts[2] += 1

    def work(
        self, entry: int, words: array.array[int], threads: int, operands: Sequence[tuple[int, int, int]],
        inside: Sequence[tuple[int, int]] = (), fails: bool = False,
    ) -> None:  # fmt: skip
        """Work for the pool, whose function is at `entry`: words, in which operands (number, bytes, place among the words) have
        their addresses. Those with addresses of their own words (`inside`: place, bytes from the first) may be written to.
        Work that `fails` ends the plan where its function does not give 0."""
        own, whole = words[:], FAILS if fails else 0
        start = own.buffer_info()[0]
        for place, offset in inside:
            own[place] = start + offset
        self.keep.append(own)
        if inside:
            whole = self._numbers([len(own), *own])
        self.loops += [0, threads, start, entry, len(operands), 1, whole]
        for number, offset, place in operands:
            self.loops += [8 * number, offset, 8 * place]
        self.counts[2] += 1

    def words(self) -> array.array[int]:
        together = 0 if self.together is None else id(self.together)
        pattern = 0 if self.pattern is None else self.pattern.buffer_info()[0]
        record = 0 if self.record is None else id(self.record)
        kept = max(self.kept, self.counts[1])
        return array.array("q", [*self.counts, record, together, pattern, kept, self.long, *self.results, *self.loops])


NO_PLAN = Plan()  # of arguments that are known to have none


class Table:
    """Descriptions of arguments, and the plans for them. Sites of one operation share it.

    Machine code looks into the words while it has the interpreter: a new table is complete before sites are told of it, and what
    they knew before is kept until then."""

    all: weakref.WeakSet[Table] = weakref.WeakSet()

    def __init__(self) -> None:
        Table.all.add(self)
        self.kept: list[Any] = []
        self.before: list[Any] = []  # of the table that was cleared last: somebody may be in the midst of such a plan
        self.words = _slots(16)
        self.users: list[Any] = []  # the sites that look into it
        self.patience = self.refused = 0

    def accepts(self) -> bool:
        """Whether a plan for further arguments should be made. A full table forgets all plans, but waits before it does so, longer
        each time: where shapes change all the time, planning costs more than it saves."""
        if len(self.kept) < PLANS:
            return True
        with _lock:
            if len(self.kept) < PLANS:  # another thread was faster
                return True
            self.refused += 1
            if self.refused <= self.patience:
                return False
            self.refused, self.patience = 0, 2 * self.patience + PLANS
            self.forget()
            return True

    def serve(self, site: Any) -> None:
        """A site will be told where the words are, now and whenever they move."""
        with _lock:
            self.users.append(site)
            site.use(self.words)

    def forget(self) -> None:
        """Drops all plans."""
        with _lock:
            dropped, self.kept = self.kept, []
            self._resize(16)
            self.before = dropped

    def add(self, description: Sequence[int], plan: Any, args: Sequence[Any]) -> None:
        """Keeps a plan, and the objects that the description knows by their addresses."""
        own = array.array("q", [len(description), *map(_signed, description)])
        words = plan.words()
        keep = plan, [a._array.dtype if hasattr(a, "_array") else a for a in taken_apart(args)]
        with _lock:
            self.kept.append((own, words, keep))
            if 2 * len(self.kept) > self.words[0]:
                self._resize(4 * (self.words[0] + 1))
            else:
                _enter(self.words, own, words)

    def _resize(self, slots: int) -> None:
        made = _slots(slots)
        for own, words, _ in self.kept:
            _enter(made, own, words)
        self.words, old = made, self.words
        for site in self.users:
            site.use(made)
        del old  # no site knows it any more


_lock = threading.RLock()  # of all tables: finalizers that run in the midst may plan, too
held_over_forks(_lock, MOMENT)


def _slots(count: int) -> array.array[int]:
    """The words of an empty table."""
    words = array.array("q", bytes(8 + 24 * count))
    words[0] = count - 1
    return words


def _enter(table: array.array[int], own: array.array[int], plan: array.array[int]) -> None:
    """Writes where a description and its plan are into the words of a table."""
    h = 0
    for w in own[1:]:
        h = _signed((h ^ w) * MIX)
        h ^= h >> 29
    slot = h & table[0]
    while table[1 + 3 * slot]:
        slot = slot + 1 & table[0]
    table[1 + 3 * slot : 4 + 3 * slot] = array.array("q", [own.buffer_info()[0], h, plan.buffer_info()[0]])


def _signed(w: int) -> int:
    """The same 64 bits as a number that may be negative."""
    return ((w + (1 << 63)) & _ALL) - (1 << 63)


@inline
def run_loops(m, first, loops, bases, pointers, count):
    """Runs what a plan's words from `first` on describe, over operands whose addresses are in `bases`. Loops that do not know how
    long they are get `count`, unless that is 0. Gives how many are left where a question is not answered as expected, or work fails."""
    left, place = loops, first
    while left != 0:
        loop, operands, outer, dims = m.word(place), m.word(place, 32), m.word(place, 40), m.word(place, 8)
        steps, data, sizes = m.word(place, 16), m.word(place, 24), place + 48
        sources = sizes + outer * 8
        each = 16 + outer * 8
        if (loop == 0) & (steps != 0):  # work for the pool: its words, with the addresses in their places
            whole = m.word(sizes)
            if whole > FAILS:  # words that change while they are worked on
                for j in range(m.word(whole)):
                    m.put(steps, j * 8, m.word(whole, j * 8 + 8))
            for j in range(operands):
                address = m.word(bases, m.word(sources, j * each)) + m.word(sources, j * each + 8)
                m.put(steps, m.word(sources, j * each + 16), address)
            if whole == FAILS:
                if m.call(data, steps, dims) != 0:
                    break
            else:
                m.run(data, steps, dims)
        else:
            for j in range(operands):
                m.put(pointers, j * 8, m.word(bases, m.word(sources, j * each)) + m.word(sources, j * each + 8))
            if loop == 0:  # a question
                if (m.word(m.word(pointers, 0), 0) & 0xFF) != dims:
                    break
            else:
                if (count != 0) & (m.word(dims) == 0):
                    dims = count
                over_all(m, loop, pointers, dims, steps, data, outer, sizes, operands, sources + 16, each)
        place = sources + operands * each
        left -= 1
    return left
