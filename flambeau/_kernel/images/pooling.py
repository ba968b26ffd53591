"""Kernels of pooling: extrema and means over windows of planes.

A plane has up to three dimensions. The windows along a dimension are rows of a table: start, end (inside the plane)
and a third number: the step between elements for a maximum, the extent that counts in the divisor for a mean.
"""

from __future__ import annotations

from ..loops.lang import independent, inline, kernel
from ..render.value import COMPUTE


def _above(type, element, best):
    """Whether an element takes the place of the best; a NaN does."""
    return (element > best) | (element != element) if type[0] not in "iu" else element > best


@inline
def _largest(m, x, d, d_end, d_step, h, h_end, h_step, w, w_end, w_step, flat):
    """The largest element of a window and its number in the plane, or among those of its column if `flat`."""
    best = x[d, h, w]
    place = d * x.shape[1] + h if flat else (d * x.shape[1] + h) * x.n + w
    i = d + 0
    while i < d_end:
        j = h + 0
        while j < h_end:
            row = i * x.shape[1] + j if flat else (i * x.shape[1] + j) * x.n
            k = w + 0
            while k < w_end:
                element = x[i, j, k]
                larger = _above(x.type, element, best)
                best = m.where(larger, element, best)
                place = m.where(larger, row if flat else row + k, place)
                k += w_step
            j += h_step
        i += d_step
    return best, place


@kernel("(d,h,w),(a,t),(b,t),(c,t)->(a,b,c),(a,b,c)")
def max_planes(m, x, over_d, over_h, over_w, out, index, flat):
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            for c in range(over_w.shape[0]):
                best, place = _largest(
                    m, x, over_d[a, 0], over_d[a, 1], over_d[a, 2], over_h[b, 0], over_h[b, 1], over_h[b, 2],
                    over_w[c, 0], over_w[c, 1], over_w[c, 2], flat,
                )  # fmt: skip
                out[a, b, c] = best
                index[a, b, c] = place


@kernel("(d,h,w),(a,t),(b,t),(c,t),(k)->(a,b,c),(a,b,c)")
def max_inside(m, x, over_d, over_h, over_w, columns, out, index, flat, stride, window, extents, padded):
    """As `max_planes` for small windows `stride` apart: `window` has the places of the elements of a whole one, (slice, row, column).

    Where there is padding, windows over `extents` slices and rows are whole from a result of a row to another; `columns` are the first
    column of the row's first window and these two results.
    """
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            d = over_d[a, 0]
            h = over_h[b, 0]
            begin, low, high = 0, 0, out.n
            if padded:
                whole = (over_d[a, 1] - d == extents[0]) & (over_h[b, 1] - h == extents[1])
                begin, low, high = columns[0] + 0, m.where(whole, columns[1], 0), m.where(whole, columns[2], 0)
            corner = m.cast(d * x.shape[1] + h if flat else (d * x.shape[1] + h) * x.n, "i32")
            across = m.value(1, "i32") if flat else m.cast(x.n, "i32")
            down = m.cast(x.shape[1] if flat else x.shape[1] * x.n, "i32")
            for c in independent(low, high):
                first = begin + c * stride
                best = x[d, h, first]
                start = corner if flat else corner + m.cast(first, "i32")
                place = start + 0
                for at in tuple(window):
                    element = x[d + at[0], h + at[1], first + at[2]]
                    larger = _above(x.type, element, best)
                    best = m.where(larger, element, best)
                    place = m.where(larger, start + (down * at[0] + across * at[1] + (0 if flat else at[2])), place)
                out[a, b, c] = best
                index[a, b, c] = m.cast(place, "i64")
            if padded:
                c = low - low
                while c < out.n:
                    if (c < low) | (c >= high):
                        best, place = _largest(
                            m, x, d, over_d[a, 1], over_d[a, 2], h, over_h[b, 1], over_h[b, 2],
                            over_w[c, 0], over_w[c, 1], over_w[c, 2], flat,
                        )  # fmt: skip
                        out[a, b, c] = best
                        index[a, b, c] = place
                        c += 1
                    else:
                        c = high + 0


def _precedes(type, element, at, best, place):
    """As `_above`, for elements that come in any order: the first of equal ones, the last NaN."""
    ahead = (element > best) | ((element == best) & (at < place))
    return ahead | ((element != element) & ((best == best) | (at > place))) if type[0] not in "iu" else ahead


@inline
def _columns(m, x, best, rows, d, d_end, d_step, h, h_end, h_step):
    """The largest element of each column of a band of rows, and its row."""
    first = m.cast(d * x.shape[1] + h, "i32")
    for k in independent(x.n):
        best[k] = x[d, h, k]
        rows[k] = first
    i = d + 0
    while i < d_end:
        j = h + 0
        while j < h_end:
            row = m.cast(i * x.shape[1] + j, "i32")
            for k in independent(x.n):
                element = x[i, j, k]
                larger = _above(x.type, element, best[k])
                best[k] = m.where(larger, element, best[k])
                rows[k] = m.where(larger, row, rows[k])
            j += h_step
        i += d_step


