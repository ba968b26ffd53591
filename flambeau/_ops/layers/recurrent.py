"""Recurrent networks: tanh, relu, GRU and LSTM layers over padded or packed sequences."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, bfloat16, float16, float32, int64
from ..._core.state import BATCHED, CAPTURE, CUDA, DUAL, GRAD, OVERRIDE, SPARSE, local, modes
from ..._kernel.sequences.recurrent import GATES
from ..._tensor import Tensor
from ..records.primitive import primitive
from ..records.replay import gradients
from ..records.rules import type_name
from ..records.shape_rules import same
from ..registry import ops, public, relabel
from . import recurrent_arrays as arrays
from . import recurrent_launches as launches
from .recurrent_formulas import layer_formula

HALF = (float16, bfloat16)
BY_FORMULA = BATCHED | OVERRIDE | SPARSE  # not what the native loops know

# -- one layer -----------------------------------------------------------------------------------------------------


def _weights(given: Sequence[Any]) -> list[arrays.Weights]:
    found = [arrays.Weights(*given[:5])]
    return found if given[5] is None else [*found, arrays.Weights(*given[5:10])]


# The operands of a layer in the order in which its functions take them, and for each direction the places of its
# parameters (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr) among them.
_X, _H, _C = range(3)
_FORWARD, _BACKWARD = range(3, 8), range(8, 13)


@functools.cache
def _order(lstm: bool, projected: bool, biases: bool, both: bool, x: str) -> tuple[int, ...]:
    """In which order gradients reach the operands, so that hooks run in PyTorch's; `x` is "leaf", "inner" or ""."""
    made: list[int] = []
    for wi, wh, bi, bh, wr in (_BACKWARD, _FORWARD) if both else (_FORWARD,):
        last = wi == _FORWARD[0]
        if not lstm or projected:
            made += [wr, bh, wh, bi, wi] if biases or not last else [wr, wh, _X, wi]
        elif last and x == "leaf":
            made += [_X, wh, bh, wi, bi] if biases else [_X, wi, wh]
        else:
            made += [wi, bi, wh, bh] if last and not x else [wi, wh, bh, bi]
    return (*made, *[i for i in range(13) if i not in made])


def _sorted_back(order: Sequence[int], given: Sequence[Any]) -> list[Any]:
    """What was given in an order, in the order of the functions' arguments."""
    made = [None] * 13
    for place, a in zip(order, given):
        made[place] = a
    return made


def _layer_meta(*given: Any) -> Any:
    mode, steps, keep, order = given[13:]
    x, h, c, _, wh, _, _, wr, *_ = _sorted_back(order, given)
    directions, size, d = h.shape[0], wh.shape[0] // GATES[mode], BY_NUMPY[x.dtype]
    made = [((*x.shape[:-1], directions * h.shape[2]), d), (h.shape, d), None if c is None else (c.shape, d)]
    if keep:
        room = (steps.rows, size), d
        kept = [((steps.rows, GATES[mode] * size), d), None if GATES[mode] == 1 else room, None if wr is None else room]
        made += kept * directions
    return made


def _layer_grad(
    given: Any, outs: Any, t0: Any, t1: Any, t2: Any, t3: Any, t4: Any, t5: Any, t6: Any, t7: Any, t8: Any, t9: Any,
    t10: Any, t11: Any, t12: Any, mode: str, steps: Any, order: Any, needs: Any,
) -> Any:  # fmt: skip
    operands = _sorted_back(order, (t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12))
    kept = [*outs[3:], *[None] * (9 - len(outs))]
    found = layer_back(*given[:3], *operands, outs[0], *kept, mode, steps, tuple(_sorted_back(order, needs)))
    return [found[i] for i in order]


def _layer_name(node: Any) -> str:
    """PyTorch has one operation for the steps of an LSTM, and joins the steps of others."""
    if node.saved is None:
        return "StackBackward0"
    *_, mode, _, _, order = node.saved[:17]
    if node.info[order.index(8)] is not None:  # two directions
        return "CatBackward0"
    return "MkldnnRnnLayerBackward0" if mode == "lstm" else "StackBackward0"


