"""Products of bfloat16 matrices on CPUs that multiply pairs of them: AMX tiles, or AVX-512's dot products.

Both take a 32-bit lane for two neighbours along the depth, so panels are packed in pairs. Sums are float32 over the
whole depth and are rounded once.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import jit
from .gemm import _call, _maximum, _minimum, _Plan, _Vectors, joined, on_grid
from .value import Value

_LANES = 16  # 32-bit lanes of a vector, and rows of a tile
_COLUMNS = 32  # of the block that is computed at a time
_ROWS = {"tiles": 32, "dots": 14}  # of that block: four accumulator tiles, or 28 accumulator vectors
_PANEL = {"tiles": 16, "dots": 14}  # rows that are packed together
_BLOCK_BYTES = 512 << 10  # of the packed left operand
_STRIP_BYTES = 1 << 20  # of the packed right operand
_BUFFER = 4 * 32 * _COLUMNS  # bytes in which a block is gathered before it is rounded
DEPTH = 1 << 14  # the deepest product for which packed panels stay small


@functools.cache
def instructions() -> str | None:
    """What multiplies pairs here: "tiles" (AMX, if Linux lets this process use it), "dots" (AVX-512) or nothing."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    features = jit.cpu_features()
    if not all(features.get(f) for f in ("avx512f", "avx512bw", "avx512vl", "avx512bf16")):
        return None
    if features.get("amx-tile") and features.get("amx-bf16") and sys.platform.startswith("linux"):
        try:
            # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) holds for the whole process
            if ctypes.CDLL(None).syscall(ctypes.c_long(158), ctypes.c_long(0x1023), ctypes.c_long(18)) == 0:
                return "tiles"
        except (OSError, AttributeError):
            pass
    return "dots"


class _Pairs(_Vectors):
    """Vectors of sixteen pairs of bfloat16."""

    def elements(self, pointer: str, count: int, mask: str | None) -> str:
        kind = f"<{count} x i16>"
        if mask is None:
            return self.raw(f"load {kind}, ptr {pointer}, align 2")
        name = f"llvm.masked.load.v{count}i16.p0"
        self.declarations.add(f"declare {kind} @{name}(ptr, i32, <{count} x i1>, {kind})")
        return self.raw(f"call {kind} @{name}(ptr {pointer}, i32 2, <{count} x i1> {mask}, {kind} zeroinitializer)")

    def below(self, limit: Value, count: int) -> str:
        """The mask of the first `limit` of `count` lanes."""
        short = self.raw(f"trunc i64 {_minimum(limit, count).name} to i16")
        first = self.raw(f"insertelement <{count} x i16> poison, i16 {short}, i64 0")
        zeros = f"<{count} x i32> zeroinitializer"
        all_ = self.raw(f"shufflevector <{count} x i16> {first}, <{count} x i16> poison, {zeros}")
        numbers = "<" + ", ".join(f"i16 {i}" for i in range(count)) + ">"
        return self.raw(f"icmp sgt <{count} x i16> {all_}, {numbers}")

    def interleaved(self, low: str, high: str) -> str:
        """Two vectors of sixteen elements as pairs."""
        order = ", ".join(f"i32 {lane}, i32 {_LANES + lane}" for lane in range(_LANES))
        pairs = self.raw(f"shufflevector <16 x i16> {low}, <16 x i16> {high}, <32 x i32> <{order}>")
        return self.raw(f"bitcast <32 x i16> {pairs} to {self.vector}")


