"""Running folds along a dimension of CuPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._kernel.cuda.scan import THREADS, scan, state_size
from .cuda_layout import merged

_BLOCKS = 528  # blocks that keep a large GPU busy
_PIECE = 8192  # elements of a row that one block is worth
_COLUMN = 32  # elements of a column that are worth a thread
_MOST = 64  # pieces of a column: each thread joins those before its own


class Scans:
    """The running folds of one device."""

    def __init__(self, backend: Any):
        self.backend = backend

    def run(self, fold: str, x: Any, outs: Sequence[Any], dim: int) -> None:
        """Writes the running folds of an array along a dimension into others of its shape; extrema have their places, too."""
        if not x.size:
            return
        operands = [x, *outs]
        kept = sorted([d for d in range(x.ndim) if d != dim], key=lambda d: -abs(x.strides[d]))
        sizes, outer = merged([x.shape[d] for d in kept], [[a.strides[d] for d in kept] for a in operands])
        m, n = math.prod(sizes), x.shape[dim]
        steps = [a.strides[dim] for a in operands]
        columns = any([x.shape[d] > 1 and abs(x.strides[d]) < abs(steps[0]) for d in kept])
        if columns:
            pieces = min(-(-_BLOCKS * THREADS // 2 // m), -(-n // _COLUMN), _MOST)
        else:
            pieces = min(-(-_BLOCKS // m), -(-n // _PIECE))
        piece = -(-n // (pieces * _COLUMN)) * _COLUMN if pieces > 1 else n
        pieces = -(-n // piece)
        codes = [BY_NUMPY[a.dtype].code for a in operands]
        dense = all([s == a.itemsize for s, a in zip(steps, operands)])
        lanes = 1 if columns else THREADS if pieces > 1 else min(THREADS, 1 << max(-(-n // 4) - 1, 0).bit_length())
        numbers = [m, n, piece, *sizes[1:], *[s for a, b in zip(outer, steps) for s in (*a, b)]]
        grid = (-(-m // THREADS), pieces) if columns else (m * pieces if pieces > 1 else -(-m // (THREADS // lanes)), 1)
        parts = ("whole",) if pieces == 1 else ("folded", "carried") if columns else ("pieces",)
        totals: Any = 0
        if pieces > 1:
            known = 0 if columns else -(-(m * pieces + 1) // 4) * 4  # words about pieces, before their states
            totals = self.backend.empty((known + m * pieces * state_size(fold, codes[0]) // 4,), np.dtype(np.int32))
            if known:
                totals[:known].fill(0)
        for part in parts:
            name = f"scan_{fold}_{part}"
            text = scan(name, fold, codes[0], tuple(codes[1:]), len(sizes), columns, lanes, dense, part)
            self.backend.compiled(name, text)(grid, (THREADS,), (*operands, totals, *numbers))
