"""Samplers that reject, so that their use of the stream depends on the values drawn: Poisson, gamma, Dirichlet, binomial.
Kernels (`_kernel/random/samplers.py`) go through the elements one by one, as the stream prescribes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .random import Array, MersenneState, check_floating, narrow

_F32 = np.float32

native: Callable[
    [str, Any], Any
]  # kernels by name, see `_kernel/random/samplers.py`: `_ops/making/generator.py` hands them over


def use_native(kernels: Callable[[str, Any], Any]) -> None:
    global native
    native = kernels


def _in_bulk(engine: MersenneState, name: str, operands: tuple[Array, ...], each: int) -> Array:
    """Runs a kernel over elements, each of which is expected to need `each` uniforms."""
    kernel = native(name, operands[0].dtype)
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


def poisson(engine: MersenneState, rate: Array) -> Array:
    """`torch.poisson(rate)`."""
    check_floating("poisson", rate.dtype)
    rates = rate.astype(np.float64).reshape(-1)
    if not (rates >= 0).all():
        raise RuntimeError("poisson: expected every rate to be >= 0")
    drawn = _in_bulk(engine, "poisson", (rates,), int(min(rates.max(initial=0.0), 10.0)) + 2)
    return narrow(drawn, rate.dtype).reshape(rate.shape)


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
    powers = np.where(small, inverse, 0).astype(np.float64)
    return _in_bulk(engine, "gamma", (shifted.astype(np.float64), powers), 4).reshape(alpha.shape)


def binomial(engine: MersenneState, count: Array, prob: Array) -> Array:
    """`torch.binomial(count, prob)`, for float32 and float64; the two broadcast."""
    _check_gamma("binomial", count.dtype)
    counts, probabilities = np.broadcast_arrays(count, prob)
    waits = 13  # uniforms for an element: those of ten successes, at most
    drawn = _in_bulk(engine, "binomial", (counts.reshape(-1), probabilities.reshape(-1)), waits)
    return drawn.astype(count.dtype).reshape(counts.shape)
