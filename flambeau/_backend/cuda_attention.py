"""Attention of CuPy arrays: of 16-bit floats without masks by cuDNN or kernels of our own, which never store the matrix of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._kernel.cuda import attention as kernels
from .cuda_scores import Scores
from .cudnn_attention import CudnnAttention

_MOST = 65535  # heads of all batches: blocks along the second dimension of a grid
_ALIGNED = 16  # bytes that are fetched at once
_CODES = ("f16", "bf16")


class Attention:
    """softmax(q k' * scale + mask) v and its gradients: by cuDNN, where that can, by our kernels, or by products."""

    def __init__(self, backend: Any):
        self.backend, self.scores, self.library = backend, Scores(backend), CudnnAttention(backend.cudnn)
        self.hidden: dict[str, Any] = {}  # what makes numbers to add of what takes part, by the type of numbers

    def takes(self, q: Any, k: Any, v: Any, mask: Any, scale: float, group: int) -> bool:
        """Whether there is a way for such operands: others share heads of keys."""
        return group == 1 or self._fuses(q, v, mask, scale)

    def _fuses(self, q: Any, v: Any, mask: Any, scale: float) -> bool:
        """Whether we have kernels that never store scores."""
        width = q.shape[-1]
        return (
            mask is None
            and scale > 0  # the largest score is the one of the largest product
            and BY_NUMPY[q.dtype].code in _CODES
            and width == v.shape[-1]
            and 0 < width <= kernels.WIDEST
            and not width % kernels.STEP
            and q.ndim >= 2
            and math.prod(q.shape[:-2]) <= _MOST
        )

    def forward(self, q: Any, k: Any, v: Any, mask: Any, out: Any, scale: float, causal: bool, group: int) -> Any:
        """Fills `out`; gives the logarithm of each query's sum of exponentials."""
        shape, fuses = q.shape[:-1], self._fuses(q, v, mask, scale)
        q, k, v, out = map(_four, (q, k, v, out))
        if self.library.takes(q, k, v):
            operands, totals = map(self._aligned, (q, k, v)), self.backend.empty(q.shape[:-1], np.dtype(np.float32))
            if self.library.forward(*operands, self._added(mask, q, k), out, totals, scale, causal):
                return totals.reshape(shape)
        totals = (
            self._forward(q, k, v, out, scale, causal, group)
            if fuses
            else self.scores.forward(q, k, v, mask, out, scale, causal)
        )
        return totals.reshape(shape)

    def backward(
        self, g: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, totals: Any, made: Sequence[Any], scale: float,
        causal: bool, group: int,
    ) -> None:  # fmt: skip
        """Fills the gradients by q, k and v."""
        fuses = self._fuses(q, v, mask, scale)
        g, q, k, v, out, *made = map(_four, (g, q, k, v, out, *made))
        totals = totals.reshape(q.shape[:-1])
        if self.library.takes(q, k, v):
            operands = map(self._aligned, (g, q, k, v))
            added = self._added(mask, q, k)
            if self.library.backward(*operands, added, self._aligned(out), totals, made, scale, causal):
                return
        if fuses:
            self._backward(g, q, k, v, out, totals, made, scale, causal, group)
        else:
            self.scores.backward(g, q, k, v, mask, made, scale, causal)

    def _forward(self, q: Any, k: Any, v: Any, out: Any, scale: float, causal: bool, group: int) -> Any:
        code, totals = BY_NUMPY[q.dtype].code, self.backend.empty(q.shape[:-1], np.dtype(np.float32))
        q, k, v = map(self._aligned, (q, k, v))
        (batch, heads, length, width), keys = q.shape, k.shape[2]
        function = self.backend.compiled("attention_forward", kernels.forward(code, width))
        places = [s for a in (q, k, v, out) for s in _steps(a)]
        numbers = [heads, group, length, keys, float(scale), int(causal)]
        rows = kernels.ROWS * kernels.tiles(width)
        function((-(-length // rows), batch * heads), (32 * kernels.WARPS,), (q, k, v, out, totals, *places, *numbers))
        return totals

    def _backward(
        self, g: Any, q: Any, k: Any, v: Any, out: Any, totals: Any, made: Sequence[Any], scale: float, causal: bool, group: int
    ) -> None:  # fmt: skip
        code = BY_NUMPY[q.dtype].code
        g, q, k, v, out = map(self._aligned, (g, q, k, v, out))
        by_q, by_k, by_v = made
        (batch, heads, length, width), (_, shared, keys, _) = q.shape, k.shape
        text = kernels.backward(code, width)
        dots = self.backend.empty((batch * heads * length,), np.dtype(np.float32))
        lines, threads = batch * heads * length, 32 * kernels.WARPS
        self.backend.compiled("attention_dots", text)(
            (-(-lines // kernels.WARPS),), (threads,), (out, g, dots, *_steps(out), *_steps(g), heads, length, lines)
        )
        given = q, k, v, g, totals, dots
        places = [s for a in (q, k, v, g) for s in _steps(a)]
        numbers = [heads, group, length, keys, float(scale), int(causal)]
        self.backend.compiled("attention_by_queries", text)(
            (-(-length // kernels.ROWS), batch * heads), (threads,), (*given, by_q, *places, *_steps(by_q), *numbers)
        )
        self.backend.compiled("attention_by_keys", text)(
            (-(-keys // kernels.ROWS), batch * shared), (threads,),
            (*given, by_k, by_v, *places, *_steps(by_k), *_steps(by_v), *numbers),
        )  # fmt: skip

    def _added(self, mask: Any, q: Any, k: Any) -> Any:
        """What is added to scores: once for batches and heads that share it, and otherwise of their size."""
        if mask is None:
            return None
        mask = _four(mask)
        mask = mask[tuple([slice(None if s else 1) for s in mask.strides[:2]])]
        shape = (*mask.shape[:2], q.shape[2], k.shape[2])
        if mask.shape == shape and mask.dtype == q.dtype:
            return self._aligned(mask)
        made = self.backend.empty(shape, q.dtype)
        if mask.dtype != np.bool_:
            self.backend.copy(mask, made)
        else:
            code = BY_NUMPY[q.dtype].code
            call = self.hidden.get(code)
            if call is None:
                body = lambda m, seen: m.where(seen, 0.0, -math.inf)
                call = self.hidden[code] = self.backend.pointwise("hidden", body, ("b1",), (code,), ("b1",))
            call(mask, out=made)
        return made

    def _aligned(self, a: Any) -> Any:
        """The array itself if its rows can be fetched, otherwise a row-major copy."""
        if a.strides[-1] == a.itemsize and not any(s % _ALIGNED for s in a.strides[:-1]):
            return a
        made = self.backend.empty(a.shape, a.dtype)
        self.backend.copy(a, made)
        return made


def _four(a: Any) -> Any:
    """With dimensions of batches and heads."""
    return a[(None,) * (4 - a.ndim)] if a.ndim < 4 else a


def _steps(a: Any) -> list[int]:
    """Elements from one batch, head and row to the next."""
    return [s // a.itemsize for s in a.strides[:3]]
