"""Copies between matrices of which one lies row by row and the other column by column: blocks are turned in registers."""

from __future__ import annotations

from ..building import jit
from ..render.register_tiles import Frame
from ..render.tiles import Plan, Vectors, invoke, joined, minimum

_NEAR = 64  # bytes of a line of a block whose cache lines stay near until all of them is used

TYPES = {4: "i32", 8: "i64"}  # by bytes of an element


def _block(plan: Plan) -> Vectors:
    """block(x, x column, out, out row): as many rows and columns as a vector has lanes."""
    r = Vectors("block", ["ptr noalias %x", "i64 %x_column", "ptr noalias %out", "i64 %out_row"], plan)
    columns = [r.load_vector(r.at("%x", r.i64("%x_column") * i), aligned=False) for i in range(plan.lanes)]
    for i, row in enumerate(r.transpose(columns)):
        r.store_vector(r.at("%out", r.i64("%out_row") * i), row, aligned=False)
    return r


def _edge(plan: Plan) -> Vectors:
    """edge(x, x column, out, out row, rows, columns): one element after the other."""
    r = Vectors(
        "edge",
        ["ptr noalias %x", "i64 %x_column", "ptr noalias %out", "i64 %out_row", "i64 %rows", "i64 %columns"],
        plan,
    )
    zero, size = r.constant("i64", 0), plan.size
    with r.loop(zero, r.i64("%columns")) as j, r.loop(zero, r.i64("%rows")) as i:
        held = r.load(r.at("%x", j * r.i64("%x_column"), i * size), plan.type)
        r.store(r.at("%out", i * r.i64("%out_row"), j * size), plan.type, held)
    return r


def _main(plan: Plan) -> Frame:
    """A loop over (m,n)->(m,n): the source is dense along m, the target along n."""
    r = Frame(plan, 2)
    zero, n, size = r.constant("i64", 0), plan.lanes, plan.size
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
