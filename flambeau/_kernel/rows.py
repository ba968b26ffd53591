"""Programs along rows: values folded along them, then elements made from the totals; and their machine code for the CPU.

A program is a list of stages and a last step. `lift(m, *elements, *fixed, *totals, count)` is what a stage adds up (`FOLDS[fold]` says
how), the totals of earlier stages and the length of a row being at hand; the last step gives either every element of the result or
one value for each row. `render_rows.py` has the same programs for CUDA.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .lang import _OURS, Array, Kernel, KernelScope, Local, Variable, _is_constant
from .reduce import FOLDS
from .render_llvm import Llvm
from .streaming import ask_for, hand_over, whole_lines, width
from .symbols import symbols
from .value import COMPUTE, SIZE, Value

BLOCK = 1024  # elements of a row that are summed in their own precision
COLUMNS = 256  # columns that are carried along together
ROWS = 64  # rows of columns, or of what is added up over rows, that are summed in their own precision
LONGEST = 4096  # elements of a row that are kept on the stack


class Rows(NamedTuple):
    """What is computed along rows.

    A stage is (fold, lift) or (fold, lift, finish): `finish(m, total, count)` is what later steps get in the place of its total.
    The last `fixed` operands have one value for each row; the last `numbers` of these are Python's, the same for all rows. Of the other
    operands, the last `late` are used in the last step alone, and lifts do not get them. `settle(m, *fixed, *totals, count)` makes other
    values of the totals, once for each row: the last step gets them in the place of totals, and results after the first are these.
    """

    stages: tuple[tuple[Any, ...], ...]
    last: Callable[
        ..., Any
    ]  # (m, *elements, *fixed, *totals, count) or, for one value a row, (m, *fixed, *totals, count)
    each: bool = True  # whether the last step is made for every element
    fixed: int = 0
    late: int = 0
    settle: Callable[..., Any] | None = None
    indexed: bool = False  # whether the last step also gets an element's place in its row
    # (operand, which of the fixed ones): its element at the place that the other names, for the last step after the fixed ones
    picks: tuple[tuple[int, int], ...] = ()
    numbers: int = 0
    reused: bool = (
        False  # whether the last step gets what the last stage lifted, in the place of the elements that lifts get
    )
    # what is added up over all rows for each place in them, `(m, *elements, *fixed, count)`: further results
    down: tuple[Callable[..., Any], ...] = ()

    def finished(self, stage: int, total: Any, count: Any) -> Any:
        finish = self.stages[stage][2:]
        return finish[0](symbols, total, count) if finish else total


def total_types(rows: Rows, code: str) -> list[str]:
    """The types in which the stages add up."""
    return [FOLDS[stage[0]].wide(code) for stage in rows.stages]


def _visits(rows: Rows, types: Sequence[str], code: str) -> list[list[int]]:
    """The stages by visit of a row: one that does not look at totals of a visit takes part in it."""
    r = Llvm("trial", [])
    count = Value(r, "%count", "i64")
    given = [Value(r, "%x", COMPUTE.get(t, t)) for t in types]
    totals: list[Value] = []
    visits: list[list[int]] = []
    for s, (stage, wide) in enumerate(zip(rows.stages, total_types(rows, code))):
        r.lines.clear()
        stage[1](symbols, *given, *totals, count)
        used = {int(number) for number in re.findall(r"%total(\d+)\b", "\n".join(r.lines))}
        if visits and not used & set(visits[-1]):
            visits[-1].append(s)
        else:
            visits.append([s])
        kind = rows.finished(s, Value(r, "%wide", wide), count).type
        totals.append(Value(r, f"%total{s}", kind))
    return visits


class _Writer:
    """One program over operands of a kernel in the making; `layout` says which core dimensions each has: r (rows), n (along them), c
    (columns, which are rows side by side)."""

    def __init__(self, m: KernelScope, rows: Rows, inputs: int, arrays: Sequence[Array], layout: Sequence[str]):
        self.m, self.r, self.rows = m, m.r, rows
        self.arrays, self.layout = arrays, layout
        self.outs = arrays[inputs:]
        count = inputs - rows.fixed
        self.walked, self.early, self.fixed = range(count), range(count - rows.late), range(count, inputs)
        self.code = arrays[0].type
        self.kind = COMPUTE.get(self.code, self.code)
        self.zero = m.value(0, "i64")
        self.n = next(a.shape[dims.index("n")] for a, dims in zip(arrays, layout) if "n" in dims)
        self.visits = _visits(rows, [arrays[k].type for k in (*self.early, *self.fixed)], self.code)
        self.single = {k: arrays[k][()] for k in range(inputs) if not layout[k]}

    def at(self, which: Sequence[int], **place: Any) -> list[Any]:
        """The elements of operands at a place, each by the dimensions that it has."""
        return [
            self.single[k] if k in self.single else self.arrays[k][tuple([place[d] for d in self.layout[k]])]
            for k in which
        ]

    def lifted(self, s: int, given: Sequence[Any], totals: Sequence[Any]) -> Any:
        return self.rows.stages[s][1](symbols, *given, *totals[:s], self.n)

    def settled(self, fixed: Sequence[Any], totals: Sequence[Any]) -> Sequence[Any]:
        return totals if self.rows.settle is None else self.rows.settle(symbols, *fixed, *totals, self.n)

    def picked(self, fixed: Sequence[Any], **place: Any) -> list[Any]:
        """Elements at places that fixed operands name, or the first ones if there is no such place."""
        found = []
        for k, by in self.rows.picks:
            at = self.m.cast(fixed[by], "i64")
            at = self.r.select((at >= 0) & (at < self.n), at, self.zero)
            found += self.at([k], n=at, **place)
        return found

    def folded(
        self, visit: Sequence[int], types: Sequence[str], given: Sequence[Any], totals: Sequence[Any],
        part: Sequence[Any], at: Any, keep: Any = None,
    ) -> None:  # fmt: skip
        """Joins one element's part of all stages of a visit with what there is: `part[k][at]`."""
        for k, s in enumerate(visit):
            lifted = self.lifted(s, given, totals)
            if keep is not None and k == len(visit) - 1:
                keep(lifted)
            part[k][at] = FOLDS[self.rows.stages[s][0]].join(symbols, part[k][at], symbols.cast(lifted, types[k]))


