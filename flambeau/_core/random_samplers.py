"""Samplers that reject, so that their use of the stream depends on the values drawn: Poisson,
gamma, Dirichlet, binomial. They go through the elements one by one, as the stream prescribes: few
in Python, many in machine code, which gives the same but for the last bit of some float64 results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .random import Array, MersenneState, check_floating, narrow

_F32 = np.float32
_PIECE = 1 << 14  # how many elements are drawn at a time where each needs many columns
_MANY = 128  # elements from which on machine code is worth its compilation

native: Callable[[str], Any] | None = None  # kernels by name, see `_kernel/samplers.py`


def use_native(kernels: Callable[[str], Any]) -> None:
    global native
    native = kernels


def _in_bulk(engine: MersenneState, name: str, operands: tuple[Array, ...], each: int) -> Array:
    """Runs a kernel over elements, each of which is expected to need `each` uniforms."""
    kernel: Any = native and native(name)
    count = len(operands[0])
    out, end = np.empty(count, np.float64), np.zeros(4, np.int64)
    position = 0
    while position < count:
        saved = engine.snapshot()
        cached = engine.cached_normal
        uniforms = engine.doubles(min(each * (count - position) + 64, 1 << 18) + each)
        start = np.array([cached or 0.0, cached is not None], np.float64)
        kernel(*[operand[position:] for operand in operands], uniforms, start, out[position:], end)
        done, used, pair, left = end.tolist()
        engine.rewind(saved, 2 * used)
        if not left:
            cached = None
        elif pair >= 0:  # the state that is saved with it has to be exact
            radius = math.sqrt(-2.0 * math.log1p(-uniforms[pair + 1]))
            cached = radius * math.sin(2.0 * math.pi * uniforms[pair])
        engine.cached_normal = cached
        position += done
        each = each if done else 4 * each
    return out


class _Scalars:
    """Uniforms and normals one at a time.

    Draws ahead in bulk; leaving the context puts the engine right after the last value used.
    """

    def __init__(self, engine: MersenneState, ahead: int) -> None:
        self._engine = engine
        self._ahead = max(16, min(ahead, 16384))
        self._cached = engine.cached_normal
        self._refill()

    def _refill(self) -> None:
        self._saved = self._engine.snapshot()
        self._values = self._engine.doubles(self._ahead).tolist()
        self._used = 0

    def __enter__(self) -> _Scalars:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.rewind(self._saved, 2 * self._used)
        self._engine.cached_normal = self._cached

    def uniform(self) -> float:
        if self._used == self._ahead:
            self._refill()
        value: float = self._values[self._used]
        self._used += 1
        return value

    def normal(self) -> float:
        if self._cached is not None:
            value, self._cached = self._cached, None
            return value
        angle = 2.0 * math.pi * self.uniform()
        radius = math.sqrt(-2.0 * math.log1p(-self.uniform()))
        self._cached = radius * math.sin(angle)
        return radius * math.cos(angle)


def poisson(engine: MersenneState, rate: Array) -> Array:
    """`torch.poisson(rate)`."""
    check_floating("poisson", rate.dtype)
    rates = rate.astype(np.float64).reshape(-1)
    if not (rates >= 0).all():
        raise RuntimeError("poisson: expected every rate to be >= 0")
    if native is not None and len(rates) >= _MANY:
        drawn = _in_bulk(engine, "poisson", (rates,), int(min(rates.max(), 10.0)) + 2)
    else:
        with _Scalars(engine, 3 * len(rates)) as source:
            drawn = np.array([_poisson_one(source, value) for value in rates.tolist()], np.float64)
    return narrow(drawn, rate.dtype).reshape(rate.shape)


def _poisson_one(source: _Scalars, rate: float) -> float:
    if rate in (0.0, math.inf):
        return rate
    if rate < 10.0:
        limit, product, count = math.exp(-rate), source.uniform(), 0
        while product > limit:
            count += 1
            product *= source.uniform()
        return float(count)
    # Transformed rejection with squeeze (Hoermann, 1993).
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    accept = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = source.uniform() - 0.5
        v = source.uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= accept:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        left = _log(v) + log_inverse_alpha - math.log(a / (us * us) + b)
        if left <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return float(k)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def standard_gamma(engine: MersenneState, alpha: Array) -> Array:
    """`torch._standard_gamma(alpha)`, for float32 and float64."""
    _check_gamma("_standard_gamma", alpha.dtype)
    values = _gammas(engine, alpha).astype(alpha.dtype)
    out: Array = np.maximum(values, np.finfo(alpha.dtype).tiny)
    return out


def dirichlet(engine: MersenneState, alpha: Array) -> Array:
    """`torch._sample_dirichlet(alpha)`: gammas over the last axis, divided by their sum."""
    _check_gamma("_sample_dirichlet", alpha.dtype)
    # where all of them underflow, the quotients are even
    values = np.maximum(_gammas(engine, alpha.astype(np.float64)), np.finfo(np.float64).tiny)
    values /= values.sum(axis=-1, keepdims=True)
    limits = np.finfo(alpha.dtype)
    out: Array = np.clip(values.astype(alpha.dtype), limits.tiny, 1 - limits.epsneg)
    return out


def _check_gamma(name: str, dtype: np.dtype[Any]) -> None:
    if dtype not in (np.float32, np.float64):
        raise NotImplementedError(f"{name}: not implemented for {dtype}")


def _gammas(engine: MersenneState, alpha: Array) -> Array:
    """float64 samples; what derives from alpha alone keeps alpha's precision, as in PyTorch."""
    flat = alpha.reshape(-1)
    one = alpha.dtype.type(1)
    small = flat < one
    with np.errstate(divide="ignore"):
        inverse = one / flat
    shifted = np.where(small, flat + one, flat) - alpha.dtype.type(_F32(1 / 3))
    if native is not None and flat.size >= _MANY:
        powers = np.where(small, inverse, 0).astype(np.float64)
        return _in_bulk(engine, "gamma", (shifted.astype(np.float64), powers), 4).reshape(alpha.shape)
    with _Scalars(engine, 6 * flat.size) as source:
        drawn = [
            0.0 if inverse_ == math.inf else _gamma_one(source, d, inverse_ if low else None)
            for d, inverse_, low in zip(shifted.tolist(), inverse.tolist(), small.tolist(), strict=True)
        ]
    return np.array(drawn, np.float64).reshape(alpha.shape)


