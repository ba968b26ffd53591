"""Kernels of recurrent layers: one native loop over time, each step a product with packed weights and fused gates.

The product is a function of its own, called by address: it is compiled once for a tile height, whatever the gates.
A job of a kernel takes the rows `low` to `high` of the batch through all steps of one direction; it needs no others.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ..building import jit
from ..loops.lang import Array, KernelScope, Walker, independent, inline, kernel
from ..loops.pointwise import _PARAMETERS, _pointer, _word
from ..math.exponentials import _exp_tail, _reduce
from ..math.floats import clamp, power_of_two
from ..products.panels import left_steps, pack, pack_left
from ..render.llvm import Llvm
from ..render.register_tiles import AHEAD, Frame, accumulators, add_products, ask_ahead
from ..render.tiles import Plan, Vectors, by_lanes, height, invoke, joined, minimum, vectors
from ..render.value import SIZE, Value

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}

_PANELS = 8  # of rows, which are multiplied with a part of the weights while that is in the first cache

# -- products ------------------------------------------------------------------------------------------------------


def _wide(rows: int) -> int:
    """Vectors of a register tile: few rows leave registers for more."""
    return 4 if rows <= 6 and vectors()[1] == 32 else 2


def _tile(plan: Plan, wide: int) -> Vectors:
    """tile(a, b, depth, c, c row, rows, adds): the first `rows` rows of c = a panel @ b panel [+ c]."""
    r = Vectors("tile", [
        "ptr noalias %a", "ptr noalias %b", "i64 %depth", "ptr noalias %c", "i64 %c_row", "i64 %rows", "i1 %adds",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, wide)

    def step(p: Value, first: str) -> None:
        right = [r.load_vector(r.at("%b", p * (wide * n * size), v * n * size)) for v in range(wide)]
        ask_ahead(r, r.at("%b", p * (wide * n * size), AHEAD * wide * n * size), wide * n * size)
        add_products(r, slots, lambda i: r.at(first, i * n * size), right)

    left_steps(r, r.i64("%depth"), step)
    for i, row in enumerate(slots):
        with r.when(r.i64("%rows") > i):
            for v, slot in enumerate(row):
                to = r.at("%c", r.i64("%c_row") * i, v * n * size)
                old = r.load_vector(to, aligned=False)
                old = r.raw(f"select i1 %adds, {r.vector} {old}, {r.vector} zeroinitializer")
                r.store_vector(to, r.add(r.raw(f"load {r.vector}, ptr {slot}"), old), aligned=False)
    return r


def _product(plan: Plan, wide: int) -> Vectors:
    r = Vectors("product", [
        "ptr noalias %to", "i64 %to_row", "ptr noalias %from", "i64 %from_row", "i64 %count", "i64 %depth",
        "i64 %columns", "ptr noalias %packed", "ptr noalias %scratch", "i1 %adds",
    ], plan)  # fmt: skip
    size, width, zero = plan.size, wide * plan.lanes, r.constant("i64", 0)
    count, depth, to_row, from_row = (r.i64(f"%{n}") for n in ("count", "depth", "to_row", "from_row"))
    columns = (r.i64("%columns") + (width - 1)) & -width
    with r.loop(zero, depth, plan.depth) as pc, r.loop(zero, count, plan.rows * _PANELS) as ic:
        length, rows = minimum(depth - pc, plan.depth), minimum(count - ic, plan.rows * _PANELS)
        block = r.at("%packed", pc * columns * size)

        def panel(i: Value) -> str:
            return r.at("%scratch", r.value(f"udiv i64 {i.name}, {plan.rows}", "i64") * plan.left_bytes)

        with r.loop(zero, rows, plan.rows) as i:
            source = r.at("%from", (ic + i) * from_row, pc * size)
            used = minimum(rows - i, plan.rows)
            invoke(
                r,
                "pack_left",
                panel(i),
                source,
                from_row,
                r.constant("i64", size),
                used,
                length,
                r.constant("i64", plan.rows),
            )
        with r.loop(zero, columns, width) as j, r.loop(zero, rows, plan.rows) as i:
            to = r.at("%to", (ic + i) * to_row, j * size)
            adds = Value(r, "%adds", "b1") | (pc > 0)
            used = minimum(rows - i, plan.rows)
            invoke(r, "tile", panel(i), r.at(block, j * length * size), length, to, to_row, used, adds)
    return r


def product_rows(count: int) -> int:
    """The tile height of `product` for so many rows of the batch."""
    return -(-count // -(-count // 4)) if by_lanes() else height(count)  # the left vectors stay in registers, too


@functools.cache
def product(type: str, rows: int) -> tuple[int, int, int]:
    """(address, bytes of scratch, columns of a tile) of the function that multiplies rows with packed weights.

    It writes whole tiles: rows of its result must have room for them.
    """
    plan, wide = Plan(type, rows), _wide(rows)
    render = lambda: joined([pack_left(plan), _tile(plan, wide)], _product(plan, wide))
    address = jit.compile_rendered("product", ("recurrent", type, rows, wide), render)
    return address, _PANELS * plan.left_bytes, wide * plan.lanes


@jit.rendered
def packing(type: str, columns: int) -> str:
    """The kernel (to, from) that packs a matrix for `product`; extents are its columns and its depth, steps their
    strides in bytes. `to` begins at a multiple of 64."""
    plan = Plan(type, 1)
    r = Frame(plan, 2)
    count, depth, lane, step = r.word("%dims", 0), r.word("%dims", 1), r.word("%steps", 0), r.word("%steps", 1)
    to, source = r.pointer(0), r.pointer(1)
    padded = (count + (columns - 1)) & -columns
    with r.loop(r.constant("i64", 0), depth, plan.depth) as pc:
        place = r.at(to, pc * padded * plan.size)
        invoke(r, "pack", place, r.at(source, pc * step), lane, step, count, minimum(depth - pc, plan.depth))
    return joined([pack(plan, "pack", columns)], r)


@functools.cache
def no_product() -> int:
    """A function like `product` that does nothing, for loops of one step: its products are made outside."""
    parameters = "ptr, i64, ptr, i64, i64, i64, i64, ptr, ptr, i1"
    return jit.compile("product", f"define void @product({parameters}) nounwind {{\n  ret void\n}}\n")


# -- gates ---------------------------------------------------------------------------------------------------------


# These need fewer instructions than `m.sigmoid` and `m.tanh`: errors of 3 ulp are allowed, where those have 2.


def _sigmoid(m: Any, x: Value) -> Value:
    bound = 87.0 if x.type == "f32" else 708.0
    r, k = _reduce(m, -clamp(m, x, -bound, bound))
    power = power_of_two(m, k)
    return 1.0 / (m.fma(power, _exp_tail(m, r), power) + 1.0)


def _tanh(m: Any, x: Value) -> Value:
    """Of exp(-2|x|) - 1, which keeps its relative precision near zero."""
    r, k = _reduce(m, clamp(m, m.real_abs(x) * -2.0, -20.0 if x.type == "f32" else -44.0, None))
    power = power_of_two(m, k)
    less = m.fma(power, _exp_tail(m, r), power - 1.0)
    return m.copysign(less / (less + 2.0), x)


def _multiply(
    m: Any, function: Value, to: Array, to_row: Any, source: Array, row: Any, count: Value, depth: Value,
    columns: Value, packed: Array, scratch: Array, adds: bool = False,
) -> None:  # fmt: skip
    """Rows of `to` = rows of `source` @ packed weights [+ themselves]."""
    r = m.r
    target = r.value(f"inttoptr i64 {function.name} to ptr", "i64").name
    given = ", ".join([
        f"ptr {to._address((to_row, 0))}", f"i64 {to.strides[0].name}", f"ptr {source._address((row, 0))}",
        f"i64 {source.strides[0].name}", f"i64 {count.name}", f"i64 {depth.name}", f"i64 {columns.name}",
        f"ptr {packed.pointer}", f"ptr {scratch.pointer}", f"i1 {'true' if adds else 'false'}",
    ])  # fmt: skip
    r.emit(f"call void {target}({given})")


_FORWARD = (
    "counts", "offsets", "gates", "hidden", "cell", "out", "kept", "raw", "sums", "packed", "packed_out", "scratch",
    "bias", "x", "inputs", "packed_in",
)  # fmt: skip
_BACKWARD = (
    "counts", "offsets", "gates", "kept", "before", "start", "g_out", "g_hidden", "g_cell", "g_gates", "g_sums",
    "g_raw", "g_projected", "packed", "packed_out", "scratch",
)  # fmt: skip
_NUMBERS = ("product", "project", "steps", "first", "stride", "low", "high", "size", "width", "features")
_FLAT = frozenset(("counts", "offsets", "packed", "packed_out", "packed_in", "scratch", "bias"))

# In what follows `a` has the arrays by their names. A column is one element of the state of one row: `n` is its row of the batch,
# `row` that of all steps, `k` that among those of the job.


def _lstm_gates(m: Any, sums: Sequence[Any], c: Any) -> tuple[Any, ...]:
    """The gates, the next cell and the next state, from the sums of the gates and the cell."""
    activations = _sigmoid, _sigmoid, _tanh, _sigmoid
    i, f, g, o = [function(m, x) for function, x in zip(activations, sums)]
    c = m.fma(f, c, i * g)
    return i, f, g, o, c, o * _tanh(m, c)


def _lstm_gradients(m: Any, gates: Sequence[Any], c: Any, before: Any, by_h: Any, by_c: Any) -> tuple[Any, ...]:
    """Gradients of the sums of the gates and of the cell before, from those of the state and of the cell."""
    (i, f, g, o), t = gates, _tanh(m, c)
    by_c = m.fma(by_h * o, 1.0 - t * t, by_c)
    by_gates = (
        by_c * g * (i * (1.0 - i)), by_c * before * (f * (1.0 - f)), by_c * i * (1.0 - g * g), by_h * t * (o * (1.0 - o)),
    )  # fmt: skip
    return *by_gates, by_c * f


def _gru_gradients(m: Any, r: Any, z: Any, c: Any, u: Any, before: Any, by_h: Any) -> tuple[Any, ...]:
    """Gradients of the gates (of the last one: of the inputs' part and of the state's) and of the state before."""
    by_c = by_h * (1.0 - z) * (1.0 - c * c)
    by_z = by_h * (before - c) * (z * (1.0 - z))
    by_r = by_c * u * (r * (1.0 - r))
    return by_r, by_z, by_c, by_c * r, by_h * z


def _set(to: Array, row: Any, size: Any, j: Any, *values: Any) -> None:
    """Writes the gates of one column, `size` apart."""
    for gate, value in enumerate(values):
        to[row, j if gate == 0 else size * gate + j] = value


def _lstm_column(m: Any, a: Any, sums: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any) -> None:
    *gates, c, h = _lstm_gates(m, [sums(gate) + a.sums[k, _at(gate, size, j)] for gate in range(4)], a.cell[n, j])
    a.cell[n, j] = c
    if o.keep:
        _set(a.gates, row, size, j, *gates)
        a.kept[row, j] = c
    if o.projected:
        a.raw[row, j] = h
    else:
        a.hidden[n, j] = h
        a.out[row, j] = h


def _gru_column(m: Any, a: Any, sums: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any) -> None:
    r = _sigmoid(m, sums(0) + a.sums[k, j])
    z = _sigmoid(m, sums(1) + a.sums[k, size + j])
    u = a.sums[k, size * 2 + j] + a.bias[size * 3 + j]
    c = _tanh(m, m.fma(r, u, sums(2)))
    h = m.fma(z, a.hidden[n, j] - c, c)
    if o.keep:
        _set(a.gates, row, size, j, r, z, c)
        a.kept[row, j] = u
    a.hidden[n, j] = h
    a.out[row, j] = h


def _rnn_column(m: Any, a: Any, sums: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any) -> None:
    y = sums(0) + a.sums[k, j]
    h = m.maximum(y, 0.0) if o.relu else _tanh(m, y)
    if o.keep:
        a.gates[row, j] = h
    a.hidden[n, j] = h
    a.out[row, j] = h


def _at(gate: int, size: Any, j: Any) -> Any:
    return j if gate == 0 else size * gate + j


def forward_column(m: Any, a: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any) -> None:
    def sums(gate: int) -> Any:
        """The inputs' part of a gate, with its biases."""
        at = _at(gate, size, j)
        return a.inputs[k, at] + a.bias[at] if o.inside else a.gates[row, at]

    o.column(m, a, sums, n, row, k, j, size, o)


