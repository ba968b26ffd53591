"""Copies between matrices of which one lies row by row and the other column by column: blocks are turned in registers."""

from __future__ import annotations

from ..building import jit
from ..render.register_tiles import Frame
from ..render.tiles import Plan, Vectors, invoke, joined, minimum
from ..render.value import SIZE

_NEAR = 64  # bytes of a line of a block whose cache lines stay near until all of them is used

_SHORT = 16  # bytes of the vectors that small elements are turned in: every CPU takes two of them apart and puts their halves together
TYPES = {1: "u8", 2: "i16", 4: "i32", 8: "i64"}  # by bytes of an element


def lanes(size: int) -> int:
    """Rows and columns of a block."""
    return Plan(TYPES[size], 1).lanes if size >= 4 else _SHORT // size


def _block(plan: Plan) -> Vectors:
    """block(x, x column, out, out row): as many rows and columns as a vector has lanes."""
    if SIZE[plan.type] < 4:
        return _small_block(SIZE[plan.type])
    r = Vectors("block", ["ptr noalias %x", "i64 %x_column", "ptr noalias %out", "i64 %out_row"], plan)
    columns = [r.load_vector(r.at("%x", r.i64("%x_column") * i), aligned=False) for i in range(plan.lanes)]
    for i, row in enumerate(r.transpose(columns)):
        r.store_vector(r.at("%out", r.i64("%out_row") * i), row, aligned=False)
    return r


def _small_block(size: int) -> Vectors:
    """The same for elements of one or two bytes. In each round neighbours come from two vectors that are half of all apart."""
    r = Vectors("block", ["ptr noalias %x", "i64 %x_column", "ptr noalias %out", "i64 %out_row"], Plan("i32", 1))
    n = lanes(size)
    vector = f"<{n} x i{8 * size}>"
    lines = [r.raw(f"load {vector}, ptr {r.at('%x', r.i64('%x_column') * i)}, align {size}") for i in range(n)]
    halves = [[f"i32 {lane // 2 + n * (lane % 2) + start}" for lane in range(n)] for start in (0, n // 2)]
    for _ in range(n.bit_length() - 1):
        lines = [
            r.raw(f"shufflevector {vector} {lines[i]}, {vector} {lines[i + n // 2]}, <{n} x i32> <{', '.join(half)}>")
            for i in range(n // 2)
            for half in halves
        ]
    for i, line in enumerate(lines):
        r.emit(f"store {vector} {line}, ptr {r.at('%out', r.i64('%out_row') * i)}, align {size}")
    return r


def _edge(plan: Plan) -> Vectors:
    """edge(x, x column, out, out row, rows, columns): one element after the other."""
    r = Vectors(
        "edge",
        ["ptr noalias %x", "i64 %x_column", "ptr noalias %out", "i64 %out_row", "i64 %rows", "i64 %columns"],
        plan,
    )
    zero, size = r.constant("i64", 0), SIZE[plan.type]
    with r.loop(zero, r.i64("%columns")) as j, r.loop(zero, r.i64("%rows")) as i:
        held = r.load(r.at("%x", j * r.i64("%x_column"), i * size), plan.type)
        r.store(r.at("%out", i * r.i64("%out_row"), j * size), plan.type, held)
    return r


def _main(plan: Plan) -> Frame:
    """A loop over (m,n)->(m,n): the source is dense along m, the target along n."""
    r = Frame(plan, 2)
    zero, size = r.constant("i64", 0), SIZE[plan.type]
    n = lanes(size)
    batch, rows, columns = (r.word("%dims", i) for i in range(3))
    x_column, out_row = r.core(1), r.core(2)
    near = max(n, _NEAR // size)
    with r.loop(zero, batch) as item:
        x, out = r.operand(0, item), r.operand(1, item)
        with r.loop(zero, rows, near) as first, r.loop(zero, columns, near) as left:
            bottom, right = minimum(first + near, rows), minimum(left + near, columns)
            with r.loop(first, bottom, n) as i, r.loop(left, right, n) as j:
                places = r.at(x, j * x_column, i * size), x_column, r.at(out, i * out_row, j * size), out_row
                whole, part, end = r.label(), r.label(), r.label()
                r.branch_if((i + n <= bottom) & (j + n <= right), whole, part)
                r.start_block(whole)
                invoke(r, "block", *places)
                r.branch(end)
                r.start_block(part)
                invoke(r, "edge", *places, minimum(bottom - i, n), minimum(right - j, n))
                r.branch(end)
                r.start_block(end)
    return r


@jit.rendered
def turn(size: int) -> str:
    """The address of a loop (x, out) over batches of m by n elements of so many bytes.

    Its extents are (batch, m, n), its steps those of the batch of both operands, then x's along m and n (along m it is
    dense) and the target's (along n it is dense).
    """
    plan = Plan(TYPES[size], 1)
    return joined([_block(plan), _edge(plan)], _main(plan)).replace(" noinline nounwind", " alwaysinline nounwind")
