"""`_foreach_…`: an operation on each tensor of a list. Optimizers and gradient utilities of other libraries call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ..folds.norms import vector_norm
from ..registry import expose, functions, methods, ops

_Tensors = Sequence[Tensor]

_UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
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


def _unary(name: str) -> None:
    path = "_foreach_" + name

    def call(self: _Tensors) -> tuple[Tensor, ...]:
        _check_list(path, self)
        one = getattr(ops, name)
        return tuple([one(t) for t in self])

    def in_place(self: _Tensors) -> _Tensors:
        _check_list(path + "_", self)
        one = getattr(ops, name + "_")
        for t in self:
            one(t)
        return self

    _register(name, call, f"{name} of each tensor.")
    _register(name + "_", in_place, f"{name} of each tensor, in place.")


def _binary(name: str) -> None:
    path = "_foreach_" + name

    def pairs(self: Any, choices: Any) -> Any:
        _check_list(path, self)
        return zip(self, _one_for_each(path, self, _given(path, *choices)))

    def call(
        self: _Tensors,
        other: Any = None,
        *,
        alpha: Any = 1,
        scalar: Any = None,
        scalars: Any = None,
        tensor: Any = None,
    ) -> tuple[Tensor, ...]:
        one, options = _operation(name), {} if alpha == 1 else {"alpha": alpha}
        return tuple([one(t, o, **options) for t, o in pairs(self, (other, scalar, scalars, tensor))])

    def in_place(
        self: _Tensors,
        other: Any = None,
        *,
        alpha: Any = 1,
        scalar: Any = None,
        scalars: Any = None,
        tensor: Any = None,
    ) -> _Tensors:
        one, options = _operation(name, "_"), {} if alpha == 1 else {"alpha": alpha}
        for t, o in pairs(self, (other, scalar, scalars, tensor)):
            one(t, o, **options)
        return self

    _register(name, call, f"{name} of each tensor and a second operand: one for all, or a list.")
    _register(name + "_", in_place, f"{name} of each tensor and a second operand, in place.")


def _operation(name: str, form: str = "") -> Any:
    """The public operation on two tensors or a tensor and a number."""
    if name in ("maximum", "minimum"):
        name = "clamp_min" if name == "maximum" else "clamp_max"  # they also take numbers
    return methods[name + form] if form else functions[name]


def _ternary(name: str) -> None:
    path = "_foreach_" + name

    def operands(self: Any, tensor1: Any, tensor2: Any, value: Any, scalars: Any) -> Any:
        _check_list(path, self)
        _check_same(self, tensor1)
        _check_same(self, tensor2)
        given = value if scalars is None else scalars
        if isinstance(given, Tensor):
            given = given.tolist()
        return zip(self, tensor1, tensor2, _one_for_each(path, self, given))

    def call(
        self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, value: Any = 1, *, scalars: Any = None
    ) -> tuple[Tensor, ...]:
        one = getattr(ops, name)
        return tuple([one(t, a, b, value=v) for t, a, b, v in operands(self, tensor1, tensor2, value, scalars)])

    def in_place(
        self: _Tensors, tensor1: _Tensors, tensor2: _Tensors, value: Any = 1, *, scalars: Any = None
    ) -> _Tensors:
        one = getattr(ops, name + "_")
        for t, a, b, v in operands(self, tensor1, tensor2, value, scalars):
            one(t, a, b, value=v)
        return self

    _register(name, call, f"{name} of each tensor and its two partners, times a value: one for all, or a list.")
    _register(name + "_", in_place, f"{name} of each tensor and its two partners, in place.")


for _name in _UNARY:
    _unary(_name)
for _name in _BINARY:
    _binary(_name)
for _name in ("addcmul", "addcdiv"):
    _ternary(_name)


def _pow(self: Any, exponent: Any) -> tuple[Tensor, ...]:
    if isinstance(self, (int, float, complex)):
        _check_list("_foreach_pow", exponent, "exponent", 1)
        return tuple([ops.pow(self, e) for e in exponent])
    _check_list("_foreach_pow", self)
    return tuple([ops.pow(t, e) for t, e in zip(self, _one_for_each("_foreach_pow", self, exponent))])


def _pow_(self: _Tensors, exponent: Any) -> _Tensors:
    _check_list("_foreach_pow_", self)
    for t, e in zip(self, _one_for_each("_foreach_pow_", self, exponent)):
        ops.pow_(t, e)
    return self


def _lerp(self: _Tensors, tensors1: _Tensors, weight: Any) -> tuple[Tensor, ...]:
    _check_list("_foreach_lerp", self)
    _check_same(self, tensors1)
    return tuple([ops.lerp(t, e, w) for t, e, w in zip(self, tensors1, _one_for_each("_foreach_lerp", self, weight))])


def _lerp_(self: _Tensors, tensors1: _Tensors, weight: Any) -> _Tensors:
    _check_list("_foreach_lerp_", self)
    _check_same(self, tensors1)
    for t, e, w in zip(self, tensors1, _one_for_each("_foreach_lerp_", self, weight)):
        ops.lerp_(t, e, w)
    return self


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
    (
        "pow",
        _pow,
        "Each tensor to the power of an exponent: one for all, or a list; or a number to the power of each tensor.",
    ),
    ("pow_", _pow_, "Each tensor to the power of an exponent, in place."),
    ("lerp", _lerp, "Points between each tensor and its partner: weight 0 gives the one, 1 the other."),
    ("lerp_", _lerp_, "Points between each tensor and its partner, in place."),
    ("norm", _norm, "The norm of each tensor."),
    ("powsum", _powsum, "The sum of the absolute values of each tensor, to the power of `ord`."),
    ("max", _max, "The largest element of each tensor."),
    ("mm", _mm, "The product of each matrix and its partner."),
    ("clone", _clone, "A copy of each tensor."),
    ("zero_", _zero_, "Fills each tensor with zeros."),
    ("copy_", _copy_, "Writes the values of each source into its tensor."),
):
    _register(_name, _function, _doc)


SCHEMAS = """
_foreach_acos(Tensor[] self) -> Tensor[]
_foreach_abs(Tensor[] self) -> Tensor[]
_foreach_rsqrt(Tensor[] self) -> Tensor[]
_foreach_trunc(Tensor[] self) -> Tensor[]
_foreach_tanh(Tensor[] self) -> Tensor[]
_foreach_cos(Tensor[] self) -> Tensor[]
_foreach_tan(Tensor[] self) -> Tensor[]
_foreach_sign(Tensor[] self) -> Tensor[]
_foreach_reciprocal(Tensor[] self) -> Tensor[]
_foreach_lgamma(Tensor[] self) -> Tensor[]
_foreach_log(Tensor[] self) -> Tensor[]
_foreach_log10(Tensor[] self) -> Tensor[]
_foreach_log1p(Tensor[] self) -> Tensor[]
_foreach_log2(Tensor[] self) -> Tensor[]
_foreach_sigmoid(Tensor[] self) -> Tensor[]
_foreach_sin(Tensor[] self) -> Tensor[]
_foreach_expm1(Tensor[] self) -> Tensor[]
_foreach_round(Tensor[] self) -> Tensor[]
_foreach_sinh(Tensor[] self) -> Tensor[]
_foreach_floor(Tensor[] self) -> Tensor[]
_foreach_asin(Tensor[] self) -> Tensor[]
_foreach_atan(Tensor[] self) -> Tensor[]
_foreach_ceil(Tensor[] self) -> Tensor[]
_foreach_cosh(Tensor[] self) -> Tensor[]
_foreach_erf(Tensor[] self) -> Tensor[]
_foreach_erfc(Tensor[] self) -> Tensor[]
_foreach_exp(Tensor[] self) -> Tensor[]
_foreach_frac(Tensor[] self) -> Tensor[]
_foreach_neg(Tensor[] self) -> Tensor[]
_foreach_sqrt(Tensor[] self) -> Tensor[]
_foreach_clamp_min.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_clamp_min.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_clamp_min.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_clamp_max.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_clamp_max.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_clamp_max.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_maximum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_maximum.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_maximum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_sub.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_sub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]
_foreach_sub.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_mul.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_mul.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_mul.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]
_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]
_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]
_foreach_div.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_div.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_div.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]
_foreach_minimum.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]
_foreach_minimum.List(Tensor[] self, Tensor[] other) -> Tensor[]
_foreach_minimum.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]
_foreach_addcdiv.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]
_foreach_addcdiv.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]
_foreach_addcdiv.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]
_foreach_addcmul.Scalar(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar value=1) -> Tensor[]
_foreach_addcmul.ScalarList(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars) -> Tensor[]
_foreach_addcmul.Tensor(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, Tensor scalars) -> Tensor[]
_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]
_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]
_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]
_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]
_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]
_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]
_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]
_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]
_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]
_foreach_max(Tensor[] self) -> Tensor[]
_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]
_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]
_foreach_zero_(Tensor(a!)[] self) -> ()
_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()
"""
