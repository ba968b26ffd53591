"""Recurrent cells: one step of an LSTM, GRU, tanh or relu network, its gates fused.

The gates are results of their own: so the second derivative, which asks for gradients by them, is found by the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.dtypes import BY_NUMPY, COMPLEX, float32
from ..._core.state import CUDA
from ..._kernel.sequences import recurrent as kernels
from ..._tensor import Tensor
from ..records.batching import folded
from ..records.primitive import primitive
from ..records.shape_rules import like, same
from ..registry import ops, public
from .recurrent import BY_FORMULA, HALF, cast, check_weights, same_dtype
from .recurrent_arrays import Weights
from .recurrent_formulas import gru_step, lstm_step


def _run(backend: Any, kernel: Any, arrays: list[Any], like: list[Any]) -> Any:
    """The results of a kernel, of the shapes of some arrays."""
    d = arrays[0].dtype
    outs = [backend.empty(a.shape, d) for a in like]
    backend.kernel(kernel, (BY_NUMPY[d].code,) * (len(arrays) + len(outs)))(*arrays, *outs)
    return outs


# -- LSTM ----------------------------------------------------------------------------------------------------------


def _lstm_grad(given: Any, others: Any, c: Any) -> Any:
    c_next, gates = others
    g_h, g_c = (ops.zeros_like(c_next) if g is None else g for g in given[:2])
    by_gates, by_c = lstm_gates_back(g_h, g_c, c, c_next, gates)
    if given[2] is not None:
        i, f, g, o = ops.chunk(gates, 4, 1)
        slopes = ops.cat([i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)], 1)
        by_gates = by_gates + given[2] * slopes
    return by_gates, by_gates, by_c


@primitive(
    batch=folded(),
    meta=lambda x, u, c: [same(c), same(c), same(x)],
    tensors=3,
    name="lstm_gates",
    grad=_lstm_grad,
    backward_name="MulBackward0",
)
def lstm_gates(backend: Any, x: Any, u: Any, c: Any) -> Any:
    """(next h, next c, gates) from the inputs' and the state's part of the gates."""
    return _run(backend, kernels.lstm_gates, [x, u, c], [c, c, x])


def _lstm_back_formula(g_h: Tensor, g_c: Tensor, c: Tensor, c_next: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
    """What the kernel of `lstm_gates_back` computes."""
    i, f, g, o = ops.chunk(gates, 4, 1)
    t = ops.tanh(c_next)
    by_c = g_c + g_h * o * (1 - t * t)
    by_gates = [by_c * g * (i * (1 - i)), by_c * c * (f * (1 - f)), by_c * i * (1 - g * g), g_h * t * (o * (1 - o))]
    return ops.cat(by_gates, 1), by_c * f


@primitive(batch=folded(), meta=like(4, 2), tensors=5, name="lstm_gates_backward", formula=_lstm_back_formula)
def lstm_gates_back(backend: Any, g_h: Any, g_c: Any, c: Any, c_next: Any, gates: Any) -> Any:
    """The gradients by the gates before their functions, and by c."""
    return _run(backend, kernels.lstm_gates_backward, [g_h, g_c, c, c_next, gates], [gates, c])


# -- GRU -----------------------------------------------------------------------------------------------------------


def _gru_grad(given: Any, others: Any, u: Any, h: Any) -> Any:
    g = ops.zeros_like(h) if given[0] is None else given[0]
    by_x, by_u, by_h = gru_gates_back(g, u, h, others[0])
    if given[1] is not None:
        (r, z, n), (by_r, by_z, by_n) = ops.chunk(others[0], 3, 1), ops.chunk(given[1], 3, 1)
        by_n = by_n * (1 - n * n)
        by_r = (by_r + by_n * ops.chunk(u, 3, 1)[2]) * (r * (1 - r))
        by_z = by_z * (z * (1 - z))
        by_x = by_x + ops.cat([by_r, by_z, by_n], 1)
        by_u = by_u + ops.cat([by_r, by_z, by_n * r], 1)
    return by_x, by_u, by_h


def _gru_shapes(x: Any, u: Any, h: Any) -> list[Any]:
    return [same(h), same(x)]


@primitive(batch=folded(), meta=_gru_shapes, tensors=3, name="gru_gates", grad=_gru_grad, backward_name="AddBackward0")
def gru_gates(backend: Any, x: Any, u: Any, h: Any) -> Any:
    """(next h, gates)."""
    return _run(backend, kernels.gru_gates, [x, u, h], [h, x])


def _gru_back_formula(g: Tensor, u: Tensor, h: Tensor, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the kernel of `gru_gates_back` computes."""
    r, z, n = ops.chunk(gates, 3, 1)
    by_n = g * (1 - z) * (1 - n * n)
    by_z = g * (h - n) * (z * (1 - z))
    by_r = by_n * ops.chunk(u, 3, 1)[2] * (r * (1 - r))
    return ops.cat([by_r, by_z, by_n], 1), ops.cat([by_r, by_z, by_n * r], 1), g * z


