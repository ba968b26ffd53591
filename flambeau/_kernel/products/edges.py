"""What tiles of products write at the edge of a result, and to results that are not row-major or of a narrow type: through memory.

All tiles of a type share this, as compilers take longer for it than for the tile itself.
"""

from __future__ import annotations

from ..render.tiles import MEMORY, SCALAR, Plan, Vectors, minimum, vectors
from ..render.value import Value


def store_edge(plan: Plan) -> Vectors:
    """store_edge(sums, bytes of one of their rows, c, c strides, d, d strides, rows, columns, alpha, beta, read d):
    c = alpha * sums [+ beta * d]. The sums are as many vectors wide as hold the columns."""
    scalar = SCALAR[plan.compute]
    r = Vectors("store_edge", [
        "ptr noalias %sums", "i64 %pitch", "ptr %c", "i64 %c_row", "i64 %c_column", "ptr %d", "i64 %d_row", "i64 %d_column",
        "i64 %rows", "i64 %columns", f"{scalar} %alpha", f"{scalar} %beta", "i1 %reads",
    ], plan)  # fmt: skip
    r.shared = True
    if plan.result != plan.compute:
        _by_element(r)
        return r
    reads = Value(r, "%reads", "b1")
    beside, below = (
        (r.i64(f"%c_{along}") == plan.result_step) & ((r.i64(f"%d_{along}") == plan.result_step) | ~reads)
        for along in ("column", "row")
    )
    by_row, other, by_column, by_element, end = (r.label() for _ in range(5))
    r.branch_if(beside, by_row, other)
    r.start_block(by_row)
    _by_row(r)
    r.branch(end)
    r.start_block(other)
    r.branch_if(below, by_column, by_element)
    r.start_block(by_column)
    _by_column(r)
    r.branch(end)
    r.start_block(by_element)
    _by_element(r)
    r.branch(end)
    r.start_block(end)
    return r


def _lines(
    r: Vectors, sums: str, pitch: Value, places: tuple[str, str], first: Value, extent: Value, count: Value, along: str
) -> None:
    """A vector of each of `count` lines of sums: the elements from `first` on of rows or columns of c and d, which begin at `places` and
    have `extent`."""
    (c, d), plan, n, size = places, r.plan, r.plan.lanes, r.plan.size
    alpha, beta = r.splat("%alpha"), r.splat("%beta")
    slot = r.fresh()
    r.slots.append(f"  {slot} = alloca {r.vector}, align {vectors()[0]}")

    def each(mask: str | None) -> None:
        with r.loop(r.constant("i64", 0), count) as i:
            made = r.multiply(alpha, r.load_vector(r.at(sums, i * pitch)))
            r.emit(f"store {r.vector} {made}, ptr {slot}")
            with r.when(Value(r, "%reads", "b1")):
                held = r.load_elements(r.at(d, i * r.i64(f"%d_{along}"), first * size), mask, plan.result)
                r.emit(f"store {r.vector} {r.multiply_add(beta, held, made)}, ptr {slot}")
            to = r.at(c, i * r.i64(f"%c_{along}"), first * size)
            r.store_elements(to, r.raw(f"load {r.vector}, ptr {slot}"), mask)

    part, end = r.label(), r.label()
    if vectors()[0] < 64:  # these have no masks of their own
        whole = r.label()
        r.branch_if(extent - first >= n, whole, part)
        r.start_block(whole)
        each(None)
        r.branch(end)
    else:
        r.branch(part)
    r.start_block(part)
    each(r.lanes_below(extent - first))
    r.branch(end)
    r.start_block(end)


def _by_row(r: Vectors) -> None:
    rows, columns = r.i64("%rows"), r.i64("%columns")
    with r.loop(r.constant("i64", 0), columns, r.plan.lanes) as j:
        _lines(r, r.at("%sums", j * r.plan.size), r.i64("%pitch"), ("%c", "%d"), j, columns, rows, "row")


def _by_column(r: Vectors) -> None:
    """Squares of sums are turned."""
    n, size, zero = r.plan.lanes, r.plan.size, r.constant("i64", 0)
    rows, columns, pitch = r.i64("%rows"), r.i64("%columns"), r.i64("%pitch")
    turned = r.local_array(r.plan.compute, n * n)
    with r.loop(zero, columns, n) as j, r.loop(zero, rows, n) as i:
        sums = [r.at("%sums", minimum(i + k, rows - 1) * pitch, j * size) for k in range(n)]
        for k, line in enumerate(r.transpose([r.load_vector(place) for place in sums])):
            r.store_vector(r.at(turned, k * n * size), line)
        places = r.at("%c", j * r.i64("%c_column")), r.at("%d", j * r.i64("%d_column"))
        _lines(r, turned, r.constant("i64", n * size), places, i, rows, minimum(columns - j, n), "column")


def _by_element(r: Vectors) -> None:
    plan, scalar, size = r.plan, SCALAR[r.plan.compute], r.plan.size
    multiply, add = ("fmul", "fadd") if r.float else ("mul", "add")
    memory = MEMORY[plan.result]
    slot = r.variable(plan.compute)
    zero = r.constant("i64", 0)
    with r.loop(zero, r.i64("%rows")) as i, r.loop(zero, r.i64("%columns")) as j:
        held = r.raw(f"load {scalar}, ptr {r.at('%sums', i * r.i64('%pitch'), j * size)}, align {size}")
        made = r.raw(f"{multiply} {scalar} {held}, %alpha")
        r.emit(f"store {scalar} {made}, ptr {slot}")
        with r.when(Value(r, "%reads", "b1")):
            old = r.at("%d", i * r.i64("%d_row"), j * r.i64("%d_column"))
            wide = r.widened(r.raw(f"load {memory}, ptr {old}, align {plan.result_step}"), 1, plan.result)
            scaled = r.raw(f"{multiply} {scalar} {wide}, %beta")
            r.emit(f"store {scalar} {r.raw(f'{add} {scalar} {scaled}, {made}')}, ptr {slot}")
        to = r.at("%c", i * r.i64("%c_row"), j * r.i64("%c_column"))
        value = r.raw(f"load {scalar}, ptr {slot}")
        if plan.result_step < size:
            value = r.raw(f"trunc {scalar} {value} to {memory}")
        r.emit(f"store {memory} {value}, ptr {to}, align {plan.result_step}")
