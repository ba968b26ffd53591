"""Kernels of attention over a tile of scores: softmax of rows that may be masked, and its gradient."""

from __future__ import annotations

from .lang import independent, kernel
from .softmax import BLOCK, decay


def _score(m, scores, mask, scale, i, masked):
    value = scores[i] * scale
    return value + mask[i] if masked else value


@kernel("(n),(n),(),()->(n),(),()")
def attention_rows(m, scores, mask, scale, limit, out, total, share, masked, short):
    """softmax(scores * scale + mask) of the first `limit` elements of a row, zeros after them; the logarithm of
    the sum of exponentials. A row without any finite score becomes zero.

    For 16-bit floats, named by `short`, the exponentials are rounded and `share` is what is left to multiply by.
    """
    kind = out.type
    factor = scale[()]
    stop = m.minimum(m.maximum(limit[()], 0), scores.n)
    high = m.value(float("-inf"), kind)
    for i in range(0, stop):
        high = m.maximum(high, _score(m, scores, mask, factor, i, masked))
    if high == float("-inf"):
        for i in independent(0, scores.n):
            out[i] = 0
        total[()] = float("-inf")
        share[()] = 0
    else:
        whole = m.value(0, kind)
        for start in range(0, stop, BLOCK):
            end = m.minimum(start + BLOCK, stop)
            part = m.value(0, kind)
            for i in independent(start, end):
                e = decay(m, _score(m, scores, mask, factor, i, masked) - high)
                out[i] = m.rounded(e, short) if short else e
                part = m.loose_add(part, e)
            whole = whole + part
        share[()] = 1.0 / whole
        if not short:
            scaling = 1.0 / whole
            for i in independent(0, stop):
                out[i] = out[i] * scaling
        for i in independent(stop, scores.n):
            out[i] = 0
        total[()] = m.log(whole) + high


@kernel("(n),(n),(n),(),(),(),()->(n),(n)")
def attention_rows_backward(m, scores, g, mask, scale, limit, total, inner, out, slope, masked, short):
    """The softmax again, and the gradient by the scores: p * (g - inner) * scale.

    For 16-bit floats, named by `short`, both are rounded and the scale is left out.
    """
    factor, whole, level = scale[()], total[()], inner[()]
    stop = m.minimum(m.maximum(limit[()], 0), scores.n)
    if whole == float("-inf"):
        stop = m.minimum(stop, 0)
    for i in independent(0, stop):
        p = decay(m, m.minimum(_score(m, scores, mask, factor, i, masked) - whole, 0.0))
        by_score = p * (g[i] - level)
        out[i] = m.rounded(p, short) if short else p
        slope[i] = m.rounded(by_score, short) if short else by_score * factor
    for i in independent(stop, scores.n):
        out[i] = 0
        slope[i] = 0
