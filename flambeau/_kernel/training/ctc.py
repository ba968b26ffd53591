"""Kernels of connectionist temporal classification: sums over alignments, forwards and backwards in time."""

from __future__ import annotations

from ..loops.lang import independent, inline, kernel
from ..math.exponentials import decay, log_moderate

_NEVER = float("-inf")
LANES = 16  # places that are computed together: rows of them are a multiple as long


def _log_add_three(m, a, b, c):
    """log(exp(a) + exp(b) + exp(c)), safe at minus infinity."""
    high = m.maximum(m.maximum(a, b), c)
    shift = m.where(high == _NEVER, 0.0, high)
    total = decay(m, a - shift) + decay(m, b - shift) + decay(m, c - shift)
    return m.where(high == _NEVER, _NEVER, shift + log_moderate(m, total))


def _label(m, targets, blank, s):
    """The label at a place of the target with blanks in between; always one that exists."""
    last = m.maximum(targets.n - 1, 0)
    at = m.maximum(m.minimum(s >> 1, last), 0)
    return m.where((s & 1) == 0, blank, m.cast(targets[at], "i64"))


@inline
def _advance(m, logs, targets, empty, places, alpha, t):
    """The sums over beginnings that end at time t, from those before."""
    for block in range(0, alpha.n, LANES):
        for i in independent(LANES):
            s = block + i
            label = _label(m, targets, empty, s)
            skips = (s > 1) & (label != _label(m, targets, empty, s - 2))
            second = m.where(s > 0, alpha[t - 1, m.maximum(s - 1, 0)], _NEVER)
            third = m.where(skips, alpha[t - 1, m.maximum(s - 2, 0)], _NEVER)
            total = _log_add_three(m, alpha[t - 1, s], second, third) + logs[t, label]
            alpha[t, s] = m.where(s < places, total, _NEVER)


@kernel("(t,c),(s),(),(),()->(),(t,p)")
def ctc_forward(m, logs, targets, steps, count, blank, loss, alpha):
    """-log of the probability of the target; the logarithms of the sums over beginnings of alignments."""
    kind = logs.type
    length, empty = steps[()], blank[()]
    places = 2 * count[()] + 1
    if length > 0:
        for s in independent(alpha.n):
            alpha[0, s] = _NEVER
        alpha[0, 0] = logs[0, empty]
        if places > 1:
            alpha[0, 1] = logs[0, _label(m, targets, empty, m.value(1, "i64"))]
    for t in range(1, length):
        _advance(m, logs, targets, empty, places, alpha, t)
    result = m.value(float("inf"), kind)
    if length > 0:
        whole = alpha[length - 1, places - 1]
        if places > 1:
            whole = _log_add_three(m, whole, alpha[length - 1, places - 2], m.value(_NEVER, kind))
        result = -whole
    else:
        if places == 1:
            result = m.value(0, kind)
    loss[()] = result


@inline
def _retreat(m, logs, targets, empty, places, alpha, whole, t, first, old, new, room):
    """The sums over ends from time t on, from those after it, and how probable it is to be at each place at time t."""
    for block in range(0, room.n, LANES):
        for i in independent(LANES):
            s = block + i
            label = _label(m, targets, empty, s)
            skips = label != _label(m, targets, empty, s + 2)
            second = room[old, m.minimum(s + 1, room.n - 1)]  # there is a place after the last one, never reached
            third = m.where(skips, room[old, m.minimum(s + 2, room.n - 1)], _NEVER)
            total = _log_add_three(m, room[old, s], second, third)
            total = m.where(first, m.where(s >= places - 2, 0.0, _NEVER), total)
            total = m.where(s < places, total, _NEVER)
            room[new, s] = total + logs[t, label]
            room[2, s] = decay(m, alpha[t, s] + total + whole)


@kernel("(t,c),(s),(),(),(),(t,p),(),()->(t,c),(w,p)")
def ctc_backward(m, logs, targets, steps, count, blank, alpha, loss, g, out, room):
    """The gradient by scores whose log-softmax the input is; `room` is memory for three rows of places."""
    length, empty = steps[()], blank[()]
    places = 2 * count[()] + 1
    whole, factor = loss[()], g[()]
    for s in independent(room.n):
        room[1, s] = _NEVER
    for t in range(length, logs.shape[0]):
        for c in independent(logs.n):
            out[t, c] = 0
    for back in range(length):
        t = length - 1 - back
        new = back & 1
        _retreat(m, logs, targets, empty, places, alpha, whole, t, back == 0, 1 - new, new, room)
        for c in independent(logs.n):  # NaN where nothing is possible, as the whole is then infinite
            never = _NEVER + whole - logs[t, c]
            out[t, c] = m.where(never == never, 0.0, never)
        for s in range(places):
            label = _label(m, targets, empty, s)
            out[t, label] = out[t, label] + room[2, s]
        for c in independent(logs.n):
            out[t, c] = (m.exp(logs[t, c]) - out[t, c]) * factor
