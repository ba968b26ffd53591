"""Writing large results past the caches, which could not keep them: that saves reading their memory first."""

from __future__ import annotations

from typing import Any

from .value import SIZE, Value

CHUNK = 1024  # elements that a kernel makes in a local array before it hands them over
_LINE = 64


def stream_to(out: Any, index: Any, buffer: Any, count: Value) -> None:
    """Copies `count` elements of a local array to a dense operand from `index` on: whole lines past the caches.

    Called while a kernel is walked. Where the place does not begin at a cache line, it is a plain copy.
    """
    r = out.r
    place = out._address(index)
    size = count * SIZE[out.type]
    number = r.value(f"ptrtoint ptr {place} to i64", "i64")
    aligned = (number & (_LINE - 1)) == 0
    lines = r.select(aligned, size & -_LINE, r.constant("i64", 0))
    mark = f"!{len(r.metadata)}"
    r.metadata.append(f"{mark} = !{{i32 1}}")
    with r.loop(r.constant("i64", 0), lines, _LINE) as at:
        words = r.fresh()
        r.emit(f"{words} = load <8 x i64>, ptr {r.address(buffer.pointer, at)}, align {_LINE}")
        r.emit(f"store <8 x i64> {words}, ptr {r.address(place, at)}, align {_LINE}, !nontemporal {mark}")
    r.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    rest = size - lines
    source, target = r.address(buffer.pointer, lines), r.address(place, lines)
    r.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {rest.name}, i1 false)")
