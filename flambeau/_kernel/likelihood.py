"""Kernels of the negative log-likelihood: what targets pick from scores (rows, classes, places), weighted by class.

With smoothing s, a target counts 1 - s, and all classes share s.
"""

from __future__ import annotations

from .lang import independent, inline, kernel


@inline
def _smooth_part(m, x, r, d, weight, share):
    """The sum of the weighted scores of all classes, times `share`."""
    part = m.value(0, "f64")
    for c in range(x.shape[1]):
        part = part + m.cast(x[r, c, d], "f64") * m.cast(weight[c], "f64")
    return part * share


@inline
def _one_loss(m, x, r, d, at, weight, smooth):
    """The loss of one target, which names a class."""
    picked = m.cast(x[r, at, d], "f64") * m.cast(weight[at], "f64")
    if smooth != 0.0:
        share = smooth / m.cast(x.shape[1], "f64")
        picked = picked * (1.0 - smooth) + _smooth_part(m, x, r, d, weight, share)
    return -picked


@kernel("(r,c,d),(r,d),(c),(),()->(),()")
def likelihood_sum(m, x, target, weight, skipped, smooth, loss, total, mean):
    """The sum of the losses (over that of the weights: `mean`), and the divisor."""
    sum_of = m.value(0, "f64")
    used = m.value(0, "f64")
    for r in range(x.shape[0]):
        for d in range(x.shape[2]):
            at = m.cast(target[r, d], "i64")
            if (at != skipped[()]) & (at >= 0) & (at < x.shape[1]):
                sum_of = sum_of + _one_loss(m, x, r, d, at, weight, smooth[()])
                used = used + m.cast(weight[at], "f64")
    total[()] = used if mean else m.value(1, "f64")
    loss[()] = sum_of / used if mean else sum_of


@kernel("(r,c,d),(r,d),(c),(),()->(r,d)")
def likelihood_each(m, x, target, weight, skipped, smooth, loss):
    """The losses one by one, zero where the target is the skipped one."""
    for r in range(x.shape[0]):
        for d in range(x.shape[2]):
            at = m.cast(target[r, d], "i64")
            value = m.value(0, "f64")
            if (at != skipped[()]) & (at >= 0) & (at < x.shape[1]):
                value = _one_loss(m, x, r, d, at, weight, smooth[()])
            loss[r, d] = m.cast(value, loss.type)


@inline
def _gradient(m, g, each, total, target, weight, skipped, smooth, out):
    classes = out.shape[1]
    share = smooth[()] / m.cast(classes, "f64")
    for r in range(out.shape[0]):
        for d in range(out.shape[2]):
            at = m.cast(target[r, d], "i64")
            if (at != skipped[()]) & (at >= 0) & (at < classes):
                factor = -m.cast(g[r, d] if each else g[()], "f64") / total[()]
                if share != 0.0:
                    for c in independent(classes):
                        out[r, c, d] = m.cast(factor * share * m.cast(weight[c], "f64"), out.type)
                full = factor * (1.0 - smooth[()]) * m.cast(weight[at], "f64")
                out[r, at, d] = m.cast(m.cast(out[r, at, d], "f64") + full, out.type)


@kernel("(),(),(r,d),(c),(),()->(r,c,d)")
def likelihood_sum_gradient(m, g, total, target, weight, skipped, smooth, out):
    """What their sum over `total` is by the scores; `out` holds zeros."""
    _gradient(m, g, False, total, target, weight, skipped, smooth, out)


@kernel("(r,d),(),(r,d),(c),(),()->(r,c,d)")
def likelihood_each_gradient(m, g, total, target, weight, skipped, smooth, out):
    """The same for losses one by one."""
    _gradient(m, g, True, total, target, weight, skipped, smooth, out)
