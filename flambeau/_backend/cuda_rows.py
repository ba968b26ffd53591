"""Work along dimensions of CuPy arrays: folds (sums, extrema), and programs that fold and then map (softmax)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._core.dtypes import BY_NUMPY
from .._kernel.reduce import FOLDS, finish
from .._kernel.render_rows import THREADS, Rows, render_rows
from .._kernel.value import PART
from .cuda_layout import NUMPY, merged

_BLOCKS = 1056  # blocks that keep a large GPU busy
_LONG = 1 << 16  # elements of a row from which one block is not enough
_ACROSS = 32  # neighbouring rows that a block has
_KEPT = 4096  # launches remembered


def _power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def _sorted(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda d: -abs(strides[d]))


class Launch(NamedTuple):
    """A row kernel made ready for operands of certain shapes and strides."""

    function: Any
    grid: tuple[int, int]
    numbers: tuple[int, ...]

    def __call__(self, arrays: Sequence[Any]) -> None:
        if self.grid[0]:
            self.function(self.grid, (THREADS,), (*arrays, *self.numbers))


class Operand(NamedTuple):
    """What a launch depends on of an array."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


def _dense(shape: tuple[int, ...], dtype: Any) -> Operand:
    strides, step = [0] * len(shape), dtype.itemsize
    for d in reversed(range(len(shape))):
        strides[d] = step
        step *= shape[d]
    return Operand(shape, tuple(strides), dtype)


