"""Work along dimensions of CuPy arrays: folds (sums, extrema), and programs that fold and then map (softmax)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.dtypes import BY_NUMPY
from .._kernel.reduce import FOLDS, finish
from .._kernel.render_rows import THREADS, Rows, render_rows
from .._kernel.value import SIZE
from .cuda_layout import NUMPY, merged

_BLOCKS = 528  # blocks that keep a large GPU busy
_LONG = 4096  # elements of a row from which several blocks may share it


def _power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def _sorted(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda d: -abs(strides[d]))


class RowKernels:
    """The row kernels of one device, by what they compute."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.functions: dict[Any, Any] = {}
        self.folds: dict[tuple[str, str | None], Rows] = {}

    def launch(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], dims: Sequence[int], code: str, count: int,
        pieces: int = 1,
    ) -> None:  # fmt: skip
        """Runs a program along `dims` of arrays of one shape; results of one value a row lack those dimensions.

        With `pieces`, results have one more dimension in front: what each piece of a row gives.
        """
        first = arrays[0]
        kept = _sorted([d for d in range(first.ndim) if d not in dims], first.strides)
        gone = _sorted(dims, first.strides)
        lead = pieces > 1
        places = {d: i + lead for i, d in enumerate(d for d in range(first.ndim) if d not in dims)}
        outer = [[a.strides[d] for d in kept] for a in arrays]
        outer += [[o.strides[d if rows.each else places[d]] for d in kept] for o in outs]
        inner = [[a.strides[d] for d in gone] for a in (*arrays, *(outs if rows.each else ()))]
        inner += [[0] * len(gone) for _ in outs if not rows.each]
        sizes, outer = merged([first.shape[d] for d in kept], outer)
        lengths, inner = merged([first.shape[d] for d in gone], inner)
        m, n = math.prod(sizes), math.prod(lengths)
        if not m or (rows.each and not n):
            return
        columns = bool(kept) and m > 1 and abs(outer[0][-1]) < abs(inner[0][-1])
        piece = -(-n // pieces)
        lanes = min(_power(-(-piece // 4)), 8 if columns else THREADS)
        codes = [BY_NUMPY[a.dtype].code for a in (*arrays, *outs)]
        types = codes[: len(arrays)], codes[len(arrays) :]
        key = (rows, *codes, code, len(sizes), len(lengths))
        function = self.functions.get(key)
        if function is None:
            text = render_rows(name, rows, *types, code, len(sizes), len(lengths))
            function = self.functions[key] = self.backend.compiled(name, text)
        between = outs[0].strides[0] if lead else 0
        steps = [s for a, b in zip(outer, inner) for s in (*a, *b)]
        numbers = (m, n, piece, count, lanes, int(columns), between, *sizes[1:], *lengths[1:], *steps)
        blocks = -(-m // (THREADS // lanes))
        function((blocks, pieces), (THREADS,), (*arrays, *outs, *numbers))

    def fold(self, x: Any, dims: Sequence[int], fold: str, result: str, how: str | None) -> Any:
        """An array folded along dimensions, without them, as elements of type `result`."""
        code = BY_NUMPY[x.dtype].code
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        n = math.prod(x.shape[d] for d in dims)
        m = math.prod(shape)
        empty = self.backend.xp.empty
        pieces = 1
        if n > _LONG and m < _BLOCKS:
            pieces = min(-(-_BLOCKS // max(m, 1)), -(-n // (THREADS * 4)))
        if pieces > 1:
            wide = FOLDS[fold].wide(code)
            parts = empty((pieces, *shape), NUMPY[wide])
            self.launch(f"fold_{fold}", self.program(fold, None), [x], [parts], dims, code, n, pieces)
            x, dims, fold, code = parts, (0,), FOLDS[fold].again, wide
        out = empty(shape, NUMPY[result])
        self.launch(f"fold_{fold}", self.program(fold, how), [x], [out], dims, code, n)
        return out

    def program(self, fold: str, how: str | None) -> Rows:
        found = self.folds.get((fold, how))
        if found is None:
            stages = ((fold, FOLDS[fold].lift),)
            found = self.folds[fold, how] = Rows(stages, lambda m, total, count: finish(m, total, count, how), each=False)
        return found
