"""CUDA text of programs along rows (`folds/rows.py`): threads fold a row together, then make elements from the totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..folds.reduce import FOLDS
from ..folds.rows import Rows, total_types
from ..loops.lang import KernelScope
from ..loops.pointwise import load, store
from ..render.symbols import symbols
from ..render.value import SIZE, Value
from .render import KERNEL, PACKS, Cuda, joined

PACK = 16  # bytes that a thread reads at once
_TEMPLATES = (
    f"""{PACKS}
"""
    + """template <int size> __device__ __forceinline__ Pack<size> from_lane(Pack<size> p, int away) {
  union { Pack<size> p; int w[(size + 3) / 4]; } u;
  u.p = p;
  #pragma unroll
  for (int j = 0; j < (size + 3) / 4; ++j) u.w[j] = __shfl_xor_sync(0xffffffff, u.w[j], away);
  return u.p;
}"""
)


class Schedule(NamedTuple):
    """How threads share the work, as far as the text knows it."""

    outer: int  # merged dimensions around the rows
    inner: int  # and along them
    dense: bool = False  # rows are contiguous
    columns: bool = False  # neighbouring threads have neighbouring rows
    threads: int = 256  # of a block
    held: int = 0  # packs of each operand that a thread keeps in registers from stage to stage, if it can
    lanes: int = 0  # threads that share a row, where the text knows them
    few: bool = False  # a thread has few elements: it folds them in their own precision
    wide: int = 1  # neighbouring rows that a thread has, whose elements lie side by side: of programs without folds


class _Functions:
    """The device functions: of each stage its start, one element's part and the joining of two totals; the last step."""

    def __init__(self, rows: Rows, inputs: Sequence[str], outputs: Sequence[str], code: str, few: bool):
        self.totals = total_types(rows, code)
        self.parts = [FOLDS[stage[0]].inner(code) for stage in rows.stages] if few else self.totals
        self.finished: list[str] = []  # types of the totals as other steps get them
        self.made: list[Cuda] = []
        count = len(inputs) - rows.fixed
        self.walked, self.fixed = list(range(count)), list(range(count, len(inputs)))
        self.early = self.walked[: count - rows.late]
        for s, stage in enumerate(rows.stages):
            self._stage(s, rows, FOLDS[stage[0]], stage[1], inputs)
            self._finish(rows, s)
        self.settled = self.finished
        if rows.settle is not None:
            self._settle(rows, inputs)
        given = [*(self.walked if rows.each else ()), *self.fixed]
        targets = [f"char* y{k}" for k in range(1 if rows.each else len(outputs))]
        place = ["long long index"] if rows.each and rows.indexed else []
        picked = _pointers("q", range(len(rows.picks)))
        totals = _pointers("t", range(len(self.settled)))
        raw = _pointers("u", range(len(self.finished) - 1 if rows.reused else 0))
        r = self._function(
            "last", [*_pointers("x", given), *picked, *totals, *raw, *targets, "long long count", *place]
        )
        values = [*self._loaded(r, inputs, given), *self._picked(r, rows, inputs)]
        fixed = values[len(self.walked) :]
        values += [*self._totals(r, self.settled), *self._end(r, rows, rows.each)]
        if rows.reused:
            before = [load(r, f"u{s}", t) for s, t in enumerate(self.finished[:-1])]
            elements = [*values[: len(self.early)], *fixed, *before]
            again = rows.stages[-1][1](symbols, *elements, *self._end(r, rows))
            values = [again, *values[len(self.early) :]]
        results = rows.last(symbols, *values)
        for k, value in enumerate(results if isinstance(results, tuple) else (results,)):
            store(r, f"y{k}", outputs[k], value)
        if rows.each:
            for k, t in enumerate(outputs[1:]):
                r = self._function(f"keep{k}", ["char* y", "char* t0"])
                store(r, "y", t, load(r, "t0", self.settled[k]))

    def _function(self, name: str, parameters: list[str]) -> Cuda:
        self.made.append(Cuda(name, parameters, "__device__ __forceinline__"))
        return self.made[-1]

    def _loaded(self, r: Cuda, inputs: Sequence[str], which: Sequence[int]) -> list[Any]:
        return [load(r, f"x{k}", inputs[k]) for k in which]

    def _totals(self, r: Cuda, types: Sequence[str]) -> list[Any]:
        return [load(r, f"t{s}", t) for s, t in enumerate(types)]

    def _end(self, r: Cuda, rows: Rows, each: bool = True) -> list[Any]:
        """The last arguments of steps: the length of a row, and the place of an element if it is asked for."""
        return [Value(r, name, "i64") for name in ["count", *(["index"] if each and rows.indexed else [])]]

    def _stage(self, s: int, rows: Rows, f: Any, lift: Any, inputs: Sequence[str]) -> None:
        wide, part = self.totals[s], self.parts[s]
        r = self._function(f"start{s}", ["char* total"])
        store(r, "total", part, KernelScope(r).value(f.start(part), part))
        given = [*self.early, *self.fixed]
        parameters = [*_pointers("x", given), *_pointers("q", range(len(rows.picks))), *_pointers("t", range(s))]
        place = ["long long index"] if rows.indexed else []
        r = self._function(f"take{s}", ["char* total", *parameters, "long long count", *place])
        values = [*self._loaded(r, inputs, given), *self._picked(r, rows, inputs), *self._totals(r, self.finished)]
        lifted = lift(symbols, *values, *self._end(r, rows))
        store(r, "total", part, f.join(symbols, load(r, "total", part), symbols.cast(lifted, part)))
        r = self._function(f"widen{s}", ["char* total", "char* part"])
        store(r, "total", wide, symbols.cast(load(r, "part", part), wide))
        r = self._function(f"join{s}", ["char* total", "char* other"])
        store(r, "total", wide, f.join(symbols, load(r, "total", wide), load(r, "other", wide)))

    def _finish(self, rows: Rows, s: int) -> None:
        r = self._function(f"finish{s}", ["char* total", "long long count", "char* made"])
        value = rows.finished(s, load(r, "total", self.totals[s]), Value(r, "count", "i64"))
        self.finished.append(value.type)
        store(r, "made", value.type, value)

    def _picked(self, r: Cuda, rows: Rows, inputs: Sequence[str]) -> list[Any]:
        return [load(r, f"q{j}", inputs[k]) for j, (k, _) in enumerate(rows.picks)]

    def _settle(self, rows: Rows, inputs: Sequence[str]) -> None:
        parameters = [*_pointers("x", self.fixed), *_pointers("q", range(len(rows.picks)))]
        r = self._function("settle", [*parameters, *_pointers("t", range(len(self.totals))), "long long count"])
        given = [*self._loaded(r, inputs, self.fixed), *self._picked(r, rows, inputs), *self._totals(r, self.finished)]
        values = rows.settle(symbols, *given, Value(r, "count", "i64"))  # type: ignore[misc]
        self.settled = [v.type for v in values]
        r.parameters += _pointers("z", range(len(values)))
        for k, v in enumerate(values):
            store(r, f"z{k}", v.type, v)