def _gamma_one(source: _Scalars, d: float, inverse_alpha: float | None) -> float:
    """Marsaglia and Tsang (2000); below alpha = 1, a sample of alpha + 1 times a random power."""
    scale = d if inverse_alpha is None else math.pow(1.0 - source.uniform(), inverse_alpha) * d
    c = 1.0 / math.sqrt(9.0 * d)
    squeeze = float(_F32(0.0331))
    while True:
        x = source.normal()
        y = 1.0 + c * x
        if y <= 0.0:
            continue
        v = y * y * y
        u = 1.0 - source.uniform()
        square = x * x
        if u < 1.0 - squeeze * square * square:
            return scale * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * v


def binomial(engine: MersenneState, count: Array, prob: Array) -> Array:
    """`torch.binomial(count, prob)`, for float32 and float64; the two broadcast."""
    _check_gamma("binomial", count.dtype)
    counts, probabilities = np.broadcast_arrays(count, prob)
    if native is not None and counts.size >= _MANY:
        drawn = np.empty(counts.shape, count.dtype)
        for start in range(0, counts.size, _PIECE):  # the columns of a piece stay in the cache
            piece = slice(start, start + _PIECE)
            drawn.flat[piece] = _binomials(engine, counts.flat[piece], probabilities.flat[piece])
        return drawn
    pairs = list(zip(counts.reshape(-1), probabilities.reshape(-1), strict=True))
    with _Scalars(engine, 3 * len(pairs)) as source:
        few = [_binomial_one(source, n, p) for n, p in pairs]
    return np.array(few, count.dtype).reshape(counts.shape)


