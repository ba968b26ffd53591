"""Kernels of resampling along one dimension: each new place is a weighted sum of a few old ones, and the reverse."""

from __future__ import annotations

from .lang import independent, kernel
from .value import COMPUTE


@kernel("(n,w),(k,t),(k,t)->(k,w)")
def resample_columns(m, x, index, weights, out):
    """out[i] = sum over t of weights[i, t] * x[index[i, t]], for rows of x."""
    count = m.cast(x.shape[0], "u64")
    kind = COMPUTE.get(x.type, x.type)
    for i in range(index.shape[0]):
        for c in independent(out.n):
            out[i, c] = 0
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                share = m.cast(weights[i, t], kind)
                for c in independent(out.n):
                    out[i, c] = out[i, c] + x[j, c] * share


@kernel("(n),(k,t),(k,t)->(k)")
def resample_rows(m, x, index, weights, out):
    """The same along the last dimension."""
    count = m.cast(x.n, "u64")
    kind = COMPUTE.get(x.type, x.type)
    for i in range(index.shape[0]):
        total = m.value(0, kind)
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                total = total + x[j] * m.cast(weights[i, t], kind)
        out[i] = total


@kernel("(k,w),(k,t),(k,t)->(n,w)")
def resample_columns_back(m, g, index, weights, out):
    """Adds weights[i, t] * g[i] to the rows out[index[i, t]]."""
    count = m.cast(out.shape[0], "u64")
    kind = COMPUTE.get(g.type, g.type)
    for i in range(index.shape[0]):
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                share = m.cast(weights[i, t], kind)
                for c in independent(out.n):
                    out[j, c] = out[j, c] + g[i, c] * share


@kernel("(k),(k,t),(k,t)->(n)")
def resample_rows_back(m, g, index, weights, out):
    """The same along the last dimension."""
    count = m.cast(out.n, "u64")
    kind = COMPUTE.get(g.type, g.type)
    for i in range(index.shape[0]):
        for t in range(index.n):
            j = m.cast(index[i, t], "u64")
            if j < count:
                out[j] = out[j] + g[i] * m.cast(weights[i, t], kind)
