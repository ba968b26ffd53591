"""Attention of CuPy arrays by products of matrices: with masks, of any floats and widths. The matrix of scores lies in memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._kernel.folds.rows import Rows
from .cuda_rows import Operand

ADDED, SEEN, CAUSAL, ALL = range(4)  # kinds of masks: numbers that are added, what takes part, what came before, none


def _score(m: Any, kind: int, x: Any, *given: Any) -> Any:
    """What becomes of a score: from its mask, or the numbers of query and key."""
    if kind == ADDED:
        return x + m.cast(given[0], x.type)
    if kind == ALL:
        return x
    seen = given[0] if kind == SEEN else given[-1] <= given[0]
    return m.where(seen, x, -math.inf)


@functools.cache
def _softmax(kind: int) -> Rows:
    """Shares of scores, nothing of rows that see nothing; besides, the logarithm of the sum of their exponentials."""
    causal, operands = kind == CAUSAL, 1 if kind == ALL else 2

    def power(m: Any, given: Any, high: Any) -> Any:
        x = _score(m, kind, *given)
        return m.where(x == -math.inf, 0.0, m.decay(x - high))

    def settle(m: Any, *given: Any) -> Any:
        high, total, _ = given[-3:]
        none = total == 0
        whole = m.cast(m.where(none, 1.0, total), high.type)
        return m.where(none, math.inf, high + m.log(whole)), high, m.where(none, 0.0, 1.0 / whole)

    def last(m: Any, *given: Any) -> Any:
        _, high, share = given[operands : operands + 3]
        return power(m, given, high) * share

    stages = (
        ("peak", lambda m, *given: _score(m, kind, *given)),
        ("sum", lambda m, *given: power(m, given, given[operands])),
    )
    return Rows(stages, last, settle=settle, fixed=int(causal), indexed=causal)


_SHARES_BACK = Rows(
    (("sum", lambda m, g, y, count: g * m.cast(y, g.type)),),
    lambda m, g, y, total, count: m.cast(y, g.type) * (g - m.cast(total, g.type)),
)


class Scores:
    """softmax(q k' * scale + mask) v and its gradients, for operands of four dimensions."""

    def __init__(self, backend: Any):
        self.backend = backend

    def shares(self, q: Any, k: Any, mask: Any, scale: float, causal: bool) -> tuple[Any, Any]:
        """The shares that queries have of values, and the logarithms of the sums of exponentials."""
        wide = BY_NUMPY[q.dtype].wide.numpy
        scores = self.backend.product(q, k.swapaxes(2, 3), alpha=scale, dtype=wide)
        made, totals = self.backend.empty(scores.shape, q.dtype), self.backend.empty(q.shape[:3], wide)
        kind, more = CAUSAL if causal else ALL, []
        if causal:
            numbers, lies = self.backend.constant(np.arange(q.shape[2]))
            more = [(numbers, Operand(q.shape[:3], (0, 0, *lies.strides), lies.dtype))]
        elif mask is not None:
            kind, more = SEEN if mask.dtype == np.bool_ else ADDED, [mask]
        self.backend.along.run("shares", _softmax(kind), [scores, *more], [made, totals], (3,))
        return made, totals

    def forward(self, q: Any, k: Any, v: Any, mask: Any, out: Any, scale: float, causal: bool) -> Any:
        shares, totals = self.shares(q, k, mask, scale, causal)
        self.backend.product(shares, v, out=out)
        return totals

    def backward(
        self, g: Any, q: Any, k: Any, v: Any, mask: Any, made: Sequence[Any], scale: float, causal: bool
    ) -> None:
        product, (by_q, by_k, by_v) = self.backend.product, made
        shares, _ = self.shares(q, k, mask, scale, causal)
        product(shares.swapaxes(2, 3), g, out=by_v)
        by_shares = product(g, v.swapaxes(2, 3), dtype=BY_NUMPY[q.dtype].wide.numpy)
        by_scores = self.backend.empty(shares.shape, q.dtype)
        self.backend.along.run("shares_back", _SHARES_BACK, [by_shares, shares], [by_scores], (3,))
        product(by_scores, k, alpha=scale, out=by_q)
        product(by_scores.swapaxes(2, 3), q, alpha=scale, out=by_k)
