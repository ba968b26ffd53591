"""Large operands: results go past the caches, which could not keep them, and what is needed next is asked for early.

Writing past the caches saves reading the result's memory first. Where that is not what cores wait for (`past`), the
result's lines are asked for early, too. A kernel makes a few cache lines in a local array, which the compiler keeps in
registers, and hands them over whole. All of this happens while a kernel is walked or rendered.
"""

from __future__ import annotations

from typing import Any

from ..building import jit
from .value import SIZE, Value

LINE = 64  # bytes of a cache line
LINES = 2  # handed over together, where a kernel does not wish for more
AHEAD = 2048  # bytes by which a loop asks for its operands in advance
FURTHER = 4096  # the same of its result
past = jit.word("past_caches", 1)  # whether large results are written past the caches; set with the number of threads


def width(type: str, lines: int = LINES) -> int:
    """How many elements are handed over together."""
    return LINE * lines // SIZE[type]


def lines_from(r: Any, place: str, start: Value, stop: Value, type: str, lines: int = LINES) -> tuple[Value, Value]:
    """The part of a range of elements, the first of which lies at `place`, that consists of whole lines."""
    size = SIZE[type]
    misplaced = r.value(f"ptrtoint ptr {place} to i64", "i64") & (LINE - 1)
    first = start + ((LINE - misplaced) & (LINE - 1)) // size
    first = r.select(first < stop, first, stop)
    return first, first + ((stop - first) & -width(type, lines))


def write_lines(r: Any, place: str, lines: str, count: int = LINES) -> None:
    """Writes the local array `lines` to `place`, where a cache line begins."""
    mark = f"!{len(r.metadata)}"
    r.metadata.append(f"{mark} = !{{i32 1}}")
    moved = []
    for n in range(count):
        at = r.constant("i64", n * LINE)
        words, target = r.fresh(), r.address(place, at)
        r.emit(f"{words} = load <8 x i64>, ptr {r.address(lines, at)}, align {LINE}")
        moved.append(f"store <8 x i64> {words}, ptr {target}, align {LINE}")
    by, through, end = r.label(), r.label(), r.label()
    r.branch_if(_goes_past(r), by, through)
    r.start_block(by)
    for store in moved:
        r.emit(f"{store}, !nontemporal {mark}")
    # otherwise the compiler makes one of both branches' stores, which goes through caches
    r.emit('call void asm sideeffect "", ""()')
    r.branch(end)
    r.start_block(through)
    prefetch(r, r.address(place, r.constant("i64", FURTHER)), count * LINE, write=True)
    for store in moved:
        r.emit(store)
    r.branch(end)
    r.start_block(end)


def prepare(r: Any, place: str, size: int, ahead: int = FURTHER) -> None:
    """Asks for what lies some way behind `size` bytes of a large result, if its lines are worth being asked for."""
    with r.when(~_goes_past(r)):
        prefetch(r, r.address(place, r.constant("i64", ahead)), size, write=True)


def _goes_past(r: Any) -> Value:
    r.declarations.add("@past_caches = external global i64")
    return r.value("load i64, ptr @past_caches, align 8", "i64") != 0


def prefetch(r: Any, place: str, size: int, write: bool = False, cache: int = 1) -> None:
    """Asks for `size` bytes from `place` on, which may be about to be written, to a cache; that need not be valid memory."""
    r.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for n in range(0, size, LINE):
        at = r.address(place, r.constant("i64", n))
        r.emit(f"call void @llvm.prefetch.p0(ptr {at}, i32 {int(write)}, i32 {4 - cache}, i32 1)")


# -- the same for operands of kernels in the kernel language -----------------------------------------------------------


def whole_lines(out: Any) -> tuple[Any, Any]:
    """Which elements of a dense row are to be handed over by `hand_over`: those in whole lines."""
    return lines_from(out.r, out.pointer, out.r.constant("i64", 0), out.n, out.type)


def hand_over(out: Any, index: Any, lines: Any) -> None:
    """Writes a local array of `width` elements to a row from `index` on."""
    write_lines(out.r, out._address(index), lines.pointer)


def ask_for(x: Any, index: Any, count: int) -> None:
    """Asks for `count` elements of a dense row from `index` on, also beyond its end: rows mostly follow each other."""
    prefetch(x.r, x._address(index), count * SIZE[x.type])


def ask_to_write(out: Any, index: Any, count: int, ahead: int = FURTHER) -> None:
    """`prepare` for `count` elements of a dense row."""
    prepare(out.r, out._address(index), count * SIZE[out.type], ahead)
