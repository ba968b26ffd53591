"""Convolution of groups of few channels: planes by windows, without a product of matrices.

The planes of a group are copied once into scratch memory, with zeros around them. Where windows are some columns apart,
columns with the same remainder lie side by side there, so that neighbouring positions are neighbours in memory for any
stride. A tile makes a few rows of positions, of a few outputs, together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..loops.ufunc import rendered
from ..render.register_tiles import Frame, accumulate, accumulators
from ..render.tiles import SCALAR, Plan, Vectors, invoke, joined, lanes
from ..render.value import Value

ROWS = 4  # of positions, and
_OUTPUTS = 4  # outputs of a tile
_QUICK = 16  # elements of a window whose sums are done before the next but one begins
_MOST_SUMS = 25  # that stay in registers


class Window(NamedTuple):
    """What a kernel has in its code."""

    rows: int
    columns: int  # 0: as many as the weights have, in a loop
    down: int = 1  # rows and
    across: int = 1  # columns between windows
    apart: int = 1  # rows between a window's elements
    spread: tuple[int, int] = (1, 1)  # rows and columns between elements in the plane; zeros are between them

    def tile(self, rows: int) -> list[tuple[int, list[tuple[int, int]]]]:
        """(row of the plane, [(position, row of the window)] that meet there) of a tile with so many rows of positions."""
        meetings: dict[int, list[tuple[int, int]]] = {}
        for position in range(rows):
            for row in range(self.rows):
                meetings.setdefault(position * self.down + row * self.apart, []).append((position, row))
        return sorted(meetings.items())


def _columns(
    r: Vectors, window: Window, places: list[Value], together: int = 1
) -> Iterator[list[tuple[int | Value, Value]]]:
    """Some columns of a window at a time, each with its place: what the caller emits for them, once for all in a loop or for each."""
    for first in range(0, window.columns, together):
        yield list(enumerate(places[first : first + together], first))
    if window.columns:
        return
    count = r.i64("%count")
    whole = count - r.value(f"urem i64 {count.name}, {together}", "i64")
    for low, high, step in ((r.constant("i64", 0), whole, together), (whole, count, 1))[: 1 if together == 1 else 2]:
        with r.loop(low, high, step) as column:
            yield [(column + k, r.load(r.at("%columns", (column + k) * 8), "i64")) for k in range(step)]


def slack(type: str) -> int:
    """Elements that are read beyond the last position."""
    return 2 * lanes(type)


# -- planes ----------------------------------------------------------------------------------------------------------


def _lay(plan: Plan, window: Window) -> Vectors:
    """lay(to, from, row stride, rows, width, to row, starts): a plane into the scratch memory. Bytes, but for `width`."""
    r = Vectors("lay", [
        "ptr noalias %to", "ptr noalias %from", "i64 %row", "i64 %rows", "i64 %width", "i64 %to_row",
        "ptr noalias %starts",
    ], plan)  # fmt: skip
    n, size, width, zero = plan.lanes, plan.size, r.i64("%width"), r.constant("i64", 0)
    starts = [r.load(r.at("%starts", 8 * e), "i64") for e in range(window.across)]
    with r.loop(zero, r.i64("%rows")) as i:
        source, to = r.at("%from", i * r.i64("%row")), r.at("%to", i * r.i64("%to_row"))
        if window.across == 1 == window.spread[1]:
            line = r.at(to, starts[0])

            def copy(c: Value, mask: str | None, source: str = source, line: str = line) -> None:
                r.store_elements(r.at(line, c * size), r.load_elements(r.at(source, c * size), mask), mask)

            _along(r, width, copy)
        elif window.across == 2 or window.spread[1] == 2:
            step = n * window.across
            with r.loop(zero, width, step) as c:
                rest = width - c
                given = [
                    r.load_elements(r.at(source, (c + v * n) * size), r.lanes_below(rest - v * n))
                    for v in range(window.across)
                ]
                if window.across == 2:
                    for e, start in enumerate(starts):
                        made = _picked(r, given[0], given[1], [2 * lane + e for lane in range(n)])
                        mask = r.lanes_below((rest - e + 1) >> 1)
                        r.store_elements(r.at(to, start, (c >> 1) * size), made, mask)
                else:
                    for v in range(2):
                        order = [(lane + v * n) // 2 if lane % 2 == 0 else n for lane in range(n)]
                        made = _picked(r, given[0], "zeroinitializer", order)
                        mask = r.lanes_below(rest + rest - 1 - v * n)
                        r.store_elements(r.at(to, starts[0], (c + c + v * n) * size), made, mask)
        else:
            scalar = SCALAR[plan.compute]
            for e, start in enumerate(starts):
                with r.loop(r.constant("i64", e), width, window.across) as c:
                    element = r.raw(f"load {scalar}, ptr {r.at(source, c * size)}, align {size}")
                    column = r.value(f"udiv i64 {(c - e).name}, {window.across}", "i64") * window.spread[1]
                    r.emit(f"store {scalar} {element}, ptr {r.at(to, start, column * size)}, align {size}")
    return r


def _picked(r: Vectors, a: str, b: str, order: list[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in order)
    return r.raw(f"shufflevector {r.vector} {a}, {r.vector} {b}, <{len(order)} x i32> <{mask}>")


def _along(r: Vectors, width: Value, each: Callable[[Value, str | None], None]) -> None:
    """each(column, mask) for vectors of a row; the last one may be a part."""
    n = r.plan.lanes
    whole = width & -n
    with r.loop(r.constant("i64", 0), whole, n) as c:
        each(c, None)
    with r.when(whole < width):
        each(whole, r.lanes_below(width - whole))


# -- windows times weights -------------------------------------------------------------------------------------------


def _tile(plan: Plan, window: Window, rows: int, outputs: int) -> Vectors:
    """tile(x, columns, count, pitch, plane, inputs, weights, output stride, bias, bias stride, out, out plane, out row, width):
    rows of results of some outputs, summed over the group's planes. `columns` are the places of the window's `count`."""
    scalar, size = SCALAR[plan.compute], plan.size
    r = Vectors(_name(rows, outputs), [
        "ptr noalias %x", "ptr noalias %columns", "i64 %count", "i64 %pitch", "i64 %plane", "i64 %inputs", "ptr noalias %weights",
        "i64 %output", "ptr noalias %bias", "i64 %bias_step", "ptr noalias %out", "i64 %out_plane", "i64 %out_row",
        "i64 %width",
    ], plan)  # fmt: skip
    starts = [r.load(r.at("%columns", 8 * k), "i64") for k in range(window.columns)]
    wide_window = not window.columns or window.rows * window.columns > _QUICK
    columns: Any = window.columns or r.i64("%count")

    def factor(base: str, k: Any) -> str:
        return r.splat(r.raw(f"load {scalar}, ptr {r.at(base, k * size)}, align {size}"))

    def totals(slots: list[list[str]]) -> list[list[str]]:
        return [[r.raw(f"load {r.vector}, ptr {slot}") for slot in made] for made in slots]

    def store(c: Value, mask: str | None, sums: list[list[str]]) -> None:
        for o, made in enumerate(sums):
            bias = factor(r.at("%bias", r.i64("%bias_step") * o), 0)
            for position, total in enumerate(made):
                to = r.at("%out", r.i64("%out_plane") * o, r.i64("%out_row") * position, c * size)
                r.store_elements(to, r.add(total, bias), mask)

    def one_plane() -> None:
        """Rows of the plane that several positions see are read once; what a column of the window is multiplied with stays in
        registers. Sums over large windows go two vectors side by side, as each addition waits for the one before it."""
        n, width, wide = plan.lanes, r.i64("%width"), 2 if wide_window else 1
        with r.loop(r.constant("i64", 0), width, wide * n) as c:
            places = [c + v * n for v in range(wide)]
            slots = accumulators(r, wide, rows)
            for ((column, start),) in _columns(r, window, starts):
                factors = [factor("%weights", columns * row + column) for row in range(window.rows)]
                for y, meetings in window.tile(rows):
                    for own, place in zip(slots, places):
                        found = r.load_vector(r.at("%x", r.i64("%pitch") * y, start, place * size), aligned=False)
                        for position, row in meetings:
                            accumulate(r, own[position], found, factors[row])
            sums = totals(slots)
            whole, part, end = r.label(), r.label(), r.label()
            below = [r.lanes_below(width - place) for place in places]
            r.branch_if(c + wide * n <= width, whole, part)
            for label, masks in ((whole, [None] * wide), (part, below)):
                r.start_block(label)
                for made, place, mask in zip(sums, places, masks):
                    store(place, mask, [made])
                r.branch(end)
            r.start_block(end)

    def several_planes(c: Value, mask: str | None) -> None:
        """Each weight is read once, for all positions."""
        slots = accumulators(r, outputs, rows)
        with r.loop(r.constant("i64", 0), r.i64("%inputs")) as i:
            plane = r.at("%x", i * r.i64("%plane"), c * size)
            bases = [
                r.at("%weights", i * (columns * (window.rows * size)), r.i64("%output") * o) for o in range(outputs)
            ]
            for ((column, start),) in _columns(r, window, starts):
                for row in range(window.rows):
                    lines = [r.i64("%pitch") * (p * window.down + row * window.apart) for p in range(rows)]
                    found = [r.load_vector(r.at(plane, line, start), aligned=False) for line in lines]
                    for o, base in enumerate(bases):
                        weight = factor(base, columns * row + column)
                        for slot, vector in zip(slots[o], found):
                            accumulate(r, slot, weight, vector)
        store(c, mask, totals(slots))

    if outputs > 1:
        _along(r, r.i64("%width"), several_planes)
        return r
    alone, end, more = r.label(), r.label(), r.label()
    r.branch_if(r.i64("%inputs") == 1, alone, more)
    r.start_block(alone)
    one_plane()
    r.branch(end)
    r.start_block(more)
    _along(r, r.i64("%width"), several_planes)
    r.branch(end)
    r.start_block(end)
    return r


def _name(rows: int, outputs: int) -> str:
    return f"tile_{rows}_{outputs}"


def _products(plan: Plan, window: Window) -> Vectors:
    r = Frame(plan, 6)
    zero = r.constant("i64", 0)
    batch, groups, inputs, height, width, outputs = (r.word("%dims", i) for i in range(6))
    rows, columns = r.word("%dims", 9), r.word("%dims", 10)
    x_group, x_plane, x_row, w_group, w_output = (r.core(i) for i in (0, 1, 2, 4, 5))
    b_group, b_output, out_group, out_plane, out_row = (r.core(i) for i in (8, 9, 12, 13, 14))
    whole = rows - r.value(f"urem i64 {rows.name}, {ROWS}", "i64")
    few = rows < ROWS
    with r.loop(zero, batch) as item:
        x, weights, bias, numbers, scratch, out = (r.operand(i, item) for i in range(6))
        pitch, plane = r.word(numbers, 0), r.word(numbers, 1)
        starts, places = r.at(numbers, 16), r.at(numbers, 8 * (2 + window.across))
        count = r.value(f"udiv i64 {r.word('%dims', 6).name}, {window.rows}", "i64")
        with r.loop(zero, groups) as group:
            with r.loop(zero, inputs) as i:
                source = r.at(x, group * x_group, i * x_plane)
                invoke(r, "lay", r.at(scratch, i * plane), source, x_row, height, width,
                       pitch * window.spread[0], starts)  # fmt: skip

            def tiles(
                o: Value, count: int, group: Value = group, given: Any = (scratch, places, count, pitch, plane)
            ) -> None:
                factors = r.at(weights, group * w_group, o * w_output)
                added = r.at(bias, group * b_group, o * b_output)
                made = r.at(out, group * out_group, o * out_plane)

                def tile(i: Value, height: int) -> None:
                    source = r.at(given[0], i * given[3] * window.down)
                    invoke(r, _name(height, count), source, *given[1:], inputs, factors, w_output, added, b_output,
                           r.at(made, i * out_row), out_plane, out_row, columns)  # fmt: skip

                with r.when(~few):
                    with r.loop(zero, whole, ROWS) as i:
                        tile(i, ROWS)
                    with r.when(whole < rows):  # some rows once more
                        tile(rows - ROWS, ROWS)
                with r.when(few), r.loop(zero, rows) as i:
                    tile(i, 1)

            together = outputs & -_OUTPUTS
            with r.loop(zero, together, _OUTPUTS) as o:
                tiles(o, _OUTPUTS)
            with r.loop(together, outputs) as o:
                tiles(o, 1)
    r.clear_float_status()
    return r


@rendered("(g,i,h,w),(g,o,i,k),(g,o),(n),(s)->(g,o,a,b)", "", "", "", "i64", "", "")
def products(type: str, window: Window) -> str:
    """The ufunc x (groups, inputs, rows, columns), weights (groups, outputs, inputs, elements), bias, numbers, scratch ->
    (groups, outputs, rows, columns).

    `numbers` are the bytes of a row and of a plane of the scratch memory, the places in it where columns of each
    remainder begin, and those of the window's columns; the scratch memory is zero where nothing is laid. Rows are
    dense, weights altogether within a group.
    """
    plan = Plan(type, ROWS)
    parts = [_tile(plan, window, rows, outputs) for rows in (ROWS, 1) for outputs in (_OUTPUTS, 1)]
    return joined([_lay(plan, window), *parts], _products(plan, window))


# -- windows times gradients, summed over positions ------------------------------------------------------------------


def _sums(plan: Plan, window: Window) -> Vectors:
    """sums(x, columns, count, pitch, g, g row, rows, width, out): adds to out[k] the sum over all positions."""
    scalar, n, size = SCALAR[plan.compute], plan.lanes, plan.size
    r = Vectors("sums", [
        "ptr noalias %x", "ptr noalias %columns", "i64 %count", "i64 %pitch", "ptr noalias %g", "i64 %g_row", "i64 %rows",
        "i64 %width", "ptr noalias %out",
    ], plan)  # fmt: skip
    zero, rows, pitch = r.constant("i64", 0), r.i64("%rows"), r.i64("%pitch")
    starts = [r.load(r.at("%columns", 8 * k), "i64") for k in range(window.columns)]
    columns: Any = window.columns or r.i64("%count")
    whole = rows - r.value(f"urem i64 {rows.name}, {ROWS}", "i64")
    total = f"llvm.vector.reduce.fadd.{r.code}"
    r.declarations.add(f"declare {scalar} @{total}({scalar}, {r.vector})")
    together = max(1, _MOST_SUMS // window.rows)
    for chosen in _columns(r, window, starts, together):
        slots = accumulators(r, window.rows, len(chosen))

        def positions(i: Value, count: int, chosen: Any = chosen, slots: Any = slots) -> None:
            def each(c: Value, mask: str | None) -> None:
                places = [r.at("%g", (i + p) * r.i64("%g_row"), c * size) for p in range(count)]
                given = [r.load_elements(place, mask) for place in places]
                for y, meetings in window.tile(count):
                    for number, (_, start) in enumerate(chosen):
                        place = r.at("%x", start, (i * window.down + y) * pitch, c * size)
                        found = r.load_vector(place, aligned=False)
                        if mask is not None:  # what lies beyond need not be finite
                            found = r.raw(f"select <{n} x i1> {mask}, {r.vector} {found}, {r.vector} zeroinitializer")
                        for position, row in meetings:
                            accumulate(r, slots[row][number], given[position], found)

            _along(r, r.i64("%width"), each)

        with r.loop(zero, whole, ROWS) as i:
            positions(i, ROWS)
        with r.loop(whole, rows) as i:
            positions(i, 1)
        for row in range(window.rows):
            for number, (column, _) in enumerate(chosen):
                to = r.at("%out", (columns * row + column) * size)
                held = r.raw(f"load {r.vector}, ptr {slots[row][number]}")
                made = r.raw(f"call reassoc {scalar} @{total}({scalar} -0.0, {r.vector} {held})")
                old = r.raw(f"load {scalar}, ptr {to}, align {size}")
                r.emit(f"store {scalar} {r.raw(f'fadd {scalar} {old}, {made}')}, ptr {to}, align {size}")
    return r


def _sums_main(plan: Plan, window: Window) -> Vectors:
    r = Frame(plan, 5)
    zero = r.constant("i64", 0)
    batch, images, groups, inputs, height, width, outputs, rows, columns = (r.word("%dims", i) for i in range(9))
    x_image, x_group, x_plane, x_row = (r.core(i) for i in range(4))
    g_image, g_group, g_plane, g_row = (r.core(i) for i in range(5, 9))
    out_group, out_output, out_input = (r.core(i) for i in range(12, 15))
    with r.loop(zero, batch) as item:
        x, g, numbers, scratch, out = (r.operand(i, item) for i in range(5))
        pitch, starts, places = r.word(numbers, 0), r.at(numbers, 16), r.at(numbers, 8 * (2 + window.across))
        count = r.value(f"udiv i64 {r.word('%dims', 11).name}, {window.rows}", "i64")
        with r.loop(zero, images) as image, r.loop(zero, groups) as group, r.loop(zero, inputs) as i:
            plane = r.at(x, image * x_image, group * x_group, i * x_plane)
            invoke(r, "lay", scratch, plane, x_row, height, width, pitch, starts)
            with r.loop(zero, outputs) as o:
                given = r.at(g, image * g_image, group * g_group, o * g_plane)
                made = r.at(out, group * out_group, o * out_output, i * out_input)
                invoke(r, "sums", scratch, places, count, pitch, given, g_row, rows, columns, made)
    r.clear_float_status()
    return r


@rendered("(n,g,i,h,w),(n,g,o,a,b),(m),(s)->(g,o,i,k)", "", "", "i64", "", "")
def sums(type: str, window: Window) -> str:
    """The ufunc x (images, groups, inputs, rows, columns), g (images, groups, outputs, rows, columns), numbers, scratch ->
    (groups, outputs, inputs, elements), which are added to. See `products`."""
    plan = Plan(type, ROWS)
    return joined([_lay(plan, window), _sums(plan, window)], _sums_main(plan, window))
