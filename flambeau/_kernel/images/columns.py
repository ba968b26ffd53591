"""Kernels that lay the windows of images out as columns of a matrix, and that add such columns up into images again.

A row of `down` or `right` belongs to one element of a window: its shift, and the first and last position that has it
inside the image. One iteration of the loop is one channel of all images.
"""

from __future__ import annotations

from ..loops.lang import independent, kernel


@kernel("(n,h,w),(k,t),(l,t),(i),(j)->(k,l,n,i,j)")
def lay_out_windows(m, x, down, right, rows, columns, out, step_down, step_right):
    for a in range(down.shape[0]):
        for b in range(right.shape[0]):
            shift, first, last = right[b, 0], right[b, 1], right[b, 2]
            for n in range(x.shape[0]):
                for i in range(rows.shape[0]):
                    if (i >= down[a, 1]) & (i < down[a, 2]):
                        row = i * step_down + down[a, 0]
                        for j in range(first):
                            out[a, b, n, i, j] = 0
                        for j in independent(first, last):
                            out[a, b, n, i, j] = x[n, row, j * step_right + shift]
                        for j in range(last, columns.shape[0]):
                            out[a, b, n, i, j] = 0
                    else:
                        for j in independent(columns.shape[0]):
                            out[a, b, n, i, j] = 0


@kernel("(k,l,n,i,j),(k,t),(l,t)->(n,h,w)")
def add_up_windows(m, given, down, right, out, step_down, step_right):
    for n in range(out.shape[0]):
        for i in range(out.shape[1]):
            for j in independent(out.shape[2]):
                out[n, i, j] = 0
    for a in range(down.shape[0]):
        for b in range(right.shape[0]):
            shift = right[b, 0]
            for n in range(out.shape[0]):
                for i in range(down[a, 1], down[a, 2]):
                    row = i * step_down + down[a, 0]
                    for j in independent(right[b, 1], right[b, 2]):
                        out[n, row, j * step_right + shift] += given[a, b, n, i, j]


@kernel("(p,l)->(l)")
def add_parts(m, parts, out):
    """The sum of several rows."""
    for k in independent(out.n):
        out[k] = parts[0, k]
    for p in range(1, parts.shape[0]):
        for k in independent(out.n):
            out[k] = out[k] + parts[p, k]


@kernel("()->(l)")
def set_all(m, value, out):
    for k in independent(out.n):
        out[k] = value[()]


@kernel("()->(l)")
def raise_all(m, value, out):
    for k in independent(out.n):
        out[k] = out[k] + value[()]