class RowKernels:
    """The row kernels of one device, by what they compute, and the launches made ready so far."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.functions: dict[Any, Any] = {}
        self.programs: dict[Any, Rows] = {}
        self.launches: dict[Any, Launch] = {}
        self.folds: dict[Any, Any] = {}

    def map(self, name: str, rows: Rows, arrays: Sequence[Any], dim: int) -> Any:
        """A new array like the first, made by a program along one dimension."""
        first = arrays[0]
        out = self.backend.empty(first.shape, first.dtype)
        given = [*arrays, out]
        key = (rows, dim, *[(a.shape, a.strides, a.dtype) for a in given])
        found = self.launches.get(key)
        if found is None:
            operands = [Operand(a.shape, a.strides, a.dtype) for a in given]
            code = BY_NUMPY[first.dtype].code
            found = self.prepare(name, rows, operands[:-1], operands[-1:], (dim,), code, first.shape[dim])
            _remember(self.launches, key, found)
        found(given)
        return out

    def fold(self, x: Any, dims: Sequence[int], fold: str, result: str, how: str | None) -> Any:
        """An array folded along dimensions, without them, as elements of type `result`."""
        key = (x.shape, x.strides, x.dtype, tuple(dims), fold, result, how)
        steps = self.folds.get(key)
        if steps is None:
            steps = self.prepare_fold(Operand(x.shape, x.strides, x.dtype), tuple(dims), fold, result, how)
            _remember(self.folds, key, steps)
        for launch, shape, dtype in steps:
            out = self.backend.empty(shape, dtype)
            launch((x, out))
            x = out
        return x

    def prepare_fold(self, x: Operand, dims: tuple[int, ...], fold: str, result: str, how: str | None) -> list[Any]:
        """One or two launches, each with the shape and dtype of what it gives."""
        code = BY_NUMPY[x.dtype].code
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        n, m = math.prod(x.shape[d] for d in dims), math.prod(shape)
        steps = []
        columns = _down_columns(x, dims)
        blocks = -(-m // _ACROSS) if columns else m
        pieces = min(-(-_BLOCKS // max(blocks, 1)), -(-n // (16 * THREADS // (_ACROSS if columns else 1))))
        if pieces > 1:
            wide = FOLDS[fold].wide(code)
            parts = _dense((pieces, *shape), NUMPY[wide])
            launch = self.prepare(f"fold_{fold}", self.program(fold, None), [x], [parts], dims, code, n, pieces)
            steps.append((launch, parts.shape, parts.dtype))
            x, dims, fold, code = parts, (0,), FOLDS[fold].again, wide
        out = _dense(shape, NUMPY[result])
        launch = self.prepare(f"fold_{fold}", self.program(fold, how), [x], [out], dims, code, n)
        return [*steps, (launch, out.shape, out.dtype)]

    def prepare(
        self, name: str, rows: Rows, arrays: Sequence[Operand], outs: Sequence[Operand], dims: Sequence[int], code: str,
        count: int, pieces: int = 1,
    ) -> Launch:  # fmt: skip
        """A program along `dims` of arrays of one shape; results of one value a row lack those dimensions.

        With `pieces`, results have one more dimension in front: what each piece of a row gives.
        """
        first = arrays[0]
        kept = _sorted([d for d in range(len(first.shape)) if d not in dims], first.strides)
        gone = _sorted(dims, first.strides)
        lead = pieces > 1
        places = {d: i + lead for i, d in enumerate(sorted(kept))}
        outer = [[a.strides[d] for d in kept] for a in arrays]
        outer += [[o.strides[d if rows.each else places[d]] for d in kept] for o in outs]
        inner = [[a.strides[d] for d in gone] for a in (*arrays, *(outs if rows.each else ()))]
        sizes, outer = merged([first.shape[d] for d in kept], outer)
        lengths, inner = merged([first.shape[d] for d in gone], inner)
        walked = [a.dtype.itemsize for a in (*arrays, *(outs if rows.each else ()))]
        dense = len(lengths) == 1 and lengths[0] >= 256 and all(s[0] == size for s, size in zip(inner, walked))
        inner += [[0] * len(lengths) for _ in outs if not rows.each]
        m, n = math.prod(sizes), math.prod(lengths)
        columns = _down_columns(first, dims)
        share = -(-n // pieces)
        piece = -(-share // 16) * 16
        lanes = min(_power(-(-min(piece, n) // 4)), THREADS // _ACROSS if columns else THREADS)
        codes = [BY_NUMPY[a.dtype].code for a in (*arrays, *outs)]
        key = (rows, *codes, code, len(sizes), len(lengths), dense)
        function = self.functions.get(key)
        if function is None:
            types = codes[: len(arrays)], codes[len(arrays) :]
            text = render_rows(name, rows, *types, code, len(sizes), len(lengths), dense)
            function = self.functions[key] = self.backend.compiled(name, text)
        between = outs[0].strides[0] if lead else 0
        steps = [s for a, b in zip(outer, inner) for s in (*a, *b)]
        numbers = (m, n, piece, count, lanes, int(columns), between, *sizes[1:], *lengths[1:], *steps)
        return Launch(function, (-(-m // (THREADS // lanes)) if n or not rows.each else 0, pieces), numbers)

    def moments(self, x: Any, dims: Sequence[int], correction: float, root: bool) -> list[Any]:
        """Variances (or their roots) and means along dimensions, without them."""
        code = BY_NUMPY[x.dtype].code
        count = math.prod(x.shape[d] for d in dims)
        if count > _LONG and x.size < _BLOCKS * count:  # few long rows: by many blocks each
            return self._long_moments(x, dims, correction, root, code, count)
        program = self.programs.get((correction, root))
        if program is None:
            program = self.programs[correction, root] = _moments(correction, root)
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        outs = [self.backend.empty(shape, t) for t in (NUMPY[PART.get(code, code)], x.dtype)]
        given = [Operand(a.shape, a.strides, a.dtype) for a in (x, *outs)]
        key = (program, tuple(dims), *given)
        found = self.launches.get(key)
        if found is None:
            found = self.prepare("moments", program, given[:1], given[1:], dims, code, count)
            _remember(self.launches, key, found)
        found((x, *outs))
        return outs

    def _long_moments(
        self, x: Any, dims: Sequence[int], correction: float, root: bool, code: str, count: int
    ) -> list[Any]:
        xp = self.backend.xp
        wide = FOLDS["sum"].wide(code)
        mean = self.fold(x, dims, "sum", wide, "mean")
        squares = self.fold(x - xp.expand_dims(mean, tuple(dims)), dims, "squares", "f64", None)
        variance = squares / (max(count - correction, 0.0) or math.nan)
        made = xp.sqrt(variance) if root else variance
        return [made.astype(NUMPY[PART.get(code, code)]), mean.astype(x.dtype)]

    def program(self, fold: str, how: str | None) -> Rows:
        found = self.programs.get((fold, how))
        if found is None:
            lift = FOLDS[fold].lift
            stages = ((fold, lambda m, x, count: lift(m, x)),)
            found = self.programs[fold, how] = Rows(
                stages, lambda m, total, count: finish(m, total, count, how), each=False
            )
        return found


def _moments(correction: float, root: bool) -> Rows:
    def deviation(m: Any, x: Any, total: Any, count: Any) -> Any:
        d = m.cast(x, total.type) - total / m.cast(count, "f64")
        return d.re * d.re + d.im * d.im if m.is_complex(d) else d * d

    def last(m: Any, total: Any, squares: Any, count: Any) -> tuple[Any, Any]:
        n = m.cast(count, "f64")
        variance = squares / m.maximum(n - correction, 0.0)
        return m.real_sqrt(variance) if root else variance, total / n

    return Rows((("sum", lambda m, x, count: x), ("absolute", deviation)), last, each=False)


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= _KEPT:
        table.clear()
    table[key] = value


def _down_columns(x: Operand, dims: Sequence[int]) -> bool:
    """Whether neighbouring threads should have neighbouring rows: they lie closer in memory than a row's elements."""
    kept = [abs(x.strides[d]) for d in range(len(x.shape)) if d not in dims and x.shape[d] > 1]
    gone = [abs(x.strides[d]) for d in dims if x.shape[d] > 1]
    return bool(kept) and bool(gone) and min(kept) < min(gone)
