"""How operators of a recording are written in ONNX: pointwise operations, reductions and products. `TABLE` holds the
rows of all files; `_table_layers` and `_table_shapes` add theirs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtypes import BY_NAME
from .._library.schema_texts import facts
from .._ops.registry import functions
from .._tensor import Tensor
from ..jit._operators import DTYPES
from ..jit._tracer import Node, Value
from ._builder import Builder, kind_of, rank, result_kind
from .errors import SymbolicValueError

Row = Callable[..., Any]
TABLE: dict[str, Row] = {}  # operator -> function (builder, node, arguments…) -> name or names of results


def op(*names: str) -> Callable[[Row], Row]:
    """Registers the ONNX form of operators."""

    def decorate(function: Row) -> Row:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return decorate


# -- one operand -------------------------------------------------------------------------------------------------


def row_of(name: str) -> Row | None:
    """How an operator is written: as a row of the table says, or as the one ONNX operator that its declaration names."""
    name = name[:-1] if name.endswith("_") and not name.endswith("__") and name not in TABLE else name
    kind = facts().get(name, {}).get("onnx")
    return TABLE.get(name) or (None if kind is None else _unary(kind))


@functools.cache
def _unary(kind: str) -> Row:
    def row(b: Builder, n: Node, x: Any, *rest: Any, **named: Any) -> str:
        like = result_kind(n)
        takes = None if kind in ("IsNaN", "IsInf") else BY_NAME["bool"] if kind == "Not" else like
        return b.add(kind, b.t(x, takes))

    return row


def number_of(b: Builder, n: Node, value: float) -> str:
    return b.constant(value, result_kind(n).numpy)


@op("dropout", "feature_dropout", "alpha_dropout", "detach", "clone", "contiguous", "alias", "lift_fresh")
def _identity(b: Builder, n: Node, x: Any, *rest: Any, **named: Any) -> str:
    return b.t(x)


@op("square")
def _square(b: Builder, n: Node, x: Any) -> str:
    return b.add("Mul", b.t(x), b.t(x))


@op("rsqrt")
def _rsqrt(b: Builder, n: Node, x: Any) -> str:
    return b.add("Reciprocal", b.add("Sqrt", b.t(x, result_kind(n))))


@op("exp2")
def _exp2(b: Builder, n: Node, x: Any) -> str:
    return b.add("Pow", number_of(b, n, 2.0), b.t(x))


@op("log2", "log10", "log1p", "expm1")
def _logs(b: Builder, n: Node, x: Any) -> str:
    value = b.t(x, result_kind(n))
    if n.op == "expm1":
        return b.add("Sub", b.add("Exp", value), number_of(b, n, 1.0))
    if n.op == "log1p":
        return b.add("Log", b.add("Add", value, number_of(b, n, 1.0)))
    return b.add("Div", b.add("Log", value), number_of(b, n, math.log(2 if n.op == "log2" else 10)))


@op("silu", "silu_")
def _silu(b: Builder, n: Node, x: Any) -> str:
    return b.add("Mul", b.t(x), b.add("Sigmoid", b.t(x)))


@op("trunc", "frac")
def _trunc(b: Builder, n: Node, x: Any) -> str:
    whole = b.add("Mul", b.add("Floor", b.add("Abs", b.t(x))), b.add("Sign", b.t(x)))
    return whole if n.op == "trunc" else b.add("Sub", b.t(x), whole)


@op("erfc")
def _erfc(b: Builder, n: Node, x: Any) -> str:
    return b.add("Sub", number_of(b, n, 1.0), b.add("Erf", b.t(x, result_kind(n))))


@op("logit")
def _logit(b: Builder, n: Node, x: Any, eps: Any = None) -> str:
    value, one = b.t(x, result_kind(n)), number_of(b, n, 1.0)
    if eps is not None:
        value = b.add("Clip", value, number_of(b, n, eps), number_of(b, n, 1 - eps))
    return b.add("Log", b.add("Div", value, b.add("Sub", one, value)))


@op("isfinite")
def _isfinite(b: Builder, n: Node, x: Any) -> str:
    value = b.t(x) if kind_of(x).is_floating_point else b.t(x, DTYPES[6])
    return b.add("Not", b.add("Or", b.add("IsNaN", value), b.add("IsInf", value)))


@op("nan_to_num")
def _nan_to_num(b: Builder, n: Node, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> str:
    value, limits = b.t(x), np.finfo(kind_of(x).numpy)
    made = b.add("Where", b.add("IsNaN", value), number_of(b, n, nan or 0.0), value)
    ends = ("detect_negative", posinf, limits.max), ("detect_positive", neginf, limits.min)
    for other, given, end in ends:
        found = b.add("IsInf", value, **{other: 0})
        made = b.add("Where", found, number_of(b, n, end if given is None else given), made)
    return made


@op("mish", "mish_")
def _mish(b: Builder, n: Node, x: Any) -> str:
    return b.add("Mul", b.t(x), b.add("Tanh", b.add("Softplus", b.t(x))))


@op("hardsigmoid", "hardsigmoid_")
def _hardsigmoid(b: Builder, n: Node, x: Any) -> str:
    return b.add("HardSigmoid", b.t(x), alpha=1 / 6, beta=0.5)


@op("hardswish", "hardswish_")
def _hardswish(b: Builder, n: Node, x: Any) -> str:
    return b.add("Mul", b.t(x), _hardsigmoid(b, n, x))


@op("gelu")
def _gelu(b: Builder, n: Node, x: Any, approximate: str = "none") -> str:
    value = b.t(x)
    half, one = number_of(b, n, 0.5), number_of(b, n, 1.0)
    if approximate == "tanh":
        cube = b.add("Mul", b.add("Mul", value, value), value)
        inner = b.add("Add", value, b.add("Mul", cube, number_of(b, n, 0.044715)))
        bent = b.add("Tanh", b.add("Mul", inner, number_of(b, n, math.sqrt(2 / math.pi))))
    else:
        bent = b.add("Erf", b.add("Mul", value, number_of(b, n, math.sqrt(0.5))))
    return b.add("Mul", b.add("Mul", value, half), b.add("Add", bent, one))


@op("leaky_relu", "leaky_relu_")
def _leaky(b: Builder, n: Node, x: Any, negative_slope: float = 0.01) -> str:
    return b.add("LeakyRelu", b.t(x), alpha=float(negative_slope))


@op("elu", "elu_")
def _elu(b: Builder, n: Node, x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> str:
    made = b.add("Elu", b.t(x), alpha=float(alpha))
    return made if scale == 1 else b.add("Mul", made, number_of(b, n, scale))


@op("celu")
def _celu(b: Builder, n: Node, x: Any, alpha: float = 1.0) -> str:
    return b.add("Celu", b.t(x), alpha=float(alpha))


@op("softplus")
def _softplus(b: Builder, n: Node, x: Any, beta: float = 1, threshold: float = 20) -> str:
    if beta == 1:
        return b.add("Softplus", b.t(x))
    factor = number_of(b, n, float(beta))
    return b.add("Div", b.add("Softplus", b.add("Mul", b.t(x), factor)), factor)


@op("log_sigmoid")
def _log_sigmoid(b: Builder, n: Node, x: Any) -> str:
    return b.add("Neg", b.add("Softplus", b.add("Neg", b.t(x))))


@op("prelu")
def _prelu(b: Builder, n: Node, x: Any, weight: Any) -> str:
    slope = b.t(weight)
    if rank(x) > 2 and weight.example.numel() > 1:
        slope = b.unsqueeze(slope, list(range(1, rank(x) - 1)))
    return b.add("PRelu", b.t(x), slope)


@op("glu")
def _glu(b: Builder, n: Node, x: Any, dim: int = -1) -> str:
    first, second = b.split(b.t(x), [x.example.shape[dim] // 2] * 2, dim, even=True)
    return b.add("Mul", first, b.add("Sigmoid", second))


@op("threshold")
def _threshold(b: Builder, n: Node, x: Any, threshold: float, value: float) -> str:
    test = b.add("Greater", b.t(x), number_of(b, n, threshold))
    return b.add("Where", test, b.t(x), number_of(b, n, value))


@op("hardshrink", "softshrink")
def _shrink(b: Builder, n: Node, x: Any, lambd: float = 0.5) -> str:
    return b.add("Shrink", b.t(x), lambd=float(lambd), bias=float(lambd) if n.op == "softshrink" else 0.0)


@op("clamp", "clamp_", "hardtanh", "hardtanh_", "clip")
def _clamp(b: Builder, n: Node, x: Any, min: Any = None, max: Any = None) -> str:
    if n.op.startswith("hardtanh"):
        min, max = -1.0 if min is None else min, 1.0 if max is None else max
    like = result_kind(n)
    value = b.t(x, like)
    if any(isinstance(v, Value) and isinstance(v.example, Tensor) and rank(v) for v in (min, max)):
        value = value if min is None else b.add("Max", value, b.t(min, like))
        return value if max is None else b.add("Min", value, b.t(max, like))
    ends = ["" if v is None else b.t(v, like) for v in (min, max)]
    return b.add("Clip", value, *(ends if ends[1] else ends[:1]))


@op("clamp_min", "clamp_max")
def _clamp_one(b: Builder, n: Node, x: Any, bound: Any) -> str:
    return _clamp(b, n, x, bound if n.op == "clamp_min" else None, bound if n.op == "clamp_max" else None)


@op("relu6", "relu6_")
def _relu6(b: Builder, n: Node, x: Any) -> str:
    return _clamp(b, n, x, 0.0, 6.0)


@op("to", "_to_copy")
def _to(b: Builder, n: Node, x: Any, *rest: Any, **named: Any) -> str:
    return b.t(x, result_kind(n))


@op("bitwise_not")
def _not(b: Builder, n: Node, x: Any) -> str:
    return b.add("Not" if kind_of(x).name == "bool" else "BitwiseNot", b.t(x))


# -- two operands ------------------------------------------------------------------------------------------------


def pair_of(b: Builder, x: Any, y: Any) -> tuple[str, str, Any]:
    if not any(isinstance(v, Value) and isinstance(v.example, Tensor) for v in (x, y)):
        whole = not any(isinstance(v.example if isinstance(v, Value) else v, float) for v in (x, y))
        kind = DTYPES[4] if whole else DTYPES[6]
        return tuple(b.t(v, kind) if isinstance(v, Value) else b.constant([v], kind.numpy) for v in (x, y)) + (kind,)  # type: ignore[return-value]
    kind = functions["result_type"](*(v.example if isinstance(v, Value) else v for v in (x, y)))
    return b.t(x, kind), b.t(y, kind), kind


def _binary(kind: str) -> Row:
    def row(b: Builder, n: Node, x: Any, y: Any, alpha: Any = 1, **named: Any) -> str:
        left, right, like = pair_of(b, x, y)
        if like.name == "bool" and kind == "Add":
            return b.add("Or", left, right)
        if like.name == "bool" and kind == "Mul":
            return b.add("And", left, right)
        if alpha != 1:
            right = b.add("Mul", right, b.constant(alpha, like.numpy))
        return b.add(kind, left, right)

    return row


for _name, _kind in {"add": "Add", "sub": "Sub", "mul": "Mul", "maximum": "Max", "minimum": "Min"}.items():
    TABLE[_name] = TABLE[_name + "_"] = _binary(_kind)


@op("rsub")
def _rsub(b: Builder, n: Node, x: Any, y: Any, alpha: Any = 1) -> str:
    return TABLE["sub"](b, n, y, x) if alpha == 1 else TABLE["sub"](b, n, y, x, alpha)


@op("div", "div_", "true_divide", "floor_divide", "floordiv")
def _div(b: Builder, n: Node, x: Any, y: Any, rounding_mode: Any = None) -> str:
    left, right, kind = pair_of(b, x, y)
    mode = "floor" if n.op.startswith("floor") else rounding_mode
    if mode is None:
        if isinstance(n.outs[0].example, Tensor):
            like = result_kind(n)
            left, right = b.t(x, like), b.t(y, like)
        elif kind.name == "int64":
            left, right = b.cast(left, DTYPES[6]), b.cast(right, DTYPES[6])
        return b.add("Div", left, right)
    sizes = not isinstance(n.outs[0].example, Tensor)  # never negative
    if not kind.is_floating_point and mode == "floor" and not sizes:
        left = b.add("Sub", left, b.add("Mod", left, right))
    made = b.add("Div", left, right)
    if not kind.is_floating_point:
        return made
    if mode == "floor":
        return b.add("Floor", made)
    return b.add("Mul", b.add("Floor", b.add("Abs", made)), b.add("Sign", made))


@op("remainder", "fmod")
def _mod(b: Builder, n: Node, x: Any, y: Any) -> str:
    left, right, kind = pair_of(b, x, y)
    if not kind.is_floating_point:
        return b.add("Mod", left, right, fmod=int(n.op == "fmod"))
    if n.op == "fmod":
        return b.add("Mod", left, right, fmod=1)
    whole = b.add("Floor", b.add("Div", left, right))
    return b.add("Sub", left, b.add("Mul", whole, right))


@op("pow", "pow_")
def _pow(b: Builder, n: Node, x: Any, y: Any) -> str:
    like = result_kind(n)
    return b.add("Pow", b.t(x, like), b.t(y, like))


@op("logaddexp", "hypot", "xlogy")
def _of_two(b: Builder, n: Node, x: Any, y: Any) -> str:
    like = result_kind(n)
    left, right = b.t(x, like), b.t(y, like)
    if n.op == "hypot":
        return b.add("Sqrt", b.add("Add", b.add("Mul", left, left), b.add("Mul", right, right)))
    if n.op == "xlogy":
        zero = number_of(b, n, 0.0)
        return b.add("Where", b.add("Equal", left, zero), zero, b.add("Mul", left, b.add("Log", right)))
    apart = b.add("Neg", b.add("Abs", b.add("Sub", left, right)))
    return b.add("Add", b.add("Max", left, right), b.add("Softplus", apart))


@op("atan2", "arctan2")
def _atan2(b: Builder, n: Node, y: Any, x: Any) -> str:
    angle = b.add("Atan", b.add("Div", b.t(y), b.t(x)))
    zero = number_of(b, n, 0.0)
    turn = b.add("Where", b.add("Less", b.t(y), zero), number_of(b, n, -math.pi), number_of(b, n, math.pi))
    return b.add("Where", b.add("Less", b.t(x), zero), b.add("Add", angle, turn), angle)


@op("eq", "ne", "lt", "gt", "le", "ge")
def _compare(b: Builder, n: Node, x: Any, y: Any) -> str:
    left, right, kind = pair_of(b, x, y)
    if kind.name == "bool" and n.op not in ("eq", "ne"):
        left, right = b.cast(left, DTYPES[3]), b.cast(right, DTYPES[3])
    if n.op in ("le", "ge") and b.opset < 12:
        return b.add("Not", b.add("Greater" if n.op == "le" else "Less", left, right))
    names = {"eq": "Equal", "ne": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual"}
    made = b.add(names[n.op], left, right)
    return b.add("Not", made) if n.op == "ne" else made


@op(
    "logical_and",
    "logical_or",
    "logical_xor",
    "__and__",
    "__or__",
    "__xor__",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
)
def _logic(b: Builder, n: Node, x: Any, y: Any) -> str:
    word = n.op.strip("_").rpartition("_")[2].capitalize()
    if n.op.startswith("logical") or result_kind(n).name == "bool":
        truth = BY_NAME["bool"]
        return b.add(word, b.t(x, truth), b.t(y, truth))
    left, right, _ = pair_of(b, x, y)
    return b.add("Bitwise" + word, left, right)


@op("where")
def _where(b: Builder, n: Node, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None:
        return TABLE["nonzero_numpy"](b, n, condition)
    like = result_kind(n)
    return b.add("Where", b.t(condition, BY_NAME["bool"]), b.t(x, like), b.t(y, like))


@op("masked_fill", "masked_fill_")
def _masked_fill(b: Builder, n: Node, x: Any, mask: Any, value: Any) -> str:
    like = result_kind(n)
    return b.add("Where", b.t(mask, BY_NAME["bool"]), b.t(value, like), b.t(x))


@op("lerp")
def _lerp(b: Builder, n: Node, x: Any, y: Any, weight: Any) -> str:
    return b.add("Add", b.t(x), b.add("Mul", b.add("Sub", b.t(y), b.t(x)), b.t(weight, result_kind(n))))


@op("addcmul", "addcdiv")
def _addc(b: Builder, n: Node, x: Any, y: Any, z: Any, value: Any = 1) -> str:
    made = b.add("Mul" if n.op == "addcmul" else "Div", b.t(y), b.t(z))
    made = made if value == 1 else b.add("Mul", made, number_of(b, n, value))
    return b.add("Add", b.t(x), made)


# -- products ----------------------------------------------------------------------------------------------------


@op("matmul", "mm", "bmm", "mv", "dot")
def _matmul(b: Builder, n: Node, x: Any, y: Any) -> str:
    return b.add("MatMul", b.t(x), b.t(y))


@op("addmm", "baddbmm", "addmv")
def _addmm(b: Builder, n: Node, x: Any, y: Any, z: Any, beta: Any = 1, alpha: Any = 1) -> str:
    made = b.add("MatMul", b.t(y), b.t(z))
    made = made if alpha == 1 else b.add("Mul", made, number_of(b, n, alpha))
    first = b.t(x) if beta == 1 else b.add("Mul", b.t(x), number_of(b, n, beta))
    return b.add("Add", made, first)


@op("linear")
def _linear(b: Builder, n: Node, x: Any, weight: Any, bias: Any = None) -> str:
    if rank(x) == 2 and bias is not None:
        return b.add("Gemm", b.t(x), b.t(weight), b.t(bias), transB=1)
    made = b.add("MatMul", b.t(x), b.add("Transpose", b.t(weight), perm=[1, 0]))
    return made if bias is None else b.add("Add", made, b.t(bias))


@op("einsum")
def _einsum(b: Builder, n: Node, equation: str, tensors: Any, path: Any = None) -> str:
    return b.add("Einsum", *(b.t(t) for t in tensors), equation=equation)


# -- reductions --------------------------------------------------------------------------------------------------


def axes_of(x: Value, dim: Any) -> list[int] | None:
    """Dimensions as a list, counted from the front; None for all."""
    if dim is None or dim == []:
        return None
    return [d % max(rank(x), 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "logsumexp": "ReduceLogSumExp",
    "prod": "ReduceProd",
}  # fmt: skip


@op(*_REDUCTIONS)
def _reduce(b: Builder, n: Node, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> str:
    return b.reduce(_REDUCTIONS[n.op], b.t(x, result_kind(n)), axes_of(x, dim), keepdim)


@op("max", "min")
def _extreme(b: Builder, n: Node, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    kind = "ReduceMax" if n.op == "max" else "ReduceMin"
    if dim is None:
        return b.reduce(kind, b.t(x), None, False)
    axes = axes_of(x, dim)
    index = b.add("ArgMax" if n.op == "max" else "ArgMin", b.t(x), axis=axes[0], keepdims=int(keepdim))  # type: ignore[index]
    return [b.reduce(kind, b.t(x), axes, keepdim), index]


@op("argmax", "argmin")
def _arg(b: Builder, n: Node, x: Any, dim: Any = None, keepdim: bool = False) -> str:
    kind = "ArgMax" if n.op == "argmax" else "ArgMin"
    if dim is None:
        flat = b.add("Reshape", b.t(x), b.constant([-1]))
        return b.add(kind, flat, axis=0, keepdims=0)
    return b.add(kind, b.t(x), axis=dim, keepdims=int(keepdim))


@op("any", "all")
def _truth(b: Builder, n: Node, x: Any, dim: Any = None, keepdim: bool = False) -> str:
    number = b.t(b_value(b, x), None)
    made = b.reduce("ReduceMax" if n.op == "any" else "ReduceMin", number, axes_of(x, dim), keepdim)
    return b.cast(made, BY_NAME["bool"])


def b_value(b: Builder, x: Value) -> Any:
    """A boolean tensor as numbers."""
    made = Value("Tensor", x.example.bool().int())
    b.names[made] = b.cast(b.t(x, BY_NAME["bool"]), DTYPES[3])
    return made


def variance(b: Builder, x: Any, dim: Any, correction: Any, keepdim: bool, like: Any) -> str:
    axes = axes_of(x, dim)
    value = b.t(x)
    centred = b.add("Sub", value, b.reduce("ReduceMean", value, axes, True))
    made = b.reduce("ReduceMean", b.add("Mul", centred, centred), axes, keepdim)
    if correction:
        dims = range(rank(x)) if axes is None else axes
        count = math.prod(x.example.shape[a] for a in dims)
        if b.open:
            sizes = b.add("Gather", b.add("Shape", value), b.constant(list(dims)), axis=0)
            whole = b.cast(b.add("ReduceProd", sizes, keepdims=0), like)
            made = b.add("Div", b.add("Mul", made, whole), b.add("Sub", whole, b.constant(correction, like.numpy)))
        else:
            made = b.add("Mul", made, b.constant(count / (count - correction), like.numpy))
    return made


@op("var", "std")
def _spread(
    b: Builder, n: Node, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False, **named: Any
) -> str:
    made = variance(b, x, dim, correction, keepdim, result_kind(n))
    return b.add("Sqrt", made) if n.op == "std" else made


@op("linalg_vector_norm")
def _norm(b: Builder, n: Node, x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> str:
    axes = axes_of(x, dim)
    if ord == 2:
        return b.reduce("ReduceL2", b.t(x), axes, keepdim)
    if ord == 1:
        return b.reduce("ReduceL1", b.t(x), axes, keepdim)
    size = b.add("Abs", b.t(x))
    if math.isinf(ord):
        return b.reduce("ReduceMax" if ord > 0 else "ReduceMin", size, axes, keepdim)
    total = b.reduce("ReduceSum", b.add("Pow", size, number_of(b, n, ord)), axes, keepdim)
    return b.add("Pow", total, number_of(b, n, 1 / ord))


@op("cumsum")
def _cumsum(b: Builder, n: Node, x: Any, dim: int, dtype: Any = None) -> str:
    return b.add("CumSum", b.t(x, result_kind(n)), b.constant(dim))


@op("softmax", "log_softmax")
def _softmax(b: Builder, n: Node, x: Any, dim: int, dtype: Any = None) -> str:
    kind = "Softmax" if n.op == "softmax" else "LogSoftmax"
    last, axis = rank(x) - 1, dim % max(rank(x), 1)
    value = b.t(x, result_kind(n))
    if b.opset >= 13 or axis == last:
        return b.add(kind, value, axis=axis if b.opset >= 13 else last)
    order = list(range(rank(x)))
    order[axis], order[last] = order[last], order[axis]
    made = b.add(kind, b.add("Transpose", value, perm=order), axis=last)
    return b.add("Transpose", made, perm=order)


@op("topk")
def _topk(b: Builder, n: Node, x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return b.add("TopK", b.t(x), b.number(k), outputs=2, axis=dim, largest=int(largest), sorted=int(sorted))


@op("sort", "argsort")
def _sort(b: Builder, n: Node, x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    made = b.add("TopK", b.t(x), b.size(b.t(x), dim % rank(x)), outputs=2, axis=dim, largest=int(descending), sorted=1)
    return made if n.op == "sort" else made[1]


def refuse(what: str) -> None:
    raise SymbolicValueError(what)
