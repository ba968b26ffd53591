"""Kernels that lay the windows of images out as columns of a matrix, and that add such columns up into images again.

A row of `back`, `down` or `right` belongs to one element of a window along a dimension: its place in the first window, and the first and
last window that has it inside the image. One iteration of the loop is one channel of all images.
"""

from __future__ import annotations

from ..loops.lang import independent, kernel


@kernel("(n,d,h,w),(q,t),(k,t),(l,t),(z),(i),(j)->(q,k,l,n,z,i,j)")
def lay_out_windows(m, x, back, down, right, slices, rows, columns, out, step_back, step_down, step_right):
    for c in range(back.shape[0]):
        for a in range(down.shape[0]):
            for b in range(right.shape[0]):
                shift, first, last = right[b, 0], right[b, 1], right[b, 2]
                for n in range(x.shape[0]):
                    for z in range(slices.shape[0]):
                        inside = (z >= back[c, 1]) & (z < back[c, 2])
                        slice = z * step_back + back[c, 0]
                        for i in range(rows.shape[0]):
                            if inside & (i >= down[a, 1]) & (i < down[a, 2]):
                                row = i * step_down + down[a, 0]
                                for j in range(first):
                                    out[c, a, b, n, z, i, j] = 0
                                for j in independent(first, last):
                                    out[c, a, b, n, z, i, j] = x[n, slice, row, j * step_right + shift]
                                for j in range(last, columns.shape[0]):
                                    out[c, a, b, n, z, i, j] = 0
                            else:
                                for j in independent(columns.shape[0]):
                                    out[c, a, b, n, z, i, j] = 0


@kernel("(q,k,l,n,z,i,j),(q,t),(k,t),(l,t)->(n,d,h,w)")
def add_up_windows(m, given, back, down, right, out, step_back, step_down, step_right):
    """Adds to what is there."""
    for c in range(back.shape[0]):
        for a in range(down.shape[0]):
            for b in range(right.shape[0]):
                shift = right[b, 0]
                for n in range(out.shape[0]):
                    for z in range(back[c, 1], back[c, 2]):
                        slice = z * step_back + back[c, 0]
                        for i in range(down[a, 1], down[a, 2]):
                            row = i * step_down + down[a, 0]
                            for j in independent(right[b, 1], right[b, 2]):
                                out[n, slice, row, j * step_right + shift] += given[c, a, b, n, z, i, j]


@kernel("(l),()->(l)")
def copy_rows(m, x, bias, out, added):
    """Copies rows. May add a number."""
    for k in independent(out.n):
        out[k] = x[k] + bias[()] if added else x[k]


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
