"""Kernels of resampling: each new place along a dimension is a weighted sum of a few old ones, and the reverse; or one
old element for each new one, along three dimensions."""

from __future__ import annotations

from itertools import product

from ..loops.lang import independent, inline, kernel
from ..render.streaming import ask_to_write, width
from ..render.value import COMPUTE


@kernel("(d,h,w),(a),(b),(c),(t)->(a,b,c)")
def pick_planes(m, x, over_d, over_h, over_w, run, out, far):
    """out[a, b, c] = x[over_d[a], over_h[b], over_w[c]]; all these places are inside. From run[0] to run[1] those over w follow
    each other. A row that is taken again is there already; a `far` result is asked for early."""
    low, high = run[0], run[1]
    start = over_w[low] - low
    group = width(out.type)
    for a in range(out.shape[0]):
        i = over_d[a]
        for b in range(out.shape[1]):
            j = over_h[b]
            if far:
                for c in range(0, out.n, group):
                    ask_to_write(out, (a, b, c), group)
            if (b > 0) & (over_h[m.maximum(b - 1, 0)] == j):
                for c in independent(out.n):
                    out[a, b, c] = out[a, b - 1, c]
            else:
                for c in independent(0, low):
                    out[a, b, c] = x[i, j, over_w[c]]
                for c in independent(low, high):
                    out[a, b, c] = x[i, j, start + c]
                for c in independent(high, out.n):
                    out[a, b, c] = x[i, j, over_w[c]]


@kernel("(a,b,c),(a),(b),(c),(t)->(d,h,w)")
def add_planes(m, g, over_d, over_h, over_w, run, out):
    """Adds each element to where `pick_planes` took it from."""
    low, high = run[0], run[1]
    start = over_w[low] - low
    for d in range(out.shape[0]):
        for h in range(out.shape[1]):
            for w in independent(out.n):
                out[d, h, w] = 0
    for a in range(g.shape[0]):
        i = over_d[a]
        for b in range(g.shape[1]):
            j = over_h[b]
            for c in range(0, low):
                out[i, j, over_w[c]] = out[i, j, over_w[c]] + g[a, b, c]
            for c in independent(low, high):
                out[i, j, start + c] = out[i, j, start + c] + g[a, b, c]
            for c in range(high, g.n):
                out[i, j, over_w[c]] = out[i, j, over_w[c]] + g[a, b, c]


@kernel("(d,h,w),(u),(u),(u)->()")
def pick_element(m, x, over_d, over_h, over_w, out):
    """One result of `pick_planes`; for devices where every result has a thread."""
    out[()] = x[over_d[0], over_h[0], over_w[0]]


@kernel("(a,b,c),(s),(s),(s),(a),(b),(c)->()")
def add_element(m, g, in_d, in_h, in_w, over_d, over_h, over_w, out):
    """One result of `add_planes`: what it was taken for has the places that `over_d` holds from in_d[0] to in_d[1], and so on."""
    total = m.value(0, COMPUTE.get(g.type, g.type))
    for i in range(in_d[0], in_d[1]):
        for j in range(in_h[0], in_h[1]):
            for k in range(in_w[0], in_w[1]):
                total = total + g[over_d[i], over_h[j], over_w[k]]
                if g.type in COMPUTE:
                    total = m.stored(total, g.type)
    out[()] = total


def _found(m, index, weights, places, kind):
    """The places that a known number of taps takes elements from, and their weights."""
    return [(index[at], m.cast(weights[at], kind)) for at in places]


def _weighted(m, x, found, kind, *column):
    total = m.value(0, kind)
    for j, share in found:
        total = total + x[(j, *column)] * share
    return total


@kernel("(n,w),(k,t),(k,t)->(k,w)")
def resample_columns(m, x, index, weights, out, taps):
    """out[i] = sum over t of weights[i, t] * x[index[i, t]], for rows of x; all these are inside. The number of taps, if few."""
    kind = COMPUTE.get(x.type, x.type)
    for i in range(index.shape[0]):
        if taps is not None:
            found = _found(m, index, weights, product([i], range(taps)), kind)
            for c in independent(out.n):
                out[i, c] = _weighted(m, x, found, kind, c)
        else:
            for c in independent(out.n):
                out[i, c] = 0
            for t in range(index.n):
                j = index[i, t]
                share = m.cast(weights[i, t], kind)
                for c in independent(out.n):
                    out[i, c] = out[i, c] + x[j, c] * share


@kernel("(n),(t,k),(t,k)->(k)")
def resample_rows(m, x, index, weights, out, taps):
    """The same along the last dimension, by turned places and weights: those of neighbours lie side by side."""
    kind = COMPUTE.get(x.type, x.type)
    if taps is not None:
        for i in independent(out.n):
            out[i] = _weighted(m, x, _found(m, index, weights, product(range(taps), [i]), kind), kind)
    else:
        for i in range(out.n):
            total = m.value(0, kind)
            for t in range(index.shape[0]):
                total = total + x[index[t, i]] * m.cast(weights[t, i], kind)
            out[i] = total


