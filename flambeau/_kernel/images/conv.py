"""Convolution kernels that read their windows where they lie: no matrix of windows is ever made.

In a padded plane whose rows are `pitch` long, the window element (i, j) of the position p = row * pitch + column is
the element p + i * pitch + j. So for one weight, 32 neighbouring positions are 32 neighbouring elements at a fixed
offset: a register tile multiplies weights with unaligned vectors. Columns between the rows are computed in vain.
"""

from __future__ import annotations

import functools
from typing import Any

from ..building import jit
from ..loops.lang import independent, kernel
from ..loops.ufunc import make_ufunc
from ..products.panels import pack
from ..render.register_tiles import Frame, accumulators, add_products, store_sums
from ..render.tiles import Plan, Vectors, height, invoke, joined, minimum, tile, vectors
from ..render.value import Value

_DEPTH = 1152  # weights of one output that a tile goes through at a time
_UNROLL = 2
_POSITIONS = 1024  # whose gradients are packed at a time


def tile_rows(rows: int) -> int:
    """Rows of the register tile for so many outputs."""
    return height(max(rows, 1))


def tile_columns(type: str, rows: int) -> int:
    """Positions of the register tile: few rows leave registers for more."""
    return _wide(rows) * Plan(type, rows).lanes


def lanes(type: str) -> int:
    """Elements of a vector."""
    return Plan(type, 1).lanes


def padded_rows(type: str, rows: int) -> int:
    """Elements between the packed weights of one depth and the next."""
    return Plan(type, rows).padded


def weight_rows() -> int:
    """Window elements of the register tile of gradients; each needs a pointer of its own."""
    return min(12, tile())


def _wide(rows: int) -> int:
    return 4 if rows <= 6 and vectors()[1] == 32 else 2


def _steps(r: Vectors, depth: Value, step: Any) -> None:
    """Calls `step` for each depth, unrolled."""
    zero = r.constant("i64", 0)
    whole = depth & -_UNROLL
    with r.loop(zero, whole, _UNROLL) as p:
        for u in range(_UNROLL):
            step(p + u)
    with r.loop(whole, depth) as p:
        step(p)


# -- windows times weights ---------------------------------------------------------------------------------------


