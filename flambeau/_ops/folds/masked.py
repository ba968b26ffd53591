"""Masked reductions and normalisations: what the mask leaves out counts as the identity of the operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

from ..._core.dtypes import BOOL, FLOATING, dtype, int64
from ..._core.info import iinfo
from ..._core.sizes import wrap_dim, wrap_dims
from ..._tensor import Tensor
from ..basic import answer
from ..registry import ops, public

Dims = int | Sequence[int] | None


def _masked(path: str) -> Callable[[Any], Any]:
    return public("masked." + path, method=False)


def _mask_of(name: str, input: Tensor, mask: Tensor) -> Tensor:
    """The mask as booleans in the shape of the input."""
    if mask.ndim > input.ndim:
        raise IndexError(f"masked.{name}: the mask has {mask.ndim} dimensions, the input only {input.ndim}")
    mask = ops.expand(mask, input.shape)
    return mask if mask.dtype.category == BOOL else ops.ne(mask, 0)


def _filled(name: str, input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """The input with `value` (brought into its dtype's range) where it is masked out."""
    if not isinstance(input, Tensor):
        raise TypeError(f"masked.{name}: input must be a tensor, not {type(input).__name__}")
    if mask is None:
        return input
    if input.dtype.category == BOOL:
        if value in (inf, -inf):
            raise NotImplementedError(
                f"masked.{name}: masked-out elements of a bool input have no value that is neutral"
            )
        value = bool(value)
    elif input.dtype.category < FLOATING and value in (inf, -inf):
        limits = iinfo(input.dtype)
        value = limits.max if value > 0 else limits.min
    return ops.where(_mask_of(name, input, mask), input, value)


def _dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dimensions to reduce; none named means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(input.ndim))
    return tuple(wrap_dims(dim if not isinstance(dim, int) else (dim,), input.ndim))


