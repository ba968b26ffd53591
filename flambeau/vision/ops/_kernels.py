"""Kernels of detection: suppression of overlapping boxes, and sampling of feature maps inside boxes."""

from __future__ import annotations

from ..._kernel.loops.lang import independent, kernel


@kernel("(n,s),(n),()->(n)")
def suppress(m, boxes, group, threshold, kept):
    """Which boxes (best first) stay when each one kept takes out the later ones of its group that overlap it too much."""
    for i in independent(kept.n):
        kept[i] = 1
    for i in range(kept.n):
        if kept[i] != 0:
            left, top, right, bottom = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
            area = (right - left) * (bottom - top)
            mine = group[i]
            for j in range(i + 1, kept.n):
                width = m.minimum(right, boxes[j, 2]) - m.maximum(left, boxes[j, 0])
                height = m.minimum(bottom, boxes[j, 3]) - m.maximum(top, boxes[j, 1])
                common = m.maximum(width, 0) * m.maximum(height, 0)
                other = (boxes[j, 2] - boxes[j, 0]) * (boxes[j, 3] - boxes[j, 1])
                share = m.cast(common / (area + other - common), "f64")
                if (share > threshold[()]) & (group[j] == mine):
                    kept[j] = 0


@kernel("(b,h,w),(),(),(),(p,s),(p,s),(q,t),(q,t)->(p,q)")
def sample(m, x, image, rows, columns, row, row_weight, column, column_weight, out):
    """Weighted sums of one image's pixels: over the first `rows` taps down and the first `columns` taps across."""
    at = image[()]
    inside = (at >= 0) & (at < x.shape[0])
    for p in range(row.shape[0]):
        for q in range(column.shape[0]):
            total = m.value(0, out.type)
            if inside:
                for s in range(rows[()]):
                    line = m.value(0, out.type)
                    for t in range(columns[()]):
                        line = line + column_weight[q, t] * x[at, row[p, s], column[q, t]]
                    total = total + row_weight[p, s] * line
            out[p, q] = total


@kernel("(k,p,q),(k),(k),(k),(k,p,s),(k,p,s),(k,q,t),(k,q,t)->(b,h,w)")
def spread(m, g, image, rows, columns, row, row_weight, column, column_weight, out):
    """The reverse of `sample` for many boxes: adds their gradients to the pixels they were sums of."""
    for k in range(image.n):
        at = image[k]
        if (at >= 0) & (at < out.shape[0]):
            for p in range(row.shape[1]):
                for q in range(column.shape[1]):
                    for s in range(rows[k]):
                        share = g[k, p, q] * row_weight[k, p, s]
                        for t in range(columns[k]):
                            i, j = row[k, p, s], column[k, q, t]
                            out[at, i, j] = out[at, i, j] + share * column_weight[k, q, t]


@kernel("(b,h,w),(),(p,s),(q,s)->(p,q)")
def largest(m, x, image, down, across, index):
    """The places (in a plane of all images) of the largest pixels of windows; -1 for an empty window."""
    at = image[()]
    for p in range(down.shape[0]):
        for q in range(across.shape[0]):
            place = m.value(-1, "i64")
            if (at >= 0) & (at < x.shape[0]):
                best = m.value(-float("inf"), x.type)
                for i in range(down[p, 0], down[p, 1]):
                    for j in range(across[q, 0], across[q, 1]):
                        if (x[at, i, j] > best) | (place < 0):
                            best = x[at, i, j]
                            place = (at * x.shape[1] + i) * x.n + j
            index[p, q] = place