@primitive(batch=folded(), meta=like(1, 1, 2), tensors=4, name="gru_gates_backward", formula=_gru_back_formula)
def gru_gates_back(backend: Any, g_out: Any, u: Any, h: Any, gates: Any) -> Any:
    """The gradients by both parts of the gates, and what reaches h beside them."""
    return _run(backend, kernels.gru_gates_backward, [g_out, u, h, gates], [u, u, h])


# -- public functions ----------------------------------------------------------------------------------------------


def _check(name: str, gates: int, x: Tensor, states: Sequence[Tensor], w: Weights) -> None:
    for t in (x, *states, w.input, w.hidden):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): arguments must be Tensor, not {type(t).__name__}")
    shape, features, size = x._array.shape, w.input._array.shape[-1], w.hidden._array.shape[-1]
    if len(shape) < 2:
        raise IndexError(f"{name}: Dimension out of range: input must have two dimensions")
    if shape[1] != features:
        raise RuntimeError(f"input has inconsistent input_size: got {shape[1]} expected {features}")
    for i, state in enumerate(states):
        held = state._array.shape
        if held[:1] != shape[:1]:
            raise RuntimeError(
                f"Input batch size {shape[0]} doesn't match hidden{i} batch size {held[0] if held else 0}"
            )
        if len(held) < 2:
            raise IndexError(f"{name}: Dimension out of range: hidden states must have two dimensions")
        if held[1] != size:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {held[1]}, expected {size}")
        if len(held) > 2 or len(shape) > 2:
            raise RuntimeError(f"{name}: input and hidden states must have two dimensions")
    if w.input._array.shape[0] != gates * size:
        raise RuntimeError(
            f"weight_ih first dim must be {gates} * hidden_size = {gates * size}, but got {w.input._array.shape[0]}"
        )
    check_weights(name, w, features, gates, size, size)
    same_dtype(x, (*states, *w))


def _parts(
    name: str, gates: int, x: Tensor, states: Sequence[Tensor], wi: Tensor, wh: Tensor, bi: Any, bh: Any
) -> tuple[Any, ...]:
    """(inputs' part of the gates, state's part, states, whether gates are fused, dtype to round to or None)."""
    _check(name, gates, x, states, Weights(wi, wh, bi, bh, None))
    half = None
    if x.dtype in HALF and not x._k & CUDA:
        half = x.dtype
        x, wi, wh, bi, bh = (cast(t, float32) for t in (x, wi, wh, bi, bh))
        states = [cast(s, float32) for s in states]
    made, u = (cast(t, x.dtype) for t in (ops.linear(x, wi, bi), ops.linear(states[0], wh, bh)))  # autocast may be on
    fused = not (made._k | u._k | states[-1]._k) & BY_FORMULA and x.dtype.category != COMPLEX
    return made, u, states, fused, half


@public(method=False, planned=True)
def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the next hidden and cell state."""
    if not isinstance(hx, (list, tuple)):
        raise TypeError(f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {type(hx).__name__}")
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    x, u, (_, c), fused, half = _parts("lstm_cell", 4, input, hx, w_ih, w_hh, b_ih, b_hh)
    h, c = lstm_gates.call(x, u, c)[:2] if fused else lstm_step(x, u, c)
    return (h, c) if half is None else (cast(h, half), cast(c, half))


@public(method=False, planned=True)
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU: the next hidden state."""
    x, u, (h,), fused, half = _parts("gru_cell", 3, input, (hx,), w_ih, w_hh, b_ih, b_hh)
    out = gru_gates.call(x, u, h)[0] if fused else gru_step(x, u, h)
    return out if half is None else cast(out, half)


@public(method=False, planned=True)
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a tanh network: tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
    x, u, _, _, half = _parts("rnn_tanh_cell", 1, input, (hx,), w_ih, w_hh, b_ih, b_hh)
    out = ops.tanh(x + u)
    return out if half is None else cast(out, half)


@public(method=False, planned=True)
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a relu network: relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
    x, u, _, _, half = _parts("rnn_relu_cell", 1, input, (hx,), w_ih, w_hh, b_ih, b_hh)
    out = ops.relu(x + u)
    return out if half is None else cast(out, half)


SCHEMAS = """
lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)  # autocast=lower
gru_cell|rnn_tanh_cell|rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor  # autocast=lower
"""
