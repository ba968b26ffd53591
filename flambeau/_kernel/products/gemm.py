"""Matrix products in machine code: packed panels and a register tile whose size follows from the CPU's vectors.

The kernel is a generalized ufunc over (m,k),(k,n)->(m,n), so that NumPy hands it any strides and any batch. A panel of
the left operand stays in the first cache, a strip of the right one in the second. Few rows would not pay for packing
the right operand: it is read where it lies, by tiles if its rows lie side by side, by `dots` if its columns do.
"""

from __future__ import annotations

import functools
from typing import Any

from ..building import jit
from ..loops.ufunc import make_ufunc
from ..render.register_tiles import AHEAD, accumulators, ask_ahead
from ..render.streaming import prefetch
from ..render.tiles import (
    COMPUTE,
    FEW,
    SCALAR,
    TOGETHER,
    Plan,
    Vectors,
    by_lanes,
    either,
    invoke,
    joined,
    maximum,
    minimum,
    vectors,
)
from ..render.value import Value
from ..threads import pool
from .dots import dots, shape
from .edges import store_edge
from .panels import height, left_steps, pack, pack_left, pack_turned

_SMALL = 64 << 10  # bytes up to which a right operand may be read where it lies
_KEPT = 16 << 20  # bytes of panels of a turned left operand that are kept at most
_FEW_STRIPS = 2  # for which panels are packed again sooner than fetched from further away than the second cache
_RESULT_ROWS = 2  # that are asked for before each block of the depth
_APART = 256 << 10  # bytes from the first row of a right operand to the last, whose pages a core does not know at once
_SHORT = 32  # steps along the depth that few rows go at a time then, over all columns: what lies in rows is foreseen
_SOME = 64  # rows that do not pay for packing dense rows, as long as steps enough of these stay near
_LATER = 256  # bytes of the next product's right operand that are asked for there


# -- the register tile -------------------------------------------------------------------------------------------