def _pack(name: str, by_lane: bool) -> _Pairs:
    """pack(to, from, lane stride, depth stride, lanes in use, depth): sixteen lanes, in blocks of 32 along the depth.

    A block is a tile of 1 KiB: a row for each lane if `by_lane`, otherwise a row for each pair. What lies beyond
    the depth is zero; lanes that are not in use repeat the last one or are zero.
    """
    r = _Pairs(
        name, ["ptr noalias %to", "ptr noalias %from", "i64 %lane", "i64 %step", "i64 %used", "i64 %depth"],
        _Plan("i32", _LANES),
    )  # fmt: skip
    lane, step, used, depth = (r.i64(f"%{n}") for n in ("lane", "step", "used", "depth"))
    zero = r.constant("i64", 0)

    def save(rows: list[str], p: Value, turned: bool) -> None:
        for i, row in enumerate(r.transpose(rows) if turned else rows):
            r.store_vector(r.at("%to", p * 32, 64 * i), row)

    whole = depth & -32
    by_depth, by_lanes, by_element, end = r.label(), r.label(), r.label(), r.label()
    other = r.label()
    r.branch_if(step == 2, by_depth, other)
    r.start_block(other)
    r.branch_if(lane == 2, by_lanes, by_element)

    r.start_block(by_depth)
    last = used - 1
    starts = [r.at("%from", _minimum(r.constant("i64", i), last) * lane) for i in range(_LANES)]

    def rows_by_depth(p: Value, mask: str | None) -> None:
        rows = [r.elements(r.at(start, p * 2), 32, mask) for start in starts]
        save([r.raw(f"bitcast <32 x i16> {row} to {r.vector}") for row in rows], p, not by_lane)

    with r.loop(zero, whole, 32) as p:
        rows_by_depth(p, None)
    with r.loop(whole, depth, 32) as p:
        rows_by_depth(p, r.below(depth - p, 32))
    r.branch(end)

    r.start_block(by_lanes)

    def rows_by_lanes(p: Value, masked: bool) -> None:
        rows = []
        for pair in range(_LANES):
            halves = []
            for half in range(2):
                q = p + (2 * pair + half)
                mask = r.below(r.select(q < depth, used, zero), _LANES) if masked else None
                source = r.at("%from", (_minimum(q, depth - 1) if masked else q) * step)
                halves.append(r.elements(source, _LANES, mask))
            rows.append(r.interleaved(*halves))
        save(rows, p, by_lane)

    full = r.select(used == _LANES, whole, zero)
    with r.loop(zero, full, 32) as p:
        rows_by_lanes(p, False)
    with r.loop(full, depth, 32) as p:
        rows_by_lanes(p, True)
    r.branch(end)

    r.start_block(by_element)
    padded = (depth + 31) & -32
    with r.loop(zero, r.constant("i64", _LANES)) as i, r.loop(zero, padded) as p:
        slot = r.variable("i32")
        r.emit(f"store i16 0, ptr {slot}")
        with r.when((i < used) & (p < depth)):
            element = r.raw(f"load i16, ptr {r.at('%from', i * lane, p * step)}, align 2")
            r.emit(f"store i16 {element}, ptr {slot}")
        inside = p & 31
        row, column = (i * 64, inside * 2) if by_lane else ((inside >> 1) * 64, i * 4 + (inside & 1) * 2)
        to = r.at("%to", (p - inside) * 32, row + column)
        r.emit(f"store i16 {r.raw(f'load i16, ptr {slot}')}, ptr {to}, align 2")
    r.branch(end)
    r.start_block(end)
    return r