def _forward(m, a, product, project, steps, first, stride, low, high, size, width, features, o):
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(a.counts[t], high)
        if stop > low:
            start, count = a.offsets[t], stop - low
            if o.inside:
                _multiply(
                    m, product, a.inputs, 0, a.x, start + low, count, features, size * o.gates, a.packed_in, a.scratch
                )
            _multiply(m, product, a.sums, 0, a.hidden, low, count, width, size * o.gates, a.packed, a.scratch)
            for n in range(low, stop):
                for j in independent(size):
                    forward_column(m, a, n, start + n, n - low, j, size, o)
            if o.projected:
                _multiply(m, project, a.hidden, low, a.raw, start + low, count, size, width, a.packed_out, a.scratch)
                for n in range(low, stop):
                    for j in independent(width):
                        a.out[start + n, j] = a.hidden[n, j]


def _lstm_column_back(
    m: Any, a: Any, before: Array, at: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any
) -> None:
    gates = [a.gates[row, _at(gate, size, j)] for gate in range(4)]
    by_h = a.g_raw[k, j] if o.projected else a.g_hidden[n, j] + a.g_out[row, j]
    *by_gates, by_cell = _lstm_gradients(m, gates, a.kept[row, j], before[at, j], by_h, a.g_cell[n, j])
    _set(a.g_gates, row, size, j, *by_gates)
    a.g_cell[n, j] = by_cell


