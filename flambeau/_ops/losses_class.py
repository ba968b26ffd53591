"""Losses over classes: negative log-likelihood and cross-entropy, fused for rows of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend.cpu import cpu
from .._core.dtypes import BY_NUMPY, FLOATING, float32, float64, int64, uint8
from .._core.state import GRAD, modes
from .._kernel.loss import cross_entropy_backward_rows, cross_entropy_rows
from .._tensor import Tensor
from .losses import check_reduction, functional, legacy_reduction, reduced
from .primitive import primitive
from .registry import functions, ops

_WORK = 16  # an exponential costs as much as so many moved elements


def _of_rows(gs: Any, outs: Any, x: Any, target: Any, skipped: int) -> Any:
    return cross_entropy_backward(gs[0], x, outs[1], target, skipped), None


@primitive(tensors=2, name="cross_entropy_rows", grad=_of_rows, backward_name="NllLossBackward0")
def cross_entropy_op(backend: Any, x: Any, target: Any, skipped: int) -> Any:
    """The losses of the rows of a matrix, and the logarithms of the sums of their exponentials."""
    rows = x.shape[0]
    loss, total = np.empty(rows, x.dtype), np.empty(rows, x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.kernel(cross_entropy_rows, (code, "i64", "i64", code, code))
    cpu.rows(call, [x, target, np.asarray(skipped)], [loss, total], x.size * _WORK)
    return loss, total


def _second(g: Any, cotangent: Any, x: Any, target: Any, skipped: int) -> Any:
    """The derivatives of (softmax(x) - one_hot) * c by c and x, with g for the result."""
    used = ops.to_dtype(ops.unsqueeze(target != skipped, 1), g.dtype)
    p = ops.softmax(x, 1)
    at = ops.unsqueeze(ops.where(target != skipped, target, ops.zeros_like(target)), 1)
    inner = ops.sum(p * g, 1, True)
    by_cotangent = ops.squeeze((inner - ops.gather(g, 1, at)) * used, 1)
    by_x = ops.unsqueeze(cotangent, 1) * used * p * (g - inner)
    return by_cotangent, by_x, None, None


@primitive(tensors=4, name="cross_entropy_rows_backward", grad=_second)
def cross_entropy_backward(backend: Any, cotangent: Any, x: Any, total: Any, target: Any, skipped: int) -> Any:
    out = np.empty(x.shape, x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.kernel(cross_entropy_backward_rows, (code, code, code, "i64", "i64", code))
    cpu.rows(call, [cotangent, x, total, target, np.asarray(skipped)], [out], x.size * _WORK)
    return out


# -- arguments ---------------------------------------------------------------------------------------------------


def _check_targets(target: Tensor, count: int, skipped: int) -> None:
    values = target._array
    wrong = (values < 0) | (values >= count)
    if bool(wrong.any()):
        wrong &= values != skipped
        if bool(wrong.any()):
            raise IndexError(f"Target {int(values[wrong].reshape(-1)[0])} is out of bounds.")


def _check_weight(weight: Tensor | None, count: int) -> None:
    if weight is not None and weight._array.shape != (count,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {count} classes or no classes but got weight tensor of "
            f"shape: {list(weight._array.shape)}"
        )


def _finished(losses: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str) -> Tensor:
    """Losses (zero where skipped) weighted and reduced; the mean is by the sum of the weights in use."""
    if weight is None:
        if reduction != "mean":
            return reduced(losses, reduction)
        return ops.sum(losses) / int((target._array != skipped).sum())  # type: ignore[no-any-return]
    kept = target != skipped
    at = ops.where(kept, target, ops.zeros_like(target))
    factors = ops.reshape(ops.index_select(weight, 0, ops.reshape(at, (-1,))), target._array.shape)
    factors = factors * ops.to_dtype(kept, factors.dtype)
    losses = losses * factors
    if reduction == "mean":
        return ops.sum(losses) / ops.sum(factors)  # type: ignore[no-any-return]
    return reduced(losses, reduction)


def _picked(log_probabilities: Tensor, target: Tensor, skipped: int) -> Tensor:
    """-x[n, target[n, …], …], zero where skipped."""
    kept = target != skipped
    at = ops.where(kept, target, ops.zeros_like(target))
    dim = 0 if target._array.ndim == 0 else 1
    values = ops.squeeze(ops.gather(log_probabilities, dim, ops.unsqueeze(at, dim)), dim)
    return ops.where(kept, -values, ops.zeros_like(values))  # type: ignore[no-any-return]


def _check_index_targets(name: str, input: Tensor, target: Tensor) -> Tensor:
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    return target if target.dtype is int64 else ops.to_dtype(target, int64)  # type: ignore[no-any-return]


@functional
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The negated entry of each row of log-probabilities that the target names.

    >>> import flambeau as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    return _nll(input, target, weight, ignore_index, reduction)


def _nll(input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str) -> Tensor:
    shape = input._array.shape
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.dtype.category != FLOATING:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input.dtype}'")
    count = shape[0] if len(shape) == 1 else shape[1]
    expected = () if len(shape) == 1 else (shape[0], *shape[2:])
    given = target._array.shape
    if len(shape) == 1 and given == (1,):
        return _nll(ops.unsqueeze(input, 0), target, weight, skipped, reduction)
    if len(shape) > 1 and (not given or given[0] != shape[0]):
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({given[0] if given else ()})."
        )
    if given != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(given)}")
    target = _check_index_targets("nll_loss", input, target)
    _check_weight(weight, count)
    _check_targets(target, count, skipped)
    return _finished(_picked(input, target, skipped), target, weight, skipped, reduction)


@functional
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """The cross-entropy between scores of classes and targets: class numbers, or probabilities of all classes.

    >>> import flambeau as torch
    >>> torch.nn.functional.cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    shape = input._array.shape
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.dtype.category == FLOATING and shape == target._array.shape:
        return _against_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    dim = 0 if len(shape) == 1 else 1
    if label_smoothing > 0.0:
        return _smoothed(ops.log_softmax(input, dim), target, weight, ignore_index, reduction, label_smoothing)
    if _fusable(input, target):
        if target._array.shape[0] != shape[0]:
            raise ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size ({target._array.shape[0]})."
            )
        _check_weight(weight, shape[1])
        _check_targets(target, shape[1], ignore_index)
        losses, _ = cross_entropy_op(input, target, ignore_index)
        return _finished(losses, target, weight, ignore_index, reduction)
    return _nll(ops.log_softmax(input, dim), target, weight, ignore_index, reduction)