def _tile() -> _Pairs:
    """tile(a, lower a, b, further b, depth, buffer): 32 rows by 32 columns as float32 in four tiles of the buffer."""
    r = _Pairs(
        "tile", ["ptr %a", "ptr %lower", "ptr %b", "ptr %further", "i64 %depth", "ptr %buffer"], _Plan("i32", _LANES)
    )
    r.declarations |= {
        "declare void @llvm.x86.tilezero(i8)", "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)", "declare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    }  # fmt: skip
    for t in range(4):
        r.emit(f"call void @llvm.x86.tilezero(i8 {t})")
    with r.loop(r.constant("i64", 0), r.i64("%depth"), 32) as p:

        def load(t: int, base: str) -> None:
            r.emit(f"call void @llvm.x86.tileloadd64(i8 {t}, ptr {r.at(base, p * 32)}, i64 64)")

        def multiply(t: int) -> None:
            r.emit(f"call void @llvm.x86.tdpbf16ps(i8 {t}, i8 {4 + t // 2}, i8 {6 + t % 2})")

        load(6, "%b")
        load(4, "%a")
        multiply(0)
        load(7, "%further")
        multiply(1)
        load(5, "%lower")
        multiply(2)
        multiply(3)
    for t in range(4):
        to = r.at("%buffer", (t // 2) * 16 * 128 + (t % 2) * 64)
        r.emit(f"call void @llvm.x86.tilestored64(i8 {t}, ptr {to}, i64 128)")
    return r


def _dots() -> _Pairs:
    """dots(a, b, further b, depth, buffer): 14 rows by 32 columns as float32 in the buffer."""
    r = _Pairs("dots", ["ptr %a", "ptr %b", "ptr %further", "i64 %depth", "ptr %buffer"], _Plan("f32", _ROWS["dots"]))
    name, pairs = "llvm.x86.avx512bf16.dpbf16ps.512", "<32 x bfloat>"
    r.declarations.add(f"declare {r.vector} @{name}({r.vector}, {pairs}, {pairs})")
    slots = [[r.fresh() for _ in range(2)] for _ in range(_ROWS["dots"])]
    for slot in (s for row in slots for s in row):
        r.slots.append(f"  {slot} = alloca {r.vector}, align 64")
        r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
    with r.loop(r.constant("i64", 0), (r.i64("%depth") + 31) & -32, 2) as p:
        right = [r.raw(f"load {pairs}, ptr {r.at(base, p * 32)}, align 64") for base in ("%b", "%further")]
        for i, row in enumerate(slots):
            pair = r.raw(f"load float, ptr {r.at('%a', p * 32, 4 * i)}, align 4")
            left = r.raw(f"bitcast {r.vector} {r.splat(pair)} to {pairs}")
            for v, slot in enumerate(row):
                held = r.raw(f"load {r.vector}, ptr {slot}")
                made = r.raw(f"call {r.vector} @{name}({r.vector} {held}, {pairs} {left}, {pairs} {right[v]})")
                r.emit(f"store {r.vector} {made}, ptr {slot}")
    for i, row in enumerate(slots):
        for v, slot in enumerate(row):
            r.store_vector(r.at("%buffer", 128 * i + 64 * v), r.raw(f"load {r.vector}, ptr {slot}"))
    return r


def _store() -> _Pairs:
    """store(buffer, c, c strides, d, d strides, rows, columns, alpha, beta, read d): rounds a block into the result."""
    r = _Pairs("save", [
        "ptr noalias %buffer", "ptr %c", "i64 %c_row", "i64 %c_column", "ptr %d", "i64 %d_row", "i64 %d_column",
        "i64 %rows", "i64 %columns", "float %alpha", "float %beta", "i1 %reads",
    ], _Plan("f32", _LANES))  # fmt: skip
    reads, zero = Value(r, "%reads", "b1"), r.constant("i64", 0)
    columns = r.i64("%columns")
    c_row, c_column, d_row, d_column = (r.i64(f"%{x}") for x in ("c_row", "c_column", "d_row", "d_column"))
    beside = (c_column == 2) & ((d_column == 2) | ~reads)
    vectors, elements, end = r.label(), r.label(), r.label()
    r.branch_if(beside, vectors, elements)

    r.start_block(vectors)
    masks = [r.below(columns, _LANES), r.below(_maximum(columns - _LANES, 0), _LANES)]
    alpha, beta = r.splat("%alpha"), r.splat("%beta")
    name = "llvm.masked.store.v16i16.p0"
    r.declarations.add(f"declare void @{name}(<16 x i16>, ptr, i32, <16 x i1>)")
    slot = r.fresh()
    r.slots.append(f"  {slot} = alloca {r.vector}, align 64")
    with r.loop(zero, r.i64("%rows")) as i:
        for v, mask in enumerate(masks):
            made = r.multiply(alpha, r.load_vector(r.at("%buffer", i * 128, 64 * v)))
            r.emit(f"store {r.vector} {made}, ptr {slot}")
            with r.when(reads):
                held = r.widened(r.elements(r.at("%d", i * d_row, 32 * v), _LANES, mask), _LANES, "bf16")
                r.emit(f"store {r.vector} {r.multiply_add(beta, held, made)}, ptr {slot}")
            value = r.raw(f"load {r.vector}, ptr {slot}")
            half = r.raw(f"fptrunc {r.vector} {value} to <16 x bfloat>")
            bits = r.raw(f"bitcast <16 x bfloat> {half} to <16 x i16>")
            r.emit(
                f"call void @{name}(<16 x i16> {bits}, ptr {r.at('%c', i * c_row, 32 * v)}, i32 2, <16 x i1> {mask})"
            )
    r.branch(end)

    r.start_block(elements)
    total = r.variable("f32")
    with r.loop(zero, r.i64("%rows")) as i, r.loop(zero, columns) as j:
        held = r.raw(f"load float, ptr {r.at('%buffer', i * 128, j * 4)}, align 4")
        made = r.raw(f"fmul float {held}, %alpha")
        r.emit(f"store float {made}, ptr {total}")
        with r.when(reads):
            old = r.load(r.at("%d", i * d_row, j * d_column), "bf16")
            scaled = r.raw(f"fmul float {old.name}, %beta")
            r.emit(f"store float {r.raw(f'fadd float {scaled}, {made}')}, ptr {total}")
        r.store(r.at("%c", i * c_row, j * c_column), "bf16", r.read(total, "f32"))
    r.branch(end)
    r.start_block(end)
    return r


def _main(kind: str, added: bool) -> _Pairs:
    r = _Pairs(
        "kernel", ["ptr noalias %args", "ptr noalias %dims", "ptr noalias %steps", "ptr %data"], _Plan("f32", _LANES)
    )
    zero = r.constant("i64", 0)

    def word(base: str, index: int) -> Value:
        return r.load(r.at(base, 8 * index), "i64")

    def pointer(index: int) -> str:
        return r.raw(f"load ptr, ptr {r.at('%args', 8 * index)}, align 8")

    count = 7 if added else 4
    batch, m, k, n = (word("%dims", i) for i in range(4))
    outer = [word("%steps", i) for i in range(count)]
    core = [word("%steps", count + i) for i in range(9 if added else 7)]
    a_row, a_column, b_row, b_column = core[:4]
    d_row, d_column = core[4:6] if added else core[-2:]
    c_row, c_column = core[-2:]
    start = r.i64(r.raw(f"ptrtoint ptr {pointer(count - 2)} to i64"))
    buffer = r.raw(f"inttoptr i64 {((start + 63) & -64).name} to ptr")
    left = r.at(buffer, _BUFFER)
    panel = ((k + 31) & -32) * 32  # bytes of a packed panel, which has sixteen lanes
    unit, tall = _PANEL[kind], _ROWS[kind]

    def panels(size: int) -> Value:
        """An even number that fits into `size` bytes, at least two."""
        return _maximum(r.value(f"udiv i64 {size}, {_maximum(panel * 2, 1).name}", "i64"), 1) * 2

    block, strip = panels(_BLOCK_BYTES) * unit, panels(_STRIP_BYTES) * _LANES
    right = r.at(left, panels(_BLOCK_BYTES) * panel)

    def row_panel(i: Value) -> str:
        return r.at(left, r.value(f"udiv i64 {i.name}, {unit}", "i64") * panel)

    if kind == "tiles":
        _configure(r)

    with r.loop(zero, batch) as item:
        a, b, c = (r.at(pointer(i), outer[i] * item) for i in (0, 1, count - 1))
        d, alpha, beta, reads = c, "1.0", "1.0", r.constant("b1", False)
        if added:
            d = r.at(pointer(2), outer[2] * item)
            alpha, beta = (r.load(r.at(pointer(i), outer[i] * item), "f32").name for i in (3, 4))
            reads = Value(r, r.raw(f"fcmp une float {beta}, 0.0"), "b1")
        with _loop(r, n, strip) as jc:
            columns = _minimum(n - jc, strip)
            with r.loop(zero, columns, _LANES) as j:
                _call(r, "pack_right", r.at(right, (j >> 4) * panel), r.at(b, (jc + j) * b_column), b_column, b_row,
                      _minimum(columns - j, _LANES), k)  # fmt: skip
            with _loop(r, m, block) as ic:
                rows = _minimum(m - ic, block)
                with r.loop(zero, rows, unit) as i:
                    _call(r, "pack_left", row_panel(i), r.at(a, (ic + i) * a_row), a_row, a_column,
                          _minimum(rows - i, unit), k)  # fmt: skip
                with r.loop(zero, columns, _COLUMNS) as j, r.loop(zero, rows, tall) as i:
                    # the second sixteen may not be there: then the first are taken again, and not stored
                    further = r.select(j + _LANES < columns, j + _LANES, j)
                    beside = (r.at(right, (j >> 4) * panel), r.at(right, (further >> 4) * panel))
                    if kind == "tiles":
                        lower = r.select(i + unit < rows, i + unit, i)
                        _call(r, "tile", row_panel(i), row_panel(lower), *beside, k, buffer)
                    else:
                        _call(r, "dots", row_panel(i), *beside, k, buffer)
                    _call(r, "save", buffer, r.at(c, (ic + i) * c_row, (jc + j) * c_column), c_row, c_column,
                          r.at(d, (ic + i) * d_row, (jc + j) * d_column), d_row, d_column,
                          _minimum(rows - i, tall), _minimum(columns - j, _COLUMNS),
                          ("float", alpha), ("float", beta), reads)  # fmt: skip
    if kind == "tiles":
        r.declarations.add("declare void @llvm.x86.tilerelease()")
        r.emit("call void @llvm.x86.tilerelease()")
    r.clear_float_status()
    return r


@contextmanager
def _loop(r: _Pairs, stop: Value, step: Value) -> Iterator[Value]:
    """A loop from 0 whose step is known only at run time."""
    slot = r.variable("i64")
    r.write(slot, "i64", r.constant("i64", 0))
    head, body, end = r.label(), r.label(), r.label()
    r.branch(head)
    r.start_block(head)
    i = r.read(slot, "i64")
    r.branch_if(i < stop, body, end)
    r.start_block(body)
    yield i
    r.write(slot, "i64", i + step)
    r.branch(head)
    r.start_block(end)


def _configure(r: _Pairs) -> None:
    """Eight tiles of 16 rows of 64 bytes."""
    place = r.fresh()
    r.slots.append(f"  {place} = alloca [64 x i8], align 64")
    values = bytearray(64)
    values[0] = 1
    for t in range(8):
        values[16 + 2 * t], values[48 + t] = 64, 16
    for at in range(0, 64, 8):
        r.emit(f"store i64 {int.from_bytes(values[at : at + 8], 'little')}, ptr {r.at(place, at)}, align 8")
    r.declarations.add("declare void @llvm.x86.ldtilecfg(ptr)")
    r.emit(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def render(kind: str, added: bool) -> str:
    """LLVM text of the whole kernel."""
    compute = _tile() if kind == "tiles" else _dots()
    parts = [_pack("pack_left", kind == "tiles"), _pack("pack_right", False), compute, _store()]
    return joined(parts, _main(kind, added))


@functools.cache
def gemm(kind: str, added: bool, depth: int, grid: tuple[int, int, int] = (1, 1, 1)) -> tuple[Any, int]:
    """The ufunc a, b, [d, alpha, beta,] scratch -> c over bits of bfloat16, and its scratch; see `gemm.gemm`."""
    address = jit.compile("kernel", render(kind, added))
    inner = ("bf16", "bf16", "bf16", "f32", "f32") if added else ("bf16", "bf16")
    return on_grid(f"gemm_bf16_{kind}", address, (*inner, "u8"), "bf16", added, scratch(depth), grid)


def scratch(depth: int) -> int:
    """Bytes of scratch that a product of this depth needs."""
    panel = -(-depth // 32) * 32 * 32
    panels = sum(max(size // max(2 * panel, 1), 1) * 2 for size in (_BLOCK_BYTES, _STRIP_BYTES))
    return _BUFFER + panels * panel + 64
