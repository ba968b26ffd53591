"""Norms and class losses as programs along rows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend.cuda_rows import Operand
from ..._core.dtypes import BY_NUMPY
from ..._kernel.rows import Rows
from ..._kernel.value import COMPUTE

_INT64 = np.dtype(np.int64)


def _per_row(a: Any, rows: int) -> tuple[Any, Operand]:
    """One value, or one for each row, as an operand with one for each row."""
    return a, Operand((rows,), a.strides or (0,), a.dtype)


def _inside(code: str) -> str:
    return "f64" if code == "f64" else "f32"


# -- norms ---------------------------------------------------------------------------------------------------------


@functools.cache
def _norm(center: bool, weighted: bool, biased: bool, code: str) -> Rows:
    kind, short = _inside(code), code in COMPUTE

    def mean(m: Any, total: Any, count: Any) -> Any:
        return m.cast(total / m.cast(count, "f64"), kind)

    def deviation(m: Any, x: Any, eps: Any, mean: Any, count: Any) -> Any:
        d = x - mean
        return d * d

    def settle(m: Any, eps: Any, *given: Any) -> tuple[Any, Any]:
        *means, squares, count = given
        spread = squares / m.cast(count, "f64")
        if short:  # in single precision, as PyTorch does: what is left of a row of one element depends on it
            factor = 1.0 / m.real_sqrt(m.cast(spread, kind) + m.cast(eps, kind))
        else:
            factor = m.cast(1.0 / m.real_sqrt(spread + eps), kind)
        return means[0] if center else m.zeros_like(factor), factor

    def last(m: Any, x: Any, *given: Any) -> Any:
        *parameters, _, mean, scale, _ = given
        if not center:
            y = x * scale
        else:  # 16-bit floats have the rounding that PyTorch gives them
            y = m.fma(x, scale, -(mean * scale)) if short else (x - mean) * scale
        if weighted:
            y = y * m.cast(parameters[0], x.type)
        return y + m.cast(parameters[-1], x.type) if biased else y

    squares = ("sum", lambda m, x, eps, count: x * x)
    stages = (("sum", lambda m, x, eps, count: x, mean), ("sum", deviation)) if center else (squares,)
    return Rows(stages, last, fixed=1, numbers=1, late=weighted + biased, settle=settle)


def normalized(
    backend: Any, x: Any, weight: Any, bias: Any, eps: float, center: bool, kept: Any
) -> tuple[Any, Any, Any]:
    """The rows of a matrix normalized; their means and the factors they were multiplied by, of dtype `kept`."""
    out, mean, scale = backend.empty(x.shape, x.dtype), *[backend.empty(x.shape[:1], kept) for _ in range(2)]
    program = _norm(center, weight is not None, bias is not None, BY_NUMPY[x.dtype].code)
    operands = [x, *[p for p in (weight, bias) if p is not None]]
    backend.along.run("norm_rows", program, operands, [out, mean, scale], (1,), (eps,))
    return out, mean, scale


@functools.cache
def _norm_backward(center: bool, weighted: bool, sums: bool, code: str) -> Rows:
    def parts(m: Any, given: Any) -> tuple[Any, ...]:
        """The gradient, that of the normalized element, and the element's distance from the mean; mean and factor."""
        g, x, *weight, mean, scale = given[: 4 + weighted]
        mean, scale = m.cast(mean, code), m.cast(scale, code)
        return g, g * m.cast(weight[0], code) if weighted else g, x - mean if center else x, scale

    def settle(m: Any, mean: Any, scale: Any, *given: Any) -> tuple[Any, ...]:
        *level, slope, count = given
        wide, count = m.cast(scale, "f64"), m.cast(count, "f64")
        return *[m.cast(t / count, code) for t in level], m.cast(slope * wide * wide / count, code)

    def last(m: Any, *given: Any) -> Any:
        _, g, away, scale = parts(m, given)
        *level, slope, _ = given[4 + weighted :]
        return (g - level[0] - away * slope if center else g - away * slope) * scale

    def first(m: Any, *given: Any) -> Any:
        return parts(m, given)[1]

    def second(m: Any, *given: Any) -> Any:
        _, g, away, _ = parts(m, given)
        return g * away

    def by_weight(m: Any, *given: Any) -> Any:
        g, _, away, scale = parts(m, given)
        return g * (away * scale)

    stages = (("sum", first), ("sum", second)) if center else (("sum", second),)
    down = (by_weight, lambda m, g, *rest: g) if sums else ()
    return Rows(stages, last, fixed=2, settle=settle, down=down)


