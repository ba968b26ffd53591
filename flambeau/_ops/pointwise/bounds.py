"""Bounds and extremes of pairs: clamp, maximum, minimum, and values replaced or given another sign."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from ..._core.dtypes import FLOATING
from ..._tensor import Tensor
from ..making.factory import float_of
from ..records.declare import pointwise
from ..records.inplace import pointwise_in_place
from ..records.pointwise_op import Pointwise
from ..records.rules import Refusing, Rule, real, real_floating, real_numeric
from ..registry import ops, out_dtypes, public, relabel

_no_complex = Refusing("c", "not implemented for complex tensors.", "bif")

# -- extremes ----------------------------------------------------------------------------------------------------


def _winner(better: Any) -> dict[str, Any]:
    """Derivatives of an extreme: all to the winner, half to each of two equals."""
    return {
        "x": lambda m, g, x, y: m.where(x == y, g * 0.5, m.where(better(y, x), m.zeros_like(g), g)),
        "y": lambda m, g, x, y: m.where(x == y, g * 0.5, m.where(better(x, y), m.zeros_like(g), g)),
    }


maximum_op = pointwise(
    "maximum", lambda m, x, y: m.maximum(x, y), _no_complex, _winner(lambda a, b: a > b), inplace=False, numbers="none"
)
minimum_op = pointwise(
    "minimum", lambda m, x, y: m.minimum(x, y), _no_complex, _winner(lambda a, b: a < b), inplace=False, numbers="none"
)
fmax_op = pointwise(
    "fmax", lambda m, x, y: m.fmax(x, y), _no_complex, inplace=False, numbers="none",
    grad={
        "x": lambda m, g, x, y: m.where((x >= y) | m.isnan(y), g, m.zeros_like(g)),
        "y": lambda m, g, x, y: m.where((x >= y) | m.isnan(y), m.zeros_like(g), g),
    },
)  # fmt: skip
fmin_op = pointwise(
    "fmin", lambda m, x, y: m.fmin(x, y), _no_complex, inplace=False, numbers="none",
    grad={
        "x": lambda m, g, x, y: m.where((x <= y) | m.isnan(y), g, m.zeros_like(g)),
        "y": lambda m, g, x, y: m.where((x <= y) | m.isnan(y), m.zeros_like(g), g),
    },
)  # fmt: skip

# -- clamp -------------------------------------------------------------------------------------------------------

clamp_min_op = pointwise(
    "clamp_min", lambda m, x, y: m.maximum(x, y), real, public=False, numbers="right", checked=True,
    backward_name="ClampBackward0", number_names={"y": "ClampBackward1"},
    grad={
        "x": lambda m, g, x, y: m.where(x >= y, g, m.zeros_like(g)),
        "y": lambda m, g, x, y: m.where(x < y, g, m.zeros_like(g)),
    },
)  # fmt: skip
clamp_max_op = pointwise(
    "clamp_max", lambda m, x, y: m.minimum(x, y), real, public=False, numbers="right", checked=True,
    backward_name="ClampBackward0", number_names={"y": "ClampBackward1"},
    grad={
        "x": lambda m, g, x, y: m.where(x <= y, g, m.zeros_like(g)),
        "y": lambda m, g, x, y: m.where(x > y, g, m.zeros_like(g)),
    },
)  # fmt: skip


def _clamp_name(node: Any) -> str:
    """PyTorch numbers the forms: with tensors and with numbers as bounds."""
    bounds = node.saved[1:3] if node.saved else ()
    return "ClampBackward1" if all(isinstance(b, (int, float)) for b in bounds) else "ClampBackward0"


clamp_op = pointwise(
    "clamp", lambda m, x, low, high: m.minimum(m.maximum(x, low), high), real_numeric, public=False, numbers="right",
    checked=True, backward_name=_clamp_name,
    grad={
        "x": lambda m, g, x, low, high: m.where((x >= low) & (x <= high), g, m.zeros_like(g)),
        "low": lambda m, g, x, low, high: m.where((low < high) & (x < low), g, m.zeros_like(g)),
        "high": lambda m, g, x, low, high: m.where((high < low) | (x > high), g, m.zeros_like(g)),
    },
)  # fmt: skip


def _clamping(min: Any, max: Any) -> tuple[Pointwise, tuple[Any, ...]]:
    if max is None:
        if min is None:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        return clamp_min_op, (min,)
    if min is None:
        return clamp_max_op, (max,)
    return clamp_op, (min, max)


def _clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    op, bounds = _clamping(min, max)
    return pointwise_in_place(op, input, *bounds)


def _by_numbers(input: Tensor, *bounds: Any, **named: Any) -> bool:
    return not any(isinstance(b, Tensor) for b in (*bounds, *named.values()))


@public(out=True, inplace=_clamp_, aliases=("clip",))
@out_dtypes("Found dtype {out} but expected {made}", of=_by_numbers)
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements brought into [min, max]; the bounds are numbers or tensors.

    >>> import flambeau as torch
    >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    op, bounds = _clamping(min, max)
    return op.call(input, *bounds)


def _one_sided(t: Tensor, op: Pointwise, name: str, bound: Any) -> Tensor:
    """A result of `clamp_min` or `clamp_max`, whose derivative has a name of its own."""
    return relabel(t, name + ("Backward1" if isinstance(bound, Tensor) else "Backward0"), op)


def _clamp_min_(input: Tensor, min: Any) -> Tensor:
    return _one_sided(pointwise_in_place(clamp_min_op, input, min), clamp_min_op, "ClampMin", min)


def _clamp_max_(input: Tensor, max: Any) -> Tensor:
    return _one_sided(pointwise_in_place(clamp_max_op, input, max), clamp_max_op, "ClampMax", max)


@public(out=True, inplace=_clamp_min_)
@out_dtypes("Found dtype {out} but expected {made}", of=_by_numbers)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Elements brought up to `min`."""
    made = clamp_min_op.call(input, min)
    return made if made._edge is None else _one_sided(made, clamp_min_op, "ClampMin", min)


