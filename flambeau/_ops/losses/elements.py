"""Losses that compare an input with a target element by element, under `nn.functional`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, overload

from ..._backend.cpu import cpu
from ..._core.allocation import not_planned
from ..._core.dtypes import BY_NUMPY, FLOATING, float32, float64
from ..._core.state import AUTOCAST, BATCHED, CAPTURE, CUDA, FUNCTION_MODE, GRAD, META, local, modes
from ..._errors.frames import warn_user
from ..._kernel.folds.rows import Rows
from ..._kernel.loops.lang import kernel
from ..._tensor import Tensor
from ..records.batching import stacked
from ..records.declare import pointwise
from ..records.primitive import primitive
from ..records.refusals import is_met, refusal
from ..records.replay import second
from ..records.rules import Rule, real_floating_only, type_name
from ..records.shape_rules import dtype_of, same
from ..registry import labelled, ops, public, relabel

CODES = ("none", "mean", "sum")


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the older arguments `size_average` and `reduce` stand for."""
    if size_average is None and reduce is None:
        return reduction
    not_planned()
    average = size_average is None or size_average
    kept = "none" if reduce is False else "mean" if average else "sum"
    warn_user(f"size_average and reduce args will be deprecated, please use reduction='{kept}' instead.")
    return kept


def check_reduction(reduction: Any) -> str:
    if reduction not in CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """A loss as it is, its mean or its sum."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return ops.mean(loss)
    if reduction == "sum":
        return ops.sum(loss)
    raise ValueError(f"{reduction} is not a valid value for reduction")


TAKEN = GRAD | AUTOCAST | BATCHED | CAPTURE | FUNCTION_MODE | CUDA  # what a loss by programs along rows may meet


def is_taken(*tensors: Tensor) -> bool:
    """Whether programs along rows compute with these: 16-bit floats on the CPU have PyTorch's roundings by operations."""
    k, d = modes.on, tensors[0].dtype
    for t in tensors:
        k |= t._k
    return not k & ~TAKEN and (d is float32 or d is float64) and tensors[0]._array.size > 0


@overload
def functional(function: Any) -> Any: ...
@overload
def functional(*, planned: bool) -> Callable[[Any], Any]: ...
def functional(function: Any = None, *, planned: bool = False) -> Any:
    """Makes a function public under `nn.functional`."""

    def decorate(function: Any) -> Any:
        return public(f"nn.functional.{function.__name__}", method=False, planned=planned)(function)

    return decorate if function is None else decorate(function)


