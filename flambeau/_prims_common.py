"""Helpers about shapes and dtypes that packages take from PyTorch's definitions of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._core import dtypes
from ._core.dtypes import dtype
from ._core.layouts import channels_last, channels_last_3d, contiguous_format, memory_format
from ._core.sizes import wrap_dim
from ._tensor import Tensor

__all__ = [
    "canonicalize_dim", "canonicalize_dims", "corresponding_complex_dtype", "corresponding_real_dtype", "dtype_to_type",
    "is_boolean_dtype", "is_complex_dtype", "is_contiguous", "is_contiguous_or_false", "is_float_dtype", "is_integer_dtype",
    "make_contiguous_strides_for", "suggest_memory_format",
]  # fmt: skip

_COMPLEX_OF = {
    dtypes.float16: dtypes.complex32,
    dtypes.bfloat16: dtypes.complex64,
    dtypes.float32: dtypes.complex64,
    dtypes.float64: dtypes.complex128,
}
_REAL_OF = {dtypes.complex32: dtypes.float16, dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


def suggest_memory_format(x: Tensor) -> memory_format:
    """The format that a result with the layout of `x` has: channels_last if that is how it lies, otherwise contiguous."""
    for rank, form in ((4, channels_last), (5, channels_last_3d)):
        if x.ndim == rank and x.is_contiguous(memory_format=form) and not x.is_contiguous():
            return form
    return contiguous_format


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    return bool(a.is_contiguous())


is_contiguous_or_false = is_contiguous  # sizes are always known here


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor; if not row_major, its last two dimensions are the other way round.

    >>> make_contiguous_strides_for((2, 3, 4)), make_contiguous_strides_for((2, 3, 4), row_major=False)
    ((12, 4, 1), (12, 1, 3))
    """
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    made = strides[::-1]
    if row_major or len(made) < 2:
        return tuple(made)
    return (*made[:-2], 1, max(shape[-2], 1))


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the front."""
    if rank == 0 and not wrap_scalar:
        raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
    return wrap_dim(idx, max(rank, 1))


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def is_boolean_dtype(dtype: dtype) -> bool:
    return dtype is dtypes.bool_


def is_complex_dtype(dtype: dtype) -> bool:
    return dtype.is_complex


def is_float_dtype(dtype: dtype) -> bool:
    return dtype.is_floating_point


def is_integer_dtype(dtype: dtype) -> bool:
    return not (dtype.is_complex or dtype.is_floating_point or dtype is dtypes.bool_)


def corresponding_real_dtype(dtype: dtype) -> dtype:
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype: dtype) -> dtype:
    return _COMPLEX_OF[dtype]


def dtype_to_type(dtype: dtype) -> type:
    """The type of Python's numbers for the elements of a dtype."""
    if dtype is dtypes.bool_:
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int