@kernel("(k,w),(k,t),(k,t)->(n,w)")
def resample_columns_back(m, g, index, weights, out):
    """Adds weights[i, t] * g[i] to the rows out[index[i, t]]."""
    count = m.cast(out.shape[0], "u64")
    kind = COMPUTE.get(g.type, g.type)
    for i in range(index.shape[0]):
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                share = m.cast(weights[i, t], kind)
                for c in independent(out.n):
                    out[j, c] = out[j, c] + g[i, c] * share


@kernel("(k),(k,t),(k,t)->(n)", vectors=False)
def resample_rows_back(m, g, index, weights, out):
    """The same along the last dimension."""
    count = m.cast(out.n, "u64")
    kind = COMPUTE.get(g.type, g.type)
    for i in range(index.shape[0]):
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                out[j] = out[j] + g[i] * m.cast(weights[i, t], kind)


@kernel("(n),(t),(t)->()")
def resample_element(m, x, index, weights, out, taps):
    """One result of `resample_rows`; for devices where every result has a thread."""
    kind = COMPUTE.get(x.type, x.type)
    if taps is not None:
        out[()] = _weighted(m, x, _found(m, index, weights, range(taps), kind), kind)
    else:
        total = m.value(0, kind)
        for t in range(index.n):
            total = total + x[index[t]] * m.cast(weights[t], kind)
        out[()] = total


@kernel("(k),(s),(l),(l)->()")
def resample_element_back(m, g, bounds, places, weights, out):
    """One result of `resample_rows_back`, from the places and weights between two bounds."""
    kind = COMPUTE.get(g.type, g.type)
    total = m.value(0, kind)
    for i in range(bounds[0], bounds[1]):
        total = m.stored(total + g[places[i]] * m.cast(weights[i], kind), out.type)
    out[()] = total


_BLOCK = 256  # columns whose sums are kept together


def _as_byte(m, total, bits):
    whole = m.cast(total, "i32") >> m.cast(bits, "i32")
    zero, most = m.value(0, "i32"), m.value(255, "i32")
    return m.where(whole < zero, zero, m.where(whole > most, most, whole))


@kernel("(n,w),(k,t),(k,t),()->(k,w)")
def resample_bytes_columns(m, x, index, weights, bits, out, taps):
    """`resample_columns` for bytes, with whole weights of which 2**bits is one; rounded, held to the range of bytes."""
    count = m.cast(x.shape[0], "u64")
    half = (m.value(1, "i32") << m.cast(bits[()], "i32")) >> 1
    if taps is not None:
        for i in range(index.shape[0]):
            found = _found(m, index, weights, product([i], range(taps)), "i32")
            for c in independent(out.n):
                out[i, c] = m.cast(_as_byte(m, _weighted_bytes(m, x, found, half, c), bits[()]), "u8")
    else:
        _bytes_by_tap(m, x, index, weights, bits, out, half, count)


def _weighted_bytes(m, x, found, half, c):
    total = half + 0
    for j, share in found:
        total = total + m.cast(x[j, c], "i32") * share
    return total


@inline
def _bytes_by_tap(m, x, index, weights, bits, out, half, count):
    sums = m.local("i32", _BLOCK)
    for i in range(index.shape[0]):
        for first in range(0, out.n, _BLOCK):
            rest = out.n - first
            width = m.where(rest < _BLOCK, rest, _BLOCK)
            for c in independent(width):
                sums[c] = half
            for t in range(index.n):
                j = m.cast(index[i, t], "u64")
                if j < count:
                    share = m.cast(weights[i, t], "i32")
                    for c in independent(width):
                        sums[c] = sums[c] + m.cast(x[j, first + c], "i32") * share
            for c in independent(width):
                out[i, first + c] = m.cast(_as_byte(m, sums[c], bits[()]), "u8")


@kernel("(n),(k,t),(k,t),()->(k)")
def resample_bytes_rows(m, x, index, weights, bits, out):
    """The same along the last dimension."""
    count = m.cast(x.n, "u64")
    half = (m.value(1, "i32") << m.cast(bits[()], "i32")) >> 1
    for i in range(index.shape[0]):
        total = half + 0
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                total = total + m.cast(x[j], "i32") * m.cast(weights[i, t], "i32")
        out[i] = m.cast(_as_byte(m, total, bits[()]), "u8")


@kernel("(n),(t),(t),()->()")
def resample_bytes_element(m, x, index, weights, bits, out):
    """One result of `resample_bytes_rows`; for devices where every result has a thread."""
    total = (m.value(1, "i32") << m.cast(bits[()], "i32")) >> 1
    for t in range(index.n):
        total = total + m.cast(x[index[t]], "i32") * m.cast(weights[t], "i32")
    out[()] = m.cast(_as_byte(m, total, bits[()]), "u8")
