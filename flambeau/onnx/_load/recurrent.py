"""ONNX's recurrent layers."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..errors import OnnxModelError
from .operators import Node, operator

__all__: list[str] = []

_DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_FUNCTIONS: dict[str, Any] = {
    "sigmoid": ops.sigmoid, "tanh": ops.tanh, "relu": ops.relu, "softplus": F.softplus, "softsign": lambda x: x / (1 + ops.abs(x)),
}  # fmt: skip


def _activations(node: Node, directions: int) -> list[list[Any]]:
    """The functions of each direction."""
    usual = _DEFAULTS[node.kind]
    names = [n.lower() for n in node.list("activations", usual * directions)]
    if node.list("activation_alpha") or node.list("activation_beta"):
        raise OnnxModelError("activations with parameters are not supported")
    if len(names) != len(usual) * directions or any(n not in _FUNCTIONS for n in names):
        raise OnnxModelError(f"the activations {names} are not supported")
    functions = [_FUNCTIONS[n] for n in names]
    return [functions[i : i + len(usual)] for i in range(0, len(functions), len(usual))]


@operator("LSTM", lists=(4,))
def lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Any = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> Any:
    def cell(functions: Any, gates: Any, r: Tensor, _: Any, state: Any, p: Any) -> Any:
        h, c = state
        i, o, f, g = (gates + ops.matmul(h, r.t())).chunk(4, -1)
        near, out, far = functions
        if p is not None:
            i, f = i + p[0] * c, f + p[2] * c
        i, g = near(i), out(g)
        f = 1 - i if node.flag("input_forget") else near(f)
        c = f * c + i * g
        return near(o if p is None else o + p[1] * c) * far(c), c

    return _run(node, x, w, r, bias, lengths, [h, c], cell, 4, peepholes)


@operator("GRU", lists=(4,))
def gru(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Any = None,
    h: Tensor | None = None,
) -> Any:
    late = node.flag("linear_before_reset")

    def cell(functions: Any, gates: Any, r: Tensor, rb: Any, state: Any, p: Any) -> Any:
        (h,) = state
        near, out = functions
        n = h.shape[-1]
        rz, rr, rh = r[:n], r[n : 2 * n], r[2 * n :]
        bz, br, bh = (rb[:n], rb[n : 2 * n], rb[2 * n :]) if rb is not None else (0, 0, 0)
        gz, gr, gh = gates.chunk(3, -1)
        update = near(gz + ops.matmul(h, rz.t()) + bz)
        reset = near(gr + ops.matmul(h, rr.t()) + br)
        inner = reset * (ops.matmul(h, rh.t()) + bh) if late else ops.matmul(reset * h, rh.t()) + bh
        return ((1 - update) * out(gh + inner) + update * h,)

    return _run(node, x, w, r, bias, lengths, [h], cell, 3)


@operator("RNN", lists=(4,))
def rnn(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Any = None,
    h: Tensor | None = None,
) -> Any:
    def cell(functions: Any, gates: Any, r: Tensor, _: Any, state: Any, p: Any) -> Any:
        return (functions[0](gates + ops.matmul(state[0], r.t())),)

    return _run(node, x, w, r, bias, lengths, [h], cell, 1)


def _run(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Any,
    lengths: Any,
    states: Any,
    cell: Any,
    gates: int,
    peep: Any = None,
) -> Any:
    """All directions of a layer: outputs as length × directions × batch × features, and the last states."""
    direction, batch_first = node.text("direction", "forward"), node.flag("layout")
    turns = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if turns is None or w.shape[0] != len(turns) or x.ndim != 3 or node.float("clip") is not None:
        raise OnnxModelError(f"direction {direction!r}, clip, or the shapes of weights are not supported")
    x = x.transpose(0, 1) if batch_first else x
    length, batch, size = x.shape[0], x.shape[1], r.shape[-1]
    if lengths is not None and all(n == length for n in lengths):
        lengths = None
    first = [
        ops.zeros((len(turns), batch, size), dtype=x.dtype, device=x.device)
        if s is None
        else s.transpose(0, 1) if batch_first else s
        for s in states
    ]  # fmt: skip
    activations = _activations(node, len(turns))
    outputs, last = [], []
    for d, turn in enumerate(turns):
        state = tuple(s[d] for s in first)
        quick = _native(node, x, w[d], r[d], bias, d, state, turn, activations[d], lengths, peep)
        if quick is not None:
            made, state = quick
        else:
            wb, rb = (None, None) if bias is None else bias[d].chunk(2)
            late = node.kind == "GRU" and node.flag("linear_before_reset")
            together = None if wb is None else wb if late or node.kind == "GRU" else wb + rb
            inputs = ops.linear(x, w[d], together)
            p = None if peep is None else peep[d].chunk(3)
            made, state = _steps(inputs, r[d], rb, cell, activations[d], state, turn, lengths, p)
        outputs.append(made)
        last.append(state)
    out = ops.stack(outputs, 1)
    ends = [ops.stack([s[i] for s in last]) for i in range(len(states))]
    if batch_first:
        out, ends = out.permute(2, 0, 1, 3), [e.transpose(0, 1) for e in ends]
    return (out, *ends)


def _native(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Any,
    d: int,
    state: Any,
    turn: bool,
    functions: Any,
    lengths: Any,
    peep: Any,
) -> Any:
    """The layer by our own kernels, where it is one that PyTorch has: (outputs, last state), or None."""
    usual = [_FUNCTIONS[n] for n in _DEFAULTS[node.kind]]
    plain = functions == usual or (node.kind == "RNN" and functions == [ops.relu])
    if not plain or lengths is not None or peep is not None or node.flag("input_forget") or not x.shape[0]:
        return None
    if node.kind == "GRU" and not node.flag("linear_before_reset"):
        return None
    # ONNX has the gates of LSTM as input, output, forget, cell and those of GRU as update, reset; ours are i, f, c, o and r, z.
    n = r.shape[-1]
    order = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}[node.kind]

    def arranged(t: Tensor) -> Any:
        return t if len(order) == 1 else ops.cat([t[i * n : (i + 1) * n] for i in order])

    weights = [arranged(w), arranged(r)]
    weights += [] if bias is None else [arranged(t) for t in bias[d].chunk(2)]
    value = ops.flip(x, [0]) if turn else x
    given: Any = [s.unsqueeze(0).contiguous() for s in state]
    name = {"LSTM": "lstm", "GRU": "gru"}.get(node.kind) or ("rnn_relu" if functions == [ops.relu] else "rnn_tanh")
    made = getattr(ops, name)(
        value, given if len(given) > 1 else given[0], weights, bias is not None, 1, 0.0, False, False, False
    )
    out = ops.flip(made[0], [0]) if turn else made[0]
    return out, tuple(s.squeeze(0) for s in made[1:])


def _steps(
    inputs: Any, r: Any, rb: Any, cell: Any, functions: Any, state: Any, turn: bool, lengths: Any, p: Any
) -> Any:
    """A layer step by step. Where a sequence has ended, its state stays and its output is zero."""
    length = inputs.shape[0]
    ends = None if lengths is None else ops.tensor([int(n) for n in lengths], device=inputs.device).unsqueeze(1)
    made: list[Any] = [None] * length
    for t in reversed(range(length)) if turn else range(length):
        now = cell(functions, inputs[t], r, rb, state, p)
        if ends is not None:
            inside = ends > t
            made[t] = ops.where(inside, now[0], ops.zeros_like(now[0]))
            now = tuple(ops.where(inside, new, old) for new, old in zip(now, state))
        else:
            made[t] = now[0]
        state = now
    return ops.stack(made), state
