"""Products of 8-bit integers, in the form that quantized layers have: rows of codes times rows of a weight.

Both operands lie depth by depth and are padded to whole vectors, so that nothing is packed: a register tile holds sums of
products of a few rows with a few rows. Each CPU has its own instruction for four products at once. The sums are turned into
floats, with a scale, a correction for the zero point and a bias of each column, before they leave the registers. AMX has a
kernel of its own (`gemm_int8_tiles.py`), with the weight arranged once.
"""

from __future__ import annotations

import functools
import platform
from typing import Any

from ..building import jit
from ..loops.ufunc import make_ufunc
from ..render.register_tiles import Frame, accumulators
from ..render.tiles import Plan, Vectors, invoke, joined, minimum, vectors
from ..render.value import Value
from ..threads import pool
from . import amx, gemm_int8_tiles
from .dots import added_up

_NEAR = 24 << 10  # bytes of rows of the left operand that stay in the first cache
_BROAD = 4  # columns of a tile
_ALONE = 8  # columns of a tile of a single row
_SIGNATURE = "(m,k),(k,n),(n),(n),(n),(s)->(m,n)"


@functools.cache
def variants() -> tuple[str, ...]:
    """The instructions for sums of products of bytes that this CPU has, the best first."""
    features, found = jit.cpu_features(), []
    if platform.machine().lower() in ("aarch64", "arm64"):
        if features.get("dotprod"):
            found.append("sdot")
    elif features.get("amx-int8") and features.get("avx512f") and amx.permitted():
        found.append("tiles")
    if (features.get("avx512vnni") and vectors()[0] == 64) or (
        (features.get("avxvnni") or features.get("avx512vnni")) and vectors()[0] == 32
    ):
        found.append("vnni")
    if features.get("avx512bw" if vectors()[0] == 64 else "avx2"):
        found.append("pairs")
    return (*found, "plain")


def offset(variant: str) -> int:
    """What is taken from unsigned codes so that the instruction can have them."""
    return 128 if variant == "sdot" else 0


def _tall() -> int:
    """Rows of a tile: as many as the registers hold sums for."""
    return 4 if vectors()[1] == 32 else 3


def arranged(variant: str, weight: Any) -> Any:
    """A weight (n, depth) of whole vectors as the product of an instruction reads it."""
    return gemm_int8_tiles.arranged(weight) if variant == "tiles" else weight


