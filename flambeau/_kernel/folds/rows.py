"""Programs along rows: values folded along them, then elements made from the totals; and their machine code for the CPU.

A program is a list of stages and a last step. `lift(m, *elements, *fixed, *totals, count)` is what a stage adds up (`FOLDS[fold]` says
how), the totals of earlier stages and the length of a row being at hand; the last step gives either every element of the result or
one value for each row. `cuda/rows.py` has the same programs for CUDA.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..building import archives
from ..loops.keys import described
from ..loops.lang import Array, Kernel, KernelScope, Local, Variable
from ..loops.ufunc import addresses
from ..render.llvm import Llvm
from ..render.streaming import ask_for, hand_over, whole_lines, width
from ..render.symbols import symbols
from ..render.value import COMPUTE, SIZE, Value
from .reduce import FOLDS

BLOCK = 1024  # elements of a row that are summed in their own precision
COLUMNS = 512  # columns that are carried along together
ROWS = 64  # rows of columns, or of what is added up over rows, that are summed in their own precision
_TOGETHER = 8  # rows that are added to sums at once, so that these are read and written less often
_LIGHT = 16  # instructions of all stages up to which that pays
_FEW = 16  # rows whose moments are taken at once
LONGEST = 1 << 16  # bytes of a row that are kept on the stack
# Kernels, by address, whose first result may lie where the first operand does: that is not read any more when it is written.
in_place: set[int] = set()
streamed: set[Any] = set()  # ufuncs whose results go past the caches


class Rows(NamedTuple):
    """What is computed along rows.

    A stage is (fold, lift) or (fold, lift, finish): `finish(m, total, count)` is what later steps get in the place of its total. A row may
    be in `parts` (the channels of a group): so many operands, after those with elements, have one value for each. A stage may then have
    `weigh(m, total, *values of the part)` as a fourth: what a part's total counts in the row's; the part's is a result after all others.
    The last `fixed` operands have one value for each row; the last `numbers` of these are Python's, the same for all rows. Of the other
    operands, the last `late` are used in the last step alone, and lifts do not get them. What `picks` names counts as fixed, after the
    fixed operands. `settle(m, *fixed, *totals, count)` makes other values of the totals, once for each row: the last step gets them in the
    place of totals, and results after the first are these.
    """

    stages: tuple[tuple[Any, ...], ...]
    last: Callable[
        ..., Any
    ]  # (m, *elements, *fixed, *totals, count) or, for one value a row, (m, *fixed, *totals, count)
    each: bool = True  # whether the last step is made for every element
    fixed: int = 0
    late: int = 0
    settle: Callable[..., Any] | None = None
    indexed: bool = (
        False  # whether lifts and the last step also get an element's place in its row, as their last argument
    )
    # (operand, which of the fixed ones): its element at the place that the other names, or the first one if there is no such place
    picks: tuple[tuple[int, int], ...] = ()
    numbers: int = 0
    reused: bool = (
        False  # whether the last step gets what the last stage lifted, in the place of the elements that lifts get
    )
    # what is added up over all rows for each place in them, `(m, *elements, *fixed, count)`: further results
    down: tuple[Callable[..., Any], ...] = ()
    parts: int = 0
    moments: bool = False  # whether the first two stages are a mean and the sum of squared distances from it

    def finished(self, stage: int, total: Any, count: Any) -> Any:
        finish = self.stages[stage][2:3]
        return finish[0](symbols, total, count) if finish and finish[0] else total

    def weighed(self) -> list[int]:
        """The stages whose parts' totals are results."""
        return [s for s, stage in enumerate(self.stages) if stage[3:]]


def total_types(rows: Rows, code: str) -> list[str]:
    """The types in which the stages add up."""
    return [FOLDS[stage[0]].wide(code) for stage in rows.stages]