@primitive(tensors=13, name="recurrent_layer", grad=_layer_grad, meta=_layer_meta, backward_name=_layer_name)
def layer_op(
    backend: Any, t0: Any, t1: Any, t2: Any, t3: Any, t4: Any, t5: Any, t6: Any, t7: Any, t8: Any, t9: Any, t10: Any,
    t11: Any, t12: Any, mode: str, steps: arrays.Steps, keep: bool, order: tuple[int, ...],
) -> Any:  # fmt: skip
    """One or two directions of a layer: (out, last h, last c), and what backward needs; its operands lie in `order`."""
    x, h, c, *weights = _sorted_back(order, (t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12))
    own = _weights(weights)
    if backend.launches is not None:
        return launches.forward(backend, mode, x, h, c, own, steps, keep)
    return arrays.forward(mode, x, h, c, own, steps, keep)


def _layer_second(
    given: Any, g_out: Any, g_h: Any, g_c: Any, x: Any, h: Any, c: Any, wi: Any, wh: Any, bi: Any, bh: Any, wr: Any,
    wi2: Any, wh2: Any, bi2: Any, bh2: Any, wr2: Any, mode: str, steps: Any, used: Any, needs: Any,
) -> Any:  # fmt: skip
    def formula(x: Any, h: Any, c: Any, *weights: Any) -> Any:
        return layer_formula(mode, x, h, c, _weights(weights), steps)

    def first(g_out: Any, g_h: Any, g_c: Any, *tensors: Any) -> Any:
        return gradients(formula, tensors, (g_out, g_h, g_c), used)

    tensors = [g_out, g_h, g_c, x, h, c, wi, wh, bi, bh, wr, wi2, wh2, bi2, bh2, wr2]
    return [*gradients(first, tensors, given, needs[:16]), *[None] * 7]


def _layer_back_shapes(*given: Any) -> list[Any]:
    return [None if a is None or not used else same(a) for a, used in zip(given[3:16], given[-1])]


@primitive(meta=_layer_back_shapes, tensors=23, name="recurrent_layer_backward", grad=_layer_second)
def layer_back(
    backend: Any, g_out: Any, g_h: Any, g_c: Any, x: Any, h: Any, c: Any, wi: Any, wh: Any, bi: Any, bh: Any, wr: Any,
    wi2: Any, wh2: Any, bi2: Any, bh2: Any, wr2: Any, out: Any, k1: Any, k2: Any, k3: Any, k4: Any, k5: Any, k6: Any,
    mode: str, steps: arrays.Steps, used: Any,
) -> Any:  # fmt: skip
    """The gradients by the layer's inputs, None where they are not `used`."""
    weights = _weights((wi, wh, bi, bh, wr, wi2, wh2, bi2, bh2, wr2))
    kept = [k1, k2, k3, k4, k5, k6]
    if backend.launches is not None:
        found = launches.backward(backend, mode, g_out, g_h, g_c, x, h, c, weights, out, kept, steps, used)
    else:
        found = arrays.backward(mode, g_out, g_h, g_c, x, h, c, weights, out, kept, steps, used)
    return (*found, *[None] * (13 - len(found)))


_NONE = (None,) * 5


def _layer(mode: str, x: Tensor, h: Tensor, c: Any, weights: list[Any], steps: arrays.Steps) -> tuple[Any, Any, Any]:
    """(out, last h, last c) of a layer whose operands fit each other."""
    k = x._k | h._k | (0 if c is None else c._k)
    for w in weights:
        for t in w:
            if t is not None:
                k |= t._k
    if k & BY_FORMULA or x.dtype.category == COMPLEX or not (x._array.size and h._array.size):
        return layer_formula(mode, x, h, c, weights, steps)
    second = weights[1] if len(weights) == 2 else _NONE
    keep = bool((k & GRAD and local.grad) or k & DUAL)  # a tangent comes from backward, too
    state = "" if not x._k & GRAD else "leaf" if x._edge is None else "inner"
    first = weights[0]
    order = _order(mode == "lstm", first[4] is not None, first[2] is not None, len(weights) == 2, state)
    operands = (x, h, c, *first, *second)
    return layer_op.call(*[operands[i] for i in order], mode, steps, keep, order)[:3]


# -- checks --------------------------------------------------------------------------------------------------------


def same_dtype(x: Tensor, others: Sequence[Any]) -> None:
    for t in others:
        if t is not None and t.dtype is not x.dtype:
            names = [type_name(d) for d in (x.dtype, t.dtype)]
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names[0]} and {names[1]}")


def _check_states(name: str, states: Sequence[Tensor], count: int, batch: int) -> None:
    for state in states:
        shape = state._array.shape
        if len(shape) != 3:
            raise RuntimeError(f"{name}: hx must have 3 dimensions, but has shape {list(shape)}")
        if shape[0] != count:
            raise RuntimeError(f"{name}: Expected {count} hidden states (layers * directions), but got {shape[0]}")
        if shape[1] != batch:
            raise RuntimeError(
                f"{name}: The size of tensor a ({shape[1]}), the hidden batch, must match the size of tensor b ({batch}), the input's"
            )