@kernel("(d,h,w),(a,t),(b,t),(c,t)->(a,b,c),(a,b,c)")
def max_bands(m, x, over_d, over_h, over_w, out, index, widest):
    """As `max_planes` for rows of at most `widest` elements: the columns of a band first, then its windows."""
    best = m.local(x.type, widest)
    rows = m.local("i32", widest)
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            _columns(
                m, x, best, rows, over_d[a, 0], over_d[a, 1], over_d[a, 2], over_h[b, 0], over_h[b, 1], over_h[b, 2]
            )
            for c in range(over_w.shape[0]):
                k = over_w[c, 0] + 0
                top = best[k]
                place = m.cast(rows[k], "i64") * x.n + k
                while k < over_w[c, 1]:
                    at = m.cast(rows[k], "i64") * x.n + k
                    larger = _precedes(x.type, best[k], at, top, place)
                    top = m.where(larger, best[k], top)
                    place = m.where(larger, at, place)
                    k += over_w[c, 2]
                out[a, b, c] = top
                index[a, b, c] = place


@kernel("(d,h,w),(t),(t),(t)->(),()")
def max_element(m, x, over_d, over_h, over_w, out, index):
    """One window; for devices where every result has a thread."""
    best, place = _largest(
        m, x, over_d[0], over_d[1], over_d[2], over_h[0], over_h[1], over_h[2], over_w[0], over_w[1], over_w[2], False
    )
    out[()] = best
    index[()] = place


@kernel("(a,b,c),(a,b,c),(t),(t),(t)->()")
def put_element(m, g, index, in_d, in_h, in_w, out):
    """What an element gets from those windows it lies in whose largest it is; tables as of `spread_planes`."""
    place = in_d[3] + in_h[3] + in_w[3]
    total = m.value(0, COMPUTE.get(g.type, g.type))
    for i in range(in_d[0], in_d[1]):
        for j in range(in_h[0], in_h[1]):
            for k in range(in_w[0], in_w[1]):
                if index[i, j, k] == place:
                    total = m.stored(total + g[i, j, k], g.type)
    out[()] = total


@kernel("(n),(n)->(s)", vectors=False)
def put_elements(m, g, index, out):
    """Elements added to zeros at their places."""
    for i in independent(out.n):
        out[i] = 0
    count = m.cast(out.n, "u64")
    for i in range(g.n):
        place = m.cast(index[i], "u64")
        if place < count:
            out[place] = out[place] + g[i]


@kernel("(n,c),(n,c)->(s,c)")
def put_channels(m, g, index, out):
    """The same for each of the channels that lie side by side."""
    for i in range(out.shape[0]):
        for j in independent(out.n):
            out[i, j] = 0
    count = m.cast(out.shape[0], "u64")
    for i in range(g.shape[0]):
        for j in range(g.n):
            place = m.cast(index[i, j], "u64")
            if place < count:
                out[place, j] = out[place, j] + g[i, j]


@inline
def _mean(m, x, d, d_end, d_count, h, h_end, h_count, w, w_end, w_count, divisor, out, at, narrow):
    """The sum of a window over a divisor, or over the number of elements that count where that is 0."""
    total = m.value(0, x.type if x.type in ("i64", "f64") else "f32")
    for i in range(d, d_end):
        for j in range(h, h_end):
            for k in range(w, w_end):
                total += x[i, j, k]
                if narrow:  # rounded at every step, as PyTorch does there
                    total = m.stored(total, x.type)
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


def _counts(m, divisor, rows, over_w, even, kind):
    """How many elements count in a window of a row; told once for all of them if they are `even`."""
    given = divisor[()]
    if even:
        count = m.cast(m.where(given != 0, given, rows * over_w[0, 2]), kind)
        return lambda c: count
    return lambda c: m.cast(m.where(given != 0, given, rows * over_w[c, 2]), kind)


@kernel("(d,h,w),(a,t),(b,t),(c,t),(),(k,t)->(a,b,c)")
def mean_rows(m, x, over_d, over_h, over_w, divisor, taps, out, stride, widest, even):
    """As `mean_planes` for windows `stride` apart and at most `widest` results in a row: one element of its windows after another.

    A tap is (first column, first result that has it, end of the results that have it).
    """
    kind = x.type if x.type in ("i64", "f64") else "f32"
    sums = m.local(kind, widest)
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            for c in independent(out.n):
                sums[c] = 0
            for i in range(over_d[a, 0], over_d[a, 1]):
                for j in range(over_h[b, 0], over_h[b, 1]):
                    for k in range(taps.shape[0]):
                        start = taps[k, 0]
                        for c in independent(taps[k, 1], taps[k, 2]):
                            sums[c] = sums[c] + x[i, j, start + c * stride]
            count_of = _counts(m, divisor, over_d[a, 2] * over_h[b, 2], over_w, even, kind)
            for c in independent(out.n):
                out[a, b, c] = sums[c] / count_of(c)