@public(out=True, inplace=_clamp_max_)
@out_dtypes("Found dtype {out} but expected {made}", of=_by_numbers)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Elements brought down to `max`."""
    made = clamp_max_op.call(input, max)
    return made if made._edge is None else _one_sided(made, clamp_max_op, "ClampMax", max)


# -- signs and replacements --------------------------------------------------------------------------------------

copysign_op = pointwise(
    "copysign", lambda m, x, y: m.copysign(x, y), real_floating, numbers="right",
    number_names={"y": "CopysignBackward1"},
    grad={
        "x": lambda m, g, x, out: m.where(x == 0.0, m.zeros_like(g), g * (out / x)),
        "y": lambda m, g: m.zeros_like(g),
    },
)  # fmt: skip


def _heaviside(m: Any, x: Any, values: Any) -> Any:
    if x.type == "b1":
        return x | values
    return m.where(x == 0, values, m.cast(x > 0, x.type))


heaviside_op = pointwise("heaviside", _heaviside, _no_complex, {}, public=False, numbers="none")


@public(out=True, inplace=True)
@out_dtypes("heaviside is not yet implemented for tensors with different dtypes: out is {out}, the result {made}")
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, and at zero what `values` says.

    >>> import flambeau as torch
    >>> torch.heaviside(torch.tensor([-1.5, 0.0, 2.0]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if isinstance(values, Tensor) and isinstance(input, Tensor) and input.dtype is not values.dtype:
        raise RuntimeError("heaviside: not implemented for tensors with different dtypes")
    return heaviside_op.call(input, values)


def _replaced(m: Any, x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if m.is_complex(x):
        parts = [_replaced(m, p, nan.re, posinf.re, neginf.re) for p in (x.re, x.im)]
        return m.complex(*parts)
    x = m.where(x == math.inf, posinf, m.where(x == -math.inf, neginf, x))
    return m.where(x != x, nan, x)


nan_to_num_op = pointwise(
    "nan_to_num", _replaced, Rule("fc"), {"x": lambda m, g, x: m.where(m.isfinite(x), g, m.zeros_like(g))},
    params=("nan", "posinf", "neginf"), public=False, exact_out=True,
)  # fmt: skip


@public(out=True, inplace=True, planned=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and infinities replaced: by 0 and the largest numbers of the dtype, or by those given.

    >>> import flambeau as torch
    >>> torch.nan_to_num(torch.tensor([float("nan"), 1.0, float("inf")]), posinf=9.0)
    tensor([0., 1., 9.])
    """
    if isinstance(input, Tensor) and input.dtype.category < FLOATING:
        return ops.clone(input)
    nan, posinf, neginf = (None if v is None else float_of(v, "nan_to_num", "nan") for v in (nan, posinf, neginf))
    largest = float(ml_dtypes.finfo(input.dtype.to_real().numpy).max)
    return nan_to_num_op.call(
        input, nan or 0.0, largest if posinf is None else posinf, -largest if neginf is None else neginf
    )


SCHEMAS = """
maximum|minimum|fmax|fmin(Tensor self, Tensor other) -> Tensor
clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
clamp_min(Tensor self, Scalar min) -> Tensor
clamp_min.Tensor(Tensor self, Tensor min) -> Tensor
clamp_max(Tensor self, Scalar max) -> Tensor
clamp_max.Tensor(Tensor self, Tensor max) -> Tensor
copysign.Tensor(Tensor self, Tensor other) -> Tensor
copysign.Scalar(Tensor self, Scalar other) -> Tensor
copysign.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
heaviside(Tensor self, Tensor values) -> Tensor
nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
"""