def check_weights(name: str, w: arrays.Weights, features: int, gates: int, width: int, size: int) -> None:
    """Native code relies on these shapes."""
    expected = ((gates * size, features), (gates * size, width), (gates * size,), (gates * size,), (width, size))
    for t, shape, label in zip(w, expected, ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")):
        if t is not None and tuple(t._array.shape) != shape:
            raise RuntimeError(
                f"{name}: mat1 and mat2 shapes cannot be multiplied: {label} has shape {list(t._array.shape)}, "
                f"where inputs and states want {list(shape)}"
            )


def _grouped(
    name: str, params: Sequence[Any], biases: bool, projected: bool, layers: int, directions: int
) -> list[list[arrays.Weights]]:
    """The parameters by layer and direction."""
    each = 2 + 2 * biases + projected
    if len(params) != each * layers * directions:
        raise RuntimeError(
            f"{name}: got an incorrect number of RNN parameters, {len(params)} instead of {each * layers * directions}"
        )
    made = []
    for i in range(0, len(params), each):
        part = list(params[i : i + each])
        last = part.pop() if projected else None
        bias = part[2:] if biases else (None, None)
        made.append(arrays.Weights(part[0], part[1], bias[0], bias[1], last))
    return [made[i : i + directions] for i in range(0, len(made), directions)]


# -- networks ------------------------------------------------------------------------------------------------------


def _network(
    mode: str, x: Tensor, states: Sequence[Tensor], params: Sequence[Any], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, steps: arrays.Steps,
) -> tuple[Any, ...]:  # fmt: skip
    """(out, last h[, last c]) of all layers; x is (steps, batch, features) or packed rows."""
    directions = 2 if bidirectional else 1
    projected = len(states) == 2 and states[0]._array.shape[-1] != states[1]._array.shape[-1]
    _check_states(mode, states, num_layers * directions, steps.batch)
    grouped = _grouped(mode, params, has_biases, projected, num_layers, directions)
    same_dtype(x, (*states, *params))
    if x.dtype.category < FLOATING:
        raise RuntimeError(f"\"{mode}\" not implemented for '{type_name(x.dtype)}'")
    half = x.dtype if x.dtype in HALF and not x._k & CUDA else None
    if half is not None:  # computed in float32, rounded once
        x, states = cast(x, float32), [cast(s, float32) for s in states]
        grouped = [[arrays.Weights(*[cast(t, float32) for t in w]) for w in layer] for layer in grouped]
    hs, cs = _by_layer(states[0], num_layers, directions), _by_layer(states[-1], num_layers, directions)
    width, size = states[0]._array.shape[2], states[-1]._array.shape[2]
    last_h, last_c = [], []
    for i, weights in enumerate(grouped):
        for w in weights:
            check_weights(mode, w, x._array.shape[-1], GATES[mode], width, size)
        x, h, c = _layer(mode, x, hs[i], cs[i] if mode == "lstm" else None, weights, steps)
        last_h.append(h)
        last_c.append(c)
        if dropout and train and i < num_layers - 1:
            x = ops.dropout(x, dropout, True)
    made = [x, _joined(last_h), *([_joined(last_c)] if mode == "lstm" else [])]
    return tuple(made if half is None else [cast(t, half) for t in made])


def cast(t: Any, d: Any) -> Any:
    return t if t is None or t.dtype is d else ops.to_dtype(t, d)


def _by_layer(state: Tensor, layers: int, directions: int) -> Any:
    return [state] if layers == 1 else ops.split(state, directions, 0)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else relabel(ops.cat(parts, 0), "StackBackward0")


@functools.lru_cache(maxsize=64)
def _even(length: int, batch: int) -> arrays.Steps:
    return arrays.Steps(np.full(length, batch, np.int64), True)


def _padded_call(
    mode: str, input: Tensor, states: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    shape = input._array.shape
    if len(shape) != 3:
        raise RuntimeError(f"{mode}: input must have 3 dimensions, got {len(shape)}")
    if batch_first:
        input, shape = ops.transpose(input, 0, 1), (shape[1], shape[0], shape[2])
    if not shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    steps = _even(shape[0], shape[1])
    out, *last = _network(mode, input, states, params, has_biases, num_layers, dropout, train, bidirectional, steps)
    if batch_first:
        out = ops.transpose(out, 0, 1)
        if mode != "lstm":
            relabel(out, "TransposeBackward1")
    return (out, *last)


def elements(t: Tensor) -> Any:
    """The elements of a tensor that say how many rows there are: a run that is recorded expects them of later ones, too."""
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].decides(t)
    return t._array


def packed_steps(batch_sizes: Tensor, rows: int) -> arrays.Steps:
    """The steps that batch sizes describe; they must fit the rows of the data."""
    if batch_sizes.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(batch_sizes.dtype)}")
    sizes = elements(batch_sizes)
    if sizes.ndim != 1 or not sizes.size:
        raise RuntimeError(f"batch_sizes must have one dimension and not be empty, got shape {list(sizes.shape)}")
    if int(sizes[-1]) < 0 or bool((sizes[1:] > sizes[:-1]).any()):
        raise RuntimeError("batch_sizes must not be negative and never grow from one step to the next")
    if int(sizes[0]) > rows or int(sizes.sum()) > rows:
        raise RuntimeError(f"batch_sizes want {int(sizes.sum())} rows: start + length exceeds dimension size ({rows}).")
    return arrays.Steps(sizes.copy(), False)


