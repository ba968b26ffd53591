"""Kernels that choose by weights: zeros and ones, and places in rows."""

from __future__ import annotations

from typing import Any

from ..loops.lang import independent, kernel


def _bits(m: Any, words: Any, i: Any) -> Any:
    """53 bits of two words, the first of which is the high one."""
    low, high = m.cast(words[2 * i + 1], "u64"), m.cast(words[2 * i], "u64")
    return m.cast((low | (high << 32)) & ((1 << 53) - 1), "i64")


def _uniform(m: Any, words: Any, i: Any) -> Any:
    return m.cast(_bits(m, words, i), "f64") * 2.0**-53


@kernel("(n)->()")
def no_chances(m: Any, p: Any, found: Any) -> None:
    """Whether one of the numbers is no probability."""
    wrong = m.value(False, "b1")
    for i in range(p.n):
        wrong = wrong | ~((p[i] >= 0.0) & (p[i] <= 1.0))
    found[()] = wrong


@kernel("(n)->()")
def no_weights(m: Any, w: Any, found: Any) -> None:
    """Whether one of the numbers is no weight, or none is positive."""
    wrong, some = m.value(False, "b1"), m.value(False, "b1")
    for i in range(w.n):
        wrong = wrong | ~((w[i] >= 0.0) & (w[i] < float("inf")))
        some = some | (w[i] > 0.0)
    found[()] = wrong | ~some


@kernel("(n),(n)->(n)")
def ones(m: Any, words: Any, p: Any, out: Any) -> None:
    """One where a number of 24 bits, of one word, is below a probability."""
    for i in range(p.n):
        u = m.cast(m.cast(words[i] & 0xFFFFFF, "i32"), "f32") * 2.0**-24
        out[i] = m.where(u < p[i], 1.0, 0.0)


@kernel("(w),()->(n)")
def chosen(m: Any, words: Any, threshold: Any, out: Any) -> None:
    """Whether the bits of two words are below a number."""
    for i in independent(out.n):
        out[i] = _bits(m, words, i) < threshold[()]


@kernel("(n),(w)->(k)")
def places(m: Any, weights: Any, words: Any, out: Any) -> None:
    """For each of k uniforms the first place up to which the weights have that share of their sum."""
    total = weights[0] * 0.0
    for j in range(weights.n):
        total = total + weights[j]
    for i in range(out.n):
        u, some, place = _uniform(m, words, i), weights[0] * 0.0, m.value(0, "i64")
        for j in range(weights.n - 1):
            some = some + weights[j]
            place = place + m.cast(m.cast(some / total, "f64") < u, "i64")
        out[i] = place


@kernel("(n),(w)->()")
def earliest(m: Any, weights: Any, words: Any, out: Any) -> None:
    """The place that comes first if each is awaited for an exponential time over its weight."""
    best, place = weights[0] * 0.0 - 1.0, m.value(0, "i64")
    for j in range(weights.n):
        score = weights[j] / m.cast(-m.library("log1p", -_uniform(m, words, j)), weights.type)
        place = m.where(score > best, m.cast(j, "i64"), place)
        best = m.where(score > best, score, best)
    out[()] = place