def _binomials(engine: MersenneState, n: Array, p: Array) -> Array:
    """Many at once; what derives from the arguments alone keeps their precision, as in PyTorch."""
    t = n.dtype.type
    flipped = p > 0.5
    q = np.where(flipped, t(1) - p, p)
    none, all_ = ~((n > 0) & (p > 0)), (p >= 1) | np.isinf(n)
    with np.errstate(all="ignore"):
        deviation = np.sqrt(n * q * (t(1) - q))
        b = t(1.15) + t(2.53) * deviation
        wait = np.where(n * q < 10, np.log1p(-q.astype(np.float64)), 0.0)
        columns = (
            n, np.where(none | all_, 1.0, wait), t(-0.0873) + t(0.0248) * b + t(0.01) * q, b, n * q + t(0.5),
            t(0.92) - t(4.2) / b, q / (t(1) - q), (t(2.83) + t(5.1) / b) * deviation, np.floor((n + t(1)) * q),
        )  # fmt: skip
        waits = int(min(np.nan_to_num(n * q).max(), 10.0)) + 3  # successes to wait for
        drawn = _in_bulk(engine, "binomial", (np.stack([c.astype(np.float64) for c in columns], -1),), waits)
    drawn = np.where(flipped & ~all_, n.astype(np.float64) - drawn, drawn)
    drawn = np.where(none, np.where(np.isnan(n) | np.isnan(p), np.nan, 0.0), np.where(all_, n, drawn))
    return drawn.astype(n.dtype)


def _binomial_one(source: _Scalars, n: Any, p: Any) -> float:
    """`n` and `p` are NumPy scalars: what is derived from them keeps their precision."""
    one = n.dtype.type(1)
    if n != n or p != p:
        return math.nan
    if n <= 0 or p <= 0:
        return 0.0
    if p >= one or n == math.inf:
        return float(n)
    if p > 0.5:
        return float(n) - _binomial_low(source, n, one - p)
    return _binomial_low(source, n, p)


def _binomial_low(source: _Scalars, n: Any, p: Any) -> float:
    if n * p >= 10:
        return _binomial_rejection(source, n, p)
    scale, total, successes = math.log1p(-float(p)), 0.0, 0
    while True:  # waiting times between successes are geometric
        u = source.uniform()
        wait = math.log(u) / scale if u > 0.0 else math.inf
        total += math.ceil(wait) if wait < math.inf else wait
        if total > n:
            return float(successes)
        successes += 1


def _binomial_rejection(source: _Scalars, n: Any, p: Any) -> float:
    """Transformed rejection (Hoermann's BTRS, 1993)."""
    t = n.dtype.type
    deviation = np.sqrt(n * p * (t(1) - p))
    b = t(1.15) + t(2.53) * deviation
    a = float(t(-0.0873) + t(0.0248) * b + t(0.01) * p)
    c = float(n * p + t(0.5))
    accept = float(t(0.92) - t(4.2) / b)
    odds = float(p / (t(1) - p))
    alpha = float((t(2.83) + t(5.1) / b) * deviation)
    mode = math.floor((n + t(1)) * p)
    trials, spread = float(n), float(b)
    while True:
        u = source.uniform() - 0.5
        v = source.uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2.0 * a / us + spread) * u + c)
        if us >= 0.07 and v <= accept:
            return float(k)
        if k < 0 or k > trials:
            continue
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (trials - mode + 1.0)))
            + (trials + 1.0) * math.log((trials - mode + 1.0) / (trials - k + 1.0))
            + (k + 0.5) * math.log(odds * (trials - k + 1.0) / (k + 1.0))
            + _stirling_tail(mode) + _stirling_tail(trials - mode)
            - _stirling_tail(k) - _stirling_tail(trials - k)
        )  # fmt: skip
        if _log(v * alpha / (a / (us * us) + spread)) <= bound:
            return float(k)


_STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: float) -> float:
    """log(k!) less Stirling's approximation of it."""
    if k <= 9:
        return _STIRLING_TAIL[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)