def _gru_column_back(
    m: Any, a: Any, before: Array, at: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any
) -> None:
    r, z, c = (a.gates[row, _at(gate, size, j)] for gate in range(3))
    by_h = a.g_hidden[n, j] + a.g_out[row, j]
    by_r, by_z, by_c, by_u, by_before = _gru_gradients(m, r, z, c, a.kept[row, j], before[at, j], by_h)
    _set(a.g_gates, row, size, j, by_r, by_z, by_c)
    _set(a.g_sums, row, size, j, by_r, by_z, by_u)
    a.g_hidden[n, j] = by_before


def _rnn_column_back(
    m: Any, a: Any, before: Array, at: Any, n: Any, row: Any, k: Any, j: Any, size: Any, o: Any
) -> None:
    h = a.gates[row, j]
    g = a.g_hidden[n, j] + a.g_out[row, j]
    a.g_gates[row, j] = m.where(h <= 0.0, 0.0, g) if o.relu else g * (1.0 - h * h)


@inline
def _earlier(m, counts, offsets, t, before, steps, low, stop):
    """Of the step before in time: up to which row it exists, and where its rows are. There may be none."""
    inside = (before >= 0) & (before < steps)
    at = m.where(inside, before, t)
    known = m.where(inside, m.maximum(m.minimum(counts[at], stop), low), low)
    return known, offsets[at]