def padded(depth: int) -> int:
    """A depth in whole vectors of bytes."""
    size = vectors()[0]
    return -(-depth // size) * size


# -- the register tile -------------------------------------------------------------------------------------------------


def _dot(r: Vectors, variant: str, held: str, a: str, b: str) -> str:
    """held + the products of four neighbours each of the bytes a (codes) and b (signed)."""
    n, size = r.plan.lanes, 4 * r.plan.lanes
    if variant == "sdot":
        name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
        r.declarations.add(f"declare <4 x i32> @{name}(<4 x i32>, <16 x i8>, <16 x i8>)")
        return r.raw(f"call <4 x i32> @{name}(<4 x i32> {held}, <16 x i8> {a}, <16 x i8> {b})")
    if variant == "vnni":
        name = f"llvm.x86.avx512.vpdpbusd.{8 * size}"
        r.declarations.add(f"declare {r.vector} @{name}({r.vector}, {r.vector}, {r.vector})")
        a, b = (r.raw(f"bitcast <{size} x i8> {x} to {r.vector}") for x in (a, b))
        return r.raw(f"call {r.vector} @{name}({r.vector} {held}, {r.vector} {a}, {r.vector} {b})")
    if variant == "pairs":
        name = "llvm.x86.avx512.pmaddw.d.512" if size == 64 else "llvm.x86.avx2.pmadd.wd"
        wide = f"<{2 * n} x i16>"
        r.declarations.add(f"declare {r.vector} @{name}({wide}, {wide})")
        for start in (0, 2 * n):
            x, y = (
                r.raw(f"{op} <{2 * n} x i8> {_some(r, v, size, range(start, start + 2 * n))} to {wide}")
                for op, v in (("zext", a), ("sext", b))
            )
            held = r.add(held, r.raw(f"call {r.vector} @{name}({wide} {x}, {wide} {y})"))
        return held
    for q in range(4):
        x, y = (
            r.raw(f"{op} <{n} x i8> {_some(r, v, size, range(q, size, 4))} to {r.vector}")
            for op, v in (("zext", a), ("sext", b))
        )
        held = r.multiply_add(x, y, held)
    return held


def _some(r: Vectors, vector: str, size: int, lanes: range) -> str:
    mask = f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"
    return r.raw(f"shufflevector <{size} x i8> {vector}, <{size} x i8> poison, {mask}")


def _tile(variant: str, plan: Plan, tall: int, broad: int) -> Vectors:
    """tile(a, a row, b, b column, depth, corrections, scales, biases, c, c row, rows, columns)"""
    r = Vectors(f"tile_{tall}", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %b_column", "i64 %depth", "ptr noalias %corrections",
        "ptr noalias %scales", "ptr noalias %biases", "ptr %c", "i64 %c_row", "i64 %rows", "i64 %columns",
    ], plan)  # fmt: skip
    size = 4 * plan.lanes
    last = [r.i64("%rows") - 1, r.i64("%columns") - 1]  # lines beyond them repeat them
    left = [r.at("%a", minimum(r.constant("i64", i), last[0]) * r.i64("%a_row")) for i in range(tall)]
    right = [r.at("%b", minimum(r.constant("i64", j), last[1]) * r.i64("%b_column")) for j in range(broad)]
    slots = accumulators(r, tall, broad)
    with r.loop(r.constant("i64", 0), r.i64("%depth"), size) as p:
        rows = [r.raw(f"load <{size} x i8>, ptr {r.at(place, p)}, align 1") for place in left]
        for j, place in enumerate(right):
            column = r.raw(f"load <{size} x i8>, ptr {r.at(place, p)}, align 1")
            for i, row in enumerate(rows):
                held = r.raw(f"load {r.vector}, ptr {slots[i][j]}")
                r.emit(f"store {r.vector} {_dot(r, variant, held, row, column)}, ptr {slots[i][j]}")
    sums = added_up(r, [r.raw(f"load {r.vector}, ptr {slot}") for row in slots for slot in row])
    inside, edge, end = r.label(), r.label(), r.label()
    r.branch_if((r.i64("%rows") == tall) & (r.i64("%columns") == broad), inside, edge)
    r.start_block(inside)
    _store_full(r, sums, tall, broad)
    r.branch(end)
    r.start_block(edge)
    _store_part(r, sums, broad)
    r.branch(end)
    r.start_block(end)
    return r


def _store_full(r: Vectors, sums: list[str], tall: int, broad: int) -> None:
    """Vectors of sums, which hold a few rows of the tile or part of one."""
    n = r.plan.lanes
    wide = min(n, broad)  # columns that a vector has of a row
    for v, vector in enumerate(sums):
        first = v * n % broad
        picked = "<" + ", ".join(f"i32 {lane % wide}" for lane in range(n)) + ">"

        def of_columns(place: str, kind: str, first: int = first, picked: str = picked) -> str:
            some = f"<{wide} x {kind}>"
            loaded = r.raw(f"load {some}, ptr {r.at(place, 4 * first)}, align 4")
            return r.raw(f"shufflevector {some} {loaded}, {some} poison, <{n} x i32> {picked}")

        floats = f"<{n} x float>"
        exact = r.raw(f"sub {r.vector} {vector}, {of_columns('%corrections', 'i32')}")
        made = r.raw(f"sitofp {r.vector} {exact} to {floats}")
        made = r.raw(f"fmul {floats} {made}, {of_columns('%scales', 'float')}")
        made = r.raw(f"fadd {floats} {made}, {of_columns('%biases', 'float')}")
        for start in range(0, n, wide):
            i, j = divmod(v * n + start, broad)
            if i < tall:
                mask = "<" + ", ".join(f"i32 {start + lane}" for lane in range(wide)) + ">"
                row = r.raw(f"shufflevector {floats} {made}, {floats} poison, <{wide} x i32> {mask}")
                to = r.at("%c", r.i64("%c_row") * i, 4 * j)
                r.emit(f"store <{wide} x float> {row}, ptr {to}, align 4")