def _packed_call(
    mode: str, data: Tensor, batch_sizes: Tensor, states: Any, params: Any, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Any, ...]:  # fmt: skip
    if data._array.ndim != 2:
        raise RuntimeError(f"{mode}: packed data must have 2 dimensions, got {data._array.ndim}")
    if batch_sizes._k & CUDA:
        raise RuntimeError("batch_sizes must be a CPU tensor")
    rows = data._array.shape[0]
    steps = packed_steps(batch_sizes, rows)
    if steps.rows < rows:
        data = ops.narrow(data, 0, 0, steps.rows)
    return _network(mode, data, states, params, has_biases, num_layers, dropout, train, bidirectional, steps)


_PADDED = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first",
)  # fmt: skip
_PACKED = ("data", "batch_sizes", *_PADDED[1:-1])


def _call(mode: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Both forms of a network's function, told apart by their arguments."""
    packed = "batch_sizes" in named or (len(args) > 3 and isinstance(args[3], (list, tuple)))
    if named:
        names = _PACKED if packed else _PADDED
        if len(args) + len(named) == 9 and all(n in named for n in names[len(args) :]):
            args = (*args, *[named[n] for n in names[len(args) :]])
    if len(args) != 9:
        raise TypeError(
            f"{mode}() received an invalid combination of arguments: it takes ({', '.join(_PADDED)}) or ({', '.join(_PACKED)})"
        )
    hx, params = args[2:4] if packed else args[1:3]
    if mode == "lstm":
        fits = isinstance(hx, (list, tuple))
        states = hx
    else:
        fits = isinstance(hx, Tensor)
        states = (hx,)
    tensors = [args[0], *([args[1]] if packed else []), *(states if fits else ()), *params]
    if not fits or not all(isinstance(t, Tensor) for t in tensors):
        kinds = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"{mode}() received an invalid combination of arguments - got ({kinds})")
    if mode == "lstm" and len(states) != 2:
        raise RuntimeError("lstm expects two hidden states")
    if packed:
        return _packed_call(mode, args[0], args[1], states, *args[3:])
    return _padded_call(mode, args[0], states, *args[2:])


@public(method=False)
def rnn_tanh(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """A network of tanh layers over (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first) or, packed, (data, batch_sizes, hx, params, …, bidirectional): its outputs and last states."""
    return _call("rnn_tanh", args, named)


@public(method=False)
def rnn_relu(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """A network of relu layers; arguments as for `rnn_tanh`."""
    return _call("rnn_relu", args, named)


@public(method=False)
def gru(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """A network of GRU layers; arguments as for `rnn_tanh`."""
    return _call("gru", args, named)


@public(method=False)
def lstm(*args: Any, **named: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A network of LSTM layers; arguments as for `rnn_tanh`, with two states in `hx`.

    >>> import flambeau as torch
    >>> m = torch.nn.LSTM(3, 4)
    >>> h = torch.zeros(1, 2, 4)
    >>> out, h, c = torch.lstm(torch.ones(5, 2, 3), (h, h), m._flat_weights, True, 1, 0.0, False, False, False)
    >>> out.shape
    torch.Size([5, 2, 4])
    """
    return _call("lstm", args, named)


SCHEMAS = """
rnn_tanh|rnn_relu|gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)  # autocast=lower
rnn_tanh|rnn_relu|gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)  # autocast=lower
lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)
"""
