"""Quasirandom points: `SobolEngine`."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from ._core import dtypes as d
from ._names.sobol_data import DIMENSIONS, PACKED
from ._ops.making.generator import Generator
from ._ops.registry import ops
from ._tensor import Tensor, wrap

__all__ = ["SobolEngine"]

_BITS = 30


def _direction_numbers(dimension: int) -> Any:
    """(dimension, 30): numbers whose sums without carry are the points, as integers below 2**30."""
    data = np.frombuffer(zlib.decompress(base64.b85decode(PACKED)), np.uint8)
    polynomials = 1 + np.concatenate([[0], np.cumsum(data[: DIMENSIONS - 1].astype(np.int64) * 2)])
    bits = np.unpackbits(data[DIMENSIONS - 1 :]).astype(np.int64)
    made = np.ones((dimension, _BITS), np.int64)
    place = 0
    for i in range(1, dimension):
        polynomial = int(polynomials[i])
        degree = polynomial.bit_length() - 1
        row = made[i]
        for k in range(degree):
            row[k] = 1 + 2 * int(bits[place : place + k] @ (1 << np.arange(k)))
            place += k
        inner = [(polynomial >> (degree - 1 - k)) & 1 for k in range(degree - 1)]
        for j in range(degree, _BITS):
            value = int(row[j - degree]) ^ (int(row[j - degree]) << degree)
            for k, used in enumerate(inner):
                if used:
                    value ^= int(row[j - k - 1]) << (k + 1)
            row[j] = value
    return made << np.arange(_BITS - 1, -1, -1)


class SobolEngine:
    """Points of Sobol's sequence in [0, 1)^dimension, which fill the cube more evenly than random ones.

    `scramble` moves them at random (the same way for the same seed) without losing that.

    >>> import flambeau as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        state = _direction_numbers(dimension)
        if scramble:
            state, shift = self._scrambled(state)
        else:
            shift = np.zeros(dimension, np.int64)
        self.sobolstate, self.shift = wrap(state, d.int64), wrap(shift, d.int64)
        self.quasi = wrap(shift.copy(), d.int64)
        self.num_generated = 0

    def _scrambled(self, state: Any) -> tuple[Any, Any]:
        """Random linear maps of the bits (lower triangular, ones on the diagonal) and a random shift for each dimension."""
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        shift = ops.randint(2, (self.dimension, _BITS), generator=generator).numpy() @ (1 << np.arange(_BITS))
        maps = ops.randint(2, (self.dimension, _BITS, _BITS), generator=generator).numpy()
        maps = np.tril(maps, -1) + np.eye(_BITS, dtype=np.int64)
        high_first = np.arange(_BITS - 1, -1, -1)
        bits = (state[:, :, None] >> high_first) & 1  # (dimension, number, bit)
        mixed = np.matmul(bits, maps.transpose(0, 2, 1)) & 1
        return mixed @ (1 << high_first), shift

    def _advance(self, n: int) -> Any:
        """Goes n points on from the current one; gives them as integers, (n, dimension)."""
        first = max(self.num_generated - 1, 0)
        count = np.arange(first, first + n, dtype=np.int64)
        lowest_zero = np.log2(~count & (count + 1)).astype(np.int64)  # says which number comes in
        steps = self.sobolstate.numpy()[:, lowest_zero].T
        made = np.bitwise_xor.accumulate(np.concatenate([self.quasi.numpy()[None], steps]))
        self.quasi = wrap(made[-1].copy(), d.int64)
        return made[1:]

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, (n, dimension)."""
        kind = d.get_default_dtype() if dtype is None else dtype
        parts = []
        if n and not self.num_generated:  # the start is the first point, kept in the default dtype
            parts.append(wrap(self.shift.numpy()[None] / 2.0**_BITS, d.float64).to(d.get_default_dtype()).to(kind))
        if n - len(parts):
            parts.append(wrap(self._advance(n - len(parts)) / 2.0**_BITS, d.float64).to(kind))
        made = ops.cat(parts) if parts else ops.empty((0, self.dimension), dtype=kind)
        self.num_generated += n
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points; the number drawn so far must stay a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "Use SobolEngine.draw() if this does not matter"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips n points."""
        self.draw(n)
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"
