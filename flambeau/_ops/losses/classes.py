"""Losses over classes: negative log-likelihood and cross-entropy, fused for rows of scores."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend.cpu import PARALLEL, cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, FLOATING, float32, float64, int64, uint8
from ..._core.state import BATCHED, CAPTURE, CUDA, FUNCTION_MODE, GRAD, META, local, modes
from ..._kernel.loss import (
    cascade_sum,
    cross_entropy_backward_rows,
    cross_entropy_rows,
    cross_entropy_sum,
    cross_entropy_sum_and_gradient,
    cross_entropy_whole,
    cross_entropy_whole_and_gradient,
    has_foreign_targets,
    share_of_targets,
)
from ..._tensor import Tensor, wrap
from .. import likelihood
from ..folds import row_programs
from ..folds.folding import fold_array
from ..fused import Fused, parts_of, record
from ..records.batching import all_stacked, every_element, folded
from ..records.primitive import primitive
from ..records.replay import gradients, second
from ..records.rules import type_name
from ..records.saved import fetch
from ..records.shape_rules import dtype_of, same
from ..registry import ops, relabel
from .elements import check_reduction, functional, legacy_reduction, reduced

_FLAGS = np.array(False), np.array(True)
_WORK = 16  # an exponential costs as much as so many moved elements


def _of_rows(gs: Any, outs: Any, x: Any, target: Any, skipped: int) -> Any:
    return cross_entropy_backward(gs[0], x, outs[1], target, skipped), None


@primitive(
    batch=folded(),
    meta=lambda x, target, skipped: [(x.shape[:1], dtype_of(x))] * 2,
    tensors=2,
    name="cross_entropy_rows",
    grad=_of_rows,
    backward_name="NllLossBackward0",
)
def cross_entropy_op(backend: Any, x: Any, target: Any, skipped: int) -> Any:
    """The losses of the rows of a matrix, and the logarithms of the sums of their exponentials."""
    rows = x.shape[0]
    loss, total = empty(rows, x.dtype), empty(rows, x.dtype)
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


@primitive(
    batch=folded(),
    meta=lambda cotangent, x, *rest: same(x),
    tensors=4,
    name="cross_entropy_rows_backward",
    grad=_second,
)
def cross_entropy_backward(backend: Any, cotangent: Any, x: Any, total: Any, target: Any, skipped: int) -> Any:
    out = empty(x.shape, x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.kernel(cross_entropy_backward_rows, (code, code, code, "i64", "i64", code))
    cpu.rows(call, [cotangent, x, total, target, np.asarray(skipped)], [out], x.size * _WORK)
    return out


# -- on a GPU, the mean or sum of rows by kernels along them ------------------------------------------------------


def _of_whole(given: Any, outs: Any, x: Any, target: Any, skipped: int, mean: bool) -> Any:
    return whole_backward(given[0], x, outs[1], outs[2], target, skipped, mean), None


def _whole_shapes(x: Any, target: Any, skipped: int, mean: bool) -> list[Any]:
    return [((), dtype_of(x)), (x.shape[:1], dtype_of(x).wide), ((), int64)]


def _classes(target: Tensor, skipped: int) -> tuple[Tensor, Tensor]:
    """Which of the targets count, and their classes as an index (0 where they do not)."""
    kept = ops.ne(target, skipped)
    return kept, ops.unsqueeze(ops.where(kept, target, ops.zeros_like(target)), target._array.ndim)


def _whole_of_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    x, target = all_stacked(op, size, mapped, args)
    kept, at = _classes(target, args[2])
    totals = ops.logsumexp(x, 2)
    losses = ops.where(kept, totals - ops.squeeze(ops.gather(x, 2, at), 2), ops.zeros_like(totals))
    loss, used = ops.sum(losses, 1), ops.sum(kept, 1)
    return ops.div(loss, used) if args[3] else loss, totals, used


def _whole_backward_of_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    cotangent, x, _, used, target = all_stacked(op, size, mapped, args)
    kept, at = _classes(target, args[5])
    share = ops.unsqueeze(ops.div(cotangent, used) if args[6] else cotangent, 1)
    share = ops.unsqueeze(ops.where(kept, share, ops.zeros_like(share)), 2)
    return ops.scatter_add(ops.softmax(x, 2) * share, 2, at, -share)


@primitive(
    batch=_whole_of_batch, meta=_whole_shapes, tensors=2, name="cross_entropy_whole", grad=_of_whole,
    backward_name="NllLossBackward0",
)  # fmt: skip
def whole_op(backend: Any, x: Any, target: Any, skipped: int, mean: bool) -> Any:
    """The loss of the rows of a matrix; the logarithms of the sums of their exponentials, and how many rows count."""
    if backend is not cpu:
        return row_programs.entropy(backend, x, target, skipped, mean)
    losses, sizes = cross_entropy_op.forward(backend, x, target, skipped)
    used = np.asarray(np.count_nonzero(target != skipped))
    total = losses.sum(dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(total / used if mean else total, x.dtype), sizes, used


def _second_of_whole(gs: Any, cotangent: Any, x: Any, target: Any, skipped: int, mean: bool, needs: Any) -> Any:
    def formula(x: Tensor) -> Tensor:
        return _composed(ops.log_softmax(x, 1), target, None, skipped, "mean" if mean else "sum")

    found = second(formula, [x], cotangent, [True], gs, needs[:2])
    return [*found, None, None, None]


@primitive(
    batch=_whole_backward_of_batch,
    meta=lambda cotangent, x, *rest: same(x),
    tensors=5,
    name="cross_entropy_whole_backward",
    grad=_second_of_whole,
)
def whole_backward(
    backend: Any, cotangent: Any, x: Any, sizes: Any, used: Any, target: Any, skipped: int, mean: bool
) -> Any:
    if backend is not cpu:
        return row_programs.entropy_backward(backend, cotangent, x, sizes, used, target, skipped, mean)
    share = cotangent / used if mean else cotangent
    return cross_entropy_backward.forward(backend, np.full(x.shape[0], share, x.dtype), x, sizes, target, skipped)


def _is_whole(input: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float) -> bool:
    """Whether these make one loss of a matrix of scores on a GPU and of class numbers there."""
    if weight is not None or smoothing or reduction == "none" or not input._k & target._k & CUDA:
        return False
    x, y = input._array, target._array
    usual = x.ndim == 2 and y.ndim == 1 and target.dtype is int64 and x.shape[0] == y.shape[0]
    return usual and x.size > 0 and bool(input.dtype.code) and input.dtype.category == FLOATING


@primitive(
    meta=lambda x, kept: ((), dtype_of(x)),
    tensors=2, name="cascade_sum", backward_name="SumBackward0",
    grad={"x": lambda g, x_shape: ops.expand(ops.reshape(g, (1,) * len(x_shape)), x_shape)},
)  # fmt: skip
def cascade_op(backend: Any, x: Any, kept: Any) -> Any:
    """A sum in the precision of 16-bit elements, step by step, as PyTorch adds up such losses."""
    values, used = x.reshape(-1), kept.reshape(-1)
    code = BY_NUMPY[x.dtype].code
    power = max(4, (max(values.size, 1) - 1).bit_length() // 8)
    out = empty((), x.dtype)
    cpu.kernel(cascade_sum, (code, "b1", "i64", code))(values, used, np.asarray(power), out)
    return out


def _sum(t: Tensor, kept: Tensor) -> Tensor:
    """The sum of losses or weights."""
    short = t.dtype.itemsize == 2 and not t._k & (CUDA | META)
    return cascade_op(t, kept) if short else ops.sum(t)  # type: ignore[no-any-return]


# -- the mean or sum of rows, with its gradient ------------------------------------------------------------------


@functools.cache
def _sum_kernel(d: Any, gradient: bool) -> Any:
    code = BY_NUMPY[d].code
    if gradient:
        return cpu.kernel(cross_entropy_sum_and_gradient, (code, "i64", "i64", "f64", code, code))
    return cpu.kernel(cross_entropy_sum, (code, "i64", "i64", "f64", code))


@functools.cache
def _whole_kernel(d: Any, gradient: bool) -> Any:
    code = BY_NUMPY[d].code
    if gradient:
        return cpu.small(cross_entropy_whole_and_gradient, (code, "i64", "i64", "b1", code, code))
    return cpu.small(cross_entropy_whole, (code, "i64", "i64", "b1", code))


@functools.lru_cache(64)
def _integer(value: int) -> Any:
    return np.asarray(value, np.int64)


def _entropy(x: Any, target: Any, skipped: int, mean: bool, gradient: bool) -> tuple[Any, Any]:
    """The loss of a matrix of scores as a 0-d array, and its gradient or None."""
    if x.size * _WORK < PARALLEL:
        return _small_entropy(x, target, skipped, mean, gradient)
    rows = x.shape[0]
    share = empty((), np.float64)
    cpu.kernel(share_of_targets, ("i64", "i64", "b1", "f64"))(target, _integer(skipped), _FLAGS[mean], share)
    call = _sum_kernel(x.dtype, gradient)
    grad: Any = empty(x.shape, x.dtype) if gradient else None
    parts = parts_of(rows, x.size * _WORK)
    losses = empty(len(parts), x.dtype)
    jobs = []
    for i, (low, high) in enumerate(parts):
        job = [x[low:high], target[low:high], _integer(skipped), share, losses[i : i + 1].reshape(())]
        jobs.append([*job, grad[low:high]] if gradient else job)
    cpu.side_by_side(call, jobs)
    return fold_array(cpu, losses, (0,), False, "sum", BY_NUMPY[x.dtype]), grad


def _small_entropy(x: Any, target: Any, skipped: int, mean: bool, gradient: bool) -> tuple[Any, Any]:
    """The same by one call."""
    loss, grad = empty((), x.dtype), empty(x.shape, x.dtype) if gradient else None
    call = _whole_kernel(x.dtype, gradient)
    call(x, target, _integer(skipped), _FLAGS[mean], loss, *([grad] if gradient else []))
    return loss, grad


def _by_rows(input: Tensor, target: Tensor, skipped: int, mean: bool) -> Tensor:
    """The same over tensors, for higher derivatives."""
    return _finished(cross_entropy_op(input, target, skipped)[0], target, None, skipped, "mean" if mean else "sum")


def _gradient(node: Any, g: Tensor, create_graph: bool) -> Any:
    """The gradient that came with the loss, times g; it is given away, so a second pass computes it anew."""
    _, _, grad, skipped, mean = node.saved
    if create_graph or g._k & ~GRAD:
        input, target = fetch(node, 0), fetch(node, 1)
        return gradients(lambda x: _by_rows(x, target, skipped, mean), [input], [g], [True])
    if grad is None:
        grad = wrap(_entropy(fetch(node, 0)._array, fetch(node, 1)._array, skipped, mean, True)[1], g.dtype)
    node.saved[2] = None
    factor = g._array
    if factor.item() != 1:
        np.multiply(grad._array, factor, grad._array)
    return (grad,)


_FUSED = Fused("cross_entropy", "NllLossBackward0", _gradient)


def _of_matrix(input: Tensor, target: Tensor, skipped: int, mean: bool) -> Tensor:
    """The loss of rows of plain scores, in one visit; if it has a history, with its gradient."""
    gradient = bool(input._k) and local.grad
    loss, grad = _entropy(input._array, target._array, skipped, mean, gradient)
    out = wrap(loss, input.dtype)
    if gradient:
        record(_FUSED, out, (input,), [input, target, wrap(grad, input.dtype), skipped, mean])
    return out


def _of_recorded(g: Any, others: Any, x: Any, target: Any, skipped: int, mean: bool, needs: Any) -> Any:
    if local.grad:  # its derivative is wanted as well
        return gradients(lambda x: _by_rows(x, target, skipped, mean), [x], [g], needs[:1])[0], None
    return others[0] * g, None


@primitive(
    batch=lambda op, size, mapped, args: (*_whole_of_batch(op, size, mapped, args)[:1], None),
    meta=lambda x, target, skipped, mean, gradient: [((), dtype_of(x)), (x.shape if gradient else (0,), dtype_of(x))],
    tensors=2, name="cross_entropy_matrix", grad=_of_recorded, backward_name="NllLossBackward0",
)  # fmt: skip
def matrix_op(backend: Any, x: Any, target: Any, skipped: int, mean: bool, gradient: bool) -> Any:
    """What `_of_matrix` computes, for programs that are recorded: the loss and, if it is wanted, its gradient."""
    _check_classes(target, x.shape[1], skipped)  # each time: the kernel relies on it
    loss, grad = _entropy(x, target, skipped, mean, gradient)
    return loss, grad if gradient else empty((0,), x.dtype)


# -- arguments ---------------------------------------------------------------------------------------------------


def _check_targets(target: Tensor, count: int, skipped: int) -> None:
    if not target._k & META:
        _check_classes(every_element(target), count, skipped, bool(target._k & CUDA))


def _check_classes(values: Any, count: int, skipped: int, on_gpu: bool = False) -> None:
    """Raises unless all targets are classes, or skipped."""
    if on_gpu:
        wrong = (values != skipped) & ((values < 0) | (values >= count))
        found = bool(wrong.any())
    else:
        found = empty((), np.bool_)
        call = cpu.kernel(has_foreign_targets, ("i64", "i64", "i64", "b1"))
        call(values.reshape(-1), _integer(skipped), _integer(count), found)
    if found:
        wrong = (values != skipped) & ((values < 0) | (values >= count))
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
        if reduction == "none":
            return losses
        kept = ops.ne(target, skipped)
        total = _sum(losses, kept)
        if reduction == "mean":
            total = total / ops.to_dtype(ops.sum(kept), total.dtype)
        return total
    kept = ops.ne(target, skipped)
    at = ops.where(kept, target, 0)
    factors = ops.reshape(ops.index_select(weight, 0, ops.reshape(at, (-1,))), target._array.shape)
    factors = factors * ops.to_dtype(kept, factors.dtype)
    losses = losses * factors
    if reduction == "none":
        return losses
    total = _sum(losses, kept)
    return total / _sum(factors, kept) if reduction == "mean" else total  # type: ignore[no-any-return]


def _picked(log_probabilities: Tensor, target: Tensor, skipped: int) -> Tensor:
    """-x[n, target[n, …], …], zero where skipped."""
    kept = ops.ne(target, skipped)
    at = ops.where(kept, target, 0)
    dim = 0 if target._array.ndim == 0 else 1
    values = ops.squeeze(ops.gather(log_probabilities, dim, ops.unsqueeze(at, dim)), dim)
    return ops.where(kept, -values, 0.0)  # type: ignore[no-any-return]


def _composed(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str, smoothing: float = 0.0
) -> Tensor:
    """The loss by way of other operations; with smoothing, a share of the target goes to all classes alike."""
    hard = _finished(_picked(input, target, skipped), target, weight, skipped, reduction)
    if not smoothing:
        return hard
    dim = 0 if input._array.ndim == 1 else 1
    count = input._array.shape[dim]
    kept = ops.ne(target, skipped)
    shaped = (
        None if weight is None else ops.reshape(weight, [count if i == dim else 1 for i in range(input._array.ndim)])
    )
    spread = -ops.sum(input if shaped is None else input * shaped, dim)
    spread = ops.where(kept, spread, 0.0)
    if reduction == "mean":
        if weight is None:
            total = ops.to_dtype(ops.sum(kept), input.dtype)
        else:
            at = ops.reshape(ops.where(kept, target, 0), (-1,))
            total = ops.sum(ops.index_select(weight, 0, at) * ops.to_dtype(ops.reshape(kept, (-1,)), weight.dtype))
        spread = ops.sum(spread) / total
    else:
        spread = reduced(spread, reduction)
    return hard * (1 - smoothing) + spread * (smoothing / count)


likelihood.composed.append(_composed)


def _check_index_targets(name: str, input: Tensor, target: Tensor) -> Tensor:
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(target.dtype)}")
    return target if target.dtype is int64 else ops.to_dtype(target, int64)  # type: ignore[no-any-return]


@functional(planned=True)
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


def _nll(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str, smoothing: float = 0.0
) -> Tensor:
    shape = input._array.shape
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.dtype.category != FLOATING:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input.dtype}'")
    count = shape[0] if len(shape) == 1 else shape[1]
    expected = () if len(shape) == 1 else (shape[0], *shape[2:])
    given = target._array.shape
    if len(shape) == 1 and given == (1,):
        return _nll(ops.unsqueeze(input, 0), target, weight, skipped, reduction, smoothing)
    if len(shape) == len(given) == 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {given[0]}")
    if len(shape) == 2 and len(given) > 1 and given[0] == shape[0]:
        raise RuntimeError(f"0D or 1D target tensor expected, multi-target not supported, but got {list(given)}")
    if len(shape) > 1 and (not given or given[0] != shape[0]):
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size ({given[0] if given else ()})."
        )
    if given != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(given)}")
    target = _check_index_targets("nll_loss", input, target)
    _check_weight(weight, count)
    _check_targets(target, count, skipped)
    made = likelihood.likelihood(input, target, weight, skipped, reduction, smoothing)
    if made is None:
        made = _composed(input, target, weight, skipped, reduction, smoothing)
    if smoothing:
        return relabel(made, "AddBackward0")
    if len(shape) > 2 and len(shape) != 4 and reduction == "none":  # PyTorch's are pictures, for the time being
        return relabel(made, "ViewBackward0")
    return relabel(made, "NllLoss2DBackward0" if len(shape) > 2 else "NllLossBackward0")


@functional(planned=True)
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
    if _is_whole(input, target, weight, reduction, label_smoothing):
        return whole_op(input, target, ignore_index, reduction == "mean")[0]  # type: ignore[no-any-return]
    dim = 0 if len(shape) == 1 else 1
    if not label_smoothing and _fusable(input, target):
        _check_weight(weight, shape[1])
        _check_targets(target, shape[1], ignore_index)
        batched = (input._k | target._k) & BATCHED
        if weight is None and reduction != "none" and shape[0] and not batched:
            if modes.on:
                return matrix_op(input, target, ignore_index, reduction == "mean", bool(input._k) and local.grad)[0]  # type: ignore[no-any-return]
            return _of_matrix(input, target, ignore_index, reduction == "mean")
        losses, _ = cross_entropy_op(input, target, ignore_index)
        return relabel(_finished(losses, target, weight, ignore_index, reduction), "NllLossBackward0")
    return _nll(ops.log_softmax(input, dim), target, weight, ignore_index, reduction, label_smoothing)


def _fusable(input: Tensor, target: Tensor) -> bool:
    plain = not (input._k | target._k | modes.on) & ~(GRAD | BATCHED | CAPTURE | FUNCTION_MODE)
    wide = input.dtype is float32 or input.dtype is float64
    x, y = input._array, target._array
    fits = x.ndim == 2 and y.ndim == 1 and x.shape[0] == y.shape[0] and x.size > 0
    return plain and wide and fits and target.dtype is int64


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
    total = ops.sum(product)
    if reduction != "mean":
        return -total  # type: ignore[no-any-return]
    return relabel(total / -(input._array.size // max(count, 1)), "DivBackward1")


SCHEMAS = """
nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor  # autocast=single
cross_entropy  # autocast=single
"""