def _backward(m, a, product, project, steps, first, stride, low, high, size, width, features, o):
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(a.counts[t], high)
        if stop > low:
            here, count = a.offsets[t], stop - low
            if o.projected:
                for n in range(low, stop):
                    for j in independent(width):
                        a.g_projected[here + n, j] = a.g_hidden[n, j] + a.g_out[here + n, j]
                _multiply(
                    m, project, a.g_raw, 0, a.g_projected, here + low, count, width, size, a.packed_out, a.scratch
                )
            known, at = _earlier(m, a.counts, a.offsets, t, t + stride, steps, low, stop)
            for n in range(low, known):
                for j in independent(size):
                    o.column(m, a, a.before, at + n, n, here + n, n - low, j, size, o)
            for n in range(known, stop):
                for j in independent(size):
                    o.column(m, a, a.start, n, n, here + n, n - low, j, size, o)
            made = a.g_sums if o.adds else a.g_gates
            _multiply(
                m, product, a.g_hidden, low, made, here + low, count, size * o.gates, width, a.packed, a.scratch, o.adds
            )


# -- single steps, over rows -----------------------------------------------------------------------------------------


def _gates_of(x: Array, size: Any, j: Any, count: int) -> list[Any]:
    return [x[_at(gate, size, j)] for gate in range(count)]


def _both(x: Array, u: Array, size: Any, j: Any, count: int) -> list[Any]:
    """The sums of the inputs' and the state's part of the gates of one column."""
    return [a + b for a, b in zip(_gates_of(x, size, j, count), _gates_of(u, size, j, count))]


def _put(to: Array, size: Any, j: Any, values: Sequence[Any]) -> None:
    for gate, value in enumerate(values):
        to[_at(gate, size, j)] = value