def trial(rows: Rows, types: Sequence[str]) -> Iterator[Llvm]:
    """Writes down what each stage lifts from an element, for operands of such types; its total is `%total` and its number from then on."""
    r = Llvm("trial", [])
    count = Value(r, "%count", "i64")
    walked = len(types) - rows.fixed - rows.parts
    used = [*types[: walked - rows.late], *types[walked:], *[types[k] for k, _ in rows.picks]]
    given = [Value(r, "%x", COMPUTE.get(t, t)) for t in used]
    totals: list[Value] = []
    for s, wide in enumerate(total_types(rows, types[0])):
        rows.stages[s][1](symbols, *given, *totals, count, *([count] if rows.indexed else []))
        yield r
        kind = rows.finished(s, Value(r, "%wide", wide), count).type
        totals.append(Value(r, f"%total{s}", kind))


def visits(rows: Rows, types: Sequence[str]) -> list[list[int]]:
    """The stages by visit of a row: one that does not look at totals of a visit takes part in it."""
    visits: list[list[int]] = []
    for s, r in enumerate(trial(rows, types)):
        used = {int(number) for number in re.findall(r"%total(\d+)\b", "\n".join(r.lines))}
        r.lines.clear()
        if visits and (not used & set(visits[-1]) or (s == 1 and rows.moments)):
            visits[-1].append(s)
        else:
            visits.append([s])
    return visits


