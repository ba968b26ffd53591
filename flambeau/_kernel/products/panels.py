"""Packing of matrices into panels, in the order in which tiles read them; transposes and conversions happen here."""

from __future__ import annotations

from collections.abc import Callable

from ..render.register_tiles import in_order
from ..render.streaming import prefetch
from ..render.tiles import MEMORY, SCALAR, TOGETHER, Plan, Vectors, minimum
from ..render.value import Value

_STEPS = 4  # along the depth that are written one after another: more make longer code and nothing faster
_AHEAD = 8  # rows by which those that are packed together are asked for in advance
_PARAMETERS = ["ptr noalias %to", "ptr noalias %from", "i64 %lane", "i64 %step", "i64 %count", "i64 %depth"]


def pack_left(plan: Plan) -> Vectors:
    """pack_left(to, from, lane stride, depth stride, lanes, depth, rows): one panel of so many rows, which are the lanes. All tiles share it.

    The depth is cut into blocks as long as a vector; in each block the lanes follow each other. A matrix by rows, the
    common case, is so copied vector by vector. Lanes beyond the last repeat it or are zero: what is computed from them
    is never stored.
    """
    r = Vectors("pack_left", [*_PARAMETERS, "i64 %rows"], plan)
    r.shared = True
    n, size, width = plan.lanes, plan.size, r.i64("%rows")
    lane, step, count, depth = (r.i64(f"%{x}") for x in ("lane", "step", "count", "depth"))
    zero, whole = r.constant("i64", 0), depth & -n
    by_lane, other, end = r.label(), r.label(), r.label()
    r.branch_if(step == plan.step, by_lane, other)

    r.start_block(by_lane)
    rest = r.lanes_below(depth - whole)
    with r.loop(zero, width) as i:
        row, to = r.at("%from", minimum(i, count - 1) * lane), r.at("%to", i * (n * size))
        with r.loop(zero, whole, n) as p:
            r.store_vector(r.at(to, p * width * size), r.load_elements(r.at(row, p * plan.step)))
        with r.when(whole < depth):
            r.store_vector(r.at(to, whole * width * size), r.load_elements(r.at(row, whole * plan.step), rest))
    r.branch(end)

    r.start_block(other)
    _left_elements(r, zero, width, width, lambda i: i * (n * size))
    r.branch(end)
    r.start_block(end)
    return r


def pack_turned(plan: Plan) -> Vectors:
    """The same for up to `TOGETHER` panels of lanes that lie side by side: what is read at once of a row belongs to several.

    All tiles share it: `height` gives what else it is told, the rows of a panel with what divides by them, and a panel's bytes.
    Lanes of a vector beyond the last panel are written to where the next one would begin.
    """
    r = Vectors("pack_turned", [*_PARAMETERS, "i64 %rows", "i64 %part", "i64 %bytes"], plan)
    n, size, tall = plan.lanes, plan.size, r.i64("%rows")
    count, whole, zero = r.i64("%count"), r.i64("%depth") & -n, r.constant("i64", 0)

    def panel(lane: Value) -> Value:
        return (lane * r.i64("%part")) >> 32

    def place(lane: Value) -> Value:
        """Where a lane begins, counted over all panels."""
        return panel(lane) * r.i64("%bytes") + (lane - panel(lane) * tall) * (n * size)

    lanes = panel(count + tall - 1) * tall
    with r.loop(zero, whole, n) as p:
        rows = [r.at("%from", (p + d) * r.i64("%step")) for d in range(n)]
        to = r.at("%to", p * tall * size)

        def turn(first: Value, mask: str | None) -> None:
            block = r.transpose([r.load_elements(r.at(row, first * plan.step), mask) for row in rows])
            for i, line in enumerate(block):
                lane = first + i
                if mask is not None:
                    lane = r.select(lane < lanes, lane, lanes)
                r.store_vector(r.at(to, place(lane)), line)

        with r.loop(zero, count & -n, n) as g:
            for row in rows:  # of the next block
                prefetch(r, r.at(row, r.i64("%step") * n, g * plan.step), 1)
            turn(g, None)
        with r.loop(count & -n, lanes, n, brief=True) as g:
            turn(g, r.lanes_below(count - g))
    _left_elements(r, whole, lanes, tall, place)
    return r


