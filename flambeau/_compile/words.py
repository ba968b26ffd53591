"""Guards as words in memory: what holders look at is compared by machine code, without the interpreter.

A holder's values lie in objects that stay alive: slots, cells, items of lists, tables of dictionaries. Where they lie and which
words stand there is found once, from a holder that holds. While these words are the same, it holds; if one differs, its holder is
asked, and found again where its values lie now.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import struct
import sys
import threading
import types
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence as Rows
from typing import Any

from .._kernel.native.direct import bound_function, known_layout
from .._kernel.native.interpreter import HEAD, slot_offset
from .._kernel.native.site import usable
from .._tensor import Meta, Tensor
from .holders import MISSING, Cell, Code, External, Fields, Holder, Items, Namespace, Sequence, Slots

_BYTES = bytes.__basicsize__ - 1  # where the contents of bytes begin
_TYPE = HEAD - 8
_USED, _VERSION, _KEYS, _VALUES = HEAD, HEAD + 8, HEAD + 16, HEAD + 24  # of a dictionary
_SIZE, _ITEMS = HEAD, HEAD + 8  # of a list
_VERSIONED = sys.version_info < (3, 13)  # whether every change of a dictionary gives it a new number
_MANAGED = 1 << 4  # flag of classes whose instances have their dictionary before them
# What asking a holder raises if it no longer has what it had, which another thread may change at any moment.
_GONE = (AttributeError, IndexError, KeyError, ReferenceError, TypeError, ValueError)
_PATIENCE = 2  # renewals before a dictionary that keeps changing is compared more closely

Pair = tuple[int, int]


class Elsewhere(Exception):
    """What a holder looks at does not lie in words that are known."""


# Behind `self`: the address of four words: pairs (address, what must stand there), their number, pairs (address, what must not),
# their number. The result is True, or the number of the first pair that fails.
def _scan(m, self, args, given):  # type: ignore[no-untyped-def]
    head = m.word(self, _BYTES)
    table, count = m.word(head), m.word(head, 8)
    for i in range(count):
        if m.word(m.word(table, i * 16)) != m.word(table, i * 16 + 8):
            return m.call("PyLong_FromLongLong", i)
    others, more = m.word(head, 16), m.word(head, 24)
    for i in range(more):
        if m.word(m.word(others, i * 16)) == m.word(others, i * 16 + 8):
            return m.call("PyLong_FromLongLong", count + i)
    true = m.word(self, _BYTES + 8)
    m.run("Py_IncRef", true)
    return true


def word_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@functools.cache
def known() -> bool:
    """Whether this interpreter lays its objects out as the code here expects."""
    if not usable() or not known_layout() or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    own: dict[str, Any] = {"a": MISSING}
    before = word_at(id(own) + _VERSION)
    own["b"] = known
    new = word_at(id(own) + _VERSION) != before or not _VERSIONED
    found = dict(_entries(own))
    cell, items = types.CellType(own), [own, MISSING]
    return (
        new
        and word_at(id(own) + _USED) == 2
        and list(found) == ["a", "b"]
        and [word_at(a) for a in found.values()] == [id(MISSING), id(known)]
        and word_at(id(cell) + HEAD) == id(own)
        and word_at(id(items) + _SIZE) == 2
        and word_at(word_at(id(items) + _ITEMS) + 8) == id(MISSING)
    )


def _entries(own: dict[Any, Any]) -> list[tuple[Any, int]]:
    """The keys of a dictionary, with the addresses of their values."""
    base, step, at, count, _ = _table(own)
    apart = word_at(id(own) + _VALUES)  # keys that many dictionaries share, and values of this one
    apart += 8 if apart and sys.version_info >= (3, 13) else 0
    keys = {id(key): key for key in own}
    words = (ctypes.c_uint64 * (count * step // 8)).from_address(base)
    found = []
    for i in range(count):
        key = keys.get(words[(i * step + at - 8) // 8], MISSING)
        if key is not MISSING:
            found.append((key, apart + 8 * i if apart else base + i * step + at))
    if any(word_at(place) != id(own[key]) for key, place in found) or len(found) != len(own):
        raise Elsewhere("an unknown table")
    return found


def _order(values: int) -> list[int]:
    """Where the order is noted in which values of shared keys came."""
    if sys.version_info >= (3, 13):
        room = word_at(values) & 0xFF
        return [values, *(values + 8 + 8 * room + i for i in range(0, room, 8))]
    if sys.version_info >= (3, 11):
        return [values - i for i in range(8, ctypes.c_uint8.from_address(values - 1).value + 8, 8)]
    return []  # values come in the order of the keys


def _table(own: dict[Any, Any]) -> tuple[int, int, int, int, int]:
    """Where the entries of a dictionary begin, their size, where the value stands in one, how many, where that is written."""
    keys = word_at(id(own) + _KEYS)
    if sys.version_info < (3, 11):
        size = word_at(keys + 8)
        width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4
        return keys + 40 + max(size * width, 8), 24, 16, word_at(keys + 32), keys + 32
    about = word_at(keys + 8)
    start, texts = keys + 32 + (1 << (about >> 8 & 0xFF)), about >> 16 & 0xFF
    return start, 16 if texts else 24, 8 if texts else 16, word_at(keys + 24), keys + 24


def _dictionary(own: dict[Any, Any], names: Rows[Any] | None, closely: bool) -> tuple[list[Pair], list[Pair]]:
    """Words of a dictionary, and words that must not stand there: its version, or its table with the values of some names
    (all, if None)."""
    if not own:
        return [(id(own) + _USED, 0)], []
    if _VERSIONED and not closely:
        return [(id(own) + _VERSION, word_at(id(own) + _VERSION))], []
    base, step, at, count, counted = _table(own)
    found = dict(_entries(own))
    places, forbidden = [id(own) + _VALUES, id(own) + _KEYS], []
    if word_at(places[0]):  # which keys there are: as many as before, and none of those is missing
        places += [id(own) + _USED, *_order(word_at(places[0]))]
        forbidden = [(place, 0) for place in found.values()]
    else:  # new keys come last
        places += [counted, base + (count - 1) * step + at - 8, id(own) + _USED]
    words = [(place, word_at(place)) for place in places]
    return words + [(found[n], id(own[n])) for n in (own if names is None else names) if n in own], forbidden


@functools.cache
def _function_offsets() -> list[int]:
    """Where functions keep their code, defaults and closure."""

    def probe(a: int = 1, *, b: int = 2) -> Any:
        return known_here, a, b

    known_here = probe
    wanted = (probe.__code__, probe.__defaults__, probe.__kwdefaults__, probe.__closure__)
    places = range(HEAD, types.FunctionType.__basicsize__, 8)
    return [next(p for p in places if word_at(id(probe) + p) == id(value)) for value in wanted]


@functools.cache
def _slot_offsets() -> tuple[list[int], int, int, list[int]]:
    kind: Any = Tensor
    meta: Any = Meta
    own = [slot_offset(getattr(kind, name)) for name in ("_array", "_k")]  # an array has one dtype
    return own, slot_offset(kind._edge), slot_offset(kind._autograd_meta), [
        slot_offset(getattr(meta, name)) for name in ("grad", "hooks", "post_hooks")
    ]  # fmt: skip


def _dictionary_of(owner: Any) -> tuple[int, dict[Any, Any]]:
    """Where an object has its dictionary, and that."""
    own: Any = owner.__dict__
    if isinstance(owner, type):
        (own,) = (r for r in gc.get_referents(own) if isinstance(r, dict))
        return _place_in_class(owner, own), own
    kind: Any = type(owner)
    offset = kind.__dictoffset__
    if offset <= 0:
        if not kind.__flags__ & _MANAGED:
            raise Elsewhere("the dictionary of an object of varying size")
        offset = -24
    if word_at(id(owner) + offset) != id(own):
        raise Elsewhere("the dictionary is not where it should be")
    return id(owner) + offset, own


def _place_in_class(owner: type, value: Any) -> int:
    kind: Any = type
    for place in range(id(owner) + HEAD, id(owner) + kind.__basicsize__, 8):
        if word_at(place) == id(value):
            return place
    raise Elsewhere("a part of a class")


def words_of(holder: Holder, closely: bool) -> tuple[list[Pair], list[Pair], Any]:
    """Words that stand as they do while a holder holds, words that must not stand there, and what has to be kept alive."""
    kind = type(holder)
    owner: Any = getattr(holder, "owner", None)
    if kind is Fields:
        place, own = _dictionary_of(owner)
        words = [(id(owner) + _TYPE, id(holder.kind)), (place, id(own))]  # type: ignore[attr-defined]
        if isinstance(owner, type):
            words.append((_place_in_class(owner, owner.__mro__), id(owner.__mro__)))
        more, forbidden = _dictionary(own, list(holder.names), closely)  # type: ignore[attr-defined]
        return words + more, forbidden, (own, list(own))
    if kind is Namespace:
        return *_dictionary(owner, list(holder.before), True), (owner, list(owner))  # type: ignore[attr-defined]
    if kind is Items and isinstance(owner, dict) and not (isinstance(owner, OrderedDict) and owner):
        names = [key for key in owner if key not in holder.free] if holder.free else None  # type: ignore[attr-defined]
        return *_dictionary(owner, names, closely), owner
    if kind is Sequence and isinstance(owner, list):
        items = word_at(id(owner) + _ITEMS)
        words = [(id(owner) + _SIZE, len(owner)), (id(owner) + _ITEMS, items)]
        fixed = [(i, a) for i, a in enumerate(owner) if i not in holder.free]  # type: ignore[attr-defined]
        return words + [(items + 8 * i, id(a)) for i, a in fixed], [], owner
    if kind is Cell:
        return [(id(owner) + HEAD, word_at(id(owner) + HEAD))], [], owner
    if kind is Code:
        words = [(id(owner) + offset, word_at(id(owner) + offset)) for offset in _function_offsets()]
        named = owner.__kwdefaults__
        more, forbidden = _dictionary(named, None, closely) if named else ([], [])
        return words + more, forbidden, named
    if kind is Slots:
        slots = [id(owner) + slot_offset(member) for member in holder.slots.values()]  # type: ignore[attr-defined]
        return [(id(owner) + _TYPE, id(type(owner))), *((place, word_at(place)) for place in slots)], [], owner
    if kind is External:
        return _tensor(owner, holder.trains)  # type: ignore[attr-defined]
    raise Elsewhere(kind.__name__)


def _tensor(t: Tensor, trains: bool) -> tuple[list[Pair], list[Pair], Any]:
    own, edge, meta, of_meta = _slot_offsets()
    base = id(t)
    words = [(base + _TYPE, id(type(t))), *((base + place, word_at(base + place)) for place in own)]
    forbidden: list[Pair] = []
    (words if t._edge is None else forbidden).append((base + edge, id(None)))
    if not t.__dict__:
        place, attributes = _dictionary_of(t)
        words += [(place, id(attributes)), (id(attributes) + _USED, 0)]
    held = t._autograd_meta
    if trains:
        words.append((base + meta, id(held)))
        if held is not None:
            grad, *hooks = (id(held) + place for place in of_meta)
            if held.hooks or held.post_hooks:
                raise Elsewhere("hooks")
            words += [(place, word_at(place)) for place in hooks if word_at(place) == id(None)]
            words += [(id(h) + _USED, 0) for h in (held.hooks, held.post_hooks) if h is not None]
            (words if held.grad is None else forbidden).append((grad, id(None)))
    return words, forbidden, (held, held and held.hooks, held and held.post_hooks)


class Scan:
    """Holders as words, with those that are not: `hold()` says whether all of them hold."""

    def __init__(self, holders: list[Holder]):
        self.slow: list[Holder] = []
        self._rows: list[tuple[Holder, list[Pair], list[Pair], Any]] = []
        self._renewed: dict[int, int] = {}
        self.scan: Any = None
        self._lock = threading.Lock()
        if not known():
            self.slow = list(holders)
            return
        for holder in holders:
            self._add(holder)
        self._head = array.array("q", [0, 0, 0, 0])
        self.scan = bound_function(_scan, struct.pack("2q", self._head.buffer_info()[0], id(True)))
        self._lay()

    def _add(self, holder: Holder) -> None:
        """Finds the words of a holder; only one that holds has any."""
        times = self._renewed.get(id(holder), 0)
        try:
            if times > 2 * _PATIENCE:
                raise Elsewhere("changes all the time")
            if not _holds(holder):
                raise Elsewhere("the run itself changed it")
            equal, forbidden, parts = words_of(holder, times >= _PATIENCE)
            # What stands in the words is kept, so that nobody else comes to stand at its address.
            self._rows.append((holder, equal, forbidden, (parts, holder.now())))
        except (Elsewhere, *_GONE):
            self.slow.append(holder)

    def _lay(self) -> None:
        words, others = array.array("Q"), array.array("Q")
        self._starts: list[int] = []
        self._others: list[int] = []
        for _, equal, forbidden, _ in self._rows:
            self._starts.append(len(words) // 2)
            self._others.append(len(others) // 2)
            for pair in equal:
                words.extend(pair)
            for pair in forbidden:
                others.extend(pair)
        self._count = len(words) // 2
        places = words.buffer_info()[0], self._count, others.buffer_info()[0], len(others) // 2
        self._head[:] = array.array("q", places)  # another thread may be about to scan: the old tables go last
        self._tables = words, others

    def hold(self) -> bool:
        """Whether all holders hold; what is found unchanged in another place is remembered there."""
        if self.scan is not None and self.scan() is not True:
            with self._lock:
                if not self._renew():
                    return False
        return all(map(_holds, self.slow))

    def _renew(self) -> bool:
        """Asks the holders of words that differ, until none does or one does not hold."""
        while (at := self.scan()) is not True:
            starts, at = (self._starts, at) if at < self._count else (self._others, at - self._count)
            number = bisect_right(starts, at) - 1
            holder = self._rows[number][0]
            if not _holds(holder):
                return False
            self._renewed[id(holder)] = self._renewed.get(id(holder), 0) + 1
            del self._rows[number]
            self._add(holder)
            self._lay()
        return True


def _holds(holder: Holder) -> bool:
    try:
        return holder.holds()
    except _GONE:
        return False