@kernel("(g),(g),(n)->(n),(n),(g)", along="n")
def lstm_gates(m, x, u, c, h, c_next, gates):
    """The next h and c, and the gates, from the inputs' and the state's part of the gates."""
    size = c.n
    for j in independent(size):
        i, f, g, o, following, state = _lstm_gates(m, _both(x, u, size, j, 4), c[j])
        c_next[j] = following
        h[j] = state
        _put(gates, size, j, (i, f, g, o))


@kernel("(n),(n),(n),(n),(g)->(g),(n)", along="n")
def lstm_gates_backward(m, g_h, g_c, c, c_next, gates, g_gates, g_before):
    size = c.n
    for j in independent(size):
        held = _gates_of(gates, size, j, 4)
        by_i, by_f, by_g, by_o, by_cell = _lstm_gradients(m, held, c_next[j], c[j], g_h[j], g_c[j])
        _put(g_gates, size, j, (by_i, by_f, by_g, by_o))
        g_before[j] = by_cell


@kernel("(g),(g),(n)->(n),(g)", along="n")
def gru_gates(m, x, u, h, out, gates):
    """The next h, and the gates."""
    size = h.n
    for j in independent(size):
        first, second = _both(x, u, size, j, 2)
        r, z = _sigmoid(m, first), _sigmoid(m, second)
        c = _tanh(m, m.fma(r, u[2 * size + j], x[2 * size + j]))
        out[j] = m.fma(z, h[j] - c, c)
        _put(gates, size, j, (r, z, c))


@kernel("(n),(g),(n),(g)->(g),(g),(n)", along="n")
def gru_gates_backward(m, g, u, h, gates, g_x, g_u, g_h):
    size = h.n
    for j in independent(size):
        r, z, c = _gates_of(gates, size, j, 3)
        by_r, by_z, by_c, by_u, by_before = _gru_gradients(m, r, z, c, u[2 * size + j], h[j], g[j])
        _put(g_x, size, j, (by_r, by_z, by_c))
        _put(g_u, size, j, (by_r, by_z, by_u))
        g_h[j] = by_before


COLUMNS = {
    "lstm": (_lstm_column, _lstm_column_back), "gru": (_gru_column, _gru_column_back),
    "rnn_tanh": (_rnn_column, _rnn_column_back), "rnn_relu": (_rnn_column, _rnn_column_back),
}  # fmt: skip


def _compiled(body: Any, mode: str, operands: tuple[str, ...], type: str, column: Any, **options: bool) -> int:
    def render() -> str:
        r, arrays = Llvm("kernel", _PARAMETERS), {}
        for i, name in enumerate(operands):
            kind = "i64" if name in ("counts", "offsets") else type
            element = r.constant("i64", SIZE[kind])
            strides = [element] if name in _FLAT else [_word(r, "%steps", i), element]
            arrays[name] = Array(r, _pointer(r, "%args", i), kind, [], strides)
        numbers = {name: _word(r, "%dims", i) for i, name in enumerate(_NUMBERS)}
        chosen = SimpleNamespace(
            column=column, gates=GATES[mode], relu=mode == "rnn_relu", adds=mode == "gru", **options
        )
        Walker(r, body, {"m": KernelScope(r), "a": SimpleNamespace(**arrays), **numbers, "o": chosen}).run()
        r.clear_float_status()
        return r.text()

    return jit.compile_rendered("kernel", (body.__qualname__, mode, type, options), render)


@functools.cache
def forward(mode: str, type: str, keep: bool, projected: bool, inside: bool) -> int:
    """The loop over time. Operands are those of _FORWARD: `gates` holds the inputs' part of the gates, unless that is
    computed `inside` of the loop, and the gates themselves afterwards if they are to be kept; `hidden` and `cell` are
    the state and change from step to step."""
    column = COLUMNS[mode][0]
    return _compiled(_forward, mode, _FORWARD, type, column, keep=keep, projected=projected, inside=inside)


@functools.cache
def backward(mode: str, type: str, projected: bool) -> int:
    """The loop back through time. Operands are those of _BACKWARD: `g_hidden` and `g_cell` come as gradients of the
    last state and leave as those of the first; `before` and `start` are states (of cells for LSTM) to step from."""
    return _compiled(_backward, mode, _BACKWARD, type, COLUMNS[mode][1], projected=projected)