def _window_tile(plan: Plan, wide: int) -> Vectors:
    """tile(a, x, offsets, depth, c, c row, adds): c[i, p] = sum over k of a[k, i] * x[p + offsets[k]]."""
    r = Vectors("tile", [
        "ptr noalias %a", "ptr noalias %x", "ptr noalias %offsets", "i64 %depth", "ptr noalias %c", "i64 %c_row",
        "i1 %adds",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, wide)

    def step(p: Value) -> None:
        window = r.at("%x", r.load(r.at("%offsets", p * 8), "i64"))
        right = [r.load_vector(r.at(window, v * n * size), aligned=False) for v in range(wide)]
        add_products(r, slots, lambda i: r.at("%a", p * (plan.padded * size), i * size), right)

    _steps(r, r.i64("%depth"), step)
    store_sums(r, slots, Value(r, "%adds", "b1"))
    return r


def _window_main(plan: Plan, wide: int) -> Vectors:
    r = Frame(plan, 4)
    size, columns = plan.size, wide * plan.lanes
    zero = r.constant("i64", 0)
    batch, panels, depth = (r.word("%dims", i) for i in range(3))
    positions = r.word("%dims", 6)
    c_row = r.core(5)
    with r.loop(zero, batch) as item:
        a, x, offsets, c = (r.operand(i, item) for i in range(4))
        with r.loop(zero, depth, _DEPTH) as pc, r.loop(zero, positions, columns) as j, r.loop(zero, panels) as i:
            panel = r.at(a, (i * depth + pc) * (plan.padded * size))
            to = r.at(c, i * c_row * plan.rows, j * size)
            length = minimum(depth - pc, _DEPTH)
            invoke(r, "tile", panel, r.at(x, j * size), r.at(offsets, pc * 8), length, to, c_row, pc > 0)
    r.clear_float_status()
    return r


@jit.rendered
def _products_kernel(type: str, rows: int) -> str:
    plan, wide = Plan(type, rows), _wide(rows)
    return joined([_window_tile(plan, wide)], _window_main(plan, wide))


@functools.cache
def window_products(type: str, rows: int) -> Any:
    """The ufunc weights (panels, depth, padded rows), x, offsets (depth, in bytes) -> (panels * rows, positions).

    All operands are dense but the rows of the result; positions are whole tiles, and x must reach one tile beyond the
    last offset.
    """
    return make_ufunc(
        f"window_products_{type}_{rows}", _products_kernel(type, rows), (type, type, "i64"), (type,),
        "(i,k,l),(s),(k)->(o,p)",
    )  # fmt: skip


# -- windows times gradients, summed over positions ----------------------------------------------------------------


def _sum_tile(plan: Plan) -> Vectors:
    """tile(x, offsets, g, depth, c, c row): c[k, o] += sum over p of x[p + offsets[k]] * g[p, o]."""
    r = Vectors("tile", [
        "ptr noalias %x", "ptr noalias %offsets", "ptr noalias %g", "i64 %depth", "ptr noalias %c", "i64 %c_row",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, 2)
    starts = [r.at("%x", r.load(r.at("%offsets", 8 * k), "i64")) for k in range(plan.rows)]

    def step(p: Value) -> None:
        right = [r.load_vector(r.at("%g", p * (plan.columns * size), v * n * size)) for v in range(2)]
        add_products(r, slots, lambda i: r.at(starts[i], p * size), right)

    _steps(r, r.i64("%depth"), step)
    store_sums(r, slots, Value(r, "true", "b1"))
    return r


def _sum_main(plan: Plan) -> Vectors:
    r = Frame(plan, 5)
    size = plan.size
    zero = r.constant("i64", 0)
    batch, images, _, elements, outputs, positions = (r.word("%dims", i) for i in range(6))
    x_image, g_image, g_row, c_row = r.core(0), r.core(3), r.core(4), r.core(7)
    with r.loop(zero, batch) as item:
        x, offsets, g, scratch, c = (r.operand(i, item) for i in range(5))
        packed = r.aligned(scratch)
        with (
            r.loop(zero, images) as image,
            r.loop(zero, positions, _POSITIONS) as p,
            r.loop(zero, outputs, plan.columns) as j,
        ):
            depth = minimum(positions - p, _POSITIONS)
            source = r.at(g, image * g_image, j * g_row, p * size)
            invoke(r, "pack", packed, source, g_row, r.constant("i64", size), minimum(outputs - j, plan.columns), depth)
            with r.loop(zero, elements, plan.rows) as k:
                to = r.at(c, k * c_row, j * size)
                invoke(r, "tile", r.at(x, image * x_image, p * size), r.at(offsets, k * 8), packed, depth, to, c_row)
    r.clear_float_status()
    return r


@jit.rendered
def _sums_kernel(type: str) -> str:
    plan = Plan(type, weight_rows())
    return joined([pack(plan, "pack", plan.columns), _sum_tile(plan)], _sum_main(plan))


@functools.cache
def window_sums(type: str) -> tuple[Any, int, int]:
    """(ufunc, columns of its tile, bytes of scratch): x (images, …), offsets (in bytes), g (images, outputs, positions),
    scratch -> (elements, outputs), which are added to. Elements and the result's outputs are whole tiles."""
    plan = Plan(type, weight_rows())
    made = make_ufunc(
        f"window_sums_{type}", _sums_kernel(type), (type, "i64", type, "u8"), (type,),
        "(n,s),(k),(n,o,p),(z)->(q,l)",
    )  # fmt: skip
    return made, plan.columns, _POSITIONS * plan.columns * plan.size + 64


# -- copies ---------------------------------------------------------------------------------------------------------


@kernel("(h,w),()->(h,w)")
def copy_rows(m, x, bias, out, chunk, added):
    """Copies short rows, a vector at a time; the last one overlaps the one before. May add a number."""
    width = out.n
    whole = width - width % chunk
    for i in range(out.shape[0]):
        for start in range(0, whole, chunk):
            for c in independent(chunk):
                out[i, start + c] = x[i, start + c] + bias[()] if added else x[i, start + c]
        if (whole < width) & (whole > 0):
            for c in independent(chunk):
                last = width - chunk + c
                out[i, last] = x[i, last] + bias[()] if added else x[i, last]
        if whole == 0:
            for c in range(width):
                out[i, c] = x[i, c] + bias[()] if added else x[i, c]


@kernel("(h,v)->(h,w),(h,w)")
def split_rows(m, x, even, odd, chunk):
    """Elements of rows in turn, as `copy_rows` copies; x has both for every element of the results."""
    width = even.n
    whole = width - width % chunk
    for i in range(even.shape[0]):
        for start in range(0, whole, chunk):
            for c in independent(chunk):
                even[i, start + c] = x[i, 2 * (start + c)]
                odd[i, start + c] = x[i, 2 * (start + c) + 1]
        if (whole < width) & (whole > 0):
            for c in independent(chunk):
                last = width - chunk + c
                even[i, last] = x[i, 2 * last]
                odd[i, last] = x[i, 2 * last + 1]
        if whole == 0:
            for c in range(width):
                even[i, c] = x[i, 2 * c]
                odd[i, c] = x[i, 2 * c + 1]