class _Slot:
    """A variable that is written like an array of one element."""

    def __init__(self, r: Any, value: Any):
        self.variable = Variable(r, value)
        self.variable.write(value)

    def __getitem__(self, at: Any) -> Any:
        return self.variable.read()

    def __setitem__(self, at: Any, value: Any) -> None:
        self.variable.write(value)


class _Along(_Writer):
    """A row whose elements follow each other."""

    def write(self, stream: bool, down: Sequence[Array] = ()) -> None:
        rows, n = self.rows, self.n
        fixed = self.at(self.fixed)
        out = self.outs[0]
        dense = bool(out.strides) and out.strides[-1].name == str(SIZE[out.type])
        stream = stream and dense
        kept: Any = None
        if rows.reused:
            kept = Local(self.r, self.kind, LONGEST) if stream else out if out.type == self.kind else None
        totals: list[Any] = []
        for visit in self.visits:
            totals += self.fold(visit, fixed, totals, kept if visit is self.visits[-1] else None)
        picked, settled = self.picked(fixed), self.settled(fixed, totals)
        if not rows.each:
            results = rows.last(symbols, *fixed, *picked, *settled, n)
            for target, value in zip(self.outs, results if isinstance(results, tuple) else (results,)):
                target[()] = value
            return
        for target, value in zip(self.outs[1:], settled):
            target[()] = value

        def element(i: Any) -> Any:
            given = self.at(self.walked, n=i)
            if rows.reused:
                early = len(self.early)
                again = self.lifted(len(totals) - 1, [*given[:early], *fixed], totals) if kept is None else kept[i]
                given = [again, *given[early:]]
            place = [i] if rows.indexed else []
            for sums, lift in zip(down, rows.down):
                sums[i] = sums[i] + lift(symbols, *given, *fixed, n)
            return rows.last(symbols, *given, *fixed, *settled, n, *place)

        def plain(start: Any, stop: Any) -> None:
            with self.r.loop(start, stop, independent=True) as i:
                out[i] = element(i)

        if not stream:
            plain(self.zero, n)
            return
        group = width(out.type)
        first, last = whole_lines(out)
        lines = Local(self.r, out.type, group)
        plain(self.zero, first)
        with self.r.loop(first, last, group) as start:
            for k in self.early:
                if self.layout[k]:
                    ask_for(self.arrays[k], start + n, group)  # the next row
            with self.r.loop(self.zero, self.m.value(group, "i64"), independent=True) as i:
                lines[i] = element(start + i)
            hand_over(out, start, lines)
        plain(last, n)

    def fold(self, visit: list[int], fixed: list[Any], totals: list[Any], kept: Any) -> list[Any]:
        """The totals of the stages of one visit: blocks in short accumulators, joined in wide ones."""
        r, m = self.r, self.m
        folds = [FOLDS[self.rows.stages[s][0]] for s in visit]
        wide, inner = [f.wide(self.code) for f in folds], [f.inner(self.code) for f in folds]
        long = [_Slot(r, m.value(f.start(t), t)) for f, t in zip(folds, wide)]

        def over(start: Any, stop: Any, part: Sequence[Any], types: Sequence[str]) -> None:
            with r.loop(start, stop, independent=kept is not None) as i:
                given = [*self.at(self.early, n=i), *fixed]
                keep = None if kept is None else functools.partial(kept.__setitem__, i)
                self.folded(visit, types, given, totals, part, (), keep)

        if all([f.again != "sum" for f in folds]):
            over(self.zero, self.n, long, wide)
        else:
            with r.loop(self.zero, self.n, BLOCK) as start:
                short = [_Slot(r, m.value(f.start(t), t)) for f, t in zip(folds, inner)]
                over(start, m.minimum(start + BLOCK, self.n), short, inner)
                for total, part, f, t in zip(long, short, folds, wide):
                    total[()] = f.join(m, total[()], m.cast(part[()], t))
        return [self.rows.finished(s, total[()], self.n) for s, total in zip(visit, long)]