@kernel("(d,h,w),(a,t),(b,t),(c,t),()->(a,b,c)")
def mean_bands(m, x, over_d, over_h, over_w, divisor, out, widest, even):
    """As `mean_planes` for rows of at most `widest` elements: the columns of a band first, then its windows."""
    kind = x.type if x.type in ("i64", "f64") else "f32"
    sums = m.local(kind, widest)
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            for k in independent(x.n):
                sums[k] = 0
            for i in range(over_d[a, 0], over_d[a, 1]):
                for j in range(over_h[b, 0], over_h[b, 1]):
                    for k in independent(x.n):
                        sums[k] = sums[k] + x[i, j, k]
            count_of = _counts(m, divisor, over_d[a, 2] * over_h[b, 2], over_w, even, kind)
            for c in range(over_w.shape[0]):
                total = m.value(0, kind)
                for k in range(over_w[c, 0], over_w[c, 1]):
                    total += sums[k]
                out[a, b, c] = total / count_of(c)


@kernel("(d,h,w),(t),(t),(t),()->()")
def mean_element(m, x, over_d, over_h, over_w, divisor, out, narrow):
    _mean(
        m, x, over_d[0], over_d[1], over_d[2], over_h[0], over_h[1], over_h[2], over_w[0], over_w[1], over_w[2],
        divisor, out, (), narrow,
    )  # fmt: skip


@kernel("(a,b,c),(a,t),(b,t),(c,t),()->(a,b,c)")
def divide_planes(m, g, over_d, over_h, over_w, divisor, out, even):
    """Shares of what means get: divided by a divisor, or by the number of elements that count where that is 0."""
    kind = "f64" if g.type == "f64" else "f32"
    for a in range(over_d.shape[0]):
        for b in range(over_h.shape[0]):
            count_of = _counts(m, divisor, over_d[a, 2] * over_h[b, 2], over_w, even, kind)
            for c in independent(out.n):
                out[a, b, c] = g[a, b, c] / count_of(c)


@kernel("(a,b,c),(d,t),(h,t),(w,t),(),()->(d,h,w)")
def spread_planes(m, g, in_d, in_h, in_w, divisor, overlap, out, single, divide):
    """The adjoint of a sum over windows; tables give the first and last window that an element lies in, whether
    the element before lies in the same ones, and what it adds to its place in the plane. Along a row, an element lies in up to `overlap` windows; with `single`,
    every element lies in one window alone. `divide` divides shares."""
    count = m.cast(divisor[()], "f64" if g.type == "f64" else "f32")
    for d in range(in_d.shape[0]):
        for h in range(in_h.shape[0]):
            if in_h[h, 2] != 0:
                for w in independent(out.n):
                    out[d, h, w] = out[d, h - 1, w]
            elif single:
                i, j = in_d[d, 0], in_h[h, 0]
                for w in independent(out.n):
                    out[d, h, w] = g[i, j, in_w[w, 0]] / count if divide else g[i, j, in_w[w, 0]]
            else:
                _row(m, out, d, h, g, in_d[d, 0], in_d[d, 1], in_h[h, 0], in_h[h, 1], in_w, overlap[()])


@inline
def _row(m, out, d, h, g, a, a_end, b, b_end, in_w, overlap):
    """A row of what elements get from the windows they lie in, added up in their own dtype, as PyTorch does."""
    for w in independent(out.n):
        out[d, h, w] = 0
    last = g.n - 1
    for i in range(a, a_end):
        for j in range(b, b_end):
            for k in range(overlap):
                for w in independent(out.n):
                    window = in_w[w, 0] + k
                    share = g[i, j, m.where(window < last, window, last)]
                    out[d, h, w] = m.where(window < in_w[w, 1], out[d, h, w] + share, out[d, h, w])


@kernel("(a,b,c),(a,t),(b,t),(c,t),(),(u),(u),(u)->()")
def spread_element(m, g, over_d, over_h, over_w, divisor, in_d, in_h, in_w, out):
    """What an element gets from the windows it lies in: shares as of `divide_planes`, added up in the dtype of the element, as PyTorch does."""
    given = divisor[()]
    total = m.value(0, COMPUTE.get(g.type, g.type))
    for i in range(in_d[0], in_d[1]):
        for j in range(in_h[0], in_h[1]):
            rows = over_d[i, 2] * over_h[j, 2]
            for k in range(in_w[0], in_w[1]):
                count = m.cast(m.where(given != 0, given, rows * over_w[k, 2]), "f64" if g.type == "f64" else "f32")
                total = m.stored(total + m.stored(g[i, j, k] / count, g.type), g.type)
    out[()] = total
