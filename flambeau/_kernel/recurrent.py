"""Kernels of recurrent layers: one native loop over time, each step a product with packed weights and fused gates.

The product is a function of its own, called by address: it is compiled once for a tile height, whatever the gates.
A job of a kernel takes the rows `low` to `high` of the batch through all steps of one direction; it needs no others.
"""

from __future__ import annotations

import functools
from typing import Any

from . import jit
from .conv import _wide
from .lang import Array, KernelScope, Walker, independent, inline, kernel
from .loops import _PARAMETERS, _pointer, _word
from .math.exponentials import _exp_tail, _reduce
from .math.floats import clamp, power_of_two
from .panels import left_steps, pack, pack_left
from .register_tiles import Frame, accumulators, add_products
from .render_llvm import Llvm
from .tiles import Plan, Vectors, by_lanes, height, invoke, joined, minimum
from .value import SIZE, Value

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}

_PANELS = 8  # of rows, which are multiplied with a part of the weights while that is in the first cache

# -- products ------------------------------------------------------------------------------------------------------


def _tile(plan: Plan, wide: int) -> Vectors:
    """tile(a, b, depth, c, c row, rows, adds): the first `rows` rows of c = a panel @ b panel [+ c]."""
    r = Vectors("tile", [
        "ptr noalias %a", "ptr noalias %b", "i64 %depth", "ptr noalias %c", "i64 %c_row", "i64 %rows", "i1 %adds",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = accumulators(r, plan.rows, wide)

    def step(p: Value, first: str) -> None:
        right = [r.load_vector(r.at("%b", p * (wide * n * size), v * n * size)) for v in range(wide)]
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
            invoke(r, "pack_left", panel(i), source, from_row, r.constant("i64", size), used, length)
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
    address = jit.compile("product", joined([pack_left(plan), _tile(plan, wide)], _product(plan, wide)))
    return address, _PANELS * plan.left_bytes, wide * plan.lanes


@functools.cache
def packing(type: str, columns: int) -> int:
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
    return jit.compile("kernel", joined([pack(plan, "pack", columns)], r))


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


@inline
def _products(
    m, product, x, at, inputs, hidden, low, count, sums, width, features, columns, packed, packed_in, scratch, inside
):
    """A step's part of the state, and if they are made `inside` of the loop its part of the inputs."""
    if inside:
        _multiply(m, product, inputs, 0, x, at, count, features, columns, packed_in, scratch)
    _multiply(m, product, sums, 0, hidden, low, count, width, columns, packed, scratch)


def _part(gates: Array, inputs: Array, bias: Array, row: Any, k: Any, column: Any, inside: bool) -> Any:
    """The inputs' part of a gate, with its biases."""
    return inputs[k, column] + bias[column] if inside else gates[row, column]


def _lstm_forward(
    m, counts, offsets, gates, hidden, cell, out, kept, raw, sums, packed, packed_out, scratch, bias, x, inputs, packed_in,
    product, project, steps, first, stride, low, high, size, width, features, keep, projected, relu, inside,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            start = offsets[t]
            _products(
                m, product, x, start + low, inputs, hidden, low, stop - low, sums, width, features, size * 4, packed, packed_in,
                scratch, inside,
            )  # fmt: skip
            for n in range(low, stop):
                row = start + n
                k = n - low
                for j in independent(size):
                    i = _sigmoid(m, _part(gates, inputs, bias, row, k, j, inside) + sums[k, j])
                    f = _sigmoid(m, _part(gates, inputs, bias, row, k, size + j, inside) + sums[k, size + j])
                    g = _tanh(m, _part(gates, inputs, bias, row, k, 2 * size + j, inside) + sums[k, 2 * size + j])
                    o = _sigmoid(m, _part(gates, inputs, bias, row, k, 3 * size + j, inside) + sums[k, 3 * size + j])
                    c = m.fma(f, cell[n, j], i * g)
                    h = o * _tanh(m, c)
                    cell[n, j] = c
                    if keep:
                        gates[row, j] = i
                        gates[row, size + j] = f
                        gates[row, 2 * size + j] = g
                        gates[row, 3 * size + j] = o
                        kept[row, j] = c
                    if projected:
                        raw[row, j] = h
                    else:
                        hidden[n, j] = h
                        out[row, j] = h
            if projected:
                _multiply(m, project, hidden, low, raw, start + low, stop - low, size, width, packed_out, scratch)
                for n in range(low, stop):
                    for j in independent(width):
                        out[start + n, j] = hidden[n, j]


def _gru_forward(
    m, counts, offsets, gates, hidden, cell, out, kept, raw, sums, packed, packed_out, scratch, bias, x, inputs, packed_in,
    product, project, steps, first, stride, low, high, size, width, features, keep, projected, relu, inside,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            start = offsets[t]
            _products(
                m, product, x, start + low, inputs, hidden, low, stop - low, sums, width, features, size * 3, packed, packed_in,
                scratch, inside,
            )  # fmt: skip
            for n in range(low, stop):
                row = start + n
                k = n - low
                for j in independent(size):
                    r = _sigmoid(m, _part(gates, inputs, bias, row, k, j, inside) + sums[k, j])
                    z = _sigmoid(m, _part(gates, inputs, bias, row, k, size + j, inside) + sums[k, size + j])
                    u = sums[k, 2 * size + j] + bias[3 * size + j]
                    c = _tanh(m, m.fma(r, u, _part(gates, inputs, bias, row, k, 2 * size + j, inside)))
                    h = m.fma(z, hidden[n, j] - c, c)
                    if keep:
                        gates[row, j] = r
                        gates[row, size + j] = z
                        gates[row, 2 * size + j] = c
                        kept[row, j] = u
                    hidden[n, j] = h
                    out[row, j] = h


def _rnn_forward(
    m, counts, offsets, gates, hidden, cell, out, kept, raw, sums, packed, packed_out, scratch, bias, x, inputs, packed_in,
    product, project, steps, first, stride, low, high, size, width, features, keep, projected, relu, inside,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            start = offsets[t]
            _products(
                m, product, x, start + low, inputs, hidden, low, stop - low, sums, width, features, size, packed, packed_in,
                scratch, inside,
            )  # fmt: skip
            for n in range(low, stop):
                row = start + n
                k = n - low
                for j in independent(size):
                    y = _part(gates, inputs, bias, row, k, j, inside) + sums[k, j]
                    h = m.maximum(y, 0.0) if relu else _tanh(m, y)
                    if keep:
                        gates[row, j] = h
                    hidden[n, j] = h
                    out[row, j] = h


@inline
def _lstm_rows(
    m, begin, end, start, low, size, gates, kept, before, at, g_hidden, g_out, g_cell, g_gates, g_raw, projected
):
    for n in range(begin, end):
        row = start + n
        for j in independent(size):
            i = gates[row, j]
            f = gates[row, size + j]
            g = gates[row, 2 * size + j]
            o = gates[row, 3 * size + j]
            c = _tanh(m, kept[row, j])
            by_h = g_raw[n - low, j] if projected else g_hidden[n, j] + g_out[row, j]
            by_c = m.fma(by_h * o, 1.0 - c * c, g_cell[n, j])
            g_gates[row, j] = by_c * g * (i * (1.0 - i))
            g_gates[row, size + j] = by_c * before[at + n, j] * (f * (1.0 - f))
            g_gates[row, 2 * size + j] = by_c * i * (1.0 - g * g)
            g_gates[row, 3 * size + j] = by_h * c * (o * (1.0 - o))
            g_cell[n, j] = by_c * f


@inline
def _gru_rows(m, begin, end, start, size, gates, kept, before, at, g_hidden, g_out, g_gates, g_sums):
    for n in range(begin, end):
        row = start + n
        for j in independent(size):
            r = gates[row, j]
            z = gates[row, size + j]
            c = gates[row, 2 * size + j]
            by_h = g_hidden[n, j] + g_out[row, j]
            by_c = by_h * (1.0 - z) * (1.0 - c * c)
            by_z = by_h * (before[at + n, j] - c) * (z * (1.0 - z))
            by_r = by_c * kept[row, j] * (r * (1.0 - r))
            g_gates[row, j] = by_r
            g_gates[row, size + j] = by_z
            g_gates[row, 2 * size + j] = by_c
            g_sums[row, j] = by_r
            g_sums[row, size + j] = by_z
            g_sums[row, 2 * size + j] = by_c * r
            g_hidden[n, j] = by_h * z


@inline
def _earlier(m, counts, offsets, t, before, steps, low, stop):
    """Of the step before in time: up to which row it exists, and where its rows are. There may be none."""
    inside = (before >= 0) & (before < steps)
    at = m.where(inside, before, t)
    known = m.where(inside, m.maximum(m.minimum(counts[at], stop), low), low)
    return known, offsets[at]


def _lstm_backward(
    m, counts, offsets, gates, kept, before, start, g_out, g_hidden, g_cell, g_gates, g_sums, g_raw, g_projected,
    packed, packed_out, scratch, product, project, steps, first, stride, low, high, size, width, features, projected, relu,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            here = offsets[t]
            known, at = _earlier(m, counts, offsets, t, t + stride, steps, low, stop)
            if projected:
                for n in range(low, stop):
                    for j in independent(width):
                        total = g_hidden[n, j] + g_out[here + n, j]
                        g_projected[here + n, j] = total
                _multiply(m, project, g_raw, 0, g_projected, here + low, stop - low, width, size, packed_out, scratch)
            _lstm_rows(
                m, low, known, here, low, size, gates, kept, before, at, g_hidden, g_out, g_cell, g_gates, g_raw,
                projected,
            )  # fmt: skip
            _lstm_rows(
                m, known, stop, here, low, size, gates, kept, start, 0, g_hidden, g_out, g_cell, g_gates, g_raw,
                projected,
            )  # fmt: skip
            _multiply(m, product, g_hidden, low, g_gates, here + low, stop - low, size * 4, width, packed, scratch)


def _gru_backward(
    m, counts, offsets, gates, kept, before, start, g_out, g_hidden, g_cell, g_gates, g_sums, g_raw, g_projected,
    packed, packed_out, scratch, product, project, steps, first, stride, low, high, size, width, features, projected, relu,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            here = offsets[t]
            known, at = _earlier(m, counts, offsets, t, t + stride, steps, low, stop)
            _gru_rows(m, low, known, here, size, gates, kept, before, at, g_hidden, g_out, g_gates, g_sums)
            _gru_rows(m, known, stop, here, size, gates, kept, start, 0, g_hidden, g_out, g_gates, g_sums)
            _multiply(m, product, g_hidden, low, g_sums, here + low, stop - low, size * 3, width, packed, scratch, True)


def _rnn_backward(
    m, counts, offsets, gates, kept, before, start, g_out, g_hidden, g_cell, g_gates, g_sums, g_raw, g_projected,
    packed, packed_out, scratch, product, project, steps, first, stride, low, high, size, width, features, projected, relu,
):  # fmt: skip
    for s in range(steps):
        t = first + s * stride
        stop = m.minimum(counts[t], high)
        if stop > low:
            here = offsets[t]
            for n in range(low, stop):
                row = here + n
                for j in independent(size):
                    h = gates[row, j]
                    g = g_hidden[n, j] + g_out[row, j]
                    g_gates[row, j] = m.where(h <= 0.0, 0.0, g) if relu else g * (1.0 - h * h)
            _multiply(m, product, g_hidden, low, g_gates, here + low, stop - low, size, width, packed, scratch)


# -- single steps, over rows -----------------------------------------------------------------------------------------


@kernel("(g),(g),(n)->(n),(n),(g)")
def lstm_gates(m, x, u, c, h, c_next, gates):
    """The next h and c, and the gates, from the inputs' and the state's part of the gates."""
    size = c.n
    for j in independent(size):
        i = _sigmoid(m, x[j] + u[j])
        f = _sigmoid(m, x[size + j] + u[size + j])
        g = _tanh(m, x[2 * size + j] + u[2 * size + j])
        o = _sigmoid(m, x[3 * size + j] + u[3 * size + j])
        following = m.fma(f, c[j], i * g)
        c_next[j] = following
        h[j] = o * _tanh(m, following)
        gates[j] = i
        gates[size + j] = f
        gates[2 * size + j] = g
        gates[3 * size + j] = o


@kernel("(n),(n),(n),(n),(g)->(g),(n)")
def lstm_gates_backward(m, g_h, g_c, c, c_next, gates, g_gates, g_before):
    size = c.n
    for j in independent(size):
        i = gates[j]
        f = gates[size + j]
        g = gates[2 * size + j]
        o = gates[3 * size + j]
        t = _tanh(m, c_next[j])
        by_c = m.fma(g_h[j] * o, 1.0 - t * t, g_c[j])
        g_gates[j] = by_c * g * (i * (1.0 - i))
        g_gates[size + j] = by_c * c[j] * (f * (1.0 - f))
        g_gates[2 * size + j] = by_c * i * (1.0 - g * g)
        g_gates[3 * size + j] = g_h[j] * t * (o * (1.0 - o))
        g_before[j] = by_c * f


@kernel("(g),(g),(n)->(n),(g)")
def gru_gates(m, x, u, h, out, gates):
    """The next h, and the gates."""
    size = h.n
    for j in independent(size):
        r = _sigmoid(m, x[j] + u[j])
        z = _sigmoid(m, x[size + j] + u[size + j])
        c = _tanh(m, m.fma(r, u[2 * size + j], x[2 * size + j]))
        out[j] = m.fma(z, h[j] - c, c)
        gates[j] = r
        gates[size + j] = z
        gates[2 * size + j] = c


@kernel("(n),(g),(n),(g)->(g),(g),(n)")
def gru_gates_backward(m, g, u, h, gates, g_x, g_u, g_h):
    size = h.n
    for j in independent(size):
        r = gates[j]
        z = gates[size + j]
        c = gates[2 * size + j]
        by_c = g[j] * (1.0 - z) * (1.0 - c * c)
        by_z = g[j] * (h[j] - c) * (z * (1.0 - z))
        by_r = by_c * u[2 * size + j] * (r * (1.0 - r))
        g_x[j] = by_r
        g_x[size + j] = by_z
        g_x[2 * size + j] = by_c
        g_u[j] = by_r
        g_u[size + j] = by_z
        g_u[2 * size + j] = by_c * r
        g_h[j] = g[j] * z


_BODIES = {
    "lstm": (_lstm_forward, _lstm_backward), "gru": (_gru_forward, _gru_backward),
    "rnn_tanh": (_rnn_forward, _rnn_backward), "rnn_relu": (_rnn_forward, _rnn_backward),
}  # fmt: skip


def _compiled(body: Any, operands: tuple[str, ...], type: str, options: dict[str, bool]) -> int:
    def render() -> str:
        r = Llvm("kernel", _PARAMETERS)
        names: dict[str, Any] = {"m": KernelScope(r), **options}
        for i, name in enumerate(operands):
            kind = "i64" if name in ("counts", "offsets") else type
            element = r.constant("i64", SIZE[kind])
            strides = [element] if name in _FLAT else [_word(r, "%steps", i), element]
            names[name] = Array(r, _pointer(r, "%args", i), kind, [], strides)
        for i, name in enumerate(_NUMBERS):
            names[name] = _word(r, "%dims", i)
        Walker(r, body, names).run()
        r.clear_float_status()
        return r.text()

    return jit.compile_rendered("kernel", (body.__qualname__, operands, type, options), render)


@functools.cache
def forward(mode: str, type: str, keep: bool, projected: bool, inside: bool) -> int:
    """The loop over time. Operands are those of _FORWARD: `gates` holds the inputs' part of the gates, unless that is
    computed `inside` of the loop, and the gates themselves afterwards if they are to be kept; `hidden` and `cell` are
    the state and change from step to step."""
    options = {"keep": keep, "projected": projected, "relu": mode == "rnn_relu", "inside": inside}
    return _compiled(_BODIES[mode][0], _FORWARD, type, options)


@functools.cache
def backward(mode: str, type: str, projected: bool) -> int:
    """The loop back through time. Operands are those of _BACKWARD: `g_hidden` and `g_cell` come as gradients of the
    last state and leave as those of the first; `before` and `start` are states (of cells for LSTM) to step from."""
    return _compiled(_BODIES[mode][1], _BACKWARD, type, {"projected": projected, "relu": mode == "rnn_relu"})


__all__ = [
    "GATES", "backward", "forward", "gru_gates", "gru_gates_backward", "lstm_gates", "lstm_gates_backward", "no_product",
    "packing", "product",
]  # fmt: skip
