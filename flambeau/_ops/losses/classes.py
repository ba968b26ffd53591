"""Losses over classes: negative log-likelihood and cross-entropy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, FLOATING, int64, uint8
from ..._core.state import BATCHED, CUDA, GRAD, META, local, modes
from ..._kernel.training.loss import cascade_sum
from ..._tensor import Tensor
from ..basic import in_dtype
from ..folds import row_programs
from ..folds.extrema import scatter_back
from ..records.batching import each, is_differentiated, merged, parted, rank_of, stacked
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.replay import second
from ..records.rules import type_name
from ..records.shape_rules import dtype_of
from ..registry import ops, relabel
from .elements import TAKEN, check_reduction, functional, legacy_reduction, reduced

# -- scores and targets in one visit -----------------------------------------------------------------------------------


def _rows_of(x: Any) -> tuple[int, ...]:
    """The shape of targets that name classes."""
    return () if x.ndim == 1 else (x.shape[0], *x.shape[2:])


def _beside(t: Tensor, x: Tensor) -> Tensor:
    """One value for each row, in the shape in which it goes with scores."""
    return ops.unsqueeze(t, min(x._array.ndim - 1, 1)) if t._array.ndim else t


def _shapes(
    x: Any, target: Any, weight: Any, skipped: int, smoothing: float, reduction: str, log: bool, gradient: bool
) -> list[Any]:
    factors = weight is not None and target.dtype.kind == "i"
    loss = _rows_of(x) if reduction == "none" else ()
    found = [(loss, dtype_of(x)), ((), dtype_of(x).wide), (_rows_of(x), dtype_of(x).wide) if factors else None]
    return [*found, (x.shape if log else _rows_of(x), dtype_of(x)) if gradient else None]


def _in_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Samples one behind the other, and their losses reduced one by one."""
    alone = rank_of(args[0], mapped[0]) == 1  # samples are single rows
    x, target = (stacked(t, m, size) for t, m in zip(args[:2], mapped))
    if alone:
        made = op(x, target, *args[2:5], "none", *args[6:])
    else:
        made = op(merged(x), merged(target), *args[2:5], "none", *args[6:])
        made = each(made, lambda t: parted(t, size) if t._array.ndim else t)
    losses, _, factors, slopes = made

    def summed(t: Tensor) -> Any:
        return t if alone else ops.sum(t, tuple(range(1, t._array.ndim)))

    if target.dtype is not int64:
        used = ops.full((size,), losses._array.size // size, dtype=losses.dtype, device=x.device)
    else:
        used = ops.to_dtype(summed(ops.ne(target, args[3]) if factors is None else factors), losses.dtype)
    divisor = ops.where(used == 0, 1.0, used) if args[5] == "mean" else ops.ones_like(used)
    if args[5] != "none":
        losses = summed(losses) / divisor
    if args[5] == "mean":  # of nothing is not a number, but its gradient is zero
        losses = ops.where(used == 0, float("nan"), losses)
    return losses, divisor, factors, slopes


def _slopes(
    given: Any, others: Any, x: Any, target: Any, weight: Any, skipped: int, smoothing: float, reduction: str, log: bool
) -> Any:
    """The gradient by scores: that of each row's loss came with it, and is itself a function of the scores."""
    g, by_slopes = given[0], given[3]
    used, _, slopes = others
    made = None
    if g is not None:
        share = g / in_dtype(ops.detach(used) if local.grad else used, g.dtype)
        if log:
            made = slopes * _beside(share, x)
        else:
            made = share * (ops.detach(slopes) if local.grad else slopes)
            at = ops.where(target == skipped, 0, target)
            made = scatter_back(made, x._array.shape, min(x._array.ndim - 1, 1), at, False)
    if by_slopes is not None:
        formula = functools.partial(_by_operations, target=target, weight=weight, skipped=skipped, smoothing=smoothing)
        one = ops.ones((), dtype=x.dtype, device=x.device)
        more = second(lambda x: formula(x, reduction="sum"), [x], one, [True], [by_slopes], [False, True])[1]
        made = more if made is None else made + more
    return made, None, None


@primitive(
    batch=_in_batch,
    meta=_shapes,
    tensors=3,
    name="class_loss",
    grad=_slopes,
    backward_name="NllLossBackward0",
    refuses="target",
)
def class_loss(
    backend: Any, x: Any, target: Any, weight: Any, skipped: int, smoothing: float, reduction: str, log: bool, gradient: bool
) -> Any:  # fmt: skip
    """The loss of scores (`log`) or logarithms of probabilities, what it was divided by, the weights of the targets, and gradients."""
    return row_programs.class_loss(backend, x, target, weight, skipped, smoothing, reduction, log, gradient)


def _in_one_visit(input: Tensor, target: Tensor, weight: Tensor | None, log: bool) -> bool:
    """Whether programs along rows compute the loss: for 16-bit floats on the CPU, operations have PyTorch's roundings."""
    k = input._k | target._k | modes.on
    if weight is not None:
        k |= weight._k
        if (
            weight.dtype is not input.dtype
            or weight._k & (GRAD | BATCHED)
            or weight._array.size != input._array.shape[:2][-1]
        ):
            return False
    if k & ~TAKEN or target._k & GRAD or not input._array.size:
        return False
    return input.dtype.itemsize > 2 or bool(input._k & CUDA and log)


def _loss(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, smoothing: float, reduction: str, log: bool
) -> Tensor:
    smoothing, gradient = float(smoothing), is_differentiated(input)
    return class_loss(input, target, weight, skipped, smoothing, reduction, log, gradient)[0]


# -- by other operations -----------------------------------------------------------------------------------------------


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
    return cascade_op(t, kept) if short else ops.sum(t)


# -- arguments ---------------------------------------------------------------------------------------------------


_check_targets = refusal(row_programs.check_classes)


def _check_weight(weight: Tensor | None, count: int, like: Tensor | None = None) -> None:
    """`like`: what is weighted by looking weights up, which have its dtype then."""
    if weight is not None and weight._array.shape != (count,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {count} classes or no classes but got weight tensor of "
            f"shape: {list(weight._array.shape)}"
        )
    if weight is not None and like is not None and weight.dtype is not like.dtype:
        raise RuntimeError(f"expected scalar type {type_name(like.dtype)} but found {type_name(weight.dtype)}")


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
    return total / _sum(factors, kept) if reduction == "mean" else total


def _picked(log_probabilities: Tensor, target: Tensor, skipped: int) -> Tensor:
    """-x[n, target[n, …], …], zero where skipped."""
    kept = ops.ne(target, skipped)
    at = ops.where(kept, target, 0)
    dim = 0 if target._array.ndim == 0 else 1
    values = ops.squeeze(ops.gather(log_probabilities, dim, ops.unsqueeze(at, dim)), dim)
    return ops.where(kept, -values, 0.0)


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
    if input._array.ndim and input.dtype.category != FLOATING:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input.dtype}'")
    input, target = _checked(input, target, weight)
    if _in_one_visit(input, target, weight, False):
        made = _loss(input, target, weight, ignore_index, 0.0, reduction, False)
    else:
        _check_targets(target, input._array.shape[:2][-1], ignore_index)
        made = _composed(input, target, weight, ignore_index, reduction)
    return _named(made, input._array.shape, reduction)