def normalized_backward(
    backend: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, center: bool, wanted: Any
) -> tuple[Any, ...]:
    """The gradients by x, weight and bias, None where they are not wanted."""
    sums = bool(wanted[1] or wanted[2])
    program = _norm_backward(center, weight is not None, sums, _inside(BY_NUMPY[x.dtype].code))
    operands = [g, x, *([] if weight is None else [weight]), mean, scale]
    out = backend.empty(x.shape, x.dtype)
    if not sums:
        backend.along.run("norm_backward", program, operands, [out], (1,))
        return out, None, None
    d = BY_NUMPY[x.dtype].wide.numpy if weight is None else weight.dtype
    found = backend.along.run_down("norm_backward", program, operands, out, d)
    return out if wanted[0] else None, *[a if want else None for a, want in zip(found, wanted[1:])]


# -- class losses --------------------------------------------------------------------------------------------------


@functools.cache
def _entropy(skipped: int, code: str) -> Rows:
    def last(m: Any, target: Any, own: Any, high: Any, total: Any, count: Any) -> tuple[Any, Any]:
        size = m.cast(high, code) + m.log(m.cast(total, code))
        return m.where(target == skipped, 0.0, size - m.cast(own, code)), size

    stages = (
        ("max", lambda m, x, target, count: x),
        ("sum", lambda m, x, target, high, count: m.exp(x - high)),
    )
    return Rows(stages, last, each=False, fixed=1, picks=((0, 0),))


@functools.cache
def _whole(skipped: int, classes: int, mean: bool) -> Rows:
    """The losses of all rows made one, how many there are, and whether a target names no class."""

    def wrong(m: Any, loss: Any, target: Any, word: Any, *rest: Any) -> Any:
        return m.cast((target != skipped) & ((target < 0) | (target >= classes)), "i64")

    def last(m: Any, word: Any, total: Any, used: Any, bad: Any, count: Any) -> tuple[Any, Any, Any]:
        return total / m.cast(used, "f64") if mean else total, used, word + bad

    stages = (
        ("sum", lambda m, loss, target, word, *rest: loss),
        ("count", lambda m, loss, target, word, *rest: m.cast(target != skipped, "i64")),
        ("count", wrong),
    )
    return Rows(stages, last, each=False, fixed=1)


def entropy(backend: Any, x: Any, target: Any, skipped: int, mean: bool) -> tuple[Any, Any, Any]:
    """The cross entropy of rows of scores; logarithms of the sums of their exponentials, and how many rows count."""
    d = BY_NUMPY[x.dtype]
    losses, sizes = (backend.empty(x.shape[:1], d.wide.numpy) for _ in range(2))
    backend.along.run("cross_entropy", _entropy(skipped, _inside(d.code)), [x, target], [losses, sizes], (1,))
    loss, used = backend.empty((), x.dtype), backend.empty((), _INT64)
    word = backend.errors.address(), Operand((), (), _INT64)
    backend.along.run("cross_entropy_whole", _whole(skipped, x.shape[1], mean), [losses, target, word], [loss, used, word], (0,))  # fmt: skip
    return loss, sizes, used


@functools.cache
def _entropy_backward(skipped: int, mean: bool) -> Rows:
    def last(m: Any, x: Any, size: Any, target: Any, g: Any, used: Any, count: Any, index: Any) -> Any:
        share = g / m.cast(used, x.type) if mean else g
        p = m.exp(x - size)
        return m.where(target == skipped, 0.0, m.where(index == target, p - 1.0, p) * share)

    return Rows((), last, fixed=4, indexed=True)


def entropy_backward(backend: Any, g: Any, x: Any, sizes: Any, used: Any, target: Any, skipped: int, mean: bool) -> Any:
    out = backend.empty(x.shape, x.dtype)
    fixed = [_per_row(a, x.shape[0]) for a in (sizes, target, g, used)]
    backend.along.run("cross_entropy_backward", _entropy_backward(skipped, mean), [x, *fixed], [out], (1,))
    return out
