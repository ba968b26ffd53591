"""Kernels of connectionist temporal classification: sums over alignments, forwards and backwards in time."""

from __future__ import annotations

from .lang import independent, kernel

_NEVER = float("-inf")


def _log_add(m, a, b):
    """log(exp(a) + exp(b)), safe at minus infinity."""
    high, low = m.maximum(a, b), m.minimum(a, b)
    return m.where(low == _NEVER, high, high + m.log1p(m.exp(low - high)))


def _log_add_three(m, a, b, c):
    high = m.maximum(m.maximum(a, b), c)
    shift = m.where(high == _NEVER, 0.0, high)
    return m.log(m.exp(a - shift) + m.exp(b - shift) + m.exp(c - shift)) + shift


def _label(m, targets, blank, s):
    """The label at a place of the target with blanks in between; always one that exists."""
    last = m.maximum(targets.n - 1, 0)
    return m.where((s & 1) == 0, blank, m.cast(targets[m.minimum(s >> 1, last)], "i64"))


@kernel("(t,c),(s),(),(),()->(),(t,p)")
def ctc_forward(m, logs, targets, steps, count, blank, loss, alpha):
    """-log of the probability of the target; the logarithms of the sums over beginnings of alignments."""
    kind = logs.type
    length, empty = steps[()], blank[()]
    places = 2 * count[()] + 1
    for s in range(places):
        for t in range(length):
            alpha[t, s] = _NEVER
    if length > 0:
        alpha[0, 0] = logs[0, empty]
        if places > 1:
            alpha[0, 1] = logs[0, _label(m, targets, empty, m.value(1, "i64"))]
    for t in range(1, length):
        for s in range(places):
            label = _label(m, targets, empty, s)
            second = m.value(_NEVER, kind)
            third = m.value(_NEVER, kind)
            if s > 0:
                second = alpha[t - 1, s - 1]
            if s > 1:
                if label != _label(m, targets, empty, s - 2):
                    third = alpha[t - 1, s - 2]
            alpha[t, s] = _log_add_three(m, alpha[t - 1, s], second, third) + logs[t, label]
    result = m.value(float("inf"), kind)
    if length > 0:
        whole = alpha[length - 1, places - 1]
        if places > 1:
            whole = _log_add(m, whole, alpha[length - 1, places - 2])
        result = -whole
    else:
        if places == 1:
            result = m.value(0, kind)
    loss[()] = result


@kernel("(t,c),(s),(),(),(),(t,p),(),()->(t,c),(p)")
def ctc_backward(m, logs, targets, steps, count, blank, alpha, loss, g, out, beta):
    """The gradient by scores whose log-softmax the input is; `beta` is room for sums over ends of alignments."""
    length, empty = steps[()], blank[()]
    places = 2 * count[()] + 1
    whole, factor = loss[()], g[()]
    for t in range(length, logs.shape[0]):
        for c in independent(logs.n):
            out[t, c] = 0
    for back in range(length):
        t = length - 1 - back
        for c in independent(logs.n):
            out[t, c] = _NEVER
        for s in range(places):
            label = _label(m, targets, empty, s)
            total = m.value(_NEVER, logs.type)
            second = m.value(_NEVER, logs.type)
            third = m.value(_NEVER, logs.type)
            if back == 0:
                if s >= places - 2:
                    total = m.value(0, logs.type)
            else:
                total = beta[s]
                if s + 1 < places:
                    second = beta[s + 1]
                if s + 2 < places:
                    if label != _label(m, targets, empty, s + 2):
                        third = beta[s + 2]
            total = _log_add_three(m, total, second, third) + logs[t, label]
            beta[s] = total
            out[t, label] = _log_add(m, out[t, label], alpha[t, s] + total)
        for c in independent(logs.n):
            here = logs[t, c]
            out[t, c] = (m.exp(here) - m.exp(out[t, c] + whole - here)) * factor
