"""Products of bytes by the tiles of AMX: two tiles of rows times two tiles of columns at once.

Codes are read where they lie. The weight is arranged once: blocks of 16 columns, in each of them tiles of 64 bytes of
depth, in which four neighbours of the depth of all columns lie side by side. The last rows, if they are no whole block, have
tiles of their own height.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.allocation import empty
from ..render.register_tiles import Frame
from ..render.tiles import Plan, Vectors, invoke, joined, maximum, minimum
from ..render.value import Value
from . import amx

_SIDE = amx.ROWS  # rows and columns of a tile of sums
BLOCK = 2 * _SIDE
_TILE = amx.ROWS * amx.BYTES


def arranged(weight: Any) -> Any:
    """A weight (n, depth) whose depth is a multiple of 64, as an array of the same shape over the arranged bytes."""
    n, depth = weight.shape
    whole = -(-n // _SIDE) * _SIDE
    padded = np.zeros((whole, depth), np.int8)
    padded[:n] = weight
    made = empty((whole, depth), np.dtype(np.int8))
    blocks = padded.reshape(whole // _SIDE, _SIDE, depth // 64, 16, 4).transpose(0, 2, 3, 1, 4)
    made.reshape(blocks.shape)[...] = blocks
    return made[:n]


def _tile(high: int, wide: int) -> Vectors:
    """tile(a, a row, b, depth, corrections, scales, biases, c, c row, rows, columns): a block of the result."""
    r = Vectors(f"tile_{high}_{wide}", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %depth", "ptr noalias %corrections", "ptr noalias %scales",
        "ptr noalias %biases", "ptr %c", "i64 %c_row", "i64 %rows", "i64 %columns",
    ], Plan("i32", _SIDE))  # fmt: skip
    r.declarations |= {
        "declare void @llvm.x86.tilezero(i8)", "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)", "declare void @llvm.x86.tdpbusd(i8, i8, i8)",
    }  # fmt: skip
    depth, a_row = r.i64("%depth"), r.i64("%a_row")

    def clear(t: int) -> None:
        r.emit(f"call void @llvm.x86.tilezero(i8 {t})")

    for i in range(high):
        for j in range(wide):
            clear(2 * i + j)
    with r.loop(r.constant("i64", 0), depth, amx.BYTES) as p:
        for i in range(high):
            for j in range(wide):
                if i == 0:
                    place = r.at("%b", depth * (_SIDE * j), p * (_TILE // amx.BYTES))
                    r.emit(f"call void @llvm.x86.tileloadd64(i8 {6 + j}, ptr {place}, i64 {amx.BYTES})")
                if j == 0:
                    place = r.at("%a", a_row * (_SIDE * i), p)
                    r.emit(f"call void @llvm.x86.tileloadd64(i8 {4 + i}, ptr {place}, i64 {a_row.name})")
                r.emit(f"call void @llvm.x86.tdpbusd(i8 {2 * i + j}, i8 {4 + i}, i8 {6 + j})")
                # a tile that is zero takes no room: without that, loads wait for products where threads share a core
                if j == wide - 1:
                    clear(4 + i)
                if i == high - 1:
                    clear(6 + j)
    sums = r.local_array("i32", BLOCK * BLOCK)
    for i in range(high):
        for j in range(wide):
            place = r.at(sums, (i * _SIDE * BLOCK + j * _SIDE) * 4)
            r.emit(f"call void @llvm.x86.tilestored64(i8 {2 * i + j}, ptr {place}, i64 {4 * BLOCK})")
    _store(r, sums, wide)
    return r


def _store(r: Vectors, sums: str, wide: int) -> None:
    """Writes sums as floats, those within the result."""
    n, floats = _SIDE, f"<{_SIDE} x float>"
    masks = [r.lanes_below(r.i64("%columns") - n * j) for j in range(wide)]

    def of_columns(place: str, kind: str, j: int) -> str:
        vector = f"<{n} x {kind}>"
        name = f"llvm.masked.load.v{n}{'f32' if kind == 'float' else kind}.p0"
        r.declarations.add(f"declare {vector} @{name}(ptr, i32, <{n} x i1>, {vector})")
        start = r.at(place, 4 * n * j)
        return r.raw(f"call {vector} @{name}(ptr {start}, i32 4, <{n} x i1> {masks[j]}, {vector} zeroinitializer)")

    given = [
        [
            of_columns(place, kind, j)
            for place, kind in (("%corrections", "i32"), ("%scales", "float"), ("%biases", "float"))
        ]
        for j in range(wide)
    ]
    store = f"llvm.masked.store.v{n}f32.p0"
    r.declarations.add(f"declare void @{store}({floats}, ptr, i32, <{n} x i1>)")
    with r.loop(r.constant("i64", 0), r.i64("%rows")) as i:
        for j, (corrections, scales, biases) in enumerate(given):
            held = r.load_vector(r.at(sums, i * (4 * BLOCK), 4 * n * j))
            exact = r.raw(f"sub {r.vector} {held}, {corrections}")
            made = r.raw(f"sitofp {r.vector} {exact} to {floats}")
            made = r.raw(f"fadd {floats} {r.raw(f'fmul {floats} {made}, {scales}')}, {biases}")
            to = r.at("%c", i * r.i64("%c_row"), 4 * n * j)
            r.emit(f"call void @{store}({floats} {made}, ptr {to}, i32 4, <{n} x i1> {masks[j]})")


def _main() -> Frame:
    r = Frame(Plan("i32", _SIDE), 7)
    zero = r.constant("i64", 0)
    batch, m, k, n = (r.word("%dims", i) for i in range(4))
    a_row, c_row = r.core(0), r.core(8)
    whole = m & -BLOCK

    def columns(item: Value, first: Value, stop: Value) -> None:
        """All columns of rows: a weight's block is used by all of them before the next one is fetched."""
        a, b, corrections, scales, biases = (r.operand(index, item) for index in range(5))
        c = r.operand(6, item)
        with r.loop(zero, n, BLOCK) as j, r.loop(first, stop, BLOCK) as i:
            rows, count, end = minimum(stop - i, BLOCK), minimum(n - j, BLOCK), r.label()
            places = [r.at(place, j * 4) for place in (corrections, scales, biases)]
            for high in (2, 1):
                for wide in (2, 1):
                    yes, no = r.label(), r.label()
                    r.branch_if((rows > _SIDE * (high - 1)) & (count > _SIDE * (wide - 1)), yes, no)
                    r.start_block(yes)
                    invoke(r, f"tile_{high}_{wide}", r.at(a, i * a_row), a_row, r.at(b, j * k), k, *places,
                           r.at(c, i * c_row, j * 4), c_row, rows, count)  # fmt: skip
                    r.branch(end)
                    r.start_block(no)
            r.branch(end)
            r.start_block(end)

    with r.when(whole > 0):
        amx.configure(r)
        with r.loop(zero, batch) as item:
            columns(item, zero, whole)
    with r.when(whole < m):
        rest = m - whole
        upper, lower = minimum(rest, _SIDE), maximum(rest - _SIDE, 1)
        amx.configure(r, {0: upper, 1: upper, 2: lower, 3: lower, 4: upper, 5: lower})
        with r.loop(zero, batch) as item:
            columns(item, whole, m)
    amx.release(r)
    r.clear_float_status()
    return r


def render() -> str:
    """LLVM text of the whole kernel."""
    return joined([_tile(high, wide) for high in (1, 2) for wide in (1, 2)], _main())
