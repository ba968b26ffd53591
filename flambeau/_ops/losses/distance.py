"""Losses on distances and margins: between vectors, and between the scores of classes; under `nn.functional`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._core.dtypes import FLOATING, float32, float64, promote_types
from ..._core.sizes import broadcast_shapes, wrap_dim
from ..._core.state import DUAL, GRAD, modes
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor
from ..records.batching import along
from ..records.declare import pointwise
from ..records.primitive import primitive
from ..records.replay import second
from ..records.rules import real_floating, real_floating_only
from ..records.shape_rules import dtype_of, same
from ..registry import functions, labelled, ops, public
from .elements import CODES, check_reduction, functional, is_taken, legacy_reduction, reduced

# -- angles ------------------------------------------------------------------------------------------------------


@functools.cache
def _angles(added: bool, gradient: bool) -> Rows:
    """The cosine of the angle between two rows, or its derivative by the first, whose factor is fixed; then comes eps, which the lengths
    are at least, or which is `added` to their squares."""

    def length(m: Any, squares: Any, eps: Any) -> Any:
        return m.real_sqrt(squares + eps) if added else m.maximum(m.real_sqrt(squares), eps)

    def settle(m: Any, g: Any, eps: Any, one: Any, two: Any, both: Any, count: Any) -> tuple[Any, Any]:
        """A bound on a length has no part in the derivative."""
        held = length(m, one, eps)
        factor = m.cast(g, "f64") / (held * length(m, two, eps))
        own = held if added else m.real_sqrt(one)
        return m.cast(factor, g.type), m.cast(m.where(own > 0.0, factor * both / (held * own), 0.0), g.type)

    stages = (
        ("sum", lambda m, a, b, *rest: a * a),
        ("sum", lambda m, a, b, *rest: b * b),
        ("sum", lambda m, a, b, *rest: a * b),
    )
    if gradient:
        return Rows(stages, lambda m, a, b, g, eps, x, y, n: x * b - y * a, fixed=2, settle=settle, numbers=1)

    def last(m: Any, eps: Any, one: Any, two: Any, both: Any, count: Any) -> Any:
        return both / (length(m, one, eps) * length(m, two, eps))

    return Rows(stages, last, each=False, fixed=1, numbers=1)


def _without(shape: Any, dim: int) -> tuple[int, ...]:
    return (*shape[:dim], *shape[dim + 1 :])


def _cosine_gradients(g: Tensor, x1: Tensor, x2: Tensor, dim: int, eps: float, added: bool, needs: Any) -> Any:
    return cosine_backward(ops.unsqueeze(g, dim), x1, x2, dim, eps, added, tuple(needs))


@primitive(
    meta=lambda x1, x2, dim, eps, added: (_without(x1.shape, dim), dtype_of(x1)), tensors=2, name="cosine",
    backward_name="SumBackward1", batch=along, grad=_cosine_gradients,
)  # fmt: skip
def cosine_op(backend: Any, x1: Any, x2: Any, dim: int, eps: float, added: bool) -> Any:
    out = backend.empty(_without(x1.shape, dim), x1.dtype)
    backend.along.run("cosine", _angles(added, False), [x1, x2], [out], (dim,), (eps,))
    return out


def _cosine_second(
    gs: Any, cotangent: Tensor, x1: Tensor, x2: Tensor, dim: int, eps: float, added: bool, wanted: Any, needs: Any
) -> Any:
    def formula(a: Tensor, b: Tensor) -> Tensor:
        return ops.unsqueeze((_cosine_of_squares if added else _cosine)(a, b, dim, eps), dim)

    return second(formula, [x1, x2], cotangent, wanted, gs, needs)


@primitive(
    meta=lambda cotangent, x1, x2, dim, eps, added, wanted: [same(x1) if want else None for want in wanted],
    tensors=3, name="cosine_backward", batch=along, grad=_cosine_second,
)  # fmt: skip
def cosine_backward(
    backend: Any, cotangent: Any, x1: Any, x2: Any, dim: int, eps: float, added: bool, wanted: Any
) -> Any:
    """The gradients by both, as far as `wanted`; the cotangent has one element along `dim`."""
    made: list[Any] = []
    g, program = cotangent.reshape(_without(x1.shape, dim)), _angles(added, True)
    for pair, want in zip(((x1, x2), (x2, x1)), wanted):
        made.append(backend.empty(x1.shape, x1.dtype) if want else None)
        if want:
            backend.along.run("cosine_backward", program, [*pair, g], [made[-1]], (dim,), (eps,))
    return tuple(made)


@public("cosine_similarity", "nn.functional.cosine_similarity", method=False, planned=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    >>> import flambeau as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    if eps < 0:
        raise RuntimeError(f"cosine_similarity: eps must be non-negative, but got {eps}")
    common = promote_types(x1.dtype, x2.dtype)
    if common.category != FLOATING:
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is " + str(common))
    shape = broadcast_shapes(x1._array.shape, x2._array.shape)
    a, b = (t if t.dtype is common else ops.to_dtype(t, common) for t in (x1, x2))
    a, b = (t if t._array.shape == shape else ops.expand(t, shape) for t in (a, b))
    if not shape:
        a, b = ops.reshape(a, (1,)), ops.reshape(b, (1,))
        return ops.reshape(_cosine(a, b, 0 if dim in (0, -1) else dim, eps), ())
    if is_taken(a, b):
        return cosine_op(a, b, wrap_dim(dim, len(shape)), float(eps), False)
    return _cosine(a, b, dim, eps)


def _cosine(a: Tensor, b: Tensor, dim: int, eps: float) -> Tensor:
    scaled = []
    for t in (a, b):
        length = ops.norm(t, 2, dim, True)
        scaled.append(t / (length + ops.detach(ops.clamp(length, min=eps) - length)))
    return ops.sum(scaled[0] * scaled[1], dim)


def _cosine_of_squares(a: Tensor, b: Tensor, dim: int, eps: float) -> Tensor:
    """The same with `eps` added to the squared lengths."""
    one, two = (ops.sum(x * x, dim) + eps for x in (a, b))
    return ops.sum(a * b, dim) / ops.sqrt(one * two)


# -- distances ---------------------------------------------------------------------------------------------------

# Whoever records operations (`modes.seen`) sees the usual ones instead of these two.
_apart = pointwise(
    "shifted_difference", lambda m, x, y, eps: x - y + eps, real_floating_only,
    {"x": lambda m, g: g, "y": lambda m, g: -g}, short=lambda m, cut, x, y, eps: cut(x - y) + eps,
    params=("eps",), public=False, numbers="none",
)  # fmt: skip
_scaled = pointwise(
    "normalized", lambda m, x, length, eps: x / m.maximum(length, eps), real_floating_only,
    {
        "x": lambda m, g, length, eps: g / m.clamp_min(length, eps),
        "length": lambda m, g, x, length, eps: m.where(length >= eps, -g * (x / length / length), 0.0),
    },
    params=("eps",), public=False, numbers="none", backward_name="DivBackward0",
)  # fmt: skip


@public("pairwise_distance", "nn.functional.pairwise_distance", method=False, planned=True)
@labelled("NormBackward1")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    if x1.dtype is x2.dtype and x1.dtype.category == FLOATING and not modes.seen():
        difference = _apart(x1, x2, eps)
    else:
        difference = ops.add(ops.sub(x1, x2), eps)
    last = max(x1._array.ndim, x2._array.ndim) - 1
    return ops.norm(difference, p, last, keepdim)


@functional
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along a dimension divided by their p-norm, which counts as `eps` at least."""
    length = ops.norm(input, p, dim, True)
    if out is None and (input.dtype is float32 or input.dtype is float64) and not modes.seen():
        return _scaled(input, length, eps)
    length = ops.expand_as(ops.clamp_min(length, eps), input)
    return ops.div(input, length) if out is None else functions["div"](input, length, out=out)