class _Writer:
    """One program over operands of a kernel in the making; `layout` says which core dimensions each has: r (rows), b (parts of a row), n
    (along them), c (columns, which are rows side by side)."""

    def __init__(self, m: KernelScope, rows: Rows, inputs: int, arrays: Sequence[Array], layout: Sequence[str]):
        self.m, self.r, self.rows = m, m.r, rows
        self.arrays, self.layout = arrays, layout
        self.inputs, self.outs = inputs, arrays[inputs:]
        count = inputs - rows.fixed - rows.parts
        self.walked, self.early, self.fixed = range(count), range(count - rows.late), range(count, inputs)
        self.own = self.fixed[rows.parts :]  # what is fixed in the whole row
        self.code = arrays[0].type
        self.kind = COMPUTE.get(self.code, self.code)
        self.zero = m.value(0, "i64")
        self.n = self.count = next(a.shape[dims.index("n")] for a, dims in zip(arrays, layout) if "n" in dims)
        self.b = next((a.shape[dims.index("b")] for a, dims in zip(arrays, layout) if "b" in dims), None)
        if self.b is not None:
            self.count = self.n * self.b
        self.visits = visits(rows, [a.type for a in arrays[:inputs]])
        self.picked: list[Any] = []
        self.single = {k: arrays[k][()] for k in range(inputs) if not layout[k]}

    def at(self, which: Sequence[int], **place: Any) -> list[Any]:
        """The elements of operands at a place, each by the dimensions that it has."""
        return [
            self.single[k] if k in self.single else self.arrays[k][tuple([place[d] for d in self.layout[k]])]
            for k in which
        ]

    def lifted(self, s: int, given: Sequence[Any], totals: Sequence[Any], place: Any) -> Any:
        return self.rows.stages[s][1](symbols, *given, *totals[:s], self.count, *([place] if self.rows.indexed else []))

    def settled(self, fixed: Sequence[Any], totals: Sequence[Any]) -> Sequence[Any]:
        return totals if self.rows.settle is None else self.rows.settle(symbols, *fixed, *totals, self.count)

    @contextlib.contextmanager
    def each_part(self) -> Iterator[Any]:
        """The same for each part of a row, which is a row of its own; or for the whole row if it has no parts."""
        if self.b is None:
            yield self
            return
        with self.r.loop(self.zero, self.b) as b:
            part = copy.copy(self)
            part.arrays = [
                Array(self.r, a._address((b, *[0] * (len(dims) - 1))), a.type, a.shape[1:], a.strides[1:])
                if "b" in dims
                else a
                for a, dims in zip(self.arrays, self.layout)
            ]
            part.layout = [dims.replace("b", "") for dims in self.layout]
            part.outs = part.arrays[self.inputs :]
            yield part

    def pick(self, fixed: Sequence[Any], **place: Any) -> list[Any]:
        found = []
        for k, by in self.rows.picks:
            at = self.m.cast(fixed[by], "i64")
            at = self.r.select((at >= 0) & (at < self.n), at, self.zero)
            found += self.at([k], n=at, **place)
        return found

    def folded(
        self, visit: Sequence[int], types: Sequence[str], given: Sequence[Any], totals: Sequence[Any],
        part: Sequence[Any], at: Any, place: Any, keep: Any = None,
    ) -> None:  # fmt: skip
        """Joins one element's part of all stages of a visit with what there is: `part[k][at]`."""
        for k, s in enumerate(visit):
            lifted = self.lifted(s, given, totals, place)
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
        rows = self.rows
        fixed = self.at(self.own)
        self.picked = self.pick(fixed)
        fixed += self.picked
        out = self.outs[0]
        dense = bool(out.strides) and out.strides[-1].name == str(SIZE[out.type])
        stream = stream and dense
        kept: Any = None
        if rows.reused:
            kept = (
                Local(self.r, self.kind, LONGEST // SIZE[self.kind])
                if stream
                else out
                if out.type == self.kind
                else None
            )
        totals: list[Any] = []
        for visit in self.visits:
            if rows.moments and not totals:
                totals += self.moments()
            else:
                totals += self.fold(visit, totals, kept if visit is self.visits[-1] else None)
        settled = self.settled(fixed, totals)
        if not rows.each:
            results = rows.last(symbols, *fixed, *settled, self.count)
            for target, value in zip(self.outs, results if isinstance(results, tuple) else (results,)):
                target[()] = value
            return
        for target, value in zip(self.outs[1 : len(self.outs) - len(rows.weighed())], settled):
            target[()] = value
        with self.each_part() as part:
            part.elements(totals, settled, part.outs[0] if kept is out else kept, stream, down)

    def elements(
        self, totals: Sequence[Any], settled: Sequence[Any], kept: Any, stream: bool, down: Sequence[Array]
    ) -> None:
        """The last step."""
        rows, n, out = self.rows, self.n, self.outs[0]
        fixed = [*self.at(self.fixed), *self.picked]

        def element(i: Any) -> Any:
            given = self.at(self.walked, n=i)
            if rows.reused:
                early = len(self.early)
                again = self.lifted(len(totals) - 1, [*given[:early], *fixed], totals, i) if kept is None else kept[i]
                given = [again, *given[early:]]
            place = [i] if rows.indexed else []
            for sums, lift in zip(down, rows.down):
                sums[i] = sums[i] + lift(symbols, *given, *fixed, n)
            return rows.last(symbols, *given, *fixed, *settled, self.count, *place)

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

    def blocks(self) -> Any:
        return self.r.loop(self.zero, self.n, BLOCK)

    def fold(self, visit: list[int], totals: list[Any], kept: Any) -> list[Any]:
        """The totals of the stages of one visit: blocks in short accumulators, joined in wide ones."""
        r, m, stages = self.r, self.m, [self.rows.stages[s] for s in visit]
        folds = [FOLDS[stage[0]] for stage in stages]
        wide, inner = [f.wide(self.code) for f in folds], [f.inner(self.code) for f in folds]

        def slots(types: Sequence[str]) -> list[_Slot]:
            return [_Slot(r, m.value(f.start(t), t)) for f, t in zip(folds, types)]

        def over(w: Any, start: Any, stop: Any, part: Sequence[Any], types: Sequence[str]) -> None:
            into = w.outs[0] if kept is self.outs[0] else kept
            fixed = [*w.at(w.fixed), *w.picked]
            with r.loop(start, stop, independent=kept is not None) as i:
                keep = None if kept is None else functools.partial(into.__setitem__, i)
                w.folded(visit, types, [*w.at(w.early, n=i), *fixed], totals, part, (), i, keep)

        long = slots(wide)
        with self.each_part() as w:
            apart = any([stage[3:] for stage in stages])
            found = slots(wide) if apart else long
            if all([f.again != "sum" for f in folds]):
                over(w, self.zero, self.n, found, wide)
            else:
                with self.blocks() as start:
                    short = slots(inner)
                    over(w, start, m.minimum(start + BLOCK, self.n), short, inner)
                    for total, part, f, t in zip(found, short, folds, wide):
                        total[()] = f.join(m, total[()], m.cast(part[()], t))
            if apart:
                values = w.at(w.fixed[: self.rows.parts])
                for target, total in zip(w.outs[len(w.outs) - len(visit) :], found):
                    target[()] = total[()]
                for whole, total, f, stage in zip(long, found, folds, stages):
                    whole[()] = f.join(m, whole[()], stage[3](m, total[()], *values))
        return [self.rows.finished(s, total[()], self.count) for s, total in zip(visit, long)]

    def moments(self) -> list[Any]:
        """The totals of the first two stages in one visit: moments of blocks, which fit the first cache, joined in double precision."""
        r, m = self.r, self.m
        found = [_Slot(r, m.value(0, "f64")) for _ in range(3)]
        self.join_moments(found, self.kind)
        if (
            not self.rows.each and self.kind != "f64"
        ):  # the squares may be more than single precision holds, or no numbers
            with r.when(~(found[2][()] < float("inf"))):
                for slot in found:
                    slot[()] = m.value(0, "f64")
                self.join_moments(found, "f64")
        seen, middle, squares = (slot[()] for slot in found)
        return [self.rows.finished(0, middle * seen, self.count), squares]

    def join_moments(self, found: Sequence[_Slot], kind: str) -> None:
        m, (seen, middle, squares) = self.m, found
        with self.each_part() as w:
            fixed = w.at(w.fixed)
            with self.blocks() as start:
                stop, size = m.minimum(start + BLOCK, self.n), m.cast(m.minimum(self.n - start, BLOCK), "f64")
                near = self.summed(0, w, start, stop, fixed, [], kind) / size
                spread = self.summed(1, w, start, stop, fixed, [m.cast(near, kind)], kind)
                total = seen[()] + size
                gap = near - middle[()]
                squares[()] = squares[()] + spread + gap * gap * seen[()] * (size / total)
                middle[()] = middle[()] + gap * (size / total)
                seen[()] = total

    def summed(
        self, s: int, w: Any, start: Any, stop: Any, fixed: Sequence[Any], totals: Sequence[Any], kind: str
    ) -> Any:
        """The sum of what a stage lifts in a block, in double precision."""
        part = _Slot(self.r, self.m.value(0, kind))
        with self.r.loop(start, stop) as i:
            elements = [self.m.cast(x, kind) for x in w.at(w.early, n=i)]
            lifted = self.lifted(s, [*elements, *fixed], totals, i)
            part[()] = symbols.loose_add(part[()], lifted)
        return self.m.cast(part[()], "f64")


class _Down(_Writer):
    """Rows side by side: some columns are carried along together."""

    def write(self, stream: bool) -> None:
        columns = next(a.shape[dims.index("c")] for a, dims in zip(self.arrays, self.layout) if "c" in dims)
        with self.r.loop(self.zero, columns, COLUMNS) as left:
            self.some(left, self.m.minimum(columns - left, COLUMNS))

    def each(self, width: Any) -> Any:
        return self.r.loop(self.zero, width, independent=True)

    def rows_together(self, start: Any, stop: Any, width: Any, several: bool = True) -> Iterator[tuple[list[Any], Any]]:
        """Loops over rows and columns: (rows, column) for a body that visits several rows at once, then for one that visits those left."""
        whole = start + ((stop - start) & -_TOGETHER) if several else start
        for first, last, count in ((start, whole, _TOGETHER), (whole, stop, 1))[not several :]:
            with self.r.loop(first, last, count) as top, self.each(width) as j:
                yield [top + q for q in range(count)], j

    def some(self, left: Any, width: Any) -> None:
        r, rows, out = self.r, self.rows, self.outs[0]
        totals: list[Any] = []  # of each stage, in arrays
        if rows.picks:
            self.picked = [Local(r, COMPUTE.get(t, t), COLUMNS) for t in [self.arrays[k].type for k, _ in rows.picks]]
            with self.each(width) as j:
                for room, value in zip(self.picked, self.pick(self.at(self.fixed, c=left + j), c=left + j)):
                    room[j] = value
        kept = rows.reused and out.type == self.kind
        for visit in self.visits:
            if rows.moments and not totals:
                totals += self.moments(left, width)
            else:
                totals += self.fold(visit, left, width, totals, kept and visit is self.visits[-1])
        settled = self.settle_all(left, width, totals)
        if not rows.each:
            return
        with r.loop(self.zero, self.n) as i, self.each(width) as j:
            given, fixed = self.at(self.walked, n=i, c=left + j), self.row(left, j)
            if rows.reused:
                early, before = len(self.early), [t[j] for t in totals]
                again = out[i, left + j] if kept else self.lifted(len(totals) - 1, [*given[:early], *fixed], before, i)
                given = [again, *given[early:]]
            made = [*given, *fixed, *[s[j] for s in settled], self.n, *([i] if rows.indexed else [])]
            out[i, left + j] = rows.last(symbols, *made)

    def row(self, left: Any, j: Any) -> list[Any]:
        """What is fixed in a row."""
        return [*self.at(self.fixed, c=left + j), *[room[j] for room in self.picked]]

    def settle_all(self, left: Any, width: Any, totals: Sequence[Any]) -> Sequence[Any]:
        """What the last step gets of the totals; results of one value a row are written."""
        rows, found = self.rows, totals
        if rows.each and rows.settle is None and len(self.outs) == 1:
            return totals
        with self.each(width) as j:
            fixed = self.row(left, j)
            settled = self.settled(fixed, [t[j] for t in totals])
            if rows.each:
                found = [Local(self.r, value.type, COLUMNS) for value in settled]
                for room, value in zip(found, settled):
                    room[j] = value
                made: Any = tuple(settled)
            else:
                made = rows.last(symbols, *fixed, *settled, self.n)
            for target, value in zip(self.outs[int(rows.each) :], made if isinstance(made, tuple) else (made,)):
                target[left + j] = value
        return found

    def fold(self, visit: list[int], left: Any, width: Any, totals: list[Any], kept: bool) -> list[Any]:
        r, m, rows = self.r, self.m, self.rows
        folds = [FOLDS[rows.stages[s][0]] for s in visit]
        wide, inner = [f.wide(self.code) for f in folds], [f.inner(self.code) for f in folds]
        long = [Local(r, t, COLUMNS) for t in wide]
        light = max([len(t.lines) for t in trial(rows, [a.type for a in self.arrays[: self.inputs]])]) < _LIGHT

        def begin(rooms: Sequence[Any], types: Sequence[str]) -> None:
            with self.each(width) as j:
                for room, f, t in zip(rooms, folds, types):
                    room[j] = m.value(f.start(t), t)

        def over(start: Any, stop: Any, part: Sequence[Any], types: Sequence[str]) -> None:
            for places, j in self.rows_together(start, stop, width, light and not kept):
                before, fixed = [t[j] for t in totals], self.row(left, j)
                for i in places:
                    given = [*self.at(self.early, n=i, c=left + j), *fixed]
                    keep = functools.partial(self.outs[0].__setitem__, (i, left + j)) if kept else None
                    self.folded(visit, types, given, before, part, j, i, keep)

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
        return self.finish_all(visit, width, long)

    def finish_all(self, visit: Sequence[int], width: Any, long: list[Any]) -> list[Any]:
        if not any([self.rows.stages[s][2:] for s in visit]):
            return long
        with self.each(width) as j:
            values = [self.rows.finished(s, total[j], self.n) for s, total in zip(visit, long)]
            found = [Local(self.r, value.type, COLUMNS) for value in values]
            for room, value in zip(found, values):
                room[j] = value
        return found

    def moments(self, left: Any, width: Any) -> list[Any]:
        """The totals of the first two stages, with moments of some rows at a time."""
        r, m, kind = self.r, self.m, self.kind if self.rows.each else "f64"
        part, spread, middle, squares = (Local(r, t, COLUMNS) for t in (kind, kind, "f64", "f64"))

        def over(start: Any, stop: Any, s: int, into: Any) -> None:
            for places, j in self.rows_together(start, stop, width):
                total, mean = into[j], [] if into is part else [part[j]]
                for i in places:
                    elements = [m.cast(x, kind) for x in self.at(self.early, n=i, c=left + j)]
                    total = total + self.lifted(s, [*elements, *self.row(left, j)], mean, i)
                into[j] = total

        with self.each(width) as j:
            middle[j] = squares[j] = m.value(0, "f64")
        with r.loop(self.zero, self.n, _FEW) as start:
            stop, seen = m.minimum(start + _FEW, self.n), m.cast(start, "f64")
            size = m.cast(stop - start, "f64")
            fraction, share = m.cast(1.0 / size, kind), size / (seen + size)
            with self.each(width) as j:
                part[j] = spread[j] = m.value(0, kind)
            over(start, stop, 0, part)
            with self.each(width) as j:
                part[j] = part[j] * fraction
            over(start, stop, 1, spread)
            with self.each(width) as j:
                gap = m.cast(part[j], "f64") - middle[j]
                middle[j] = middle[j] + gap * share
                squares[j] = squares[j] + m.cast(spread[j], "f64") + gap * gap * (seen * share)
        with self.each(width) as j:
            middle[j] = middle[j] * m.cast(self.n, "f64")
        return self.finish_all((0, 1), width, [middle, squares])


class RowKernel(Kernel):
    """A program as a generalized ufunc for each set of types; `layout` has the core dimensions of operands, results last."""

    def __init__(self, name: str, rows: Rows, layout: tuple[str, ...], inputs: int):
        operands = [f"({','.join(dims)})" for dims in layout]
        signature = f"{','.join(operands[:inputs])}->{','.join(operands[inputs:])}"
        super().__init__(rows.last, signature, name)
        self.rows, self.layout = rows, layout

    def key(self) -> Any:
        return described(tuple(self.rows), archives.MODULES)

    def build(self, types: tuple[str, ...], options: dict[str, Any]) -> Any:
        made, rows = super().build(types, options), self.rows
        if rows.each and not (rows.down or rows.parts or rows.weighed()) and types[0] == types[len(self.inputs)]:
            in_place.add(addresses[made])
        if options.get("stream"):
            streamed.add(made)
        return made

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


@functools.cache
def variances(root: bool) -> Rows:
    """Variances (or their roots) and means; fixed is the number of degrees of freedom."""

    def squared(m: Any, x: Any, free: Any, mean: Any, count: Any) -> Any:
        d = m.cast(x, mean.type) - mean
        return d * d

    def last(m: Any, free: Any, mean: Any, squares: Any, count: Any) -> tuple[Any, Any]:
        mean = m.where(
            (squares != squares) & (count > 1), squares, mean
        )  # PyTorch's mean of infinite numbers is none, either
        return m.real_sqrt(squares / free) if root else squares / free, mean

    mean = ("sum", lambda m, x, free, count: x, lambda m, total, count: total / m.cast(count, "f64"))
    return Rows((mean, ("squares", squared)), last, each=False, fixed=1, numbers=1, moments=True)