def _store_part(r: Vectors, sums: list[str], broad: int) -> None:
    buffer, zero = r.local_array("i32", len(sums) * r.plan.lanes), r.constant("i64", 0)
    for v, vector in enumerate(sums):
        r.store_vector(r.at(buffer, v * r.plan.lanes * 4), vector)
    with r.loop(zero, r.i64("%rows")) as i, r.loop(zero, r.i64("%columns")) as j:
        exact = r.load(r.at(buffer, (i * broad + j) * 4), "i32") - r.load(r.at("%corrections", j * 4), "i32")
        made = r.cast(exact, "f32") * r.load(r.at("%scales", j * 4), "f32") + r.load(r.at("%biases", j * 4), "f32")
        r.store(r.at("%c", i * r.i64("%c_row"), j * 4), "f32", made)


# -- the loops around it -----------------------------------------------------------------------------------------------


def _main(plan: Plan) -> Frame:
    r = Frame(plan, 7)
    zero = r.constant("i64", 0)
    batch, m, k, n = (r.word("%dims", i) for i in range(4))
    a_row, b_column, c_row = r.core(0), r.core(3), r.core(8)
    tall = _tall()
    near = r.value(f"udiv i64 {_NEAR // tall}, {(k + 1).name}", "i64") * tall
    near = r.select(near > tall, near, r.constant("i64", tall))
    blocks = r.value(f"udiv i64 {(m + near - 1).name}, {near.name}", "i64")

    def tile(name: str, i: Value, j: Value, rows: Value, columns: Value) -> None:
        a, b, corrections, scales, biases = (r.operand(index, item) for index in range(5))
        places = [r.at(place, j * 4) for place in (corrections, scales, biases)]
        c = r.at(r.operand(6, item), i * c_row, j * 4)
        invoke(r, name, r.at(a, i * a_row), a_row, r.at(b, j * b_column), b_column, k, *places, c, c_row, rows, columns)

    one, many, done = r.label(), r.label(), r.label()
    r.branch_if(m == 1, one, many)
    r.start_block(one)
    with r.loop(zero, batch) as item, r.loop(zero, n, _ALONE) as j:
        tile("tile_1", zero, j, m, minimum(n - j, _ALONE))
    r.branch(done)
    r.start_block(many)
    with r.loop(zero, batch) as item, r.loop(zero, blocks) as block:
        first = block * near
        stop = first + near
        stop = r.select(stop < m, stop, m)
        with r.loop(zero, n, _BROAD) as j, r.loop(first, stop, tall) as i:
            tile(f"tile_{tall}", i, j, minimum(stop - i, tall), minimum(n - j, _BROAD))
    r.branch(done)
    r.start_block(done)
    r.clear_float_status()
    return r


@jit.rendered
def _kernel(variant: str) -> str:
    if variant == "tiles":
        return gemm_int8_tiles.render()
    plan = Plan("i32", _tall())
    text = joined([_tile(variant, plan, plan.rows, _BROAD), _tile(variant, plan, 1, _ALONE)], _main(plan))
    return text.replace(" nounwind ", ' nounwind "target-features"="+dotprod" ') if variant == "sdot" else text


@functools.cache
def gemm(variant: str, grid: tuple[int, int, int] = (1, 1, 1), threads: int = 1) -> Any:
    """The ufunc (codes, arranged weight turned, corrections, scales, biases, scratch) -> floats.

    c[i, j] = (sum of a[i] * b[:, j] - corrections[j]) * scales[j] + biases[j]. The depth is a multiple of the CPU's vectors
    and dense in both operands, as are the columns of everything else. The scratch is a single byte that nobody reads.
    """
    address = _kernel(variant)
    types = ("u8", "i8", "i32", "f32", "f32", "u8")
    name = f"gemm_int8_{variant}"
    if grid == (1, 1, 1):
        return make_ufunc(name, address, types, ("f32",), _SIGNATURE)
    places = [(7, -1), (-1, 10), (-1, 11), (-1, 12), (-1, 13), (-1, -1), (15, 16)]
    units = (gemm_int8_tiles.BLOCK,) * 2 if variant == "tiles" else (_tall(), _ALONE)
    loop, data = pool.gridded(address, places, 5, 0, grid, units, threads)
    return make_ufunc(name, loop, types, ("f32",), _SIGNATURE, data)