# -- margins -----------------------------------------------------------------------------------------------------
# Whoever records operations (`modes.seen`) sees the usual ones instead of these.

_hinge = pointwise(
    "hinge", lambda m, x, y, margin: m.where(y != 1.0, m.maximum(margin - x, 0.0), 0.0) + m.where(y != -1.0, x, 0.0),
    real_floating,
    {
        "x": lambda m, g, x, y, margin: (
            m.where(y != -1.0, g, 0.0) - m.where((y != 1.0) & (margin - x >= 0.0), g, 0.0)
        ),
    },
    short=lambda m, cut, x, y, margin: (
        m.where(y != 1.0, m.maximum(cut(cut(margin) - x), 0.0), 0.0) + m.where(y != -1.0, x, 0.0)
    ),
    params=("margin",), stepwise=True, public=False, numbers="none", backward_name="AddBackward0",
)  # fmt: skip
_ranking = pointwise(
    "ranking", lambda m, x1, x2, y, margin: m.maximum(-y * (x1 - x2) + margin, 0.0), real_floating_only,
    {
        "x1": lambda m, g, x1, x2, y, margin: m.where(-y * (x1 - x2) + margin >= 0.0, -g * y, 0.0),
        "x2": lambda m, g, x1, x2, y, margin: m.where(-y * (x1 - x2) + margin >= 0.0, g * y, 0.0),
        "y": lambda m, g, x1, x2, y, margin: m.where(-y * (x1 - x2) + margin >= 0.0, g * (x2 - x1), 0.0),
    },
    short=lambda m, cut, x1, x2, y, margin: m.maximum(cut(-y * cut(x1 - x2)) + margin, 0.0),
    params=("margin",), stepwise=True, public=False, numbers="none", backward_name="ClampMinBackward0",
)  # fmt: skip
_angular = pointwise(
    "angular_margin",
    lambda m, x, y, margin: m.where(y == 1.0, 1.0 - x, m.where(y == -1.0, m.maximum(x - margin, 0.0), 0.0)),
    real_floating,
    {"x": lambda m, g, x, y, margin: m.where(y == 1.0, -g, m.where((y == -1.0) & (x - margin >= 0.0), g, 0.0))},
    params=("margin",), stepwise=True, public=False, numbers="none", backward_name="AddBackward0",
)  # fmt: skip
_gap = pointwise(
    "triplet_gap", lambda m, near, far, margin: m.maximum(near - far + margin, 0.0), real_floating_only,
    {
        "near": lambda m, g, near, far, margin: m.where(near - far + margin >= 0.0, g, 0.0),
        "far": lambda m, g, near, far, margin: m.where(near - far + margin >= 0.0, -g, 0.0),
    },
    short=lambda m, cut, near, far, margin: m.maximum(cut(near - far) + margin, 0.0),
    params=("margin",), stepwise=True, public=False, numbers="none", backward_name="ClampMinBackward0",
)  # fmt: skip


