"""Norms and class losses as programs along rows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._core.dtypes import BY_NUMPY
from ..._kernel.folds.rows import Rows
from ..._kernel.render.value import COMPUTE

_INT64 = np.dtype(np.int64)


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


# -- norms of channels and groups of them --------------------------------------------------------------------------------

_MEAN = ("sum", lambda m, x, *rest: x, lambda m, total, count: total / m.cast(count, "f64"))
_TOTAL = Rows((("sum", lambda m, x, count: x),), lambda m, total, count: total, each=False)


def _distances(place: int, kind: str) -> Any:
    """The stage after the mean, which its lift finds at a place."""

    def squared(m: Any, x: Any, *rest: Any) -> Any:
        d = x - m.cast(rest[place], kind)
        return d * d

    return "sum", squared


def _spread(m: Any, squares: Any, count: Any, rounded: bool, kept: str) -> Any:
    """The variance; 16-bit statistics are rounded where PyTorch rounds them."""
    if rounded and kept in COMPUTE:
        squares = m.cast(m.stored(m.cast(squares, "f32"), kept), "f64")
        return m.cast(m.stored(m.cast(squares / count, "f32"), kept), "f64")
    return squares / count


@functools.cache
def _channel(rounded: bool, code: str, kept: str) -> Rows:
    """Fixed are weight, bias, running mean and variance, eps and momentum; results are the mean and factor of each channel and running
    statistics moved towards those of the batch, of which the variance is the unbiased one."""
    kind = _inside(code)

    def settle(m: Any, weight: Any, bias: Any, old: Any, spread: Any, eps: Any, momentum: Any, *given: Any) -> Any:
        mean, squares, count = given[0], given[1], m.cast(given[2], "f64")
        variance = _spread(m, squares, count, rounded, kept)
        unbiased = variance * (count / m.maximum(count - 1.0, 1.0))
        moved = [m.cast(a, "f64") * (1.0 - momentum) + b * momentum for a, b in ((old, mean), (spread, unbiased))]
        level = m.stored(m.cast(mean, kind), kept)
        factor = m.stored(m.cast(1.0 / m.real_sqrt(variance + eps), kind), kept)
        return level, factor, *moved, factor * m.cast(weight, kind), m.cast(bias, kind)

    def last(m: Any, x: Any, *given: Any) -> Any:
        level, _, _, _, slope, shift, _ = given[6:]
        return (x - m.cast(level, kind)) * m.cast(slope, kind) + shift

    return Rows((_MEAN, _distances(6, kind)), last, fixed=6, settle=settle, numbers=2, moments=True)


def _line(m: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: Any, count: Any) -> tuple[Any, Any]:
    """Slope and level of the line that normalizes a channel by given statistics."""
    slope = m.cast(1.0 / m.real_sqrt(m.cast(variance, "f64") + eps), _inside(mean.type)) * weight
    return slope, bias - mean * slope


GIVEN = Rows((), lambda m, x, *given: x * given[5] + given[6], fixed=5, settle=_line, numbers=1)


@functools.cache
def _channel_backward(steady: bool, code: str) -> Rows:
    """Fixed are weight, mean and factor, which do not depend on the elements if they are `steady`."""
    kind = _inside(code)

    def settle(m: Any, weight: Any, mean: Any, scale: Any, first: Any, second: Any, count: Any) -> tuple[Any, ...]:
        wide, n = m.cast(scale, "f64"), m.cast(count, "f64")
        slope = m.cast(scale, kind) * m.cast(weight, kind)
        level, tilt = (m.zeros_like(wide),) * 2 if steady else (first / n, second * wide * wide / n)
        return second * wide, first, m.cast(level, kind), m.cast(tilt, kind), slope

    def last(m: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, *given: Any) -> Any:
        level, tilt, slope = given[2:5]
        return (m.cast(g, kind) - level - (x - m.cast(mean, kind)) * tilt) * slope

    def away(m: Any, g: Any, x: Any, weight: Any, mean: Any, *rest: Any) -> Any:
        return m.cast(g, kind) * (x - m.cast(mean, kind))

    return Rows((("sum", lambda m, g, *rest: g), ("sum", away)), last, fixed=3, settle=settle)


def channels(
    backend: Any, x: Any, weight: Any, bias: Any, running: Any, momentum: float, eps: float, outs: Any, rounded: bool,
    columns: bool,
) -> None:  # fmt: skip
    """Channels of planes (C, N, L) or `columns` normalized, into a result, means, factors and moved running statistics."""
    program = _channel(rounded, BY_NUMPY[x.dtype].code, BY_NUMPY[outs[1].dtype].code)
    dims = (0,) if columns else (1, 2)
    backend.along.run("batch_norm", program, [x, weight, bias, *running], outs, dims, (eps, momentum))


def channels_backward(
    backend: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, outs: Any, steady: bool, columns: bool
) -> None:
    """The gradients by x, weight and bias."""
    program = _channel_backward(steady, BY_NUMPY[x.dtype].code)
    backend.along.run("batch_norm_backward", program, [g, x, weight, mean, scale], outs, (0,) if columns else (1, 2))


@functools.cache
def _group(weighted: bool, biased: bool, rounded: bool, code: str, kept: str) -> Rows:
    """Each part of a row may have a weight and a bias; results are the mean, the factor and the variance of each row."""
    kind = _inside(code)

    def settle(m: Any, eps: Any, mean: Any, squares: Any, count: Any) -> tuple[Any, Any, Any]:
        variance = _spread(m, squares, m.cast(count, "f64"), rounded, kept)
        made = m.cast(mean, kind), m.cast(1.0 / m.real_sqrt(variance + eps), kind)
        return *(m.stored(v, kept) if rounded else v for v in made), variance

    def last(m: Any, x: Any, *given: Any) -> Any:
        mean, slope, *_ = given[1 + weighted + biased :]
        if weighted:
            slope = m.cast(slope, kind) * m.cast(given[0], kind)
        y = (x - m.cast(mean, kind)) * m.cast(slope, kind)
        return y + m.cast(given[weighted], kind) if biased else y

    parts = weighted + biased
    stages = _MEAN, _distances(1 + parts, kind)
    return Rows(stages, last, fixed=1, settle=settle, numbers=1, parts=parts, moments=True)


@functools.cache
def _group_backward(weighted: bool, code: str) -> Rows:
    """What each part gives its weight and its bias are results, too."""
    kind = _inside(code)

    def weigh(m: Any, total: Any, *weight: Any) -> Any:
        return total * m.cast(weight[0], total.type) if weighted else total

    def settle(m: Any, mean: Any, scale: Any, level: Any, slope: Any, count: Any) -> tuple[Any, Any]:
        n = m.cast(count, "f64")
        return m.cast(level / n, kind), m.cast(slope * m.cast(scale, "f64") / n, kind)

    def away(m: Any, g: Any, x: Any, *given: Any) -> Any:
        mean, scale = given[weighted : weighted + 2]
        return m.cast(g, kind) * ((x - m.cast(mean, kind)) * m.cast(scale, kind))

    def last(m: Any, g: Any, x: Any, *given: Any) -> Any:
        mean, scale, level, tilt, _ = given[weighted:]
        g = m.cast(g, kind) * m.cast(given[0], kind) if weighted else m.cast(g, kind)
        return (g - level - (x - m.cast(mean, kind)) * tilt) * m.cast(scale, kind)

    stages = ("sum", lambda m, g, *rest: g, None, weigh), ("sum", away, None, weigh)
    return Rows(stages, last, fixed=2, settle=settle, parts=int(weighted))


def groups(backend: Any, x: Any, weight: Any, bias: Any, eps: float, outs: Any, rounded: bool) -> None:
    """Groups of channels (samples, groups, channels, places) normalized, into a result, means, factors and variances."""
    code, kept = BY_NUMPY[x.dtype].code, BY_NUMPY[outs[1].dtype].code
    program = _group(weight is not None, bias is not None, rounded, code, kept)
    given = [x, *[p.reshape(x.shape[1:3]) for p in (weight, bias) if p is not None]]
    backend.along.run("group_norm", program, given, outs, (2, 3), (eps,))


def groups_backward(backend: Any, g: Any, x: Any, weight: Any, mean: Any, scale: Any, outs: Any) -> None:
    """The gradients by x and, for each channel of each sample, by bias and weight."""
    program = _group_backward(weight is not None, BY_NUMPY[x.dtype].code)
    given = [g, x, *([] if weight is None else [weight.reshape(x.shape[1:3])]), mean, scale]
    backend.along.run("group_norm_backward", program, given, outs, (2, 3))


def down(backend: Any, x: Any, dtype: Any) -> Any:
    """The sums of the columns of a matrix."""
    out = backend.empty(x.shape[1:], dtype)
    backend.along.run("sum_columns", _TOTAL, [x], [out], (0,))
    return out


# -- class losses --------------------------------------------------------------------------------------------------


@functools.cache
def _named(log: bool, weighted: bool, smooth: bool, gradient: bool, code: str) -> Rows:
    """The losses of rows of scores (`log`: of probabilities made from them) whose targets name a class; if `weighted`, its weight.

    With a `gradient`, what each loss is by each of its scores comes first; logarithms have one for each row, which comes last. If all
    classes count (`smooth`), their weights are given for the sums and once more for the gradient. Fixed are targets, the number that is
    skipped and the share of all classes.
    """
    high = 4 + weighted + (weighted and smooth)  # where a lift finds the maximum after the element

    def share(m: Any, x: Any, weight: Any, *rest: Any) -> Any:
        return m.cast(weight, code)

    def level(m: Any, x: Any, *rest: Any) -> Any:
        return (x - rest[high]) * share(m, x, *rest) if weighted else x - rest[high]

    def settle(m: Any, target: Any, skipped: Any, smoothing: Any, own: Any, *given: Any) -> tuple[Any, ...]:
        count = m.cast(given[-1], code)
        kept = target != m.cast(skipped, "i64")
        part = weight = m.where(kept, m.cast(given[0], code) if weighted else m.constant(1.0, count), 0.0)
        top, *sums, total = given[weighted:-1] if log else (None, None)
        size = m.log(m.cast(total, code)) if log else 0.0
        loss = (size - (own - top) if log else -own) * part
        if smooth:
            part, base = part * m.cast(1.0 - smoothing, code), m.where(kept, m.cast(smoothing, code) / count, 0.0)
            whole = m.cast(sums[1], code) if weighted else count
            loss = loss * m.cast(1.0 - smoothing, code) + (size * whole - m.cast(sums[0], code)) * base
        found = [m.where(kept, loss, 0.0), *([weight] if weighted else [])]
        if not gradient or not log:
            return *found, *([-weight] if gradient else [])
        full = part + base * whole if smooth else part
        return *found, m.cast(m.cast(full, "f64") / total, code), part, *([base] if smooth else [])

    def last(m: Any, e: Any, *given: Any) -> Any:
        scale, part, *base = given[-4 - smooth : -2]
        is_own = m.cast(given[-1], "i32") == m.cast(given[-9 - smooth - 2 * weighted], "i32")
        slope = e * scale - m.where(is_own, part, 0.0)
        if smooth:
            slope = slope - (base[0] * m.cast(given[0], code) if weighted else base[0])
        return slope

    first, exponentials = (lambda m, x, *rest: x), (lambda m, x, *rest: m.decay(x - rest[high]))
    sums = [("sum", level), ("sum", share)][: 1 + weighted] if smooth else []
    stages = (("peak", first), *sums, ("sum", exponentials)) if log else ()
    picks = ((0, 0), (1, 0))[: 1 + weighted]
    late = weighted and (gradient if smooth else True)
    if gradient and log:
        return Rows(stages, last, True, 3, late, settle, True, picks, 2, True)
    return Rows(stages, lambda m, *given: given[4 + weighted : -1], False, 3, late, settle, picks=picks, numbers=2)


@functools.cache
def _mixed(weighted: bool, gradient: bool, code: str) -> Rows:
    """The same for targets that have a part of every class, which are given with weights once for the sums and once for the gradient.

    Fixed is the share that all classes have in them."""
    high = 2 + weighted

    def share(m: Any, x: Any, target: Any, *rest: Any) -> Any:
        smoothing = m.cast(rest[weighted], code)
        part = m.cast(target, code) * (1.0 - smoothing) + smoothing / m.cast(rest[-1], code)
        return part * m.cast(rest[0], code) if weighted else part

    def settle(m: Any, smoothing: Any, top: Any, level: Any, whole: Any, total: Any, count: Any) -> tuple[Any, ...]:
        loss = m.log(m.cast(total, code)) * m.cast(whole, code) - m.cast(level, code)
        return (loss, m.cast(whole / total, code)) if gradient else (loss,)

    stages = (
        ("peak", lambda m, x, *rest: x),
        ("sum", lambda m, x, *rest: share(m, x, *rest) * (x - rest[high])),
        ("sum", share),
        ("sum", lambda m, x, *rest: m.decay(x - rest[high])),
    )
    if not gradient:
        return Rows(stages, lambda m, smoothing, loss, count: loss, False, 1, 0, settle, numbers=1)

    def last(m: Any, e: Any, *given: Any) -> Any:
        return e * given[-2] - share(m, e, *given)

    return Rows(stages, last, True, 1, 1 + weighted, settle, numbers=1, reused=True)


def _wrong(m: Any, target: Any, skipped: Any, classes: Any) -> Any:
    target, skipped, classes = (m.cast(v, "i64") for v in (target, skipped, classes))
    return m.cast((target != skipped) & ((target < 0) | (target >= classes)), "i64")


_CHECK = Rows(
    (("count", lambda m, target, word, skipped, classes, count: _wrong(m, target, skipped, classes)),),
    lambda m, word, skipped, classes, bad, count: word + bad,
    each=False,
    fixed=3,
    numbers=2,
)


def names_others(backend: Any, target: Any, classes: int, skipped: int) -> bool:
    """Whether not all targets are classes, or skipped; a GPU tells later."""
    word, bad = backend.errors.word()
    backend.along.run("check_classes", _CHECK, [target.reshape(-1), word], [bad], (0,), (skipped, classes))
    return bool(backend.errors.found(bad))


def check_classes(backend: Any, target: Any, classes: int, skipped: int) -> None:
    """Raises unless all targets are classes, or skipped."""
    if names_others(backend, target, classes, skipped):
        _refuse(target, classes, skipped)


def _refuse(target: Any, classes: int, skipped: int) -> None:
    wrong = target[(target != skipped) & ((target < 0) | (target >= classes))]
    raise IndexError(f"Target {int(wrong.reshape(-1)[0])} is out of bounds.")


@functools.cache
def _whole(named: bool, weighted: bool, mean: bool) -> Rows:
    """The losses of all rows made one, what they were divided by, and whether a target names no class."""

    def wrong(m: Any, loss: Any, target: Any, *rest: Any) -> Any:
        return _wrong(m, target, *rest[weighted + 1 : weighted + 3])

    def used(m: Any, loss: Any, target: Any, *rest: Any) -> Any:
        return rest[0] if weighted else m.cast(target != m.cast(rest[1], "i64"), "i64")

    def last(m: Any, *given: Any) -> tuple[Any, ...]:
        *rest, count = given
        total, divisor, *bad = rest[3:] if named else (rest[0], count)
        divisor = m.cast(divisor, "f64")
        # gradients by what is skipped are zero
        used = m.where(divisor == 0.0, 1.0, divisor) if mean else m.constant(1.0, divisor)
        return total / divisor if mean else total, used, *([rest[0] + bad[0]] if named else [])

    total = ("sum", lambda m, loss, *rest: loss)
    stages = (total, ("sum" if weighted else "count", used), ("count", wrong)) if named else (total,)
    return Rows(stages, last, each=False, fixed=3 * named, numbers=2 * named)


def class_loss(
    backend: Any, x: Any, target: Any, weight: Any, skipped: int, smoothing: float, reduction: str, log: bool, gradient: bool
) -> tuple[Any, ...]:  # fmt: skip
    """The loss of scores (N, C, …), what it was divided by, the weight of each target, and gradients as the record says."""
    dim, classes = min(x.ndim - 1, 1), x.shape[min(x.ndim - 1, 1)]
    rows, wide = (*x.shape[:dim], *x.shape[dim + 1 :]), BY_NUMPY[x.dtype].wide
    named, weighted, smooth = target.dtype == _INT64, weight is not None, smoothing != 0
    slopes = [backend.empty(x.shape if log else rows, x.dtype)] if gradient else []
    losses = backend.empty(rows, wide.numpy if reduction != "none" else x.dtype)
    kept = [backend.empty(rows, wide.numpy)] if weighted and named else []
    factor = [weight.reshape(classes, *[1] * (x.ndim - 1 - dim))] if weighted else []
    if named:
        given, numbers = [x, *factor * (1 + (smooth and gradient)), target], [skipped, smoothing]
        program = _named(log, weighted, smooth, gradient, wide.code)
    else:
        given, numbers = [x, *[target, *factor] * (1 + gradient)], [smoothing]
        program = _mixed(weighted, gradient, wide.code)
    outs = [*slopes, losses, *kept] if log else [losses, *kept, *slopes]
    backend.along.run("class_loss", program, given, outs, (dim,), numbers)
    loss, divisor = backend.empty((), x.dtype), backend.empty((), wide.numpy)
    flat, whole = losses.reshape(-1), _whole(named, weighted, reduction == "mean")
    if named:
        word, bad = backend.errors.word()
        given = [flat, target.reshape(-1), *[a.reshape(-1) for a in kept], word]
        backend.along.run("class_losses", whole, given, [loss, divisor, bad], (0,), (skipped, classes))
        if backend.errors.found(bad):
            _refuse(target, classes, skipped)
    else:
        backend.along.run("class_losses", whole, [flat], [loss, divisor], (0,))
    return losses if reduction == "none" else loss, divisor, *(kept or [None]), *(slopes or [None])
