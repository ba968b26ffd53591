"""Work along dimensions of CuPy arrays: folds (sums, extrema), and programs that fold and then map (softmax)."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.allocation import not_planned
from .._core.dtypes import BY_NUMPY
from .._kernel.cuda.rows import PACK, Schedule, held_packs, render_rows
from .._kernel.folds.reduce import FOLDS, finish, highest, lowest
from .._kernel.folds.rows import Rows, variances, visits
from .cuda_layout import NUMPY, Operand, merged

_BLOCKS = 1056  # blocks that keep a large GPU busy
_LONG = 1 << 16  # elements of a row from which one block is not enough
_ACROSS = 32  # neighbouring rows that a block has
_KEPT = 4096  # launches remembered
_THREADS = 256  # of a block
_LARGE, _LARGEST = (
    512,
    1024,
)  # of a block whose rows are long: fewer of them are on their way, which stay in the GPU's cache
_FAR = 1 << 16  # bytes from which a row is long
_HELD = 8  # packs that a thread holds in registers: rows of 16 took half as long again as when they were read twice
_SHARE = (
    4  # packs that a thread has of a row, where there are rows enough: less of its time goes into finding and joining
)
_MUCH = 1 << 18  # elements from which several launches are worth their time
_ALONE = 1 << 15  # elements of a row that one block of many threads folds sooner than two launches
_FEW = 512  # elements that a thread folds in their own precision


def _power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def _sorted(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    return sorted(dims, key=lambda d: -abs(strides[d]))


class Launch(NamedTuple):
    """A row kernel made ready for operands of certain shapes and strides."""

    function: Any
    grid: tuple[int, int]
    threads: int
    numbers: tuple[int, ...]

    def __call__(self, arrays: Sequence[Any], more: Sequence[int] = ()) -> None:
        if self.grid[0]:
            self.function(self.grid, (self.threads,), (*arrays, *self.numbers, *more))


def _dense(shape: tuple[int, ...], dtype: Any) -> Operand:
    strides, step = [0] * len(shape), dtype.itemsize
    for d in reversed(range(len(shape))):
        strides[d] = step
        step *= shape[d]
    return Operand(shape, tuple(strides), dtype)


def _spread(a: Any, shape: tuple[int, ...]) -> Operand:
    """How an array is read that lacks leading dimensions of a shape, or has one element for all of others."""
    if a.shape == shape:
        return Operand(a.shape, a.strides, a.dtype)
    lead = len(shape) - len(a.shape)
    own = [s if n == wanted else 0 for s, n, wanted in zip(a.strides, a.shape, shape[lead:])]
    return Operand(shape, (*[0] * lead, *own), a.dtype)


class RowKernels:
    """The row kernels of one device, by what they compute, and the launches made ready so far."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.functions: dict[Any, Any] = {}
        self.programs: dict[Any, Rows] = {}
        self.launches: dict[Any, Launch] = {}
        self.folds: dict[Any, Any] = {}
        self.constants: dict[tuple[int, float], Any] = {}

    def map(self, name: str, rows: Rows, arrays: Sequence[Any], dim: int) -> Any:
        """A new array like the first, made by a program along one dimension."""
        out = self.backend.empty(arrays[0].shape, arrays[0].dtype)
        self.run(name, rows, arrays, [out], (dim,))
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

    def extremum(self, x: Any, dim: int, sign: int) -> list[Any]:
        """The largest (sign 1) or smallest (-1) elements along a dimension, without it, and where they are first."""
        operand = Operand(x.shape, x.strides, x.dtype)
        shape = x.shape[:dim] + x.shape[dim + 1 :]
        pieces = self._pieces(_down_columns(operand, (dim,)), math.prod(shape), x.shape[dim])
        lead = (pieces,) if pieces > 1 else ()
        found = [self.backend.empty((*lead, *shape), d) for d in (x.dtype, NUMPY["i64"])]
        self.run("extremum", _first_extremum(sign, False), [x], found, (dim,), (), pieces)
        if not lead:
            return found
        outs = [self.backend.empty(shape, a.dtype) for a in found]
        self.run("extremum", _first_extremum(sign, True), found, outs, (0,))
        return outs

    def extent(self, x: Any) -> list[Any]:
        """The least and the greatest element, which the CPU waits for."""
        not_planned()
        answers = self.backend.answers
        first = answers.place()
        self.backend.launches("extent", self._tell_extent, [x], [first, first + 8])
        return answers.wait_for(2, x.dtype)

    def extents(self, x: Any, fold: str) -> list[Any]:
        """The same, and then of the elements folded along the last dimension."""
        not_planned()
        answers = self.backend.answers
        first = answers.place()

        def tell(x: Any, *places: Any) -> list[Any]:
            self._tell_extent(x, *places[:2])
            rows = self.fold(x, (x.ndim - 1,), fold, BY_NUMPY[x.dtype].code, None)
            return self._tell_extent(rows.reshape(-1), *places[2:])

        self.backend.launches(("extents", fold), tell, [x], [first + 8 * k for k in range(4)])
        return answers.wait_for(4, x.dtype)

    def _tell_extent(self, x: Any, *places: Any) -> list[Any]:
        dims, arrays, rows = tuple(range(x.ndim)), [x], _EXTENT
        pieces = 1 if _is_alone(False, 1, x.size) else self._pieces(False, 1, x.size)
        if pieces > 1:
            found = [self.backend.empty((pieces,), x.dtype) for _ in places]
            self.run("extent", rows, arrays, found, dims, (), pieces)
            dims, arrays, rows = (0,), found, _EXTENT_OF_PIECES  # of which the last may be empty: of no elements
        self.run("extent", rows, arrays, [(place, Operand((), (), x.dtype)) for place in places], dims)
        return []

    def run_down(self, name: str, rows: Rows, arrays: Sequence[Any], out: Any, dtype: Any) -> list[Any]:
        """A program along the rows of matrices, into another; and what it adds up over all rows, as arrays of a dtype."""
        self.run(name, rows._replace(down=()), arrays, [out], (1,))
        walked = len(arrays) - rows.fixed
        shape = arrays[0].shape
        given = [
            _spread(a, shape) if k < walked else Operand(shape, (*a.strides, 0), a.dtype) for k, a in enumerate(arrays)
        ]
        return self._sums_down(
            f"{name}_sums", _down_program(rows, len(arrays)), list(zip(arrays, given)), len(rows.down), dtype
        )

    def _sums_down(self, name: str, rows: Rows, arrays: Sequence[Any], results: int, dtype: Any) -> list[Any]:
        """What a program of sums gives for each column of matrices; rows are shared by many blocks."""
        length, columns = arrays[0][1].shape
        pieces = self._pieces(True, columns, length)
        if pieces == 1:
            outs = [self.backend.empty((columns,), dtype) for _ in range(results)]
            self.run(name, rows, arrays, outs, (0,))
            return outs
        outs = [self.backend.empty((pieces, columns), NUMPY["f64"]) for _ in range(results)]
        self.run(name, rows, arrays, outs, (0,), (), pieces)
        return [self.fold(part, (0,), "sum", BY_NUMPY[dtype].code, None) for part in outs]

    def _pieces(self, columns: bool, rows: int, length: int) -> int:
        """Into how many pieces rows are cut so that all of a GPU has work."""
        blocks = -(-rows // _ACROSS) if columns else rows
        return min(-(-_BLOCKS // max(blocks, 1)), -(-length // (16 * _THREADS // (_ACROSS if columns else 1))))

    def prepare_fold(self, x: Operand, dims: tuple[int, ...], fold: str, result: str, how: str | None) -> list[Any]:
        """One or two launches, each with the shape and dtype of what it gives."""
        code = BY_NUMPY[x.dtype].code
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        n, m = math.prod(x.shape[d] for d in dims), math.prod(shape)
        steps = []
        columns = _down_columns(x, dims)
        pieces = 1 if _is_alone(columns, m, n) else self._pieces(columns, m, n)
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
        """A program along `dims` of arrays of one shape; operands and results of one value a row lack those dimensions.

        With `pieces`, results of one value a row have one more dimension in front: what each piece of a row gives.
        """
        first, lead = arrays[0], pieces > 1 and not rows.each
        kept = _sorted([d for d in range(len(first.shape)) if d not in dims], first.strides)
        gone = _sorted(dims, first.strides)
        places = {d: i for i, d in enumerate(sorted(kept))}
        count_walked = len(arrays) + rows.numbers - rows.fixed
        walked = [*arrays[:count_walked], *(outs[:1] if rows.each else ())]
        operands = [*arrays, *outs]
        is_walked = [k < count_walked or (rows.each and k == len(arrays)) for k in range(len(operands))]
        outer = [
            [o.strides[d if own else places[d] + (lead and k >= len(arrays))] for d in kept]
            for k, (o, own) in enumerate(zip(operands, is_walked))
        ]
        sizes, outer = merged([first.shape[d] for d in kept], outer)
        lengths, along = merged([first.shape[d] for d in gone], [[o.strides[d] for d in gone] for o in walked])
        ways = iter(along)
        inner = [next(ways) if own else [0] * len(lengths) for own in is_walked]
        dense = len(lengths) == 1 and lengths[0] >= 256 and all(w[0] == o.dtype.itemsize for w, o in zip(along, walked))
        m, n = math.prod(sizes), math.prod(lengths)
        columns = _down_columns(first, dims)
        piece = -(-n // (pieces * 16)) * 16 if pieces > 1 else n
        codes = [BY_NUMPY[o.dtype].code for o in operands]
        often = len(rows.stages) + rows.each > 1 and pieces == 1 and not columns  # a row is read several times
        threads = _threads(arrays[:count_walked], n) if often else _LARGEST if _is_alone(columns, m, n) else _THREADS
        how = Schedule(len(sizes), len(lengths), dense, columns, threads)
        lanes = min(_power(-(-min(piece, n) // 4)), how.threads // _ACROSS if columns else how.threads)
        if dense and often:
            kinds, held = [BY_NUMPY[o.dtype].code for o in walked], count_walked - rows.late
            while m >= _BLOCKS * how.threads // lanes * 2 and lanes > 32 and held_packs(kinds, lanes // 2, n) <= _SHARE:
                lanes //= 2
            packs = held_packs(kinds, lanes, n)
            if packs * held <= _HELD:
                how = how._replace(held=packs, lanes=lanes)
        if columns and len(sizes) == 1:
            how = how._replace(
                wide=_side_by_side(rows, m, [(outer[k][0], o) for k, o in enumerate(operands) if is_walked[k]])
            )
        if (
            how.wide > 1
        ):  # so many threads that lie side by side as there are columns for, and as many as a GPU has at once
            lanes = how.threads // min(_ACROSS, _power(m // how.wide))
            pieces = min(-(-_BLOCKS * how.threads // (lanes * m // how.wide)), -(-n // (4 * lanes)))
            piece, how = -(-n // pieces), how._replace(lanes=lanes)
        how = how._replace(few=piece <= _FEW * lanes)
        key = (rows, *codes, code, how)
        function = self.functions.get(key)
        if function is None:
            types = [*codes[: len(arrays)], *["f64"] * rows.numbers], codes[len(arrays) :]
            function = self.functions[key] = self.backend.compiled(name, render_rows(name, rows, *types, code, how))
        between = [] if rows.each else [o.strides[0] if lead else 0 for o in outs]
        steps = [s for a, b in zip(outer, inner) for s in (*a, *b)]
        numbers = (m, n, piece, count, lanes, *between, *sizes[1:], *lengths[1:], *steps)
        grid = (-(-m // (how.threads // lanes * how.wide)) if n or not rows.each else 0, pieces)
        return Launch(function, grid, how.threads, numbers)

    def run(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], dims: Sequence[int],
        numbers: Sequence[float] = (), pieces: int = 1, count: int = 0,
    ) -> None:  # fmt: skip
        """A program along `dims` of arrays, into others. What stands for one may be (array or address, how it is read) or, for what is
        fixed, a number of NumPy's. `count` is what the program is told of the length of rows, if not their length here."""
        if rows.parts or rows.weighed():
            self._run_in_parts(name, rows, arrays, outs, dims, numbers)
            return
        shape = arrays[0][1].shape if isinstance(arrays[0], tuple) else arrays[0].shape
        kept = tuple([n for d, n in enumerate(shape) if d not in dims])
        walked = len(arrays) + rows.numbers - rows.fixed
        arrays = [self._constant(a) if a.__class__ is np.ndarray else a for a in arrays]
        given = [
            a[1] if isinstance(a, tuple) and a[1].shape else _spread(a[1] if isinstance(a, tuple) else a, shape if k < walked else kept)
            for k, a in enumerate(arrays)
        ]  # fmt: skip
        if rows.each and not count and _is_split(rows, given[0], dims):
            self._run_split(name, rows, list(zip(arrays, given)), outs, dims, numbers)
            return
        given += [a[1] if isinstance(a, tuple) else Operand(a.shape, a.strides, a.dtype) for a in outs]
        key = (rows, tuple(dims), pieces, count, *given)
        found = self.launches.get(key)
        if found is None:
            count = count or math.prod(given[0].shape[d] for d in dims)
            kinds, code = (given[: len(arrays)], given[len(arrays) :]), BY_NUMPY[given[0].dtype].code
            found = self.prepare(name, rows, *kinds, dims, code, count, pieces)
            _remember(self.launches, key, found)
        bits = [struct.unpack("q", struct.pack("d", v))[0] for v in numbers]
        found([a[0] if isinstance(a, tuple) else a for a in (*arrays, *outs)], bits)

    def _constant(self, number: Any) -> tuple[int, Operand]:
        """A number in the GPU's memory, by its address there."""
        key = self.backend.xp.cuda.runtime.getDevice(), number.tobytes(), number.dtype
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = self.backend.xp.asarray(number)
        return int(found.data.ptr), Operand((), (), number.dtype)

    def _run_split(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], dims: Sequence[int], numbers: Any
    ) -> None:
        """Few long rows: many blocks fold pieces of each, then many make its elements from the totals.

        Pieces are runs of memory: rows whose elements lie apart are folded along the innermost of their dimensions first."""
        first, walked = arrays[0][1], len(arrays) + rows.numbers - rows.fixed
        shape, count = first.shape, math.prod(first.shape[d] for d in dims)
        code = BY_NUMPY[first.dtype].code
        columns = _down_columns(first, dims)
        along = tuple(dims) if columns else (min(dims, key=lambda d: abs(first.strides[d])),)
        inner = tuple([n for d, n in enumerate(shape) if d not in along])
        kept = [d for d in range(len(shape)) if d not in along]
        apart = [i for i, d in enumerate(kept) if d in dims]  # dimensions of rows that are folded second

        def over(a: Any, operand: Operand) -> tuple[Any, Operand]:
            """What is fixed in a row, as it is read by each of its pieces."""
            strides = iter(operand.strides)
            return a, Operand(
                inner, tuple([0 if i in apart else next(strides) for i in range(len(inner))]), operand.dtype
            )

        arrays = [(a[0] if isinstance(a, tuple) else a, operand) for a, operand in arrays]
        arrays = [*arrays[:walked], *[over(*a) for a in arrays[walked:]]]
        blocks = math.prod(inner) // (_ACROSS if columns else 1)
        length = math.prod(shape[d] for d in along)
        pieces = self._pieces(columns, math.prod(inner), length) if blocks < _BLOCKS else 1
        kinds = [BY_NUMPY[operand.dtype].code for _, operand in arrays] + ["f64"] * rows.numbers
        totals: list[tuple[Any, Operand]] = []
        for visit in _visits(rows, tuple(kinds)):
            made = [
                self.backend.empty(
                    (pieces, *inner) if pieces > 1 else inner, NUMPY[FOLDS[rows.stages[s][0]].wide(code)]
                )
                for s in visit
            ]
            program = _visit_program(rows, tuple(visit), walked)
            self.run(f"{name}_sums", program, [*arrays, *totals], made, along, numbers, pieces, count)
            gone = tuple(apart) if pieces == 1 else (0, *[i + 1 for i in apart])
            for s, part in zip(visit, made):
                fold = FOLDS[rows.stages[s][0]].again
                whole = self.fold(part, gone, fold, BY_NUMPY[part.dtype].code, None) if gone else part
                totals.append(over(whole, Operand(whole.shape, whole.strides, whole.dtype)))
        results = [outs[0], *[over(a, Operand(a.shape, a.strides, a.dtype)) for a in outs[1:]]]
        last = _last_program(rows, walked)
        self.run(f"{name}_last", last, [*arrays, *totals], results, along, numbers, pieces, count)

    def _run_in_parts(
        self, name: str, rows: Rows, arrays: Sequence[Any], outs: Sequence[Any], dims: Sequence[int], numbers: Any
    ) -> None:
        """Rows in parts: what parts have is read as elements; totals of parts, if they are results, are a program of their own."""
        shape, weighed = arrays[0].shape, rows.weighed()
        walked = len(arrays) + rows.numbers - rows.fixed - rows.parts
        first, last = outs[: len(outs) - len(weighed)], outs[len(outs) - len(weighed) :]
        spread = [
            (a, _spread(Operand((*a.shape, 1), (*a.strides, 0), a.dtype), shape)) for a in arrays[walked:][: rows.parts]
        ]
        fixed = arrays[walked + rows.parts :]
        self.run(name, _whole_rows(rows, walked), [*arrays[:walked], *spread, *fixed], first, dims, numbers)
        if weighed:
            kept = shape[:-1]
            given = [_spread(Operand((*a.shape, 1), (*a.strides, 0), a.dtype), kept) for a in fixed]
            parts = [(a, _spread(a, kept)) for a in arrays[walked:][: rows.parts]]
            self.run(f"{name}_parts", _part_rows(rows), [*arrays[:walked], *parts, *zip(fixed, given)], last, dims[-1:])

    def moments(self, x: Any, dims: Sequence[int], free: float, root: bool) -> list[Any]:
        """Variances (or their roots) and means along dimensions, without them."""
        count = math.prod(x.shape[d] for d in dims)
        if count > _LONG and x.size < _BLOCKS * count:  # few long rows: by many blocks each
            return self._long_moments(x, dims, free, root)
        shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
        outs = [self.backend.empty(shape, x.dtype) for _ in range(2)]
        self.run("moments", variances(root), [x], outs, dims, (free,))
        return outs

    def _long_moments(self, x: Any, dims: Sequence[int], free: float, root: bool) -> list[Any]:
        xp = self.backend.xp
        mean = self.fold(x, dims, "sum", "f64", "mean")
        squares = self.fold(x - xp.expand_dims(mean, tuple(dims)), dims, "squares", "f64", None)
        variance = squares / (free or math.nan)
        return [a.astype(x.dtype) for a in (xp.sqrt(variance) if root else variance, mean)]

    def program(self, fold: str, how: str | None) -> Rows:
        found = self.programs.get((fold, how))
        if found is None:
            lift = FOLDS[fold].lift
            stages = ((fold, lambda m, x, count: lift(m, x)),)
            found = self.programs[fold, how] = Rows(
                stages, lambda m, total, count: finish(m, total, count, how), each=False
            )
        return found


_EXTENT = Rows(
    (("min", lambda m, x, *rest: x), ("max", lambda m, x, *rest: x)),
    lambda m, low, high, count: (low, high),
    each=False,
)


_EXTENT_OF_PIECES = _EXTENT._replace(
    stages=(("min", lambda m, low, high, *rest: low), ("max", lambda m, low, high, *rest: high))
)


@functools.cache
def _first_extremum(sign: int, placed: bool) -> Rows:
    """The extremum of a row and the first place that has it; `placed`: of elements whose places are an operand."""

    def is_best(x: Any, best: Any) -> Any:
        return (x == best) | ((x != x) & (best != best))

    def where(given: Any) -> Any:
        return given[0] if placed else given[-1]

    def place(m: Any, x: Any, *given: Any) -> Any:
        return m.where(is_best(x, given[placed]), where(given), highest("i64"))

    def value(m: Any, x: Any, *given: Any) -> Any:  # of two zeros, the one that is there
        return m.where(where(given) == given[placed + 1], x, lowest(x.type))

    stages = ("max" if sign > 0 else "min", lambda m, x, *rest: x), ("first", place), ("max", value)
    return Rows(stages, lambda m, best, place, value, count: (value, place), each=False, indexed=not placed)


@functools.cache
def _down_program(rows: Rows, count: int) -> Rows:
    """The sums over all rows of a program as one down the columns."""

    def stage(lift: Any) -> tuple[str, Any]:
        return "sum", lambda m, *given: lift(m, *given[:count], given[-1])

    return Rows(tuple([stage(lift) for lift in rows.down]), lambda m, *sums: sums[:-1], each=False)


@functools.cache
def _visits(rows: Rows, kinds: tuple[str, ...]) -> list[list[int]]:
    return visits(rows._replace(moments=False), kinds)


def _in_order(rows: Rows, given: Sequence[Any], before: int) -> tuple[Any, ...]:
    """What is fixed in a program, and the totals of its first stages as later steps get them; in `given` these stand before the numbers."""
    *own, count = given
    place = rows.fixed - rows.numbers
    totals = [rows.finished(s, t, count) for s, t in enumerate(own[place : place + before])]
    return *own[:place], *own[place + before :][: rows.numbers], *totals


@functools.cache
def _visit_program(rows: Rows, visit: tuple[int, ...], walked: int) -> Rows:
    """Some stages of a program over operands of which so many have elements; totals of the stages before are operands, too."""
    early, before = walked - rows.late, visit[0]
    end = early + rows.fixed + before

    def stage(fold: str, lift: Any, *rest: Any) -> tuple[str, Any]:
        def lifted(m: Any, *given: Any) -> Any:
            fixed = _in_order(rows, [*given[early:end], given[-1]], before)
            return lift(m, *given[:early], *fixed, *given[end:])

        return fold, lifted

    return Rows(
        tuple([stage(*rows.stages[s]) for s in visit]), lambda m, *given: given[-1 - len(visit) : -1], each=False,
        fixed=rows.fixed + before, late=rows.late, numbers=rows.numbers,
    )  # fmt: skip


@functools.cache
def _last_program(rows: Rows, walked: int) -> Rows:
    """The last step of a program whose totals are operands."""
    count = len(rows.stages)
    end = walked + rows.fixed + count

    def settle(m: Any, *given: Any) -> Any:
        values = _in_order(rows, given, count)
        return values[rows.fixed :] if rows.settle is None else rows.settle(m, *values, given[-1])

    def last(m: Any, *given: Any) -> Any:
        fixed = _in_order(rows, [*given[walked:end], given[-1]], count)[: rows.fixed]
        return rows.last(m, *given[:walked], *fixed, *given[end:])

    return Rows((), last, fixed=rows.fixed + count, settle=settle, numbers=rows.numbers)


def _is_split(rows: Rows, first: Operand, dims: Sequence[int]) -> bool:
    """Whether rows are shared by many blocks: few of them, or such that lie apart, and enough to do for several launches."""
    if rows.picks or rows.indexed or rows.reused or rows.down:
        return False
    length, size = math.prod(first.shape[d] for d in dims), math.prod(first.shape)
    if size < _MUCH:
        return False
    columns = _down_columns(first, dims)
    apart = not columns and len(merged([first.shape[d] for d in dims], [[first.strides[d] for d in dims]])[0]) > 1
    return apart or size // length // (_ACROSS if columns else 1) < _BLOCKS // 4


@functools.cache
def _whole_rows(rows: Rows, first: int) -> Rows:
    """A program of rows in parts, whose values are elements after the first ones."""

    def stage(fold: str, lift: Any, finish: Any = None, weigh: Any = None) -> Any:
        if weigh is None:
            return (fold, lift) if finish is None else (fold, lift, finish)
        return fold, lambda m, *given: weigh(m, lift(m, *given), *given[first : first + rows.parts])

    return rows._replace(stages=tuple([stage(*s) for s in rows.stages]), parts=0)


@functools.cache
def _part_rows(rows: Rows) -> Rows:
    """The totals of parts as those of rows."""
    stages = tuple([rows.stages[s][:2] for s in rows.weighed()])
    return Rows(stages, lambda m, *given: given[-1 - len(stages) : -1], each=False, fixed=rows.fixed + rows.parts)


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= _KEPT:
        table.clear()
    table[key] = value


def _is_alone(columns: bool, m: int, n: int) -> bool:
    """Whether rows, of which there are few, are folded by one block each, as large as can be."""
    return not columns and m * 8 <= _BLOCKS and 16 * _THREADS < n <= _ALONE


def _threads(walked: Sequence[Operand], n: int) -> int:
    """Threads of a block whose rows are read several times; long ones of short elements take longer to compute than to read."""
    if sum([o.dtype.itemsize * n for o in walked]) <= _FAR:
        return _THREADS
    return _LARGE if min([o.dtype.itemsize for o in walked]) <= 2 else _LARGEST


def _side_by_side(rows: Rows, m: int, walked: Sequence[tuple[int, Operand]]) -> int:
    """How many neighbouring columns a thread has: as many as it reads at once, where nothing is folded."""
    wide = PACK // max([o.dtype.itemsize for _, o in walked])
    suits = rows.each and not rows.stages and not rows.picks and not rows.indexed and not m % wide
    return wide if suits and all([step == o.dtype.itemsize for step, o in walked]) else 1


def _down_columns(x: Operand, dims: Sequence[int]) -> bool:
    """Whether neighbouring threads should have neighbouring rows: they lie closer in memory than a row's elements."""
    kept = [abs(x.strides[d]) for d in range(len(x.shape)) if d not in dims and x.shape[d] > 1]
    gone = [abs(x.strides[d]) for d in dims if x.shape[d] > 1]
    return bool(kept) and bool(gone) and min(kept) < min(gone)