class _Down(_Writer):
    """Rows side by side: some columns are carried along together."""

    def write(self, stream: bool) -> None:
        columns = next(a.shape[dims.index("c")] for a, dims in zip(self.arrays, self.layout) if "c" in dims)
        with self.r.loop(self.zero, columns, COLUMNS) as left:
            self.some(left, self.m.minimum(columns - left, COLUMNS))

    def each(self, width: Any) -> Any:
        return self.r.loop(self.zero, width, independent=True)

    def some(self, left: Any, width: Any) -> None:
        r, rows, out = self.r, self.rows, self.outs[0]
        totals: list[Any] = []  # of each stage, in arrays
        kept = rows.reused and out.type == self.kind
        for visit in self.visits:
            totals += self.fold(visit, left, width, totals, kept and visit is self.visits[-1])
        settled = self.settle_all(left, width, totals)
        if not rows.each:
            return
        with r.loop(self.zero, self.n) as i, self.each(width) as j:
            given, fixed = self.at(self.walked, n=i, c=left + j), self.at(self.fixed, c=left + j)
            if rows.reused:
                early, before = len(self.early), [t[j] for t in totals]
                again = out[i, left + j] if kept else self.lifted(len(totals) - 1, [*given[:early], *fixed], before)
                given = [again, *given[early:]]
            made = [*given, *fixed, *[s[j] for s in settled], self.n, *([i] if rows.indexed else [])]
            out[i, left + j] = rows.last(symbols, *made)

    def settle_all(self, left: Any, width: Any, totals: Sequence[Any]) -> Sequence[Any]:
        """What the last step gets of the totals; results of one value a row are written."""
        rows, found = self.rows, totals
        if rows.each and rows.settle is None and len(self.outs) == 1:
            return totals
        with self.each(width) as j:
            fixed = self.at(self.fixed, c=left + j)
            settled = self.settled(fixed, [t[j] for t in totals])
            if rows.each:
                found = [Local(self.r, value.type, COLUMNS) for value in settled]
                for room, value in zip(found, settled):
                    room[j] = value
                made: Any = tuple(settled)
            else:
                made = rows.last(symbols, *fixed, *self.picked(fixed, c=left + j), *settled, self.n)
            for target, value in zip(self.outs[int(rows.each) :], made if isinstance(made, tuple) else (made,)):
                target[left + j] = value
        return found

    def fold(self, visit: list[int], left: Any, width: Any, totals: list[Any], kept: bool) -> list[Any]:
        r, m, rows = self.r, self.m, self.rows
        folds = [FOLDS[rows.stages[s][0]] for s in visit]
        wide, inner = [f.wide(self.code) for f in folds], [f.inner(self.code) for f in folds]
        long = [Local(r, t, COLUMNS) for t in wide]

        def begin(rooms: Sequence[Any], types: Sequence[str]) -> None:
            with self.each(width) as j:
                for room, f, t in zip(rooms, folds, types):
                    room[j] = m.value(f.start(t), t)

        def over(start: Any, stop: Any, part: Sequence[Any], types: Sequence[str]) -> None:
            with r.loop(start, stop) as i, self.each(width) as j:
                given = [*self.at(self.early, n=i, c=left + j), *self.at(self.fixed, c=left + j)]
                keep = functools.partial(self.outs[0].__setitem__, (i, left + j)) if kept else None
                self.folded(visit, types, given, [t[j] for t in totals], part, j, keep)

        begin(long, wide)
        if wide == inner:
            over(self.zero, self.n, long, wide)
        else:
            short = [Local(r, t, COLUMNS) for t in inner]
            with r.loop(self.zero, self.n, ROWS) as start:
                begin(short, inner)
                over(start, m.minimum(start + ROWS, self.n), short, inner)
                with self.each(width) as j:
                    for total, part, f, t in zip(long, short, folds, wide):
                        total[j] = f.join(m, total[j], m.cast(part[j], t))
        if not any([rows.stages[s][2:] for s in visit]):
            return long
        with self.each(width) as j:
            values = [rows.finished(s, total[j], self.n) for s, total in zip(visit, long)]
            found = [Local(r, value.type, COLUMNS) for value in values]
            for room, value in zip(found, values):
                room[j] = value
        return found


