"""`_foreach_…`: an operation on each tensor of a list. Optimizers and gradient utilities of other libraries call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..._tensor import Tensor
from ..folds.norms import vector_norm
from ..registry import expose, functions, methods, ops

_Tensors = Sequence[Tensor]

_UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10",
    "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
_BINARY = ["add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum"]


def _check_list(name: str, tensors: Any, argument: str = "self", place: int = 0) -> None:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {place + 1}) must be tuple of Tensors, not {type(tensors).__name__}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument {place}, but got {type(t).__name__}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")


def _check_same(first: Any, second: Any) -> None:
    if len(first) != len(second):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(first)} and {len(second)}")


def _one_for_each(name: str, tensors: _Tensors, other: Any) -> Sequence[Any]:
    """The second operand of each tensor: from a list of tensors or numbers, or one for all."""
    if isinstance(other, (int, float, complex, Tensor)):
        return [other] * len(tensors)
    if not isinstance(other, (list, tuple)):
        raise TypeError(f"{name}(): expected tensors, numbers or one of them, got {type(other).__name__}")
    if other and isinstance(other[0], Tensor):
        _check_same(tensors, other)
    elif len(other) != len(tensors):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return other


def _given(name: str, *choices: Any) -> Any:
    """The operand, under whichever name it came."""
    found = [c for c in choices if c is not None]
    if len(found) != 1:
        raise TypeError(f"{name}() takes one second operand, got {len(found)}")
    return found[0]


def _register(name: str, function: Callable[..., Any], doc: str) -> None:
    path = "_foreach_" + name
    function.__name__ = function.__qualname__ = path
    function.__doc__ = doc
    expose(path, function, method=None)


def _both(name: str, doc: str, calls: Callable[..., Iterable[Any]]) -> None:
    """An operation and its form in place. `calls(path, self, …)` checks the arguments and gives those of each tensor's call: by position,
    and by name."""
    path = "_foreach_" + name

    def call(*args: Any, **named: Any) -> tuple[Tensor, ...]:
        one = _operation(name)
        return tuple([one(*operands, **options) for operands, options in calls(path, *args, **named)])

    def in_place(*args: Any, **named: Any) -> _Tensors:
        one = _operation(name, "_")
        for operands, options in calls(path + "_", *args, **named):
            one(*operands, **options)
        return args[0] if args else named["self"]

    _register(name, call, doc)
    _register(name + "_", in_place, doc.removesuffix(".") + ", in place.")


def _operation(name: str, form: str = "") -> Any:
    """The public operation on a tensor and further tensors or numbers."""
    if name in ("maximum", "minimum"):
        name = "clamp_min" if name == "maximum" else "clamp_max"  # they also take numbers
    return methods[name + form] if form else functions[name]


def _alone(path: str, self: _Tensors) -> Iterable[Any]:
    _check_list(path, self)
    return [((t,), {}) for t in self]


def _with_another(
    path: str, self: _Tensors, other: Any = None, *, alpha: Any = 1, scalar: Any = None, scalars: Any = None, tensor: Any = None
) -> Iterable[Any]:  # fmt: skip
    _check_list(path, self)
    others = _one_for_each(path, self, _given(path, other, scalar, scalars, tensor))
    return [(pair, {} if alpha == 1 else {"alpha": alpha}) for pair in zip(self, others)]


def _with_two(
    path: str, self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, scalars: Any = None, *, value: Any = 1
) -> Iterable[Any]:
    _check_list(path, self)
    _check_same(self, tensor1)
    _check_same(self, tensor2)
    given = value if scalars is None else scalars
    if isinstance(given, Tensor):
        if not given.ndim and scalars is None:
            given = given.item()
        elif given.ndim != 1:
            raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {given.ndim} instead.")
        elif len(given) != len(self):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(self)} but got {len(given)} instead."
            )
        else:
            given = given.tolist()
    values = _one_for_each(path, self, given)
    return [((t, a, b), {"value": v}) for t, a, b, v in zip(self, tensor1, tensor2, values)]


def _to_powers(path: str, self: Any, exponent: Any) -> Iterable[Any]:
    if isinstance(self, (int, float, complex)) and path == "_foreach_pow":
        _check_list(path, exponent, "exponent", 1)
        return [((self, e), {}) for e in exponent]
    _check_list(path, self)
    return [(pair, {}) for pair in zip(self, _one_for_each(path, self, exponent))]


def _between(
    path: str, self: _Tensors, tensors1: _Tensors, weight: Any = None, *, weights: Any = None
) -> Iterable[Any]:
    _check_list(path, self)
    _check_same(self, tensors1)
    return [(three, {}) for three in zip(self, tensors1, _one_for_each(path, self, _given(path, weight, weights)))]


for _name in _UNARY:
    _both(_name, f"{_name} of each tensor.", _alone)
for _name in _BINARY:
    _both(_name, f"{_name} of each tensor and a second operand: one for all, or a list.", _with_another)
for _name in ("addcmul", "addcdiv"):
    _both(_name, f"{_name} of each tensor and its two partners, times a value: one for all, or a list.", _with_two)
_both(
    "pow", "Each tensor to the power of an exponent: one for all, or a list; or a number to that of each.", _to_powers
)
_both("lerp", "Points between each tensor and its partner: weight 0 gives the one, 1 the other.", _between)


def _norm(self: _Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    _check_list("_foreach_norm", self)
    return tuple([vector_norm(t, ord, dtype=dtype) for t in self])


def _powsum(self: _Tensors, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    _check_list("_foreach_powsum", self)
    return tuple([ops.sum(ops.pow(ops.abs(t if dtype is None else ops.to(t, dtype)), ord)) for t in self])


def _max(self: _Tensors) -> tuple[Tensor, ...]:
    _check_list("_foreach_max", self)
    if any(not t._array.size for t in self):
        raise RuntimeError("_foreach_max: a tensor without elements has no maximum")
    return tuple([ops.max(t) for t in self])


def _mm(self: _Tensors, mat2: _Tensors) -> tuple[Tensor, ...]:
    _check_list("_foreach_mm", self)
    _check_same(self, mat2)
    return tuple([ops.mm(a, b) for a, b in zip(self, mat2)])


def _clone(self: _Tensors, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    _check_list("_foreach_clone", self)
    return tuple([t.clone() if memory_format is None else t.clone(memory_format=memory_format) for t in self])


def _zero_(self: _Tensors) -> _Tensors:
    _check_list("_foreach_zero_", self)
    for t in self:
        t.zero_()
    return self


def _copy_(self: _Tensors, src: _Tensors, non_blocking: bool = False) -> _Tensors:
    _check_list("_foreach_copy_", self)
    _check_list("_foreach_copy_", src, "src", 1)
    _check_same(self, src)
    for t, source in zip(self, src):
        t.copy_(source)
    return self


for _name, _function, _doc in (
    ("norm", _norm, "The norm of each tensor."),
    ("powsum", _powsum, "The sum of the absolute values of each tensor, to the power of `ord`."),
    ("max", _max, "The largest element of each tensor."),
    ("mm", _mm, "The product of each matrix and its partner."),
    ("clone", _clone, "A copy of each tensor."),
    ("zero_", _zero_, "Fills each tensor with zeros."),
    ("copy_", _copy_, "Writes the values of each source into its tensor."),
):
    _register(_name, _function, _doc)


SCHEMAS = f"""
{"|".join("_foreach_" + name for name in (*_UNARY, "max"))}(Tensor[] self) -> Tensor[]
_foreach_clamp_min|_foreach_clamp_max|_foreach_maximum|_foreach_sub|_foreach_mul|_foreach_add|_foreach_div|_foreach_minimum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_clamp_min|_foreach_clamp_max|_foreach_maximum|_foreach_mul|_foreach_div|_foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_clamp_min|_foreach_clamp_max|_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_sub|_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]
_foreach_sub|_foreach_mul|_foreach_add|_foreach_div|_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_mul|_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]
_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]
_foreach_addcdiv|_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]
_foreach_addcdiv|_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]
_foreach_addcdiv|_foreach_addcmul.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]
_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]
_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]
_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]
_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]
_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]
_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]
_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]
_foreach_norm|_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]
_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]
_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]
_foreach_zero_(Tensor(a!)[] self) -> ()
_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()
"""
