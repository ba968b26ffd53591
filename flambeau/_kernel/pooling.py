"""Kernels of pooling: extrema and means over windows of planes.

A plane has up to three dimensions. The windows along a dimension are rows of a table: start, end (inside the plane)
and a third number: the step between elements for a maximum, the extent that counts in the divisor for a mean.
"""

from __future__ import annotations

from .lang import independent, inline, kernel


def _above(type, element, best):
    """Whether an element takes the place of the best; a NaN does."""
    return (element > best) | (element != element) if type[0] not in "iu" else element > best


@inline
def _largest(m, x, d, d_end, d_step, h, h_end, h_step, w, w_end, w_step):
    """The largest element of a window and its number in the plane."""
    best = x[d, h, w]
    place = (d * x.shape[1] + h) * x.n + w
    i = d + 0
    while i < d_end:
        j = h + 0
        while j < h_end:
            row = (i * x.shape[1] + j) * x.n
            k = w + 0
            while k < w_end:
                element = x[i, j, k]
                larger = _above(x.type, element, best)
                best = m.where(larger, element, best)
                place = m.where(larger, row + k, place)
                k += w_step
            j += h_step
        i += d_step
    return best, place


@kernel("(d,h,w),(a,t),(b,t),(c,t)->(a,b,c),(a,b,c)")
def max_planes(m, x, over_d, over_h, over_w, out, index):
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            for c in range(over_w.shape[0]):
                best, place = _largest(
                    m, x, over_d[a, 0], over_d[a, 1], over_d[a, 2], over_h[b, 0], over_h[b, 1], over_h[b, 2],
                    over_w[c, 0], over_w[c, 1], over_w[c, 2],
                )  # fmt: skip
                out[a, b, c] = best
                index[a, b, c] = place


@kernel("(d,h,w),(a,t),(b,t),(c,t),(k,t)->(a,b,c),(a,b,c)")
def max_rows(m, x, over_d, over_h, over_w, taps, out, index, stride, lowest):
    """As `max_planes` for windows `stride` apart: a row of results at a time, one element of its windows after another.

    A tap is (first column, first result that has it, end of the results that have it).
    """
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            corner = (over_d[a, 0] * x.shape[1] + over_h[b, 0]) * x.n
            for c in independent(out.n):
                out[a, b, c] = lowest
                index[a, b, c] = corner + over_w[c, 0]
            i = over_d[a, 0]
            while i < over_d[a, 1]:
                j = over_h[b, 0]
                while j < over_h[b, 1]:
                    row = (i * x.shape[1] + j) * x.n
                    for k in range(taps.shape[0]):
                        start = taps[k, 0]
                        for c in independent(taps[k, 1], taps[k, 2]):
                            element = x[i, j, start + c * stride]
                            best = out[a, b, c]
                            larger = _above(x.type, element, best)
                            out[a, b, c] = m.where(larger, element, best)
                            index[a, b, c] = m.where(larger, row + start + c * stride, index[a, b, c])
                    j += over_h[b, 2]
                i += over_d[a, 2]


@kernel("(d,h,w),(t),(t),(t)->(),()")
def max_element(m, x, over_d, over_h, over_w, out, index):
    """One window; for devices where every result has a thread."""
    best, place = _largest(
        m, x, over_d[0], over_d[1], over_d[2], over_h[0], over_h[1], over_h[2], over_w[0], over_w[1], over_w[2]
    )
    out[()] = best
    index[()] = place


@kernel("(n),(n)->(s)")
def put_elements(m, g, index, out):
    """Elements added to zeros at their places."""
    for i in independent(out.n):
        out[i] = 0
    count = m.cast(out.n, "u64")
    for i in range(g.n):
        place = m.cast(index[i], "u64")
        if place < count:
            out[place] = out[place] + g[i]


@inline
def _mean(m, x, d, d_end, d_count, h, h_end, h_count, w, w_end, w_count, divisor, out, at, narrow):
    """The sum of a window over a divisor, or over the number of elements that count where that is 0."""
    total = m.value(0, x.type if x.type in ("i64", "f64") else "f32")
    out[at] = 0
    for i in range(d, d_end):
        for j in range(h, h_end):
            for k in range(w, w_end):
                if narrow:  # rounded at every step, as PyTorch does there
                    out[at] = out[at] + x[i, j, k]
                else:
                    total += x[i, j, k]
    if narrow:
        total = out[at]
    count = m.where(divisor[()] != 0, divisor[()], d_count * h_count * w_count)
    out[at] = total / m.cast(count, total.type)


@kernel("(d,h,w),(a,t),(b,t),(c,t),()->(a,b,c)")
def mean_planes(m, x, over_d, over_h, over_w, divisor, out, narrow):
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            for c in range(over_w.shape[0]):
                _mean(
                    m, x, over_d[a, 0], over_d[a, 1], over_d[a, 2], over_h[b, 0], over_h[b, 1], over_h[b, 2],
                    over_w[c, 0], over_w[c, 1], over_w[c, 2], divisor, out, (a, b, c), narrow,
                )  # fmt: skip


@kernel("(d,h,w),(t),(t),(t),()->()")
def mean_element(m, x, over_d, over_h, over_w, divisor, out, narrow):
    _mean(
        m, x, over_d[0], over_d[1], over_d[2], over_h[0], over_h[1], over_h[2], over_w[0], over_w[1], over_w[2],
        divisor, out, (), narrow,
    )  # fmt: skip


@inline
def _share(m, out, at, g, a, a_end, b, b_end, c, c_end):
    """What an element gets from the windows it lies in; added up in its own dtype, as PyTorch does."""
    out[at] = 0
    for i in range(a, a_end):
        for j in range(b, b_end):
            for k in range(c, c_end):
                out[at] = out[at] + g[i, j, k]


@kernel("(a,b,c),(d,t),(h,t),(w,t)->(d,h,w)")
def spread_planes(m, g, in_d, in_h, in_w, out):
    """The adjoint of a sum over windows; tables give the first and last window that an element lies in."""
    for d in range(in_d.shape[0]):
        for h in range(in_h.shape[0]):
            for w in range(in_w.shape[0]):
                _share(m, out, (d, h, w), g, in_d[d, 0], in_d[d, 1], in_h[h, 0], in_h[h, 1], in_w[w, 0], in_w[w, 1])


@kernel("(a,b,c),(t),(t),(t)->()")
def spread_element(m, g, in_d, in_h, in_w, out):
    _share(m, out, (), g, in_d[0], in_d[1], in_h[0], in_h[1], in_w[0], in_w[1])