@functional
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """The cross-entropy of a linear map of the input. `options` says how to cut the work, not what it gives."""
    if input._array.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input._array.ndim}")
    if ignore_index is None:
        ignore_index = -100
    flat = (
        linear_weight
        if linear_weight._array.ndim == 2
        else ops.reshape(linear_weight, (-1, linear_weight._array.shape[-1]))
    )
    bias = None if linear_bias is None else ops.reshape(linear_bias, (-1,))
    scores = functions["nn.functional.linear"](input, flat, bias)
    extra = linear_weight._array.shape[:-1]
    if len(extra) > 1 and input._array.ndim == 1:
        raise RuntimeError(f"a linear_weight of shape {tuple(linear_weight._array.shape)} requires batched input")
    if len(extra) > 1:
        scores = ops.reshape(scores, (*input._array.shape[:-1], *extra))
    return cross_entropy(
        scores, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )  # fmt: skip


def _fusable(input: Tensor, target: Tensor) -> bool:
    plain = not (input._k | target._k | modes.on) & ~GRAD
    wide = input.dtype is float32 or input.dtype is float64
    return plain and wide and input._array.ndim == 2 and target._array.ndim == 1 and target.dtype is int64


def _smoothed(
    logs: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str, smoothing: float
) -> Tensor:
    """A share of the target goes to all classes alike."""
    hard = _nll(logs, target, weight, skipped, reduction)
    dim = 0 if logs._array.ndim == 1 else 1
    count = logs._array.shape[dim]
    kept = target != skipped
    shaped = (
        None if weight is None else ops.reshape(weight, [count if i == dim else 1 for i in range(logs._array.ndim)])
    )
    spread = -ops.sum(logs if shaped is None else logs * shaped, dim)
    spread = ops.where(kept, spread, ops.zeros_like(spread))
    if reduction == "mean":
        if weight is None:
            total = int(kept._array.sum())
        else:
            at = ops.reshape(ops.where(kept, target, ops.zeros_like(target)), (-1,))
            total = ops.sum(ops.index_select(weight, 0, at) * ops.to_dtype(ops.reshape(kept, (-1,)), weight.dtype))
        spread = ops.sum(spread) / total
    else:
        spread = reduced(spread, reduction)
    return hard * (1 - smoothing) + spread * (smoothing / count)


def _against_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str, smoothing: float
) -> Tensor:
    if skipped >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    ndim = input._array.ndim
    dim = 0 if ndim == 1 else 1
    count = input._array.shape[dim]
    _check_weight(weight, count)
    logs = ops.log_softmax(input, dim)
    if smoothing > 0.0:
        target = target * (1 - smoothing) + smoothing / count
    product = logs * target
    if weight is not None:
        product = product * ops.reshape(weight, [count if i == dim else 1 for i in range(ndim)])
    if reduction == "none":
        return -ops.sum(product, dim)  # type: ignore[no-any-return]
    total = -ops.sum(product)
    return total / (input._array.size // max(count, 1)) if reduction == "mean" else total  # type: ignore[no-any-return]
