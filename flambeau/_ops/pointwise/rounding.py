"""Rounding to integers and to decimals."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import FLOATING
from ..._tensor import Tensor
from ..records.declare import pointwise
from ..records.rules import real_floating_only, real_numeric
from ..registry import public

_NONE = {"x": lambda m, g: m.zeros_like(g)}

floor_op = pointwise("floor", lambda m, x: m.floor(x), real_numeric, _NONE, exact_out=True)
ceil_op = pointwise("ceil", lambda m, x: m.ceil(x), real_numeric, _NONE, exact_out=True)
trunc_op = pointwise("trunc", lambda m, x: m.trunc(x), real_numeric, _NONE, aliases=("fix",), exact_out=True)
frac_op = pointwise("frac", lambda m, x: x - m.trunc(x), real_floating_only, {"x": lambda m, g: g}, exact_out=True)
rint_op = pointwise("round", lambda m, x: m.rint(x), real_numeric, _NONE, public=False, exact_out=True)
# for decimals > 0 the unit is a power of ten to multiply with, below 0 one to divide by
finer_op = pointwise(
    "round_finer", lambda m, x, unit: m.rint(x * unit) / unit, real_floating_only, _NONE, params=("unit",),
    public=False, backward_name="RoundBackward1",
)  # fmt: skip
coarser_op = pointwise(
    "round_coarser", lambda m, x, unit: m.rint(x / unit) * unit, real_floating_only, _NONE, params=("unit",),
    public=False, backward_name="RoundBackward1",
)  # fmt: skip


@public("round", "special.round", inplace=True, out=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest integer, or the nearest multiple of 10**-decimals; ties go to the even one.

    >>> import flambeau as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    if decimals == 0 or (isinstance(input, Tensor) and input.dtype.category < FLOATING and decimals >= 0):
        return rint_op.call(input)
    op: Any = finer_op if decimals > 0 else coarser_op
    return op.call(input, 10.0 ** abs(decimals))


SCHEMAS = """
round(Tensor self) -> Tensor  # onnx
round.decimals(Tensor self, *, int decimals) -> Tensor
special_round(Tensor self, *, int decimals=0) -> Tensor
floor|ceil  # onnx
"""