def _checked(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores and targets that name classes, as they go together."""
    shape, given = input._array.shape, target._array.shape
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    expected = () if len(shape) == 1 else (shape[0], *shape[2:])
    if len(shape) == 1 and given == (1,):
        return _checked(ops.unsqueeze(input, 0), target, weight)
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
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(target.dtype)}")
    _check_weight(weight, shape[:2][-1], input)
    return input, target if target.dtype is int64 else ops.to_dtype(target, int64)


def _named(made: Tensor, shape: Any, reduction: str) -> Tensor:
    """A loss with the name that its node has in PyTorch."""
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
    dim = min(max(len(shape) - 1, 0), 1)
    logs = input if shape and input.dtype.category == FLOATING else ops.log_softmax(input, dim)  # which may refuse it
    input, target = _checked(logs, target, weight)
    if _in_one_visit(input, target, weight, True):
        made = _loss(input, target, weight, ignore_index, label_smoothing, reduction, True)
    else:
        _check_targets(target, input._array.shape[:2][-1], ignore_index)
        made = _by_operations(input, target, weight, ignore_index, label_smoothing, reduction)
    return relabel(made, "AddBackward0") if label_smoothing else _named(made, input._array.shape, reduction)


def _by_operations(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, smoothing: float, reduction: str
) -> Tensor:
    logs = ops.log_softmax(input, min(input._array.ndim - 1, 1))
    if target.dtype.category == FLOATING:
        return _composed_mixed(logs, target, weight, reduction, smoothing)
    return _composed(logs, target, weight, skipped, reduction, smoothing)


def _against_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, skipped: int, reduction: str, smoothing: float
) -> Tensor:
    if skipped >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    _check_weight(weight, input._array.shape[:2][-1])
    if target.dtype is input.dtype and _in_one_visit(input, target, weight, True):
        made = _loss(input, target, weight, skipped, smoothing, reduction, True)
    else:
        made = _by_operations(input, target, weight, skipped, smoothing, reduction)
    return relabel(made, {"mean": "DivBackward1"}.get(reduction, "NegBackward0"))


def _composed_mixed(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    """The loss for probabilities of all classes, by way of other operations."""
    ndim = logs._array.ndim
    dim = min(ndim - 1, 1)
    count = logs._array.shape[dim]
    if smoothing > 0.0:
        target = target * (1 - smoothing) + smoothing / count
    product = logs * target
    if weight is not None:
        product = product * ops.reshape(weight, [count if i == dim else 1 for i in range(ndim)])
    if reduction == "none":
        return -ops.sum(product, dim)
    total = ops.sum(product)
    return total / -(logs._array.size // max(count, 1)) if reduction == "mean" else -total


SCHEMAS = """
nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor  # autocast=single
cross_entropy  # autocast=single
"""