def _signs(target: Tensor, like: Tensor) -> Tensor:
    """Labels, which have no gradient, in the dtype of the scores."""
    target = ops.detach(target) if target._k & (GRAD | DUAL) else target
    return target if target.dtype is like.dtype else ops.to_dtype(target, like.dtype)


@functional
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x for a target of 1, max(0, margin - x) for a target of -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if not modes.seen():
        return reduced(_hinge(input, _signs(target, input), margin), reduction)
    nothing = ops.zeros_like(input)
    far = ops.where(ops.ne(target, 1), ops.clamp_min(margin - input, 0), nothing)
    near = ops.where(ops.ne(target, -1), input, nothing)
    return reduced(far + near, reduction)


@functional
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -y (x1 - x2) + margin)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if not input1._array.ndim == input2._array.ndim == target._array.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    if input1.dtype is input2.dtype is target.dtype and target.dtype.category == FLOATING and not modes.seen():
        return reduced(_ranking(input1, input2, target, margin), reduction)
    return reduced(ops.clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@functional(planned=True)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos for a target of 1, max(0, cos - margin) for a target of -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    rank = target._array.ndim
    if rank not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1._array.ndim != rank + 1 or input2._array.ndim != rank + 1:
        raise RuntimeError(f"{rank}D target tensor expects {rank + 1}D input tensors")
    if not modes.seen():
        fits = input1._array.shape == input2._array.shape and input1.dtype is input2.dtype and is_taken(input1, input2)
        cosine = (cosine_op if fits else _cosine_of_squares)(input1, input2, rank, 1e-12, *([True] if fits else []))
        return reduced(_angular(cosine, _signs(target, cosine), margin), reduction)
    cosine = _cosine_of_squares(input1, input2, rank, 1e-12)
    nothing = ops.zeros_like(cosine)
    near = ops.where(ops.eq(target, 1), 1 - cosine, nothing)
    far = ops.where(ops.eq(target, -1), ops.clamp_min(cosine - margin, 0), nothing)
    return reduced(near + far, reduction)


@functional
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, |a - p| - |a - n| + margin)."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = {t._array.ndim for t in (anchor, positive, negative)}
    if len(ranks) > 1:
        raise RuntimeError("anchor, positive and negative must have the same number of dimensions")
    return reduced(
        _triplet(lambda a, b: pairwise_distance(a, b, p, eps), anchor, positive, negative, margin, swap), reduction
    )


def _triplet(
    distance: Callable[..., Any], anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, swap: bool
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    if near.dtype is far.dtype and near.dtype.category == FLOATING and not modes.seen():
        return _gap(near, far, margin)
    return ops.clamp_min(near - far + margin, 0)


@functional
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with any distance."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if reduction not in CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    ranks = [t._array.ndim for t in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(f"anchor, positive and negative must have the same number of dimensions, but got {ranks}")
    return reduced(
        _triplet(distance_function or pairwise_distance, anchor, positive, negative, margin, swap), reduction
    )


SCHEMAS = """
cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor  # autocast=cuda:single
pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor
normalize|triplet_margin_with_distance_loss  # composite
"""