def _pointers(prefix: str, numbers: Any) -> list[str]:
    return [f"char* {prefix}{k}" for k in numbers]


def offsets(name: str, index: str, rank: int, size: str, strides: str) -> list[str]:
    """Lines that turn a number into an offset, by extents `size`d and strides `strides`d of merged dimensions."""
    lines = [f"    long long rest = {index};"] if rank > 1 else []
    for d in range(rank - 1, 0, -1):
        lines.append(f"    {name} += (rest % {size}{d}) * {strides}{d}; rest /= {size}{d};")
    lines.append(f"    {name} += {'rest' if rank > 1 else index} * {strides}0;")
    return ["  {", *lines, "  }"]


def _packs(types: Sequence[str], dense: bool) -> int:
    """Elements that are read at once of operands of such types."""
    return PACK // max(SIZE[t] for t in types) if dense else 1


def held_packs(types: Sequence[str], lanes: int, length: int) -> int:
    """Packs of each of these operands that one of `lanes` threads would have to hold of a row."""
    return -(-length // (lanes * _packs(types, True)))


class _Text:
    """The body of one row kernel, written line by line."""

    def __init__(self, rows: Rows, types: Sequence[str], reads: int, f: _Functions, how: Schedule):
        self.types, self.reads, self.how = types, reads, how
        self.sizes = [SIZE[t] for t in types]
        self.each = [*f.walked, *([reads] if rows.each else [])]  # operands with an element for each place
        self.fixed = f.fixed
        self.count = _packs([types[k] for k in self.each], how.dense)
        self.held = set(f.early) if how.held and self.count > 1 else set[int]()
        self.lines: list[str] = []
        numbers = range(reads - rows.numbers, reads)
        for k in numbers:
            self.lines.append(f"  Pack<8> f{k}; *(long long*)f{k}.bytes = p{k};")
        for k in range(len(types)):
            if k not in numbers:
                self.lines += [f"  long long o{k} = 0;", *offsets(f"o{k}", "row", how.outer, "m", f"s{k}_")]
        for k in f.fixed[: len(f.fixed) - rows.numbers]:
            self.lines.append(
                f"  Pack<{self.sizes[k]}> f{k}; if (row < m) f{k} = *(Pack<{self.sizes[k]}>*)(x{k} + o{k});"
            )
        if self.count > 1:
            together = " | ".join(f"(unsigned long long)(x{k} + o{k})" for k in self.each)
            whole = f"begin + (stop - begin) / {self.count} * {self.count}"
            self.lines.append(
                f"  long long packed = (({together}) & {PACK - 1}) == 0 && stop > begin ? {whole} : begin;"
            )
        else:
            self.lines.append("  long long packed = begin;")
        for k in sorted(self.held):
            bytes = self.sizes[k] * self.count
            self.lines.append(f"  Pack<{bytes}> h{k}[{how.held}];")
            self._over_packs([f"h{k}[p].whole = *(Word<{bytes}>::type*)(x{k} + o{k} + i * {self.sizes[k]});"])

    def _over_packs(self, inside: list[str]) -> None:
        """Lines for every pack of this thread's, `i` being its first element; `p` counts packs that are held."""
        count = self.count
        if self.held:
            self.lines += [
                "  #pragma unroll",
                f"  for (int p = 0; p < {self.how.held}; ++p) {{",
                f"  long long i = begin + (lane + p * lanes) * {count};",
                "  if (i < packed) {", *inside, "  } }",
            ]  # fmt: skip
        else:
            head = f"  for (long long i = begin + lane * {count}; i < packed; i += lanes * {count}) {{"
            self.lines += [head, *inside, "  }"]

    def loop(self, call: Callable[[Callable[[int], str], str], str], used: Sequence[int]) -> None:
        """A call for every element of the row that this thread has; `call` gets what says where an operand's is, and its place."""
        count, sizes = self.count, self.sizes

        def fixed_or(k: int, place: str) -> str:
            return f"f{k}.bytes" if k in self.fixed else place

        if count > 1:
            loaded = [k for k in used if k not in self.fixed and k not in self.held]
            inside = [f"  Pack<{sizes[k] * count}> a{k};" for k in loaded]
            inside += [
                f"  a{k}.whole = *(Word<{sizes[k] * count}>::type*)(x{k} + o{k} + i * {sizes[k]});"
                for k in loaded
                if k < self.reads
            ]

            def packed(k: int) -> str:
                return fixed_or(k, f"{f'h{k}[p]' if k in self.held else f'a{k}'}.bytes + j * {sizes[k]}")

            inside += ["  #pragma unroll", f"  for (int j = 0; j < {count}; ++j) {call(packed, 'i + j')}"]
            inside += [
                f"  *(Word<{sizes[k] * count}>::type*)(x{k} + o{k} + i * {sizes[k]}) = a{k}.whole;"
                for k in loaded
                if k >= self.reads
            ]
            self._over_packs(inside)
        self.lines.append("  for (long long i = packed + lane; i < stop; i += lanes) {")
        for k in used:
            if k not in self.fixed:
                self.lines += [f"  long long p{k} = o{k};", *offsets(f"p{k}", "i", self.how.inner, "n", f"t{k}_")]
        self.lines += [f"  {call(lambda k: fixed_or(k, f'x{k} + p{k}'), 'i')}", "  }"]

    def pick(self, number: int, k: int, by: int) -> None:
        """The element of an operand at the place that a fixed operand names, or the first one if there is no such place."""
        size = self.sizes[k]
        self.lines += [
            f"  Pack<{size}> q{number}; if (row < m && n > 0) {{", f"  long long place = *(long long*)f{by}.bytes;",
            "  if (place < 0 || place >= n) place = 0;", f"  long long at = o{k};",
            *offsets("at", "place", self.how.inner, "n", f"t{k}_"), f"  q{number} = *(Pack<{size}>*)(x{k} + at);", "  }",
        ]  # fmt: skip

    def together(self, s: int, size: int) -> None:
        """Joins the totals of the threads that share a row; all of them get the result."""
        if self.how.columns:
            self.lines += [
                f"  *(Pack<{size}>*)space[t].bytes = total{s}; __syncthreads();",
                "  for (int half = lanes / 2; half; half /= 2) {",
                f"  if (lane < half) join{s}(space[t].bytes, space[t + half * next].bytes);", "  __syncthreads();", "  }",
                f"  total{s} = *(Pack<{size}>*)space[head].bytes; __syncthreads();",
            ]  # fmt: skip
            return
        self.lines += [
            "  for (int away = (lanes < 32 ? lanes : 32) / 2; away; away /= 2) {",
            f"  Pack<{size}> other = from_lane(total{s}, away); join{s}(total{s}.bytes, other.bytes);", "  }",
            "  if (lanes > 32) {",
            f"  if (t % 32 == 0) *(Pack<{size}>*)space[t / 32].bytes = total{s};", "  __syncthreads();",
            f"  total{s} = *(Pack<{size}>*)space[head / 32].bytes;",
            f"  for (int w = 1; w < lanes / 32; ++w) join{s}(total{s}.bytes, space[head / 32 + w].bytes);",
            "  __syncthreads();", "  }",
        ]  # fmt: skip


class _SideBySide:
    """The body of a kernel without folds, of which a thread has several rows: their elements are read and written as one."""

    def __init__(self, rows: Rows, types: Sequence[str], reads: int, f: _Functions, how: Schedule):
        self.rows, self.f, self.how, self.wide = rows, f, how, how.wide
        self.sizes, self.first = [SIZE[t] for t in types], reads - rows.numbers
        self.each, self.others = [*f.walked, reads], range(reads + 1, len(types))
        self.read = f.fixed[: len(f.fixed) - rows.numbers]
        self.lines: list[str] = []
        self._fixed(reads)
        self._settled()
        self._elements(reads)
        self.lines.append("  const bool first = lane == 0 && blockIdx.y == 0;")
        for j in range(self.wide):
            for z, k in enumerate(self.others):
                self.lines.append(f"  if (first && row < m) keep{z}(x{k} + o{k} + {j} * s{k}_0, z{z}[{j}].bytes);")

    def _fixed(self, reads: int) -> None:
        for k in range(self.first, reads):
            self.lines.append(f"  Pack<8> f{k}; *(long long*)f{k}.bytes = p{k};")
        for k in [*self.each, *self.read, *self.others]:
            self.lines.append(f"  long long o{k} = row * s{k}_0;")
        for k in self.read:
            size = self.sizes[k]
            self._for_all(
                f"  Pack<{size}> f{k}[{self.wide}]; if (row < m)",
                f"f{k}[j] = *(Pack<{size}>*)(x{k} + o{k} + j * s{k}_0);",
            )

    def _settled(self) -> None:
        """What is settled for a row is so by one thread of a block, and read by all that have elements of it."""
        columns = self.how.threads // self.how.lanes * self.wide
        if self.rows.settle is None:
            return
        made = [f"zs{z}[c].bytes" for z in range(len(self.f.settled))]
        given = [f"f{k}.bytes" if k >= self.first else f"g{k}.bytes" for k in self.f.fixed]
        self.lines += [f"  __shared__ Pack<{SIZE[t]}> zs{z}[{columns}];" for z, t in enumerate(self.f.settled)]
        self.lines += [f"  for (int c = t; c < {columns}; c += {self.how.threads}) {{"]
        self.lines += [f"  long long own = blockIdx.x * {columns}LL + c; if (own >= m) break;"]
        self.lines += [
            f"  Pack<{self.sizes[k]}> g{k} = *(Pack<{self.sizes[k]}>*)(x{k} + own * s{k}_0);" for k in self.read
        ]
        self.lines += [f"  settle({', '.join([*given, 'count', *made])});", "  }", "  __syncthreads();"]
        for z, t in enumerate(self.f.settled):
            self._for_all(f"  Pack<{SIZE[t]}> z{z}[{self.wide}];", f"z{z}[j] = zs{z}[mine * {self.wide} + j];")

    def _elements(self, reads: int) -> None:
        whole = [self.sizes[k] * self.wide for k in self.each]
        steps = [f"t{k}_{d}" for k in self.each for d in range(self.how.inner)]
        places = [f"(long long)(x{k} + o{k})" for k in self.each]
        self.lines += [
            f"  const bool aligned = (({' | '.join([*places, *steps])}) & {max(whole) - 1}) == 0;",
            "  for (long long i = begin + lane; i < stop; i += lanes) {",
        ]
        for k, size in zip(self.each, whole):
            self.lines += [f"  long long p{k} = o{k};", *offsets(f"p{k}", "i", self.how.inner, "n", f"t{k}_")]
            self.lines.append(f"  Pack<{size}> a{k};")
            if k < reads:
                self._moved(k, size, "a{0}.bytes", "x{0} + p{0}")
        values = [f"a{k}.bytes + j * {self.sizes[k]}" for k in self.f.walked]
        settled = [f"z{z}[j].bytes" for z in range(len(self.f.settled))]
        target = f"a{reads}.bytes + j * {self.sizes[reads]}"
        self._for_all("", f"last({', '.join([*values, *self._given(), *settled, target, 'count'])});")
        self._moved(reads, whole[-1], "x{0} + p{0}", "a{0}.bytes")
        self.lines.append("  }")

    def _moved(self, k: int, bytes: int, target: str, source: str) -> None:
        """From one place to another, at once where both allow it."""
        to, by, size = target.format(k), source.format(k), self.sizes[k]
        self.lines.append(f"  if (aligned) *(Word<{bytes}>::type*)({to}) = *(Word<{bytes}>::type*)({by});")
        self._for_all("  else", f"*(Pack<{size}>*)({to} + j * {size}) = *(Pack<{size}>*)({by} + j * {size});")

    def _given(self) -> list[str]:
        return [f"f{k}.bytes" if k >= self.first else f"f{k}[j].bytes" for k in self.f.fixed]

    def _for_all(self, head: str, line: str) -> None:
        """A line for each of the rows."""
        self.lines += [
            f"{head} {{", "  #pragma unroll", f"  for (int j = 0; j < {self.wide}; ++j) {line}", "  }",
        ]  # fmt: skip


def _folded(rows: Rows, f: _Functions, types: Sequence[str], reads: int, how: Schedule) -> list[str]:
    """The body of a kernel that folds rows, one stage after the other, then makes elements or one value of each."""
    text = _Text(rows, types, reads, f, how)
    early = [*f.early, *f.fixed]
    for j, (k, by) in enumerate(rows.picks):
        text.pick(j, k, f.fixed[by])
    picked = [f"q{j}.bytes" for j in range(len(rows.picks))]

    def end(i: str) -> list[str]:
        return ["count", i] if rows.indexed else ["count"]

    for s, (wide, part) in enumerate(zip(f.totals, f.parts)):
        before = [*picked, *[f"done{e}.bytes" for e in range(s)]]
        text.lines.append(f"  Pack<{SIZE[part]}> part{s}; start{s}(part{s}.bytes);")
        text.loop(
            lambda place, i: f"take{s}({', '.join([f'part{s}.bytes', *map(place, early), *before, *end(i)])});", early
        )
        text.lines.append(f"  Pack<{SIZE[wide]}> total{s}; widen{s}(total{s}.bytes, part{s}.bytes);")
        text.together(s, SIZE[wide])
        text.lines.append(f"  Pack<{SIZE[f.finished[s]]}> done{s}; finish{s}(total{s}.bytes, count, done{s}.bytes);")
    fixed = [f"f{k}.bytes" for k in f.fixed]
    made = [f"done{s}.bytes" for s in range(len(f.totals))]
    raw = made[:-1] if rows.reused else []
    if rows.settle is not None:
        text.lines += [f"  Pack<{SIZE[t]}> z{k};" for k, t in enumerate(f.settled)]
        settled = [f"z{k}.bytes" for k in range(len(f.settled))]
        text.lines.append(f"  settle({', '.join([*fixed, *picked, *made, 'count', *settled])});")
        made = settled
    if rows.each:
        text.loop(
            lambda at, i: (
                f"last({', '.join([*map(at, [*f.walked, *f.fixed]), *picked, *made, *raw, at(reads), *end(i)])});"
            ),
            [*f.walked, *f.fixed, reads],
        )
        for k in range(reads + 1, len(types)):
            keep = f"keep{k - reads - 1}(x{k} + o{k}, {made[k - reads - 1]});"
            text.lines.append(f"  if (lane == 0 && blockIdx.y == 0 && row < m) {keep}")
    else:
        targets = [f"x{k} + o{k} + blockIdx.y * between{k}" for k in range(reads, len(types))]
        text.lines.append(
            f"  if (lane == 0 && row < m) last({', '.join([*fixed, *picked, *made, *targets, 'count'])});"
        )
    return text.lines


def render_rows(
    name: str, rows: Rows, inputs: Sequence[str], outputs: Sequence[str], code: str, how: Schedule
) -> str:  # fmt: skip
    """CUDA text. `code` is the element type that says how totals are kept.

    Parameters: pointers; number of rows m and their length n; elements that one block takes of a row; what
    `count` is in the last step; lanes (threads that share a row); bytes between the results of two blocks of a row, if there is one value a row; extents;
    strides of each operand, outer then inner; the bits of numbers.
    """
    f = _Functions(rows, inputs, outputs, code, how.few)
    reads, operands = len(inputs), len(inputs) + len(outputs)
    sizes = [f"m{d}" for d in range(1, how.outer)] + [f"n{d}" for d in range(1, how.inner)]
    ranks = ("s", how.outer), ("t", how.inner)
    given = [k for k in range(operands) if not reads - rows.numbers <= k < reads]
    strides = [f"{p}{k}_{d}" for k in given for p, rank in ranks for d in range(rank)]
    between = [] if rows.each else [f"between{k}" for k in range(reads, operands)]
    numbers = ["m", "n", "piece", "count", "lanes_given", *between, *sizes, *strides]
    lines = (
        _folded(rows, f, [*inputs, *outputs], reads, how)
        if how.wide == 1
        else _SideBySide(rows, [*inputs, *outputs], reads, f, how).lines
    )
    more = [f"p{k}" for k in range(reads - rows.numbers, reads)]
    parameters = ", ".join([*(f"char* x{k}" for k in given), *(f"long long {n}" for n in [*numbers, *more])])
    body = "\n".join(lines)
    lane, mine = ("t / across", "t % across") if how.columns else ("t % lanes", "t / lanes")
    return f"""{_TEMPLATES}
{joined(f.made)}
{KERNEL} void __launch_bounds__({how.threads}) {name}({parameters}) {{
  __shared__ Pack<{max([SIZE[t] for t in f.totals], default=8)}> space[{how.threads if how.columns else 32}];
  const int lanes = {how.lanes or "(int)lanes_given"};
  int t = threadIdx.x, across = {how.threads} / lanes;
  int lane = {lane}, mine = {mine};
  int next = {"across" if how.columns else "1"}, head = t - lane * next;
  long long row = (blockIdx.x * (long long)across + mine) * {how.wide}, begin = blockIdx.y * piece;
  long long stop = row < m ? (begin + piece < n ? begin + piece : n) : 0;
{body}
}}
"""