def _warn_of_sizes(name: str, input: Tensor, target: Tensor) -> None:
    a, b = input._array.shape, target._array.shape
    if a != b:
        not_planned()
        warn_user(
            f"{name}: Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )


# -- distances of one element ------------------------------------------------------------------------------------

_square = pointwise(
    "squared_difference", lambda m, x, y: (x - y) * (x - y), Rule("fi"),
    {"x": lambda m, g, x, y: 2.0 * (x - y) * g, "y": lambda m, g, x, y: 2.0 * (y - x) * g},
    public=False, numbers="none", backward_name="MseLossBackward0",
)  # fmt: skip


def _direction(m: Any, x: Any) -> Any:
    """The sign of a difference; NaN of one that is NaN."""
    return m.where(x == x, m.sgn(x), x)


_smooth = pointwise(
    "smooth_absolute", lambda m, x, y, beta: m.where(
        m.abs(x - y) < beta, 0.5 * (x - y) * (x - y) / beta, m.abs(x - y) - 0.5 * beta
    ), real_floating_only,
    {
        "x": lambda m, g, x, y, beta: g * m.where(m.abs(x - y) < beta, (x - y) / beta, _direction(m, x - y)),
        "y": lambda m, g, x, y, beta: g * m.where(m.abs(x - y) < beta, (y - x) / beta, _direction(m, y - x)),
    },
    params=("beta",), public=False, numbers="none", backward_name="SmoothL1LossBackward0",
)  # fmt: skip
_huber = pointwise(
    "huber", lambda m, x, y, delta: m.where(
        m.abs(x - y) <= delta, 0.5 * (x - y) * (x - y), delta * (m.abs(x - y) - 0.5 * delta)
    ), real_floating_only,
    {
        "x": lambda m, g, x, y, delta: g * m.where(m.abs(x - y) < delta, x - y, delta * _direction(m, x - y)),
        "y": lambda m, g, x, y, delta: g * m.where(m.abs(x - y) < delta, y - x, delta * _direction(m, y - x)),
    },
    params=("delta",), public=False, numbers="none", backward_name="HuberLossBackward0",
)  # fmt: skip
_logits = pointwise(
    "logistic_loss", lambda m, x, y: m.where(x >= 0.0, x * (1.0 - y), -x * y) + m.log1p(m.exp(-m.abs(x))),
    real_floating_only,
    {"x": lambda m, g, x, y: (m.sigmoid(x) - y) * g, "y": lambda m, g, x: -g * x}, stepwise=True,
    public=False, numbers="none", backward_name="BinaryCrossEntropyWithLogitsBackward0",
    short=lambda m, cut, x, y: cut(cut(1.0 - y) * x) + cut(m.maximum(-x, 0.0) + m.log1p(m.exp(-m.abs(x)))),
)  # fmt: skip


def _log_sigmoid(m: Any, x: Any) -> Any:
    return -(m.clamp_min(-x, 0.0) + m.log1p(m.exp(-m.abs(x))))


_weighted_logits = pointwise(
    "weighted_logistic_loss", lambda m, x, y, w: (1.0 - y) * x - ((w - 1.0) * y + 1.0) * _log_sigmoid(m, x),
    real_floating_only,
    {
        "x": lambda m, g, x, y, w: ((w * y + 1.0 - y) * m.sigmoid(x) - w * y) * g,
        "y": lambda m, g, x, w: g * (-x - (w - 1.0) * _log_sigmoid(m, x)),
        "w": lambda m, g, x, y: -g * y * _log_sigmoid(m, x),
    },
    stepwise=True, public=False, numbers="none", backward_name="BinaryCrossEntropyWithLogitsBackward0",
    short=lambda m, cut, x, y, w: cut(cut(1.0 - y) * x) - cut(cut(cut(cut(w - 1.0) * y) + 1.0) * cut(_log_sigmoid(m, x))),
)  # fmt: skip
_entropy = pointwise(
    "binary_entropy", lambda m, x, y: (y - 1.0) * m.maximum(m.log1p(-x), -100.0) - y * m.maximum(m.log(x), -100.0),
    real_floating_only,
    {
        "x": lambda m, g, x, y: g * (x - y) / m.clamp_min((1.0 - x) * x, 1e-12),
        "y": lambda m, g, x: g * (m.clamp_min(m.log1p(-x), -100.0) - m.clamp_min(m.log(x), -100.0)),
    },
    public=False, numbers="none", backward_name="BinaryCrossEntropyBackward0",
)  # fmt: skip
_soft_margin = pointwise(
    "logistic_margin", lambda m, x, y: m.log1p(m.exp(-y * x)), real_floating_only,
    {"x": lambda m, g, x, y: -g * y * m.sigmoid(-y * x), "y": lambda m, g, x, y: -g * x * m.sigmoid(-y * x)},
    public=False, numbers="none", backward_name="SoftMarginLossBackward0",
)  # fmt: skip


# -- sums of all elements, with their gradients --------------------------------------------------------------------


_RECORDS = {
    "square": _square, "absolute": None, "smooth": _smooth, "huber": _huber, "entropy": _entropy, "logits": _logits,
}  # fmt: skip


def _elements(how: str, x: Tensor, y: Tensor, width: float) -> Tensor:
    op = _RECORDS[how]
    return ops.abs(x - y) if op is None else op(x, y, width) if op.params else op(x, y)


def _formulas(how: str) -> tuple[Any, Any]:
    """An element's loss and the derivative by x, as the pointwise records have them, both with a last argument for the width."""
    op: Any = _RECORDS[how]
    if op is None:
        return lambda m, x, y, width: m.real_abs(x - y), lambda m, g, x, y, width: g * m.sgn(x - y)
    value, slope = op.body, op.grads[0].formula
    if op.params:
        return value, slope
    return lambda m, x, y, width: value(m, x, y), lambda m, g, x, y, width: slope(m, g, x, y)


@functools.cache
def _sum(how: str, mean: bool) -> Rows:
    value = _formulas(how)[0]

    def last(m: Any, width: Any, total: Any, count: Any) -> Any:
        return total * (1.0 / m.cast(count, "f64")) if mean else total

    lift = ("sum", lambda m, x, y, width, count: value(m, x, y, m.cast(width, x.type)))
    return Rows((lift,), last, each=False, fixed=1, numbers=1)


@functools.cache
def _slopes(how: str) -> Rows:
    slope = _formulas(how)[1]

    def last(m: Any, x: Any, y: Any, g: Any, width: Any, share: Any, count: Any) -> Any:
        return slope(m, m.cast(m.cast(g, "f64") * share, x.type), x, y, m.cast(width, x.type))

    return Rows((), last, fixed=3, numbers=2)


def _gradients(g: Tensor, x: Tensor, y: Tensor, how: str, width: float, mean: bool, needs: Any) -> Any:
    return whole_loss_back(g, x, y, how, width, mean, tuple(needs))


def _batched(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Sums within samples."""
    x, y, how, width, mean = args
    x, y = (stacked(t, m, size) for t, m in zip((x, y), mapped))
    made = _elements(how, x, y, width)
    dims = tuple(range(1, made.dim()))
    return made if not dims else ops.mean(made, dims) if mean else ops.sum(made, dims)


def _batched_backward(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The gradients of sums, times the share that each sample's cotangent says."""
    cotangent, x, y, how, width, mean, wanted = args
    own = mapped[1] or mapped[2]
    if own:
        x, y = (stacked(t, m, size) for t, m in zip((x, y), mapped[1:]))
    one = ops.ones((), dtype=x.dtype, device=x.device)
    count = x.numel() // size if own else x.numel()
    shares = ops.mul(stacked(cotangent, mapped[0], size), 1.0 / count if mean else 1.0)
    shares = ops.reshape(shares, (size, *[1] * (x.dim() - own)))
    return tuple([None if t is None else ops.mul(shares, t) for t in op(one, x, y, how, width, False, wanted)])


@primitive(
    meta=lambda x, y, how, width, mean: ((), dtype_of(x)), tensors=2, name="whole_loss", grad=_gradients,
    backward_name="MseLossBackward0", batch=_batched,
)  # fmt: skip
def whole_loss(backend: Any, x: Any, y: Any, how: str, width: float, mean: bool) -> Any:
    """The mean or sum of a loss over dense arrays of one shape, in one visit of both."""
    out = backend.empty((), x.dtype)
    backend.along.run(f"{how}_loss", _sum(how, mean), [x.reshape(-1), y.reshape(-1)], [out], (0,), (width,))
    return out


def _second(
    gs: Any, cotangent: Tensor, x: Tensor, y: Tensor, how: str, width: float, mean: bool, wanted: Any, needs: Any
) -> Any:
    def formula(x: Tensor, y: Tensor) -> Tensor:
        return reduced(_elements(how, x, y, width), "mean" if mean else "sum")

    return second(formula, [x, y], cotangent, wanted, gs, needs)


@primitive(
    meta=lambda cotangent, x, y, how, width, mean, wanted: [same(x) if want else None for want in wanted],
    tensors=3, name="whole_loss_backward", grad=_second, batch=_batched_backward,
)  # fmt: skip
def whole_loss_back(
    backend: Any, cotangent: Any, x: Any, y: Any, how: str, width: float, mean: bool, wanted: Any
) -> Any:
    """The gradients by both, as far as `wanted`."""
    made: list[Any] = []
    share = 1.0 / x.size if mean else 1.0
    for factor, want in zip((share, -share), wanted):  # that by y is the other way round, where it is asked for
        made.append(backend.empty(x.shape, x.dtype) if want else None)
        if want:
            given, numbers = [x.reshape(-1), y.reshape(-1), cotangent], (width, factor)
            backend.along.run(f"{how}_loss_backward", _slopes(how), given, [made[-1].reshape(-1)], (0,), numbers)
    return tuple(made)


_ASKED = CAPTURE | FUNCTION_MODE | GRAD  # what may be on for a loss in one visit


def _in_one_visit(input: Tensor, target: Tensor, how: str, reduction: str) -> bool:
    """Whether the loss is the mean or sum over dense CPU tensors of one shape in single or double precision."""
    x, y, d = input._array, target._array, input.dtype
    if (input._k | target._k | modes.on) & ~_ASKED or target.dtype is not d or not (d is float32 or d is float64):
        return False
    if reduction == "none" or x.shape != y.shape or not x.size or not (x.flags.c_contiguous and y.flags.c_contiguous):
        return False
    return not (target._k & GRAD and how in ("logits", "entropy"))


def _loss(input: Tensor, target: Tensor, how: str, reduction: str, width: float = 1.0) -> Tensor:
    """A loss by elements, reduced: in one visit of both tensors where that can be."""
    if _in_one_visit(input, target, how, reduction):
        return whole_loss(input, target, how, width, reduction == "mean")
    return reduced(_elements(how, input, target, width), reduction)


@functional(planned=True)
@labelled("MseLossBackward0")
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The squared differences, averaged.

    >>> import flambeau as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    _warn_of_sizes("mse_loss", input, target)
    if weight is not None:
        return _weighted(_square(input, target), weight, input, reduction)
    return _loss(input, target, "square", reduction)


def _check_weight(weight: Tensor, input: Tensor) -> None:
    if weight._array.shape != input._array.shape:
        raise ValueError("Weights and input must have the same size.")


def _weighted(loss: Tensor, weight: Tensor, input: Tensor, reduction: str) -> Tensor:
    _check_weight(weight, input)
    loss = loss * weight
    if reduction == "mean":
        return ops.sum(loss) / ops.sum(weight)
    return reduced(loss, reduction)


@functional(planned=True)
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The absolute differences, averaged."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    _warn_of_sizes("l1_loss", input, target)
    if weight is not None:
        return _weighted(ops.abs(input - target), weight, input, reduction)
    made = _loss(input, target, "absolute", reduction)
    return made if reduction == "none" else relabel(made, "SumBackward0" if reduction == "sum" else "MeanBackward0")


@functional(planned=True)
@labelled("SmoothL1LossBackward0")
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Squared differences below `beta`, absolute ones above, joined smoothly."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    _warn_of_sizes("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0.0:
        return reduced(ops.abs(input - target), reduction)
    return _loss(input, target, "smooth", reduction, float(beta))


@functional(planned=True)
@labelled("HuberLossBackward0")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared differences up to `delta`, a straight line above."""
    check_reduction(reduction)
    _warn_of_sizes("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        _check_weight(weight, input)  # the mean is over the elements, unlike that of `_weighted`
        return reduced(_huber(input, target, float(delta)) * weight, reduction)
    return _loss(input, target, "huber", reduction, float(delta))


# -- probabilities -----------------------------------------------------------------------------------------------


@kernel("(n)->()")
def _leaves_unit(m: Any, x: Any, found: Any) -> None:
    """Whether an element is not between 0 and 1."""
    bad = m.value(0, "b1")
    for i in range(x.n):
        bad = bad | ~((x[i] >= 0.0) & (x[i] <= 1.0))
    found[()] = bad


@refusal
def _check_unit(backend: Any, x: Any) -> None:
    """Raises unless all elements are between 0 and 1."""
    native = backend is cpu and BY_NUMPY[x.dtype].category == FLOATING
    if is_met(_leaves_unit, x) if native else not (x.min() >= 0 and x.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")


@refusal
def _check_variance(backend: Any, x: Any) -> None:
    if (x < 0).any():
        raise ValueError("var has negative entry/entries")


@functional(planned=True)
@labelled("BinaryCrossEntropyBackward0")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(y log x + (1 - y) log(1 - x)) for probabilities x; the logarithms are not below -100."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if target._array.shape != input._array.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if input.dtype is not target.dtype:
        raise RuntimeError(f"Found dtype {type_name(target.dtype)} but expected {type_name(input.dtype)}")
    _check_unit(input)
    if weight is None:
        return _loss(input, target, "entropy", reduction)
    return reduced(_entropy(input, target) * weight, reduction)


def _logit_loss(input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None) -> Tensor:
    if pos_weight is None:
        loss = _logits(input, target)
    else:
        loss = _weighted_logits(input, target, pos_weight)
    return loss if weight is None else loss * weight


@functional(planned=True)
@labelled("BinaryCrossEntropyWithLogitsBackward0")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`binary_cross_entropy` of sigmoid(input), computed without loss.

    >>> import flambeau as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if target._array.shape != input._array.shape:
        raise ValueError(
            f"Target size ({tuple(target._array.shape)}) must be the same as input size ({tuple(input._array.shape)})"
        )
    if target.dtype.category < FLOATING:
        raise RuntimeError(
            f"binary_cross_entropy_with_logits: result type {type_name(input.dtype)} can't be cast to the desired output "
            f"type {type_name(target.dtype)}; give the target as floating point numbers"
        )
    if weight is None and pos_weight is None and input.dtype is target.dtype:
        return _loss(input, target, "logits", reduction)
    loss = _logit_loss(input, target, weight, pos_weight)
    return reduced(loss if loss.dtype is target.dtype else ops.to_dtype(loss, target.dtype), reduction)


@functional
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """The Kullback-Leibler divergence of `target` from `input`, which holds logarithms of probabilities."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warn_user(
            "reduction: 'mean' divides the total loss by both the batch size and the support size; 'batchmean' "
            "divides by the batch size only, and is the mathematical definition."
        )
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        loss = ops.xlogy(target, target) - target * input
    if reduction == "batchmean":
        size = input._array.shape[0] if input._array.ndim else 1
        return ops.sum(loss) / size if input._array.ndim else ops.sum(loss)
    return reduced(loss, reduction)


@functional
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The negative log-likelihood of counts with a Poisson distribution."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    loss = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        half = 0.5 * ops.log(2 * math.pi * target)  # first: gradients of 16-bit targets add up in PyTorch's order
        loss = loss + ops.masked_fill(target * ops.log(target) - target + half, target <= 1, 0)
    return reduced(loss, reduction)


@functional
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log-likelihood of targets with normal distributions of mean `input` and variance `var`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * ops.ones_like(input)
    elif local.function_modes and not var._k & META:  # a branch, for those who trace: a program would not have it
        if ops.any(var < 0):
            raise ValueError("var has negative entry/entries")
    else:
        _check_variance(var)
    shape, given = input._array.shape, var._array.shape
    if given != shape:
        if shape[:-1] == given:
            var = ops.unsqueeze(var, -1)
        elif not (shape[:-1] == given[:-1] and given[-1] == 1) and not _broadcasts(shape, given):
            raise ValueError("var is of incorrect size")
    if reduction not in CODES:
        raise ValueError(f"{reduction} is not valid")
    held = ops.clone(var)
    limited = held + ops.detach(ops.clamp(held, min=eps) - held)  # the bound has no part in the gradient
    difference = input - target
    loss = 0.5 * (ops.log(limited) + difference * difference / limited)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def _broadcasts(shape: Any, given: Any) -> bool:
    return (
        len(shape) == len(given)
        and sum(a != b for a, b in zip(shape, given)) == 1
        and all(a == b or b == 1 for a, b in zip(shape, given))
    )


@functional
@labelled("SoftMarginLossBackward0")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-y x)) for labels y of 1 and -1."""
    return reduced(_soft_margin(input, target), legacy_reduction(size_average, reduce, reduction))


SCHEMAS = """
mse_loss|l1_loss|soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor  # autocast=single
smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor  # autocast=single
huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor  # autocast=single
binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor  # autocast=cpu:single
kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor  # autocast=single
gaussian_nll_loss  # composite
logistic_loss  # record=binary_cross_entropy_with_logits
"""
