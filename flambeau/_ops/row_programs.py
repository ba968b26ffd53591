"""Norms and class losses as programs along rows, for devices whose threads work on a row together."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._backend.cuda_rows import Operand
from .._core.dtypes import BY_NUMPY
from .._kernel.rows import Rows

_INT64 = np.dtype(np.int64)


def _per_row(a: Any, rows: int) -> tuple[Any, Operand]:
    """One value, or one for each row, as an operand with one for each row."""
    return a, Operand((rows,), a.strides or (0,), a.dtype)


def _inside(code: str) -> str:
    return "f64" if code == "f64" else "f32"


# -- norms ---------------------------------------------------------------------------------------------------------


@functools.cache
def _norm(eps: float, center: bool, weighted: bool, biased: bool, code: str) -> Rows:
    def deviation(m: Any, x: Any, total: Any, count: Any) -> Any:
        d = x - m.cast(total, x.type) / m.cast(count, x.type)
        return d * d

    def settle(m: Any, *given: Any) -> tuple[Any, Any]:
        *totals, count = [m.cast(t, code) for t in given]
        mean = totals[0] / count if center else m.zeros_like(totals[0])
        return mean, 1.0 / m.real_sqrt(totals[-1] / count + eps)

    def last(m: Any, x: Any, *given: Any) -> Any:
        *parameters, mean, scale, _ = given
        y = (x - mean) * scale if center else x * scale
        if weighted:
            y = y * m.cast(parameters[0], x.type)
        return y + m.cast(parameters[-1], x.type) if biased else y

    squares = ("sum", lambda m, x, count: x * x)
    stages = (("sum", lambda m, x, count: x), ("sum", deviation)) if center else (squares,)
    return Rows(stages, last, late=weighted + biased, settle=settle)


def normalized(backend: Any, x: Any, weight: Any, bias: Any, eps: float, center: bool) -> tuple[Any, Any, Any]:
    """The rows of a matrix normalized; their means and the factors they were multiplied by."""
    d = BY_NUMPY[x.dtype]
    out, mean, scale = backend.empty(x.shape, x.dtype), *[backend.empty(x.shape[:1], d.wide.numpy) for _ in range(2)]
    parameters = [(p, Operand(x.shape, (0, *p.strides), p.dtype)) for p in (weight, bias) if p is not None]
    program = _norm(eps, center, weight is not None, bias is not None, _inside(d.code))
    backend.along.run("norm_rows", program, [x, *parameters], [out, mean, scale], (1,))
    return out, mean, scale


@functools.cache
def _norm_backward(center: bool, weighted: bool, code: str) -> Rows:
    def parts(m: Any, given: Any) -> tuple[Any, Any, Any]:
        """The gradient of the normalized element, that element, and what the row was multiplied by."""
        g, x, *weight, mean, scale = given
        y = ((x - mean) if center else x) * scale
        return g * m.cast(weight[0], x.type) if weighted else g, y, scale

    def first(m: Any, *given: Any) -> Any:
        return parts(m, given[:-1])[0]

    def second(m: Any, *given: Any) -> Any:
        g, y, _ = parts(m, given[: 4 + weighted])
        return g * y

    def settle(m: Any, *given: Any) -> tuple[Any, ...]:
        *totals, count = [m.cast(t, code) for t in given[2:]]
        return tuple([t / count for t in totals])

    def last(m: Any, *given: Any) -> Any:
        g, y, scale = parts(m, given[: 4 + weighted])
        means = given[4 + weighted : -1]
        return scale * (g - means[0] - y * means[1] if center else g - y * means[0])

    stages = (("sum", first), ("sum", second)) if center else (("sum", second),)
    return Rows(stages, last, fixed=2, settle=settle)


@functools.cache
def _norm_sums(center: bool) -> Rows:
    """By weight and bias: sums down the columns."""

    def by_weight(m: Any, g: Any, x: Any, mean: Any, scale: Any, *rest: Any) -> Any:
        return g * (((x - mean) if center else x) * scale)

    stages = (("sum", by_weight), ("sum", lambda m, g, x, mean, scale, *rest: g))
    return Rows(stages, lambda m, weight, bias, count: (weight, bias), each=False)


def normalized_backward(
    backend: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, center: bool, wanted: Any
) -> tuple[Any, ...]:
    """The gradients by x, weight and bias, None where they are not wanted."""
    made: list[Any] = [None, None, None]
    if wanted[0]:
        made[0] = backend.empty(x.shape, x.dtype)
        weights = [] if weight is None else [(weight, Operand(x.shape, (0, *weight.strides), weight.dtype))]
        program = _norm_backward(center, weight is not None, _inside(BY_NUMPY[x.dtype].code))
        backend.along.run("norm_backward", program, [g, x, *weights, mean, scale], made[:1], (1,))
    if wanted[1] or wanted[2]:
        statistics = [(s, Operand(x.shape, (*s.strides, 0), s.dtype)) for s in (mean, scale)]
        d = x.dtype if weight is None else weight.dtype
        sums = backend.along.sums_down("norm_sums", _norm_sums(center), [g, x, *statistics], 2, d)
        made[1:] = [a if want else None for a, want in zip(sums, wanted[1:])]
    return tuple(made)


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