def _asked(plan: Plan) -> int:
    """Rows of the next panel that a tile asks for: as often as a vector has elements, which is seldom for long vectors."""
    return max(1, plan.lanes // 4)


def _tile(plan: Plan) -> Vectors:
    """tile(a, b, b step, depth, c, c strides, d, d strides, rows, columns, alpha, beta, read d, ahead, its strides, later, pieces):
    c = alpha * (a panel @ b panel) [+ beta * d].

    Memory is asked for early: the place of the result, the right operand some steps on, and, once in a block of the
    depth, some rows of what will be packed next (`ahead`) and one of the pieces, if any, of what the next product of a
    batch will read (`later`). Long vectors ask for the result block by block, too: all at once holds up the operands.
    """
    scalar = SCALAR[plan.compute]
    r = Vectors("tile", [
        "ptr noalias %a", "ptr noalias %b", "i64 %b_step", "i64 %depth", "ptr %c", "i64 %c_row", "i64 %c_column",
        "ptr %d", "i64 %d_row", "i64 %d_column", "i64 %rows", "i64 %columns",
        f"{scalar} %alpha", f"{scalar} %beta", "i1 %reads", "ptr %ahead", "i64 %ahead_step", "i64 %ahead_row",
        "ptr %later", "i64 %pieces",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, plan.wide)
    factors = [r.variable(plan.compute) for _ in range(2)]  # these leave the registers to the sums
    for name, slot in zip(("%alpha", "%beta"), factors):
        r.emit(f"store volatile {scalar} {name}, ptr {slot}")
    for i in range(plan.rows):
        ask_ahead(r, r.at("%c", r.i64("%c_row") * i), plan.columns * size, write=True)

    b_step = r.i64("%b_step")

    def step(p: Value, left: str) -> None:
        row = r.at("%b", p * b_step)
        right = [r.load_vector(r.at(row, v * n * size), aligned=False) for v in range(plan.wide)]
        ask_ahead(r, r.at(row, b_step * AHEAD), plan.columns * size)
        for i in range(plan.rows):
            element = r.splat(r.raw(f"load {scalar}, ptr {r.at(left, i * n * size)}, align {size}"))
            for v in range(plan.wide):
                held = r.raw(f"load {r.vector}, ptr {slots[i][v]}")
                r.emit(f"store {r.vector} {r.multiply_add(element, right[v], held)}, ptr {slots[i][v]}")

    def block(number: Value) -> None:
        for i in range(_asked(plan)):
            place = r.at("%ahead", number * r.i64("%ahead_step"), r.i64("%ahead_row") * i)
            prefetch(r, place, 1, cache=1 if by_lanes() else 2)
        if vectors()[0] < 64:  # the sums would leave the registers where there are 16
            return
        with r.when(number < r.i64("%pieces")):
            prefetch(r, r.at("%later", number * _LATER), _LATER, cache=2)
        with r.when(number * _RESULT_ROWS < plan.rows):
            for i in range(_RESULT_ROWS):
                place = r.at("%c", r.i64("%c_row") * (number * _RESULT_ROWS + i))
                prefetch(r, place, plan.columns * size, write=True)

    left_steps(r, r.i64("%depth"), step, None if plan.few else block)
    factors = [r.raw(f"load volatile {scalar}, ptr {slot}") for slot in factors]
    alpha, beta = map(r.splat, factors)
    reads = Value(r, "%reads", "b1")
    c_column, d_column = r.i64("%c_column"), r.i64("%d_column")
    beside = (c_column == plan.result_step) & ((d_column == plan.result_step) | ~reads)
    full = beside & (r.i64("%rows") == plan.rows) & (r.i64("%columns") == plan.columns)
    inside, edge, done = r.label(), r.label(), r.label()
    if plan.result == plan.compute:
        r.branch_if(full, inside, edge)
        r.start_block(inside)
        _store_full(r, slots, alpha, beta, reads)
        r.branch(done)
        r.start_block(edge)
    sums = r.local_array(plan.compute, plan.rows * plan.columns)
    for i, row in enumerate(slots):
        for v, slot in enumerate(row):
            r.store_vector(r.at(sums, (i * plan.columns + v * n) * size), r.raw(f"load {r.vector}, ptr {slot}"))
    places = "%c", r.i64("%c_row"), c_column, "%d", r.i64("%d_row"), d_column
    invoke(r, "store_edge", sums, r.constant("i64", plan.columns * size), *places, r.i64("%rows"), r.i64("%columns"),
           *[(scalar, factor) for factor in factors], reads)  # fmt: skip
    r.branch(done)
    r.start_block(done)
    return r


def _store_full(r: Vectors, slots: list[list[str]], alpha: str, beta: str, reads: Value) -> None:
    n, size = r.plan.lanes, r.plan.size

    def each(value: Any) -> None:
        for i, row in enumerate(slots):
            for v, slot in enumerate(row):
                made = r.multiply(alpha, r.raw(f"load {r.vector}, ptr {slot}"))
                to = r.at("%c", r.i64("%c_row") * i, v * n * size)
                r.store_vector(to, value(i, v, made), aligned=False)

    def added(i: int, v: int, made: str) -> str:
        held = r.load_vector(r.at("%d", r.i64("%d_row") * i, v * n * size), aligned=False)
        return r.multiply_add(beta, held, made)

    yes, no, end = r.label(), r.label(), r.label()
    r.branch_if(reads, yes, no)
    r.start_block(yes)
    each(added)
    r.branch(end)
    r.start_block(no)
    each(lambda i, v, made: made)
    r.branch(end)
    r.start_block(end)


# -- the loops around it -----------------------------------------------------------------------------------------


# What the loops are told, as all tiles of a type share their code: numbers of the tile, and its functions.
_NUMBERS = ["rows", "row_share", "row_part", "columns", "column_share", "left_bytes", "length", "tall", "broad"]
_FUNCTIONS = ["tile", "pack_right", "dots"]
_PARAMETERS = ["ptr noalias %args", "ptr noalias %dims", "ptr noalias %steps", "ptr %data"]
_SHARE = 63  # bits by which what was multiplied with a share is moved


def _share(number: int) -> int:
    """What small enough integers are multiplied with to be divided by a number."""
    return (1 << _SHARE) // number + 1


def _divided(r: Vectors, x: Value, share: str) -> Value:
    """x // number by its share: a division takes as long as a small tile. Exact as long as x * number < 2 ** 63."""
    wide, other = r.fresh(), r.fresh()
    r.emit(f"{wide} = zext i64 {x.name} to i128")
    r.emit(f"{other} = zext i64 {share} to i128")
    product, high = r.fresh(), r.fresh()
    r.emit(f"{product} = mul nuw i128 {wide}, {other}")
    r.emit(f"{high} = lshr i128 {product}, {_SHARE}")
    return r.value(f"trunc i128 {high} to i64", "i64")


def _main(plan: Plan, added: bool) -> Vectors:
    """The kernel for one tile: the shared loops with what they are told of it."""
    r = Vectors("kernel", _PARAMETERS, plan)
    tall, broad = shape(plan.rows) if plan.few else (0, 0)
    rows, part, left_bytes = (number for _, number in height(plan))
    numbers = [rows, _share(rows), part, plan.columns, _share(plan.columns), left_bytes, plan.length, tall, broad]
    functions = ["ptr @tile", "ptr @pack_right", "ptr @dots" if plan.few else "ptr null"]
    given = ["ptr %args", "ptr %dims", "ptr %steps", "ptr %data"]
    r.emit(f"call void @products({', '.join([*given, *[f'i64 {n}' for n in numbers], *functions])})")
    return r


def _loops(plan: Plan, added: bool) -> Vectors:
    """The loops around a tile, which are the same for all of a type; for few rows there are others."""
    r = Vectors("products", [
        *_PARAMETERS, *[f"i64 %{name}" for name in _NUMBERS], *[f"ptr %{name}" for name in _FUNCTIONS],
    ], plan)  # fmt: skip
    scalar, size = SCALAR[plan.compute], plan.size
    zero = r.constant("i64", 0)
    tile_rows, tile_columns, left_bytes = r.i64("%rows"), r.i64("%columns"), r.i64("%left_bytes")
    sizes = tile_rows, r.i64("%row_part"), left_bytes  # for `pack_turned`

    def word(base: str, index: int) -> Value:
        return r.load(r.at(base, 8 * index), "i64")

    def pointer(index: int) -> str:
        return r.raw(f"load ptr, ptr {r.at('%args', 8 * index)}, align 8")

    def panels_of(rows: Value) -> Value:
        return _divided(r, rows, "%row_share")

    def across(columns: Value) -> Value:
        return _divided(r, columns, "%column_share")

    # operands: a, b, [d, alpha, beta,] scratch, c
    count = 7 if added else 4
    batch, m, k, n = (word("%dims", i) for i in range(4))
    outer = [word("%steps", i) for i in range(count)]
    core = [word("%steps", count + i) for i in range(9 if added else 7)]
    a_row, a_column, b_row, b_column = core[:4]
    d_row, d_column = core[4:6] if added else (zero, zero)
    c_row, c_column = core[-2:]
    start = r.raw(f"ptrtoint ptr {pointer(count - 2)} to i64")
    aligned = (r.i64(start) + 63) & -64
    left = r.raw(f"inttoptr i64 {aligned.name} to ptr")
    right = r.at(left, left_bytes * (TOGETHER + 1))  # and one for what there is no lane of
    one = "1.0" if r.float else "1"
    by_rows = a_column == plan.step
    turned = ~by_rows & (a_row == plan.step)
    # a right operand that is small or used by few rows is read where it lies; columns that are no whole tile are packed
    plain = r.constant("b1", plan.step == size) & (b_column == size)
    if not plan.few:
        near = minimum(k, plan.depth) * n * size
        once = (near <= 2 * _SMALL) & (m <= tile_rows * 8) & (b_row == n * size)  # hardly read again, and dense
        even = n == across(n) * tile_columns
        alike = b_row == tile_columns * size  # packing would leave it as it is
        plain = plain & (once | (even & ((near <= _SMALL) | alike)))
    log = r.constant("i64", plan.depth.bit_length() - 1)  # of the steps along the depth that are taken at a time
    some = r.constant("b1", False)
    if not plan.few:
        some = r.constant("b1", plan.step == size) & (b_column == size) & (b_row == n * size) & ~plain
        some = some & (m <= _SOME) & (n * (_SHORT * size) <= 2 * _SMALL)
        twice, four_times = (
            r.select(n * (_SHORT * t * size) <= 2 * _SMALL, r.constant("i64", 1), zero) for t in (2, 4)
        )
        plain, log = plain | some, r.select(some, twice + four_times + (_SHORT.bit_length() - 1), log)
    packed_step = tile_columns * size
    strip = maximum(across(plan.strip_bytes_at_run_time(r) // (plan.depth * size)), 1) * tile_columns
    strip = r.select(some, maximum(n, 1), strip)
    block = length = r.constant("i64", 1) << log
    if plan.few:
        strip = r.select(plain, maximum(n, 1), strip)
        length = r.select(plain & (minimum(k, plan.depth) * b_row > _APART), r.constant("i64", _SHORT), length)
    # A turned left operand is packed once for all strips if there is room: to fetch its rows from afar each time takes long.
    strips, depths = (n + strip - 1) // strip, (maximum(k, 1) + (block - 1)) >> log
    store = left_bytes * (TOGETHER + 1) + strip * (plan.depth * size)
    room = store + (panels_of(m + tile_rows - 1) + 1) * left_bytes + 64
    keeps = r.constant("b1", not plan.few) & turned & (strips > _FEW_STRIPS) & (room <= word("%dims", 4))
    slowly, quickly = r.select(keeps, depths, strips), r.select(keeps, strips, depths)
    store = r.select(keeps, store, zero)
    next_row, next_step = r.select(by_rows, a_row, zero), r.select(by_rows, a_column * plan.lanes, zero)

    with r.loop(zero, batch) as item:
        a, b, c = (r.at(pointer(i), outer[i] * item) for i in (0, 1, count - 1))
        next_a, next_b = (r.at(pointer(i), outer[i] * (item + 1)) for i in (0, 1))
        pieces = r.select((item + 1 < batch) & plain, k * b_row // _LATER, zero)
        d = r.at(pointer(2), outer[2] * item) if added else c
        alpha, beta = one, one
        if added:
            alpha, beta = (
                r.raw(f"load {scalar}, ptr {r.at(pointer(i), outer[i] * item)}, align {size}") for i in (3, 4)
            )
            compare = "fcmp une" if r.float else "icmp ne"
            zero_text = "0.0" if r.float else "0"
            wanted = Value(r, r.raw(f"{compare} {scalar} {beta}, {zero_text}"), "b1")

        def result(i: Value, j: Value, first: Value) -> tuple[list[Any], list[Any]]:
            """Where a part of the result goes and what is added to it; alpha, beta and whether to add."""
            to = r.at(c, i * c_row, j * c_column)
            given = (to, c_row, c_column)
            factor, reads = one, ~first
            if added:
                old = r.at(d, i * d_row, j * d_column)
                given = tuple(either(r, first, x, y) for x, y in zip((old, d_row, d_column), given))
                factor = r.raw(f"select i1 {first.name}, {scalar} {beta}, {scalar} {one}")
                reads = reads | wanted
            return [to, c_row, c_column, *given], [(scalar, alpha), (scalar, factor), reads]

        end = r.label()
        if plan.few:
            along, packing = r.label(), r.label()
            # sums of a row with a column are added up across vectors, which must be little beside a deep product
            deep = k * (plan.lanes.bit_length() - 1) >= m * (2 * plan.lanes)
            r.branch_if(by_rows & (b_row == size) & deep, along, packing)
            r.start_block(along)
            tall, broad, longest = r.i64("%tall"), r.i64("%broad"), r.i64("%length")
            with r.loop(zero, maximum(k, 1), longest) as pc:
                depth, first = minimum(k - pc, longest), pc == 0
                with r.loop(zero, n, broad) as j, r.loop(zero, m, tall) as i:
                    places, factors = result(i, j, first)
                    lines = r.at(a, i * a_row, pc * size), a_row, r.at(b, j * b_column, pc * size), b_column
                    invoke(r, "%dots", *lines, depth, *places, minimum(m - i, tall),
                          minimum(n - j, broad), *factors)  # fmt: skip
            r.branch(end)
            r.start_block(packing)
        with r.loop(zero, slowly) as slow, r.loop(zero, quickly) as fast:
            jc, pc = r.select(keeps, fast, slow) * strip, r.select(keeps, slow, fast) * block
            depth, columns = minimum(k - pc, block), minimum(n - jc, strip)
            source = r.at(b, pc * b_row, jc * b_column)
            packed = r.select(plain, across(columns) * tile_columns, zero)  # columns from here on are
            with r.when(packed < columns):
                place = r.at(source, packed * b_column)
                invoke(r, "%pack_right", right, place, b_column, b_row, columns - packed, depth)

            def beside(j: Value, p: Any = 0) -> tuple[str, Value]:
                """Where a tile's columns of the right operand lie from a depth on, and how far apart its rows."""
                lies = j < packed
                step = r.select(lies, b_row, packed_step)
                first = either(r, lies, r.at(source, j * b_column), r.at(right, (j - packed) * depth * size))
                return r.at(first, step * p), step

            if plan.few:
                with r.loop(zero, m, tile_rows * TOGETHER) as ic:
                    several = minimum(m - ic, tile_rows * TOGETHER)
                    left_source = r.at(a, ic * a_row, pc * a_column)

                    def panel_of(i: Value) -> str:
                        return r.at(left, panels_of(i) * left_bytes)

                    with r.when(turned):
                        invoke(r, "pack_turned", left, left_source, a_row, a_column, several, depth, *sizes)
                    with r.when(~turned), r.loop(zero, several, tile_rows) as i:
                        place, used = r.at(left_source, i * a_row), minimum(several - i, tile_rows)
                        invoke(r, "pack_left", panel_of(i), place, a_row, a_column, used, depth, tile_rows)
                    downwards = r.loop(zero, maximum(depth, 1), length)
                    rightwards = r.loop(zero, columns, tile_columns)
                    with downwards as p, rightwards as j, r.loop(zero, several, tile_rows) as i:
                        places, factors = result(ic + i, jc + j, pc + p == 0)
                        invoke(r, "%tile", r.at(panel_of(i), p * (tile_rows * size)), *beside(j, p),
                               minimum(depth - p, length), *places, minimum(several - i, tile_rows),
                               minimum(columns - j, tile_columns), *factors, left, zero, zero, left, zero)  # fmt: skip
            else:
                with r.loop(zero, m, tile_rows) as ic:
                    rows = minimum(m - ic, tile_rows)
                    left_source = r.at(a, ic * a_row, pc * a_column)
                    above = panels_of(ic)
                    number = above & (TOGETHER - 1)
                    which = r.select(keeps, above, r.select(turned, number, zero))
                    panel = r.at(left, store + which * left_bytes)
                    with r.when(~turned):
                        invoke(r, "pack_left", left, left_source, a_row, a_column, rows, depth, tile_rows)
                    with r.when(turned & (number == 0) & (~keeps | (jc == 0))):
                        several = minimum(m - ic, tile_rows * TOGETHER)
                        invoke(r, "pack_turned", panel, left_source, a_row, a_column, several, depth, *sizes)
                    # while tiles are computed, the rows of the next panel come nearer
                    after = either(r, pc + block < k, r.at(a, (pc + block) * a_column), next_a)
                    following = either(r, ic + tile_rows < m, r.at(left_source, a_row * tile_rows), after)
                    next_panel = either(r, by_rows, following, left)
                    wide = across(columns + tile_columns - 1)
                    blocks = r.value(f"udiv i64 {depth.name}, {plan.lanes}", "i64")
                    with r.loop(zero, columns, tile_columns) as j:
                        places, factors = result(ic, jc + j, pc == 0)
                        beyond = across(j)
                        done = (above * wide + beyond) * blocks
                        line = minimum(beyond * _asked(plan), maximum(tile_rows - _asked(plan), 0))
                        invoke(r, "%tile", panel, *beside(j), depth, *places, rows,
                               minimum(columns - j, tile_columns), *factors, r.at(next_panel, line * next_row), next_step,
                               next_row, r.at(next_b, done * _LATER), pieces - done)  # fmt: skip
        r.branch(end)
        r.start_block(end)
    if r.float:
        r.clear_float_status()
    return r


def render(plan: Plan, added: bool) -> str:
    """LLVM text of the whole kernel."""
    parts = [
        pack_left(plan), pack_turned(plan), pack(plan, "pack_right", plan.columns), store_edge(plan), _tile(plan),
    ]  # fmt: skip
    return joined([*parts, *([dots(plan)] if plan.few else []), _loops(plan, added)], _main(plan, added))


def signature(added: bool) -> str:
    return "(m,k),(k,n),(m,n),(),(),(s)->(m,n)" if added else "(m,k),(k,n),(s)->(m,n)"


@functools.cache
def gemm(
    type: str,
    rows: int,
    added: bool,
    grid: tuple[int, int, int] = (1, 1, 1),
    wide: int = 2,
    few: bool = False,
    threads: int = 1,
    kept: int = 0,
) -> tuple[Any, int]:
    """The ufunc a, b, [d, alpha, beta,] scratch -> c for a tile of so many rows and vectors, and its bytes of scratch.

    c = a @ b, or alpha * a @ b + beta * d. The scratch (uint8) is written to; each thread has its own. With `grid`, the
    batch, the rows and the columns are cut into so many parts, which the threads share. `few` is right for products of
    at most `tiles.FEW` rows. There is scratch for `kept` panels, which are not packed again for each strip then.
    """
    plan = Plan(type, rows, wide, few and COMPUTE[type] == type)
    key = "gemm", type, rows, added, wide, plan.few, plan.lanes
    address = jit.compile_rendered("kernel", key, lambda: render(plan, added))
    inner = (type, type, plan.result, plan.compute, plan.compute) if added else (type, type)
    name, units = f"gemm_{type}_{rows}x{wide}", (rows, plan.columns)
    scratch = plan.scratch + kept * plan.left_bytes
    return on_grid(name, address, (*inner, "u8"), plan.result, added, scratch, grid, units, threads)


def kept(type: str, rows: int, wide: int, m: int, n: int) -> int:
    """How many panels of a turned left operand are worth keeping for an (m, n) product; a power of two, as each number has a ufunc."""
    plan = Plan(type, rows, wide)
    panels = 1 << (-(-m // rows)).bit_length()  # at least one more than there are
    return panels if m > FEW and n > _FEW_STRIPS * plan.strip and panels * plan.left_bytes <= _KEPT else 0


def on_grid(
    name: str,
    address: int,
    inputs: tuple[str, ...],
    output: str,
    added: bool,
    scratch: int,
    grid: tuple[int, int, int],
    units: tuple[int, int] = (1, 1),
    threads: int = 1,
) -> tuple[Any, int]:
    """The ufunc of a product whose parts, cut at multiples of `units`, threads share; and the scratch of them all."""
    if grid == (1, 1, 1):
        return make_ufunc(name, address, inputs, (output,), signature(added)), scratch
    count = len(inputs) + 1
    own = -(-scratch // 64) * 64 + pool.APART
    places = [(count, -1), (-1, count + 3), (-1, -1), (count + 5, count + 6)]  # strides of a, b, scratch, c
    if added:
        places[2:] = [(count + 4, count + 5), (-1, -1), (-1, -1), (-1, -1), (count + 7, count + 8)]
    loop, data = pool.gridded(address, places, count - 2, own, grid, units, threads)
    made = make_ufunc(name, loop, inputs, (output,), signature(added), data)
    return made, own * threads
