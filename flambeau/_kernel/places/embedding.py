"""Kernels of embeddings: sums of rows of a table by number, and the sums of gradients for its rows."""

from __future__ import annotations

from ..loops.lang import independent, inline, kernel
from ..render.value import SIZE


def _clear(out):
    """Fills a dense operand with zeros."""
    r = out.r
    size = out.shape[0] * out.shape[1] * SIZE[out.type]
    r.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    r.emit(f"call void @llvm.memset.p0.i64(ptr {out.pointer}, i8 0, i64 {size.name}, i1 false)")


@inline
def _sum_rows(m, index, g, flat, first, padding, out):
    _clear(out)
    low = first[()]
    high = low + out.shape[0]
    for i in range(index.n):
        at = m.cast(index[i], "i64")
        if (at >= low) & (at < high) & (at != padding[()]):
            for j in independent(out.n):
                out[at - low, j] = out[at - low, j] + (g[()] if flat else g[i, j])


@kernel("(i),(i,d),(),()->(v,d)")
def sum_rows(m, index, g, first, padding, out):
    """The rows of g added up by the number they have in `index`, for the numbers from `first` on.

    The result must be dense: it is cleared as a whole. A row whose number is `padding` is left out.
    """
    _sum_rows(m, index, g, False, first, padding, out)


@kernel("(i),(),(),()->(v,d)")
def sum_rows_flat(m, index, g, first, padding, out):
    """The same for a g that is one number."""
    _sum_rows(m, index, g, True, first, padding, out)


@inline
def _sum_named(m, index, start, stop, table, out, wrong):
    bad = m.value(0, "b1")
    for j in independent(table.n):
        out[j] = m.value(0, out.type)
    for i in range(start, stop):
        at = m.cast(index[i], "i64")
        if (at < 0) | (at >= table.shape[0]):
            bad = m.value(1, "b1")
        else:
            for j in independent(table.n):
                out[j] = out[j] + table[at, j]
    wrong[()] = bad


@kernel("(l),(v,d)->(d),()")
def sum_bag(m, index, table, out, wrong):
    """The sum of the rows that `index` names; `wrong` says whether one of them does not exist."""
    _sum_named(m, index, 0, index.n, table, out, wrong)


@kernel("(i),(),(),(v,d)->(d),()")
def sum_span(m, index, start, stop, table, out, wrong):
    """The same for the part of `index` from `start` to `stop`."""
    _sum_named(m, index, start[()], stop[()], table, out, wrong)


@kernel("(i),(b),(b),(b,d),()->(v,d)")
def sum_spans_back(m, index, starts, stops, g, first, out):
    """Each row of g added to the rows that its part of `index` names, for the numbers from `first` on; the result must be dense."""
    _clear(out)
    low = first[()]
    high = low + out.shape[0]
    for b in range(g.shape[0]):
        for i in range(starts[b], stops[b]):
            at = m.cast(index[i], "i64")
            if (at >= low) & (at < high):
                for j in independent(out.n):
                    out[at - low, j] = out[at - low, j] + g[b, j]


@kernel("(b,l),(b,d),()->(v,d)")
def sum_bags_back(m, index, g, first, out):
    """Each row of g added to the rows that its bag names, for the numbers from `first` on; the result must be dense."""
    _clear(out)
    low = first[()]
    high = low + out.shape[0]
    for b in range(index.shape[0]):
        for i in range(index.n):
            at = m.cast(index[b, i], "i64")
            if (at >= low) & (at < high):
                for j in independent(out.n):
                    out[at - low, j] = out[at - low, j] + g[b, j]