def _counts(name: str, input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements each slice lets through."""
    seen = _mask_of(name, input, mask) if mask is not None else ops.ones(input.shape, dtype=int64, device=input.device)
    return ops.sum(seen, dims, keepdim, dtype=int64)


def _cast(input: Tensor, d: dtype | None) -> Tensor:
    return input if d is None or d is input.dtype else ops.to_dtype(input, d)


def _summed(d: dtype | None, input: Tensor) -> dtype:
    """The dtype of a sum or product: integers add up in int64."""
    return d if d is not None else int64 if input.dtype.category < FLOATING else input.dtype


@_masked("sum")
def masked_sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.sum(torch.tensor([1.0, 2.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    shown = _filled("sum", input, mask, 0)
    return ops.sum(shown, _dims(input, dim), keepdim, dtype=_summed(dtype, input))


@_masked("prod")
def masked_prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.prod(torch.tensor([3.0, 0.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(12.)
    """
    result = _cast(_filled("prod", input, mask, 1), _summed(dtype, input))
    for d in sorted(_dims(input, dim), reverse=True):
        result = ops.prod(result, d, keepdim)
    return result


@_masked("mean")
def masked_mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of the elements that `mask` lets through; NaN where there are none.

    >>> import flambeau as torch
    >>> torch.masked.mean(torch.tensor([1.0, 2.0, 4.0]), mask=torch.tensor([False, True, True]))
    tensor(3.)
    """
    if dtype is None and input.dtype.category < FLOATING:
        raise ValueError(f"masked.mean: expected a floating point or complex input or a dtype, got {input.dtype}")
    dims = _dims(input, dim)
    total = ops.sum(_filled("mean", input, mask, 0), dims, keepdim, dtype=dtype)
    return ops.div(total, _counts("mean", input, dims, keepdim, mask))


@_masked("median")
def masked_median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The (lower) median of the elements that `mask` lets through, NaN not counted; NaN where there are none.

    >>> import flambeau as torch
    >>> torch.masked.median(torch.tensor([1.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    input = _cast(input, dtype)
    dim = _dims(input, dim)[0] if input.ndim else 0
    if input.dtype.category == FLOATING:
        return ops.nanmedian(_filled("median", input, mask, nan), dim, keepdim)[0]
    if mask is None:
        return ops.median(input, dim, keepdim)[0]
    counts = _counts("median", input, (dim,), True, mask)
    if answer(ops.any(ops.eq(counts, 0)), False):
        raise ValueError(f"masked.median: a slice is masked out completely, which {input.dtype} cannot express")
    # what is masked out sorts last
    ranked = ops.sort(_filled("median", input, mask, inf), dim)[0]
    result = ops.gather(ranked, dim, ops.floor_divide(ops.sub(counts, 1), 2))
    return result if keepdim else ops.squeeze(result, dim)


@_masked("amax")
def masked_amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest of the elements that `mask` lets through, the dtype's least where there are none.

    >>> import flambeau as torch
    >>> torch.masked.amax(torch.tensor([1.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(4.)
    """
    shown = _filled("amax", _cast(input, dtype), mask, -inf)
    return ops.amax(shown, _dims(input, dim), keepdim)


@_masked("amin")
def masked_amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The least of the elements that `mask` lets through, the dtype's largest where there are none.

    >>> import flambeau as torch
    >>> torch.masked.amin(torch.tensor([1.0, 9.0, 4.0]), mask=torch.tensor([False, True, True]))
    tensor(4.)
    """
    shown = _filled("amin", _cast(input, dtype), mask, inf)
    return ops.amin(shown, _dims(input, dim), keepdim)


@_masked("argmax")
def masked_argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the largest of the elements that `mask` lets through is, in the input's dtype.

    >>> import flambeau as torch
    >>> torch.masked.argmax(torch.tensor([1, 9, 4]), mask=torch.tensor([True, False, True]))
    tensor(2)
    """
    found = ops.argmax(_filled("argmax", input, mask, -inf), dim, keepdim)
    return _cast(found, dtype or input.dtype)


@_masked("argmin")
def masked_argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the least of the elements that `mask` lets through is, in the input's dtype.

    >>> import flambeau as torch
    >>> torch.masked.argmin(torch.tensor([1, 9, 4]), mask=torch.tensor([False, True, True]))
    tensor(2)
    """
    found = ops.argmin(_filled("argmin", input, mask, inf), dim, keepdim)
    return _cast(found, dtype or input.dtype)


@_masked("norm")
def masked_norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False,
    dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The vector norm of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), 2, mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    order = 2.0 if ord is None else ord
    shown = _filled("norm", input, mask, inf if order == -inf else 0)
    return ops.vector_norm(shown, order, _dims(input, dim), keepdim, dtype=dtype)


@_masked("var")
def masked_var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.var(torch.tensor([1.0, 9.0, 4.0]), unbiased=False, mask=torch.tensor([False, True, True]))
    tensor(6.2500)
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("masked.var: only one of unbiased and correction may be given")
    if unbiased is not None:
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    dims = _dims(input, dim)
    count = _counts("var", input, dims, True, mask)
    total = ops.sum(_filled("var", input, mask, 0), dims, True, dtype=dtype)
    offset = ops.sub(input, ops.div(total, count))
    squares = ops.mul(offset, ops.conj(offset))
    spread = ops.sum(_filled("var", squares, mask, 0), dims, keepdim, dtype=dtype)
    if not keepdim:
        count = ops.reshape(count, spread.shape)
    if correction:
        count = ops.clamp(ops.sub(count, correction), min=0)
    result = ops.div(spread, count)
    return _cast(result, dtype or (input.dtype if input.dtype.category >= FLOATING else None))


@_masked("std")
def masked_std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.std(torch.tensor([1.0, 9.0, 4.0]), unbiased=False, mask=torch.tensor([False, True, True]))
    tensor(2.5000)
    """
    spread = masked_var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return ops.sqrt(spread)


@_masked("softmax")
def masked_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over the elements that `mask` lets through; the others get 0.

    >>> import flambeau as torch
    >>> torch.masked.softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    shown = _filled("softmax", input, mask, -inf)
    return ops.softmax(shown, wrap_dim(dim, input.ndim), dtype=dtype)


@_masked("log_softmax")
def masked_log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `masked.softmax`; what is masked out gets -inf.

    >>> import flambeau as torch
    >>> torch.masked.log_softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    shown = _filled("log_softmax", input, mask, -inf)
    return ops.log_softmax(shown, wrap_dim(dim, input.ndim), dtype=dtype)


@_masked("softmin")
def masked_softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated elements that `mask` lets through; the others get 0.

    >>> import flambeau as torch
    >>> torch.masked.softmin(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    shown = _filled("softmin", input, mask, inf)
    return ops.softmax(ops.neg(shown), wrap_dim(dim, input.ndim), dtype=dtype)


@_masked("normalize")
def masked_normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Divides by the norm of the elements that `mask` lets through (at least `eps`); the others get 0.

    >>> import flambeau as torch
    >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    length = masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return ops.div(_filled("normalize", input, mask, 0), ops.clamp(length, min=eps))


@_masked("cumsum")
def masked_cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.cumsum(torch.tensor([1.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([1., 1., 5.])
    """
    shown = _filled("cumsum", input, mask, 0)
    return ops.cumsum(shown, wrap_dim(dim, input.ndim), dtype=dtype or input.dtype)


@_masked("cumprod")
def masked_cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products of the elements that `mask` lets through.

    >>> import flambeau as torch
    >>> torch.masked.cumprod(torch.tensor([2.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([2., 2., 8.])
    """
    shown = _filled("cumprod", input, mask, 1)
    return ops.cumprod(shown, wrap_dim(dim, input.ndim), dtype=dtype or input.dtype)


@_masked("logaddexp")
def masked_logaddexp(
    input: Tensor, other: Tensor, *, dtype: dtype | None = None,
    input_mask: Tensor | None = None, other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), where what is masked out adds nothing.

    >>> import flambeau as torch
    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    first = _filled("logaddexp", input, input_mask, -inf)
    second = _filled("logaddexp", other, other_mask, -inf)
    return _cast(ops.logaddexp(first, second), dtype or input.dtype)


@_masked("logsumexp")
def masked_logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(sum(exp(x))) of the elements that `mask` lets through; -inf where there are none.

    >>> import flambeau as torch
    >>> torch.masked.logsumexp(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor(0.6931)
    """
    shown = _filled("logsumexp", input, mask, -inf)
    return _cast(ops.logsumexp(shown, _dims(input, dim), keepdim), dtype or input.dtype)
