"""The memory of programs: blocks that values lie in, and one arena for those that live only while a program runs."""

from __future__ import annotations

import ctypes
import os
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._kernel.native.direct import start_of

# Where a block comes from: an argument, a tensor that the program knows, what Python made in a step, a native loop's results.
INPUT, CONSTANT, GIVEN, MADE = range(4)
_LINE = 64  # blocks begin at cache lines
_END = 1 << 62  # a step that never comes
_GOOD = 1.02  # how much more than it must be an arena may be without another attempt


Span = tuple[int, int, int]  # from this step, to that one, so many bytes
Host = tuple["Memory", int, int]  # a block that has room for others from this step on, until before that one


class Memory:
    """A block of memory. Offsets in it count from `address`, where its array begins; it reaches from `low` to `high`."""

    __slots__ = (
        "address", "array", "device", "first", "fresh", "high", "host", "instead", "kind", "last", "low", "momentary", "number",
        "offset", "shown", "source", "start", "stop",
    )  # fmt: skip

    def __init__(self, kind: int, array: Any, source: Any = None):
        self.kind, self.array, self.source = kind, array, source
        self.device = not isinstance(array, np.ndarray)
        self.address = start_of(array)
        ends = [(n - 1) * s for n, s in zip(array.shape, array.strides)] if array.size else []
        self.low, self.high = sum([e for e in ends if e < 0]), sum([e for e in ends if e > 0]) + array.itemsize
        self.start, self.stop = (
            self.address + self.low,
            self.address + self.high,
        )  # what a run of `Lowering` finds arrays by
        self.number = 0  # among the operands of the program, or that of what it lies in
        self.fresh = False  # whether each run makes it anew, because others keep it
        self.shown = False  # whether what Python gives in a step may lie in it
        self.first, self.last, self.offset = -1, -1, 0  # when it is used, and where it lies in the arena or its host
        self.momentary = False  # whether it is scratch memory of one operation, for which each thread has a piece
        # a fresh block in which it lies until that is written, or an input that has been read
        self.host: Memory | None = None
        # the block whose place it takes: a temporary one of before, or a fresh one that follows
        self.instead: Memory | None = None

    @property
    def nbytes(self) -> int:
        return self.high - self.low

    def holds(self, address: int) -> bool:
        return self.start <= address < self.stop

    def part(self, offset: int, shape: Any, strides: Any, d: Any) -> Any:
        """An array in a block that a loop made."""
        if self.device:
            return self.array.__class__(shape, d, self.array.data + offset, strides)
        return np.ndarray(shape, d, self.array.reshape(-1).view(np.uint8), offset, strides)


_Place = tuple[Memory | None, int]  # a host, or none in the arena, and bytes from where that begins


def give_back() -> None:
    """Lets the system have memory that was needed to find out what a program does: its runs need less."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:  # other C libraries do it by themselves, or never
        trim(0)


def overlay(pairs: Sequence[tuple[int, Memory, Memory]], since: Mapping[Memory, int]) -> None:
    """Lets results take the places of operands: of each (step, operand, result) whose operand is needed last where the result begins.

    A fresh result stays where it is, and the operand takes its place beforehand, if it may be there by then: `since` says from which step on.
    """
    taken: set[Memory] = set()
    for step, operand, result in pairs:
        fits = operand.last == step == result.first and operand.nbytes == result.nbytes and is_temporary(operand)
        if not fits or operand in taken or result in taken or result.instead is not None:
            continue
        own = _root(operand)
        if is_temporary(result):
            result.instead = operand
            taken.add(operand)
        elif since.get(result, _END) <= own.first:
            own.instead, result.first = result, own.first
            taken.update((operand, result))


def is_temporary(block: Memory) -> bool:
    """Whether a block lives only while a program runs."""
    return block.kind == MADE and not block.fresh


def placed(blocks: Sequence[Memory], hosts: Sequence[Host] = ()) -> int:
    """Gives blocks, each of which is used from its `first` to its `last` step, places in an arena, or in `hosts`; how large the arena is."""
    spans: dict[Memory, Span] = {}  # of blocks that have a place of their own
    for block in sorted(blocks, key=lambda b: b.first):
        own = _root(block)
        if is_temporary(own):
            first, last, _ = spans.get(own, (block.first, block.last, 0))
            spans[own] = min(first, block.first), max(last, block.last), -(-block.nbytes // _LINE) * _LINE
    hosts = sorted(hosts, key=lambda h: h[2])  # those that are written soon come first: others have room for more
    others = [(0, since - 1, host.nbytes) for host, since, _ in hosts]
    others += [(until, _END, host.nbytes) for host, _, until in hosts]
    least = _least([*spans.values(), *others]) - sum([host.nbytes for host, *_ in hosts])
    size, best = -1, dict[Memory, _Place]()
    for urgency in _ORDERS:
        need, places = _laid(spans, sorted(spans, key=lambda b: urgency(*spans[b])), hosts)
        if size < 0 or need < size:
            size, best = need, places
        if size <= least * _GOOD:
            break
    for block in blocks:
        own = _root(block)
        block.host, block.offset = best[own] if is_temporary(own) else (own, 0)
        if block.host is not None:  # which is there as long
            block.host.first = min(block.host.first, block.first)
            block.host.last = max(block.host.last, block.last)
    return size


def _least(spans: Sequence[Span]) -> int:
    """How much must be there at one time."""
    changes: dict[int, int] = {}
    for first, last, need in spans:
        changes[first] = changes.get(first, 0) + need
        changes[last + 1] = changes.get(last + 1, 0) - need
    level = most = 0
    for step in sorted(changes):
        level += changes[step]
        most = max(most, level)
    return most


# Which blocks are given a place first, by their first step, their last step and their size: large ones, the first ones, those that
# stay long and are large, those that stay long.
_ORDERS: tuple[Callable[[int, int, int], Any], ...] = (
    lambda first, last, need: (-need, first),
    lambda first, last, need: first,
    lambda first, last, need: (-need * (1 + last - first), first),
    lambda first, last, need: (first - last, -need),
)


def _root(block: Memory) -> Memory:
    while block.instead is not None:
        block = block.instead
    return block


def _laid(
    spans: dict[Memory, Span], order: Sequence[Memory], hosts: Sequence[Host]
) -> tuple[int, dict[Memory, _Place]]:
    """Each block, in this order, at the first place that is free during its time: how large the arena is, and where they are."""
    there: dict[Memory | None, list[tuple[int, int, int, int]]] = {}  # by host: offset, end, from, to
    places, size = dict[Memory, _Place](), 0
    for block in order:
        first, last, need = spans[block]
        for host in [h for h, since, until in hosts if since <= first and last < until and need <= h.nbytes]:
            start = _free(there.get(host, ()), spans[block])
            if start + need <= host.nbytes:
                break
        else:
            host, start = None, _free(there.get(None, ()), spans[block])
            size = max(size, start + need)
        places[block] = host, start
        insort(there.setdefault(host, []), (start, start + need, first, last))
    return size, places


def _free(there: Sequence[tuple[int, int, int, int]], span: Span) -> int:
    """The lowest place between others that is free during a time."""
    first, last, need = span
    start = 0
    for offset, end, begin, until in there:
        if begin <= last and first <= until:
            if start + need <= offset:
                break
            start = max(start, end)
    return start
