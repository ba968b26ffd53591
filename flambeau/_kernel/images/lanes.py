"""Kernels for images whose channels lie side by side, a vector of them at each position.

Images are brought into that form and out of it by transposing square blocks in registers. Products of it need no
packing: rows are positions or channels as they lie, and what they are multiplied with is read in whole vectors.
"""

from __future__ import annotations

import functools
from typing import Any

from ..loops.ufunc import rendered
from ..render.register_tiles import AHEAD, Frame, accumulators, add_lanes, add_products, ask_ahead, store_sums
from ..render.streaming import prefetch
from ..render.tiles import SCALAR, Plan, Vectors, by_lanes, invoke, joined, minimum, tile
from ..render.value import Value


@functools.cache
def pitch(type: str, channels: int) -> int:
    """Elements from one position to the next: whole tiles, but not so many that rows share few lines of the cache."""
    columns = Plan(type, 1).columns
    made = -(-channels // columns) * columns
    return made + columns if made % 1024 == 0 else made


@functools.cache
def columns(type: str) -> int:
    """Channels of a register tile."""
    return Plan(type, 1).columns


# -- copies -----------------------------------------------------------------------------------------------------------


def _square(r: Vectors, rows: list[str]) -> str:
    """A square block in memory of the stack."""
    n, size = r.plan.lanes, r.plan.size
    buffer = r.fresh()
    r.slots.append(f"  {buffer} = alloca [{n * n} x {SCALAR[r.plan.compute]}], align 64")
    for i, row in enumerate(rows):
        r.store_vector(r.at(buffer, i * n * size), row)
    return buffer


def _ask(r: Vectors, pointers: list[str]) -> None:
    """Asks for memory in advance: short rows far apart are not foreseen by the CPU."""
    r.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for pointer in pointers:
        r.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


@rendered("(c,p),(p)->(s)", "", "i64", "")
def to_lanes(type: str) -> str:
    """The ufunc planes (channels, positions), places (bytes) -> (elements): zeros, and a vector of the channels of each
    position at its place. Positions lie side by side; the last vector of channels repeats the last one.

    All but what is left of whole vectors is set to zero: a result that is given as one element gets no zeros.
    """
    plan = Plan(type, 1)
    r = Frame(plan, 3)
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    batch, channels, positions, length = (r.word("%dims", i) for i in range(4))
    channel = r.core(0)
    whole = positions & -n
    with r.loop(zero, batch) as item:
        x, places, out = (r.operand(i, item) for i in range(3))
        with r.loop(zero, length & -n, n) as p:
            r.store_vector(r.at(out, p * size), "zeroinitializer", aligned=False)
        with r.loop(zero, channels, n) as c:
            starts = [r.at(x, minimum(c + i, channels - 1) * channel) for i in range(n)]

            def put(p: Value, vector: str, places: str = places, out: str = out, c: Value = c) -> None:
                to = r.at(out, r.load(r.at(places, p * 8), "i64"), c * size)
                r.store_vector(to, vector, aligned=False)

            with r.loop(zero, whole, n) as p:
                rows = [r.load_vector(r.at(start, p * size), aligned=False) for start in starts]
                for j, vector in enumerate(r.transpose(rows)):
                    put(p + j, vector)
            with r.when(whole < positions):
                mask = r.lanes_below(positions - whole)
                _ask(r, [r.at(start, r.word("%steps", 0), whole * size) for start in starts])  # of the next item
                rows = [r.load_elements(r.at(start, whole * size), mask) for start in starts]
                block = _square(r, r.transpose(rows))
                with r.loop(whole, positions) as p:
                    put(p, r.load_vector(r.at(block, (p - whole) * (n * size))))
    r.clear_float_status()
    return joined([], r)


@rendered("(s),(p)->(c,p)", "", "i64", "")
def from_lanes(type: str) -> str:
    """The ufunc (elements), places (bytes) -> planes (channels, positions), which undoes `to_lanes`."""
    plan = Plan(type, 1)
    r = Frame(plan, 3)
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    batch, _, positions, channels = (r.word("%dims", i) for i in range(4))
    channel = r.core(2)
    whole = positions & -n
    name = f"llvm.masked.store.{r.code}.p0"
    r.declarations.add(f"declare void @{name}({r.vector}, ptr, i32, <{n} x i1>)")
    with r.loop(zero, batch) as item:
        x, places, out = (r.operand(i, item) for i in range(3))
        with r.loop(zero, channels, n) as c:
            count, to = minimum(channels - c, n), r.at(out, c * channel)

            def rows(p: Value, x: str = x, places: str = places, c: Value = c) -> list[str]:
                found = []
                for j in range(n):
                    place = r.load(r.at(places, minimum(p + j, positions - 1) * 8), "i64")
                    found.append(r.load_vector(r.at(x, place, c * size), aligned=False))
                return r.transpose(found)

            with r.loop(zero, whole, n) as p:
                made = rows(p)
                full, some, end = r.label(), r.label(), r.label()
                r.branch_if(count == n, full, some)
                r.start_block(full)
                for i, vector in enumerate(made):
                    r.store_vector(r.at(to, channel * i, p * size), vector, aligned=False)
                r.branch(end)
                r.start_block(some)
                block = _square(r, made)
                with r.loop(zero, count) as k:
                    vector = r.load_vector(r.at(block, k * (n * size)))
                    r.store_vector(r.at(to, channel * k, p * size), vector, aligned=False)
                r.branch(end)
                r.start_block(end)
            with r.when(whole < positions):
                mask = r.lanes_below(positions - whole)
                block = _square(r, rows(whole))
                with r.loop(zero, count) as k:
                    vector = r.load_vector(r.at(block, k * (n * size)))
                    place = r.at(to, channel * k, whole * size)
                    r.emit(f"call void @{name}({r.vector} {vector}, ptr {place}, i32 {size}, <{n} x i1> {mask})")
    r.clear_float_status()
    return joined([], r)


# -- windows ----------------------------------------------------------------------------------------------------------


def _each_element(r: Frame, grid: int, numbers: str, body: Any) -> None:
    """Loops over the elements of all windows: body(position, element, row, column). Extents of the grid and of windows
    follow each other from the dimension `grid` on."""
    zero = r.constant("i64", 0)
    height, width, down, across = (r.word("%dims", grid + i) for i in range(4))
    steps = [r.word(numbers, i) for i in range(4)]
    with r.loop(zero, height) as i, r.loop(zero, width) as j, r.loop(zero, down) as a, r.loop(zero, across) as b:
        body(i * width + j, a * across + b, i * steps[0] + a * steps[2], j * steps[1] + b * steps[3])


@rendered("(h,w,l),(i,j),(a,b),(n)->(t,p)", "", "i8", "i8", "i64", "")
def gather_windows(type: str) -> str:
    """The ufunc x (rows, columns, channels), grid, window, numbers -> (positions, elements): windows of all positions
    of a grid, channels of an element after those of another, a one behind them, and zeros.

    Numbers are the steps from position to position and from element to element, and the channels. Of `grid` and
    `window` only the shape matters. Rows are whole vectors, with room for one behind the last channel.
    """
    plan = Plan(type, 1)
    r = Frame(plan, 5)
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    batch, height, width = r.word("%dims", 0), r.word("%dims", 4), r.word("%dims", 5)
    row, column, to_row = r.core(0), r.core(1), r.core(8)
    with r.loop(zero, batch) as item:
        x, _, _, numbers, out = (r.operand(i, item) for i in range(5))
        channels = r.word(numbers, 4)

        def copy(t: Value, k: Value, i: Value, j: Value) -> None:
            source, to = r.at(x, i * row, j * column), r.at(out, t * to_row, k * channels * size)
            with r.loop(zero, channels, n) as c:
                r.store_vector(r.at(to, c * size), r.load_vector(r.at(source, c * size), aligned=False), aligned=False)

        end = r.word("%dims", 6) * r.word("%dims", 7) * channels
        with r.loop(zero, height * width) as t, r.loop(end & -n, r.word("%dims", 10), n) as k:
            r.store_vector(r.at(out, t * to_row, k * size), "zeroinitializer", aligned=False)
        _each_element(r, 4, numbers, copy)
        with r.loop(zero, height * width) as t:
            r.emit(f"store {SCALAR[plan.compute]} 1.0, ptr {r.at(out, t * to_row, end * size)}, align {size}")
    r.clear_float_status()
    return joined([], r)


@rendered("(t,q),(i,j),(a,b),(n)->(h,w,l)", "", "i8", "i8", "i64", "")
def scatter_windows(type: str) -> str:
    """The ufunc (positions, elements), grid, window, numbers -> (rows, columns, channels): undoes `gather_windows`
    by adding up; channels are whole vectors."""
    plan = Plan(type, 1)
    r = Frame(plan, 5)
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    batch, channels = r.word("%dims", 0), r.word("%dims", 10)
    from_row, row, column = r.core(0), r.core(7), r.core(8)
    with r.loop(zero, batch) as item:
        given, _, _, numbers, out = (r.operand(i, item) for i in range(5))

        def add(t: Value, k: Value, i: Value, j: Value) -> None:
            source, to = r.at(given, t * from_row, k * channels * size), r.at(out, i * row, j * column)
            with r.loop(zero, channels, n) as c:
                old, new = (r.load_vector(r.at(p, c * size), aligned=False) for p in (to, source))
                r.store_vector(r.at(to, c * size), r.add(old, new), aligned=False)

        _each_element(r, 3, numbers, add)
    r.clear_float_status()
    return joined([], r)


# -- products ---------------------------------------------------------------------------------------------------------


def position_rows(positions: int) -> int:
    """Rows of the register tile of `position_products` for so many positions."""
    most = 8 if by_lanes() else tile()
    return -(-positions // -(-positions // most))


def _add_run(r: Vectors, slots: list[list[str]], starts: list[str], right: str, length: Value) -> None:
    """Adds to the sums of rows, which begin at `starts`, their first elements times so many rows on the right."""
    plan, n, size = r.plan, r.plan.lanes, r.plan.size

    def vectors_of(p: Value) -> list[str]:
        return [r.load_vector(r.at(right, p * (plan.columns * size), v * n * size), aligned=False) for v in range(2)]

    whole = r.constant("i64", 0)
    if by_lanes():
        whole = length & -n
        with r.loop(r.constant("i64", 0), whole, n) as p:
            left = [r.load_vector(r.at(start, p * size), aligned=False) for start in starts]
            for k in range(n):
                add_lanes(r, slots, left, k, vectors_of(p + k))
    with r.loop(whole, length) as p:
        ask_ahead(r, r.at(right, p * (plan.columns * size), AHEAD * plan.columns * size), plan.columns * size)
        add_products(r, slots, lambda i: r.at(starts[i], p * size), vectors_of(p))


def _position_tile(plan: Plan) -> Vectors:
    """tile(a, a row, b, depth, c, c row): c[i, o] = sum over k of a[i, k] * b[k, o]."""
    r = Vectors("tile", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %depth", "ptr noalias %c", "i64 %c_row",
    ], plan)  # fmt: skip
    slots = accumulators(r, plan.rows, 2)
    _add_run(r, slots, [r.at("%a", r.i64("%a_row") * i) for i in range(plan.rows)], "%b", r.i64("%depth"))
    store_sums(r, slots, Value(r, "false", "b1"))
    return r


@rendered("(t,c),(q,k,l)->(t,o)", "", "", "")
def position_products(type: str, rows: int) -> str:
    """The ufunc a (positions, channels), weights (panels, depth, columns of a tile) -> (positions, outputs).

    Elements of rows lie side by side; there are at least `rows` positions, `depth` channels and outputs for all panels.
    """
    plan = Plan(type, rows)
    r = Frame(plan, 3)
    size, zero = plan.size, r.constant("i64", 0)
    batch, positions, _, panels, depth = (r.word("%dims", i) for i in range(5))
    a_row, b_panel, c_row = r.core(0), r.core(2), r.core(5)
    with r.loop(zero, batch) as item:
        a, b, c = (r.operand(i, item) for i in range(3))
        with r.loop(zero, panels) as q, r.loop(zero, positions, plan.rows) as t:
            first = minimum(t, positions - plan.rows)  # the last tile overlaps the one before
            to = r.at(c, first * c_row, q * (plan.columns * size))
            invoke(r, "tile", r.at(a, first * a_row), a_row, r.at(b, q * b_panel), depth, to, c_row)
    r.clear_float_status()
    return joined([_position_tile(plan)], r)


def _window_tile(plan: Plan) -> Vectors:
    """tile(a, a column, b, down, a row, across, a step, length, c, c row): windows of positions that lie `a column` apart times b, and what
    lies behind that. A window is `down` times `across` runs of so many elements."""
    r = Vectors("tile", [
        "ptr noalias %a", "i64 %a_column", "ptr noalias %b", "i64 %down", "i64 %a_row", "i64 %across", "i64 %a_step", "i64 %length",
        "ptr noalias %c", "i64 %c_row",
    ], plan)  # fmt: skip
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    down, across, length = (r.i64(f"%{name}") for name in ("down", "across", "length"))
    slots = accumulators(r, plan.rows, 2)
    with r.loop(zero, down) as i, r.loop(zero, across) as j:
        run = r.at("%a", i * r.i64("%a_row"), j * r.i64("%a_step"))
        below = r.at("%b", (i * across + j) * length * (plan.columns * size))
        _add_run(r, slots, [r.at(run, r.i64("%a_column") * t) for t in range(plan.rows)], below, length)
    last = r.at("%b", down * across * length * (plan.columns * size))
    level = [r.load_vector(r.at(last, v * n * size), aligned=False) for v in range(2)]
    for row in slots:
        for slot, vector in zip(row, level):
            r.emit(f"store {r.vector} {r.add(r.raw(f'load {r.vector}, ptr {slot}'), vector)}, ptr {slot}")
    store_sums(r, slots, Value(r, "false", "b1"))
    return r


@rendered("(h,w,l),(i,j),(a,b),(n),(q,k,o)->(t,p)", "", "i8", "i8", "i64", "", "")
def window_products(type: str, rows: int) -> str:
    """The ufunc x (rows, columns, channels), grid, window, numbers, weights (panels, elements of windows + 1, columns of a tile) ->
    (positions, outputs): windows times weights, and the last of these, without laying windows out.

    Operands are those of `gather_windows`; rows of the grid have at least `rows` positions.
    """
    plan = Plan(type, rows)
    r = Frame(plan, 6)
    size, zero = plan.size, r.constant("i64", 0)
    batch, height, width, down, across, panels = (r.word("%dims", i) for i in (0, 4, 5, 6, 7, 9))
    row, column, panel, to_row = (r.core(i) for i in (0, 1, 8, 11))
    with r.loop(zero, batch) as item:
        x, _, _, numbers, weights, out = (r.operand(i, item) for i in range(6))
        by_row, by_column, each_row, each_column, channels = (r.word(numbers, i) for i in range(5))
        together = each_column * column == channels * size  # elements of a row of a window follow each other
        runs, length = r.select(together, r.constant("i64", 1), across), r.select(together, across * channels, channels)
        with r.loop(zero, panels) as q, r.loop(zero, height) as i, r.loop(zero, width, plan.rows) as j:
            first = minimum(j, width - plan.rows)  # the last tile overlaps the one before
            start = r.at(x, i * by_row * row, first * by_column * column)
            to = r.at(out, (i * width + first) * to_row, q * (plan.columns * size))
            invoke(r, "tile", start, by_column * column, r.at(weights, q * panel), down, each_row * row, runs,
                   each_column * column, length, to, to_row)  # fmt: skip
    r.clear_float_status()
    return joined([_window_tile(plan)], r)


def _channel_tile(plan: Plan) -> Vectors:
    """tile(a, a row, b, b row, depth, c, c row, adds): c[i, j] (+)= sum over t of a[t, i] * b[t, j]."""
    r = Vectors("tile", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %b_row", "i64 %depth", "ptr noalias %c", "i64 %c_row",
        "i1 %adds",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, 2)
    with r.loop(r.constant("i64", 0), r.i64("%depth")) as p:
        left_row, right_row = r.at("%a", p * r.i64("%a_row")), r.at("%b", p * r.i64("%b_row"))
        prefetch(r, r.at(left_row, r.i64("%a_row") * AHEAD), 1)
        prefetch(r, r.at(right_row, r.i64("%b_row") * AHEAD), plan.columns * size)
        right = [r.load_vector(r.at(right_row, v * n * size), aligned=False) for v in range(2)]
        add_products(r, slots, lambda i: r.at(left_row, i * size), right)
    store_sums(r, slots, Value(r, "%adds", "b1"))
    return r


@rendered("(t,o),(t,c),()->(q,c)", "", "", "i64", "")
def channel_sums(type: str, rows: int) -> str:
    """The ufunc a (positions, outputs), b (positions, channels), adds -> (outputs in whole tiles, channels).

    Sums of products over positions, added to what was there if `adds` is not 0. Elements of rows lie side by side;
    channels are whole tiles, and memory of `a` must reach a tile beyond its last output.
    """
    plan = Plan(type, rows)
    r = Frame(plan, 4)
    size, zero = plan.size, r.constant("i64", 0)
    batch, depth, _, channels, outputs = (r.word("%dims", i) for i in range(5))
    a_row, b_row, c_row = r.core(0), r.core(2), r.core(4)
    with r.loop(zero, batch) as item:
        a, b, flag, c = (r.operand(i, item) for i in range(4))
        adds = r.load(flag, "i64") != 0
        with r.loop(zero, channels, plan.columns) as j, r.loop(zero, outputs, plan.rows) as i:
            to = r.at(c, i * c_row, j * size)
            invoke(r, "tile", r.at(a, i * size), a_row, r.at(b, j * size), b_row, depth, to, c_row, adds)
    r.clear_float_status()
    return joined([_channel_tile(plan)], r)


def _window_sums_tile(plan: Plan) -> Vectors:
    """tile(a, a image, a row, b, b image, b down, b across, images, height, width, c, c row, adds): c[i, j] (+)= sum over positions of
    a[position, i] * b[position, j]. Positions of `a` follow each other, those of `b` lie in rows of a grid."""
    r = Vectors("tile", [
        "ptr noalias %a", "i64 %a_image", "i64 %a_row", "ptr noalias %b", "i64 %b_image", "i64 %b_down", "i64 %b_across",
        "i64 %images", "i64 %height", "i64 %width", "ptr noalias %c", "i64 %c_row", "i1 %adds",
    ], plan)  # fmt: skip
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    height, width = r.i64("%height"), r.i64("%width")
    slots = accumulators(r, plan.rows, 2)
    with r.loop(zero, r.i64("%images")) as image, r.loop(zero, height) as i:
        left = r.at(r.at("%a", image * r.i64("%a_image")), i * width * r.i64("%a_row"))
        right = r.at(r.at("%b", image * r.i64("%b_image")), i * r.i64("%b_down"))
        with r.loop(zero, width) as j:
            left_row, right_row = r.at(left, j * r.i64("%a_row")), r.at(right, j * r.i64("%b_across"))
            vectors = [r.load_vector(r.at(right_row, v * n * size), aligned=False) for v in range(2)]
            add_products(r, slots, lambda k: r.at(left_row, k * size), vectors)
    store_sums(r, slots, Value(r, "%adds", "b1"))
    return r


@rendered("(m,t,o),(m,h,w,l),(i,j),(a,b),(n),()->(q,c)", "", "", "i8", "i8", "i64", "i64", "")
def window_sums(type: str, rows: int) -> str:
    """The ufunc a (images, positions, outputs), x (images, rows, columns, channels), grid, window, numbers, adds -> (outputs in whole
    tiles, elements of windows): sums of products over positions, with windows that are read where they lie.

    The numbers and the rest are those of `window_products`; channels are whole tiles, and memory of `a` must reach a tile beyond its last
    output.
    """
    plan = Plan(type, rows)
    r = Frame(plan, 7)
    size, zero = plan.size, r.constant("i64", 0)
    batch, images, height, width, down, across, outputs = (r.word("%dims", i) for i in (0, 1, 7, 8, 9, 10, 12))
    a_image, a_row, x_image, row, column, c_row = (r.core(i) for i in (0, 1, 3, 4, 5, 12))
    with r.loop(zero, batch) as item:
        a, x, _, _, numbers, flag, c = (r.operand(i, item) for i in range(7))
        by_row, by_column, each_row, each_column, channels = (r.word(numbers, i) for i in range(5))
        adds = r.load(flag, "i64") != 0
        with r.loop(zero, down) as p, r.loop(zero, across) as s, r.loop(zero, channels, plan.columns) as k:
            right = r.at(r.at(x, p * each_row * row, s * each_column * column), k * size)
            sums = r.at(c, ((p * across + s) * channels + k) * size)
            with r.loop(zero, outputs, plan.rows) as i:
                invoke(r, "tile", r.at(a, i * size), a_image, a_row, right, x_image, by_row * row, by_column * column,
                       images, height, width, r.at(sums, i * c_row), c_row, adds)  # fmt: skip
    r.clear_float_status()
    return joined([_window_sums_tile(plan)], r)
