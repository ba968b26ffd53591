"""Sums of products of rows with rows, both read where they lie: products with few rows on the left.

Each sum is kept as a vector of partial sums; these are added up together, one vector of sums from as many vectors of
partial ones.
"""

from __future__ import annotations

from ..render.register_tiles import accumulators
from ..render.tiles import SCALAR, Plan, Vectors, minimum, vectors
from ..render.value import Value

# Columns of a tile by its rows: as many sums as the registers hold beside the operands.
_COLUMNS = {32: {1: 4, 2: 8, 3: 8, 4: 6, 5: 4, 6: 4}, 16: {1: 8, 2: 4, 3: 3, 4: 3}}
_LONG = 2048  # bytes of a column
_CHAINS = 4  # sums of a single row, none of which waits for another


def shape(rows: int) -> tuple[int, int]:
    """Rows and columns of a tile that cuts `rows` into equal parts."""
    columns = _COLUMNS[vectors()[1]]
    tall = -(-rows // -(-rows // max(columns)))
    return tall, columns[tall]


def dots(plan: Plan) -> Vectors:
    """dots(a, a row, b, b column, depth, c, c strides, d, d strides, rows, columns, alpha, beta, read d):
    c[i, j] = alpha * sum(a[i] * b[j]) [+ beta * d[i, j]].
    """
    scalar = SCALAR[plan.compute]
    r = Vectors("dots", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %b_column", "i64 %depth", "ptr %c", "i64 %c_row",
        "i64 %c_column", "ptr %d", "i64 %d_row", "i64 %d_column", "i64 %rows", "i64 %columns",
        f"{scalar} %alpha", f"{scalar} %beta", "i1 %reads",
    ], plan)  # fmt: skip
    n, size, zero = plan.lanes, plan.size, r.constant("i64", 0)
    tall, broad = shape(plan.rows)
    last = [r.i64("%rows") - 1, r.i64("%columns") - 1]  # lines beyond them repeat them
    left = [r.at("%a", minimum(r.constant("i64", i), last[0]) * r.i64("%a_row")) for i in range(tall)]
    right = [r.at("%b", minimum(r.constant("i64", j), last[1]) * r.i64("%b_column")) for j in range(broad)]
    slots = accumulators(r, tall * (_CHAINS if tall == 1 else 1), broad)
    depth = r.i64("%depth")
    whole = depth & -n

    def step(columns: range, p: Value, mask: str | None, chain: int = 0) -> None:
        rows = [r.load_elements(r.at(place, p * size), mask) for place in left]
        for j in columns:
            column = r.load_elements(r.at(right[j], p * size), mask)
            for i, row in enumerate(rows, chain):
                held = r.raw(f"load {r.vector}, ptr {slots[i][j]}")
                r.emit(f"store {r.vector} {r.multiply_add(row, column, held)}, ptr {slots[i][j]}")

    def add_up(columns: range, chains: int) -> None:
        groups = depth & -(n * chains)
        with r.loop(zero, groups, n * chains) as p:
            for q in range(chains):
                step(columns, p + q * n, None, q)
        if chains > 1:
            with r.loop(groups, whole, n) as p:
                step(columns, p, None)
        with r.when(whole < depth):
            step(columns, whole, r.lanes_below(depth - whole))

    if tall > 1:
        add_up(range(broad), 1)
    else:  # hardly anything is computed for what is fetched, which caches do best from one place at a time
        with r.when(depth < _LONG // size):
            add_up(range(broad), 1)
        with r.when(depth >= _LONG // size):
            for j in range(broad):
                add_up(range(j, j + 1), _CHAINS)
    sums = [[r.raw(f"load {r.vector}, ptr {slot}") for slot in row] for row in slots]
    while len(sums) > tall:
        sums = [[r.add(a, b) for a, b in zip(*pair)] for pair in zip(sums[::2], sums[1::2])]
    _store(r, [made for row in sums for made in row], broad)
    return r


def added_up(r: Vectors, partial: list[str]) -> list[str]:
    """Vectors whose lanes are the sums of the given vectors, one after another."""
    n, made = r.plan.lanes, []
    for start in range(0, len(partial), n):
        group = partial[start : start + n]
        s = 1
        while s < n:
            low = [lane if not lane & s else n + lane - s for lane in range(n)]
            high = [lane + s if not lane & s else n + lane for lane in range(n)]
            pairs = zip(group[::2], [*group[1::2], group[-1]])  # one without a partner is its own
            group = [r.add(*[_picked(r, a, b, lanes) for lanes in (low, high)]) for a, b in pairs]
            s *= 2
        made += group
    return made


def _picked(r: Vectors, a: str, b: str, lanes: list[int]) -> str:
    mask = f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"
    return r.raw(f"shufflevector {r.vector} {a}, {r.vector} {b}, {mask}")


def _store(r: Vectors, partial: list[str], broad: int) -> None:
    """Writes the sums of a tile, those within the result."""
    plan, scalar, size = r.plan, SCALAR[r.plan.compute], r.plan.size
    count = len(partial)
    sums = added_up(r, partial)
    multiply, add = ("fmul", "fadd") if r.float else ("mul", "add")
    rows, columns = r.i64("%rows"), r.i64("%columns")

    def element(made: str, i: Value, j: Value, reads: bool) -> None:
        made = r.raw(f"{multiply} {scalar} {made}, %alpha")
        if reads:
            old = r.raw(f"load {scalar}, ptr {r.at('%d', i * r.i64('%d_row'), j * r.i64('%d_column'))}, align {size}")
            made = r.raw(f"{add} {scalar} {r.raw(f'{multiply} {scalar} {old}, %beta')}, {made}")
        r.emit(f"store {scalar} {made}, ptr {r.at('%c', i * r.i64('%c_row'), j * r.i64('%c_column'))}, align {size}")

    def whole(reads: bool) -> None:
        for e in range(count):
            made = r.raw(f"extractelement {r.vector} {sums[e // plan.lanes]}, i64 {e % plan.lanes}")
            element(made, r.constant("i64", e // broad), r.constant("i64", e % broad), reads)

    def part(reads: bool) -> None:
        with r.loop(r.constant("i64", 0), rows) as i, r.loop(r.constant("i64", 0), columns) as j:
            place = r.at(buffer, (i * broad + j) * size)
            element(r.raw(f"load {scalar}, ptr {place}, align {size}"), i, j, reads)

    buffer = r.local_array(plan.compute, len(sums) * plan.lanes)
    inside, edge, end = r.label(), r.label(), r.label()
    r.branch_if((rows == count // broad) & (columns == broad), inside, edge)
    for label, write in ((inside, whole), (edge, part)):
        r.start_block(label)
        if write is part:
            for v, vector in enumerate(sums):
                r.store_vector(r.at(buffer, v * plan.lanes * size), vector)
        yes, no = r.label(), r.label()
        r.branch_if(Value(r, "%reads", "b1"), yes, no)
        for name, reads in ((yes, True), (no, False)):
            r.start_block(name)
            write(reads)
            r.branch(end)
    r.start_block(end)
