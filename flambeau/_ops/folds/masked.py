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
    if dim is not None and not isinstance(dim, int) and len(dim) == 0:  # which means all for the other reductions
        return result
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


# -- operations that the identity leaves as they are ---------------------------------------------------------------

_EXAMPLE = """

    >>> import flambeau as torch
    >>> torch.masked.{}(torch.tensor([2.0, 9.0, 4.0]), {}mask=torch.tensor([True, False, True]))
    {}
    """


def _folded(
    name: str, identity: float, compute: Callable[[Tensor, Any, bool, Any], Tensor], what: str, shown: str,
    cast_first: bool = False,
) -> None:  # fmt: skip
    """A reduction; `compute` is given what is left, the dimension(s), `keepdim` and the dtype, unless the input has been cast to that."""

    def fold(
        input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        given = _cast(input, dtype) if cast_first else input
        return compute(_filled(name, given, mask, identity), dim, keepdim, dtype)

    fold.__name__ = fold.__qualname__ = f"masked_{name}"
    fold.__doc__ = what + _EXAMPLE.format(name, "", shown)
    _masked(name)(fold)


def _spread(name: str, identity: float, compute: Callable[[Tensor, int, Any], Tensor], what: str, shown: str) -> None:
    """An operation along a dimension that keeps the shape."""

    def along(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
        return compute(_filled(name, input, mask, identity), wrap_dim(dim, input.ndim), dtype)

    along.__name__ = along.__qualname__ = f"masked_{name}"
    along.__doc__ = what + _EXAMPLE.format(name, "0, ", shown)
    _masked(name)(along)


_folded(
    "sum", 0, lambda x, dim, keepdim, d: ops.sum(x, _dims(x, dim), keepdim, dtype=_summed(d, x)),
    "The sum of the elements that `mask` lets through.", "tensor(6.)",
)  # fmt: skip
_folded(
    "amax", -inf, lambda x, dim, keepdim, d: ops.amax(x, _dims(x, dim), keepdim),
    "The largest of the elements that `mask` lets through, the dtype's least where there are none.", "tensor(4.)",
    cast_first=True,
)  # fmt: skip
_folded(
    "amin", inf, lambda x, dim, keepdim, d: ops.amin(x, _dims(x, dim), keepdim),
    "The least of the elements that `mask` lets through, the dtype's largest where there are none.", "tensor(2.)",
    cast_first=True,
)  # fmt: skip
_folded(
    "logsumexp", -inf, lambda x, dim, keepdim, d: _cast(ops.logsumexp(x, _dims(x, dim), keepdim), d or x.dtype),
    "log(sum(exp(x))) of the elements that `mask` lets through; -inf where there are none.", "tensor(4.1269)",
)  # fmt: skip
_spread(
    "softmax", -inf, lambda x, dim, d: ops.softmax(x, dim, dtype=d),
    "Softmax over the elements that `mask` lets through; the others get 0.", "tensor([0.1192, 0.0000, 0.8808])",
)  # fmt: skip
_spread(
    "log_softmax", -inf, lambda x, dim, d: ops.log_softmax(x, dim, dtype=d),
    "The logarithm of `masked.softmax`; what is masked out gets -inf.", "tensor([-2.1269,    -inf, -0.1269])",
)  # fmt: skip
_spread(
    "softmin", inf, lambda x, dim, d: ops.softmax(ops.neg(x), dim, dtype=d),
    "Softmax of the negated elements that `mask` lets through; the others get 0.", "tensor([0.8808, 0.0000, 0.1192])",
)  # fmt: skip
_spread(
    "cumsum", 0, lambda x, dim, d: ops.cumsum(x, dim, dtype=d or x.dtype),
    "Running sums of the elements that `mask` lets through.", "tensor([2., 2., 6.])",
)  # fmt: skip
_spread(
    "cumprod", 1, lambda x, dim, d: ops.cumprod(x, dim, dtype=d or x.dtype),
    "Running products of the elements that `mask` lets through.", "tensor([2., 2., 8.])",
)  # fmt: skip
