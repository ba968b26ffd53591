"""`make_tensor`: random inputs for tests."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .._core import dtypes as d
from .._core.info import finfo, iinfo
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random numbers in [low, high): by default -9 to 9, small integers, or bools.

    >>> import flambeau as torch
    >>> torch.testing.make_tensor((2, 3), dtype=torch.int64, device="cpu", low=5, high=6)
    tensor([[5, 5, 5], [5, 5, 5]])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    low, high = _range(dtype, low, high)
    apart = noncontiguous and math.prod(sizes) > 1
    if apart:  # every second of twice as many numbers
        sizes = (*sizes[:-1], 2 * sizes[-1])
    if floating:
        made = _uniform(sizes, dtype, device, low, high)
    else:
        made = ops.randint(int(low), int(high), sizes, device=device, dtype=dtype)
    if apart:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = finfo(dtype).tiny if floating else 1
    return made.requires_grad_() if requires_grad else made


def _range(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """Bounds that the dtype can hold."""
    if dtype is d.bool_:
        least, most, default_low, default_high = 0, 2, 0, 2
    elif dtype.is_floating_point or dtype.is_complex:
        info = finfo(dtype)
        least, most, default_low, default_high = info.min, info.max, -9, 9
    else:
        info = iinfo(dtype)
        most = info.max if dtype in (d.int64, d.uint64) else info.max + 1
        least, default_low, default_high = info.min, 0 if info.min == 0 else -9, 10
    low = default_low if low is None else low
    high = default_high if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated: "
            "use `torch.full(...)` instead",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < least or low >= most:
        raise ValueError(f"`low` and `high` are [{low}, {high}), but {dtype} only supports [{least}, {most})")
    low, high = min(max(low, least), most), min(max(high, least), most)
    if not (dtype.is_floating_point or dtype.is_complex):
        low, high = math.ceil(low), math.ceil(high)
    return low, high


def _uniform(sizes: Any, dtype: Any, device: Any, low: float, high: float) -> Tensor:
    if high - low > finfo(dtype).max:  # more than a draw can reach across
        return _uniform(sizes, dtype, device, low / 2, high / 2) * 2
    if dtype.is_complex:
        made = ops.empty(sizes, dtype=dtype, device=device)
        ops.view_as_real(made).uniform_(low, high)
        return made
    if dtype.itemsize == 1:
        return ops.empty(sizes, dtype=d.float32, device=device).uniform_(low, high).to(dtype)
    return ops.empty(sizes, dtype=dtype, device=device).uniform_(low, high)