class RowKernel(Kernel):
    """A program as a generalized ufunc for each set of types; `layout` has the core dimensions of operands, results last."""

    def __init__(self, name: str, rows: Rows, layout: tuple[str, ...], inputs: int):
        operands = [f"({','.join(dims)})" for dims in layout]
        signature = f"{','.join(operands[:inputs])}->{','.join(operands[inputs:])}"
        super().__init__(rows.last, signature, name)
        self.rows, self.layout = rows, layout

    def key(self) -> Any:
        return _described(tuple(self.rows), _OURS)

    def write(self, m: KernelScope, arrays: list[Array], options: dict[str, Any]) -> None:
        count = len(self.inputs)
        if any(["r" in dims for dims in self.layout]):
            _rows_in_turn(m, self.rows, count, arrays, self.layout)
        elif any(["c" in dims for dims in self.layout]):
            _Down(m, self.rows, count, arrays, self.layout).write(**options)
        else:
            _Along(m, self.rows, count, arrays, self.layout).write(**options)


def _rows_in_turn(m: KernelScope, rows: Rows, inputs: int, arrays: Sequence[Array], layout: Sequence[str]) -> None:
    """Rows one after the other, with sums over all of them. These come last: each in double precision, to which sums of some rows are
    added, then the room for sums of some rows."""
    r, zero, sums = m.r, m.value(0, "i64"), len(rows.down)
    totals, parts = arrays[-2 * sums : -sums], arrays[-sums:]
    count = next(a.shape[0] for a, dims in zip(arrays, layout) if dims[:1] == "r")
    n = totals[0].n
    kind = parts[0].type
    with r.loop(zero, count, ROWS) as top:
        with r.loop(zero, n, independent=True) as i:
            for part in parts:
                part[i] = m.value(0, kind)
        with r.loop(top, m.minimum(top + ROWS, count)) as row:
            own = [
                Array(r, a._address((row, *[0] * (len(dims) - 1))), a.type, a.shape[1:], a.strides[1:])
                if "r" in dims
                else a
                for a, dims in zip(arrays[: -2 * sums], layout)
            ]
            _Along(m, rows, inputs, own, [dims.replace("r", "") for dims in layout[: -2 * sums]]).write(False, parts)
        with r.loop(zero, n, independent=True) as i:
            for total, part in zip(totals, parts):
                total[i] = total[i] + m.cast(part[i], "f64")


row_kernel = functools.cache(RowKernel)


def _described(value: Any, home: str | tuple[str, ...] = "") -> Any:
    """What, together with the files of `home`, says all about functions and constants; None if nothing does."""
    if isinstance(value, tuple):
        parts = [_described(v, home) for v in value]
        return None if None in parts else tuple(parts)
    code = getattr(value, "__code__", None)
    if code is None:
        return repr(value) if _is_constant(value) else None
    if not value.__module__.startswith(home):
        return None
    given = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    cells = _described((*[cell.cell_contents for cell in value.__closure__ or ()], *given), home)
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    named = (
        value.__module__,
        value.__qualname__,
        code.co_firstlineno,
        code.co_code.hex(),
        code.co_names,
        repr(constants),
    )
    return None if cells is None else (*named, cells)
