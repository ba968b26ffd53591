"""What a linear layer computes with small matrices: forward and backward are one native call each."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.dtypes import dtype, float32, float64
from .._kernel import gemm, tiles
from .._kernel.compose import composed
from .._kernel.sums import sum_columns
from . import blas
from .cpu import cpu

_CODES = {float32: "f32", float64: "f64"}
_NARROW = 8  # columns from which one kernel adds them up in PyTorch's order
_empty = np.empty
_take = blas._workspace.take


class Affine:
    """x @ weight.T + bias for one size of x, (m, k), and weight, (n, k)."""

    __slots__ = ("_backward", "_code", "_forward", "_kind", "_scratch", "biased", "by_weight", "by_x", "dtype", "made")

    def __init__(self, m: int, k: int, n: int, d: dtype, biased: bool):
        self.biased, self.dtype = biased, d
        self.made, self.by_x, self.by_weight = (m, n), (m, k), (n, k)  # shapes of the result and of the operands
        self._kind, self._code = d.numpy, _CODES[d]
        self._forward, self._scratch = _forward(self._code, _tile(self._code, m, n), biased)
        # functions of the gradients that are wanted: by x 1, by the weight 2, by the bias 4; False for such sizes that
        # their products are computed in other ways
        self._backward: list[Any] = [None if m > 1 and k > 1 and n >= _NARROW else False] * 8

    def forward(self, x: Any, weight: Any, bias: Any) -> Any:
        """The result; a ValueError if the bias is not one row."""
        out = _empty(self.made, self._kind)
        if bias is None:
            self._forward(x, weight, _take(self._scratch), out)
        else:
            self._forward(x, weight, bias, _take(self._scratch), out)
        return out

    def backward(self, g: Any, x: Any, weight: Any, biased: bool) -> Any:
        """The gradients by x, bias and weight, or None if they must be computed one by one.

        `x` is None if the gradient by the weight is not wanted, and the other way round.
        """
        wanted = (weight is not None) + 2 * (x is not None) + 4 * biased
        found = self._backward[wanted]
        if found is None:
            tiles = [_tile(self._code, *shape) for shape in (self.by_x, self.by_weight)]
            found = self._backward[wanted] = _backward(self._code, *tiles, wanted)
        if not found:
            return None
        call, size = found
        kind = self._kind
        operands, results = [g], []
        by_x = by_bias = by_weight = None
        if weight is not None:
            operands.append(weight)
            by_x = _empty(self.by_x, kind)
            results.append(by_x)
        if x is not None:
            operands.append(x)
            by_weight = _empty(self.by_weight, kind)
            results.append(by_weight)
        if biased:
            by_bias = _empty(self.made[1], kind)
            results.append(by_bias)
        call(*operands, _take(size), *results)
        return by_x, by_bias, by_weight


@functools.lru_cache(4096)
def plan(x: tuple[int, ...], weight: tuple[int, ...], d: dtype, biased: bool) -> Affine | None:
    """What computes with operands of these shapes; None if they do not fit, or are so large that threads pay."""
    if len(x) != 2 or len(weight) != 2 or x[1] != weight[1] or d not in _CODES:
        return None
    m, k, n = *x, weight[0]
    if not m * n * k or (m + blas.FETCH) * n * k >= blas.PARALLEL or n == 1 < m:
        return None
    return Affine(m, k, n, d, biased)


def _tile(code: str, m: int, n: int) -> tuple[int, int, bool]:
    """Rows and width of the tiles of an (m, n) product, and whether it has few rows."""
    wide = tiles.width(m, n, code)
    return tiles.height(m, wide), wide, m <= tiles.FEW


def _product(code: str, tile: tuple[int, int, bool], added: bool) -> tuple[Any, int]:
    rows, wide, few = tile
    return gemm.gemm(code, rows, added, wide=wide, few=few)


@functools.cache
def _forward(code: str, tile: tuple[int, int, bool], biased: bool) -> tuple[Any, int]:
    """(function of x, weight[, bias], scratch and result, bytes of scratch) of a product in such tiles."""
    product, size = _product(code, tile, biased)
    calls: list[Any]
    if not biased:
        calls = [(product, [(0, "mk"), (1, "kn"), (2, "s"), (3, "mn")])]
        return composed("linear", "(m,k),(n,k),(s)->(m,n)", (code, code, "u8"), (code,), calls), size
    one = np.ones((), np.float32 if code == "f32" else np.float64)
    calls = [(product, [(0, "mk"), (1, "kn"), (2, "mn"), one, one, (3, "s"), (4, "mn")])]
    return composed("linear", "(m,k),(n,k),(n),(s)->(m,n)", (code, code, code, "u8"), (code,), calls), size


@functools.cache
def _backward(code: str, left: tuple[int, int, bool], right: tuple[int, int, bool], wanted: int) -> tuple[Any, int]:
    """(function of the gradient, [weight,] [x,] scratch and results, bytes of scratch)."""
    by_x, by_weight, by_bias = (bool(wanted & bit) for bit in (1, 2, 4))
    cores = ["mn"] + ["nk"] * by_x + ["mk"] * by_weight
    results = ["mk"] * by_x + ["nk"] * by_weight + ["n"] * by_bias
    scratch = len(cores)
    calls, size, out = [], 0, scratch + 1
    if by_x:
        product, size = _product(code, left, False)
        calls.append((product, [(0, "mn"), (1, "nk"), (scratch, "s"), (out, "mk")]))
        out += 1
    if by_weight:
        product, more = _product(code, right, False)
        size = max(size, more)
        calls.append((product, [(0, "nm"), (scratch - 1, "mk"), (scratch, "s"), (out, "nk")]))
        out += 1
    if by_bias:
        calls.append((cpu.kernel(sum_columns, (code, code), how=None), [(0, "mn"), (out, "n")]))
    given, made = (",".join(f"({','.join(core)})" for core in part) for part in ([*cores, "s"], results))
    inputs, outputs = [code] * len(cores) + ["u8"], [code] * len(results)
    return composed("linear_backward", f"{given}->{made}", inputs, outputs, calls), size