def height(plan: Plan) -> list[tuple[str, int]]:
    """The last arguments of `pack_turned`. Fewer lanes than 2 ** 16 are divided by the rows as they are multiplied by their part of 2 ** 32."""
    return [("i64", plan.rows), ("i64", 2**32 // plan.rows + 1), ("i64", plan.left_bytes)]


def _left_elements(r: Vectors, start: Value, lanes: Value, rows: Value, at: Callable[[Value], Value]) -> None:
    """One by one, from a depth on: what is left of whole blocks, and any other strides."""
    plan, scalar, n, size = r.plan, SCALAR[r.plan.compute], r.plan.lanes, r.plan.size
    with r.loop(r.constant("i64", 0), lanes, brief=True) as i:
        row, line = r.at("%from", minimum(i, r.i64("%count") - 1) * r.i64("%lane")), r.at("%to", at(i))
        with r.loop(start, r.i64("%depth"), brief=True) as p:
            place = r.at(row, p * r.i64("%step"))
            element = r.widened(r.raw(f"load {MEMORY[plan.type]}, ptr {place}, align {plan.step}"), 1)
            to = r.at(line, (p & -n) * rows * size, (p & (n - 1)) * size)
            r.emit(f"store {scalar} {element}, ptr {to}, align {size}")


def left_steps(
    r: Vectors, depth: Value, step: Callable[[Value, str], None], block: Callable[[Value], None] | None = None
) -> None:
    """step(p, place of the packed left operand's first lane; the others follow by a vector) for each p along the depth.

    Before each block of them comes block(its number).
    """
    n, size, rows = r.plan.lanes, r.plan.size, r.plan.rows
    whole = depth & -n
    with r.loop(r.constant("i64", 0), whole, n) as p:
        if block is not None:
            block(r.value(f"udiv i64 {p.name}, {n}", "i64"))
        first = r.at("%a", p * (rows * size))
        if n <= _STEPS:
            for u in range(n):
                step(p + u, r.at(first, u * size))
                in_order(r)
        else:
            with r.loop(r.constant("i64", 0), r.constant("i64", n), _STEPS, brief=True) as q:
                for u in range(_STEPS):
                    step(p + q + u, r.at(first, q * size, u * size))
                    in_order(r)
    first = r.at("%a", whole * (rows * size))
    with r.loop(whole, depth, brief=True) as p:
        step(p, r.at(first, (p - whole) * size))


def pack(plan: Plan, name: str, width: int) -> Vectors:
    """pack(to, from, lane stride, depth stride, lanes, depth): panels of `width` lanes, a few vectors, depth by depth.

    Lanes beyond the last repeat it or are zero: what is computed from them is never stored.
    """
    r = Vectors(name, _PARAMETERS, plan)
    lane, step, count, depth = (r.i64(f"%{n}") for n in ("lane", "step", "count", "depth"))
    zero = r.constant("i64", 0)
    side_by_side, other, end = r.label(), r.label(), r.label()
    r.branch_if(lane == plan.step, side_by_side, other)

    r.start_block(side_by_side)
    _copy_rows(r, width)
    r.branch(end)

    r.start_block(other)
    whole = r.select(step == plan.step, depth & -plan.lanes, zero)
    with r.loop(zero, count, width) as j:
        panel = r.at("%to", j * depth * plan.size)
        source, used = r.at("%from", j * lane), minimum(count - j, width)
        _turn(r, panel, source, used, whole, width)
        _copy_elements(r, panel, source, used, whole, width)
    r.branch(end)
    r.start_block(end)
    return r


def _copy_rows(r: Vectors, width: int) -> None:
    """Lanes lie side by side: rows are read a few panels at a time, whole ones first."""
    plan, n = r.plan, r.plan.lanes
    count, depth, zero = r.i64("%count"), r.i64("%depth"), r.constant("i64", 0)

    def copy(start: Value, panels: int, masks: list[str | None]) -> None:
        source, to = r.at("%from", start * plan.step), r.at("%to", start * depth * plan.size)
        targets = [r.at(to, depth * (q * width * plan.size)) for q in range(panels)]
        with r.loop(zero, depth) as p:
            row = r.at(source, p * r.i64("%step"))
            prefetch(r, r.at(row, r.i64("%step") * _AHEAD), panels * width * plan.step)
            for q, target in enumerate(targets):
                for g, mask in enumerate(masks):
                    element = r.load_elements(r.at(row, (q * width + g * n) * plan.step), mask)
                    r.store_vector(r.at(target, p * (width * plan.size), g * n * plan.size), element)

    all_: list[str | None] = [None] * (width // n)
    together = max(1, 2 * TOGETHER * n // width)  # as many vectors of a row, whatever the width: a strip has that many
    several = count - r.value(f"urem i64 {count.name}, {width * together}", "i64")
    with r.loop(zero, several, width * together) as j:
        copy(j, together, all_)
    whole = count - r.value(f"urem i64 {count.name}, {width}", "i64")
    with r.loop(several, whole, width) as j:
        copy(j, 1, all_)
    with r.when(whole < count):
        copy(whole, 1, [r.lanes_below(count - whole - g * n) for g in range(width // n)])


def _turn(r: Vectors, panel: str, source: str, used: Value, whole: Value, width: int) -> None:
    """The depth lies side by side: square blocks are transposed."""
    plan, n = r.plan, r.plan.lanes
    last, zero = used - 1, r.constant("i64", 0)
    with r.loop(zero, r.constant("i64", width), n, brief=True) as g:
        starts = [r.at(source, minimum(g + i, last) * r.i64("%lane")) for i in range(n)]
        with r.loop(zero, whole, n) as p:
            block = r.transpose([r.load_elements(r.at(start, p * plan.step)) for start in starts])
            for i, vector in enumerate(block):
                r.store_vector(r.at(panel, (p + i) * (width * plan.size), g * plan.size), vector)


def _copy_elements(r: Vectors, panel: str, source: str, used: Value, start: Value, width: int) -> None:
    """One by one, from a depth on: what is left of whole blocks, and any other strides."""
    plan, scalar, zero = r.plan, SCALAR[r.plan.compute], r.constant("i64", 0)
    with r.loop(start, r.i64("%depth"), brief=True) as p:
        with r.loop(zero, used, brief=True) as i:
            place = r.at(source, p * r.i64("%step"), i * r.i64("%lane"))
            element = r.widened(r.raw(f"load {MEMORY[plan.type]}, ptr {place}, align {plan.step}"), 1)
            to = r.at(panel, p * (width * plan.size), i * plan.size)
            r.emit(f"store {scalar} {element}, ptr {to}, align {plan.size}")
        with r.loop(used, r.constant("i64", width), brief=True) as at:
            to = r.at(panel, p * (width * plan.size), at * plan.size)
            r.emit(f"store {scalar} zeroinitializer, ptr {to}, align {plan.size}")
