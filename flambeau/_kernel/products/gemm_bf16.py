"""Products of bfloat16 matrices on CPUs that multiply pairs of them: AMX tiles, or AVX-512's dot products.

Sums are float32 over the whole depth and are rounded once. The work is cut into pieces, a block of columns of some
rows each, which threads take one after the other; each packs the panels that it needs in its own memory. Tiles read a
row-major left operand where it lies, if its rows begin with cache lines.
"""

from __future__ import annotations

import functools
import platform
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..building import jit
from ..loops.ufunc import make_ufunc
from ..render.llvm import NOT_NUMPY
from ..render.register_tiles import Frame
from ..render.tiles import Plan, invoke, joined, maximum, minimum
from ..render.value import Value
from ..threads import pool
from . import amx
from .gemm import on_grid, signature
from .gemm_bf16_parts import COLUMNS, LANES, ROWS, TILE, Pairs, dots, pack, pack_both, store, tile

_PANEL = {"tiles": 16, "dots": 14}  # rows that are packed together
_SLICE = 16  # blocks of depth for which the right operand's panels stay in the first cache
_HELD = 16  # blocks of sums that wait for the next slice
_SUMS = 4 * 32 * COLUMNS  # bytes of a block of sums
_BUFFER = _HELD * _SUMS
_LEFT_BYTES = 1 << 20  # of the packed left operand; a few panels of it may be more
_FEWEST_PANELS = 8
_MOST_ROWS = 1 << 12  # of a left operand that is read where it lies
_CACHED = 1 << 20  # bytes of the left operand that a thread reads again for each block of columns
_NARROW = 128  # columns for which rows that do not begin with cache lines are not worth packing
_SHARES = 4  # pieces of work for each thread: one that starts late, or is slow, does less
_WORTH_PACKING = 3  # pieces of another thread for which its rows are packed once more
DEPTH = 1 << 14  # the deepest product for which packed panels stay small

# What threads are told, words of 8 bytes at the start of the scratch memory; then a counter for each, 64 bytes apart.
_FIELDS = {
    name: 8 * i
    for i, name in enumerate((
        "a", "b", "c", "d", "a_row", "a_column", "b_row", "b_column", "c_row", "c_column", "d_row", "d_column",
        "rows", "columns", "depth", "alpha", "beta", "reads", "direct", "panel", "rest", "slots", "room", "threads",
        "blocks", "chunk", "pieces", "deep", "slice",
    ))
}  # fmt: skip
_COUNTERS = 256


@functools.cache
def instructions() -> str | None:
    """What multiplies pairs here: "tiles" (AMX, if Linux lets this process use it), "dots" (AVX-512) or nothing."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    features = jit.cpu_features()
    if not all(features.get(f) for f in ("avx512f", "avx512bw", "avx512vl", "avx512bf16")):
        return None
    if features.get("amx-bf16") and amx.permitted():
        return "tiles"
    return "dots"


class _Threaded(Pairs):
    """A function that reads what it is to do from `%work`."""

    def __init__(self, name: str, parameters: list[str]):
        super().__init__(name, ["ptr %work", *parameters], Plan("f32", LANES))

    def field(self, name: str) -> Value:
        return self.load(self.at("%work", _FIELDS[name]), "i64")

    def place(self, name: str) -> str:
        """The pointer in a field."""
        return self.raw(f"load ptr, ptr {self.at('%work', _FIELDS[name])}, align 8")

    def divided(self, a: Value, b: Any) -> Value:
        return self.value(f"udiv i64 {a.name}, {b.name if isinstance(b, Value) else b}", "i64")


def _piece(kind: str) -> _Threaded:
    """piece(work, number, buffer, fresh rows, fresh columns): a block of columns of some rows, packed if fresh."""
    r = _Threaded("piece", ["i64 %number", "ptr %buffer", "i1 %fresh_rows", "i1 %fresh_columns"])
    depth, panel, tall, unit = r.field("depth"), r.field("panel"), ROWS[kind], _PANEL[kind]
    number, blocks = r.i64("%number"), r.field("blocks")
    chunk = r.divided(number, blocks)
    j = (number - chunk * blocks) * COLUMNS
    columns = minimum(r.field("columns") - j, COLUMNS)
    start = chunk * r.field("chunk")
    stop = minimum(start + r.field("chunk"), r.field("rows"))
    right = r.at("%buffer", _BUFFER)
    further = r.at(right, panel)
    left = r.at(further, panel)
    with r.when(Value(r, "%fresh_columns", "b1")):
        _pack_columns(r, right, further, j, columns)
    row = r.field("a_row")
    with r.when(Value(r, "%fresh_rows", "b1")), r.loop(start, stop, unit) as i:
        invoke(r, "pack_left", r.at(left, r.divided(i - start, unit) * panel), r.at(r.place("a"), i * row), row,
              r.field("a_column"), minimum(stop - i, unit), depth)  # fmt: skip
    c_row, c_column, d_row, d_column = (r.field(x) for x in ("c_row", "c_column", "d_row", "d_column"))
    c, d = r.at(r.place("c"), j * c_column), r.at(r.place("d"), j * d_column)
    alpha, beta = (r.load(r.at("%work", _FIELDS[x]), "f32").name for x in ("alpha", "beta"))
    reads = r.field("reads") != 0

    places = r.select(r.field("slice") < r.field("deep"), r.constant("i64", _HELD), r.constant("i64", 2))

    def buffer_of(i: Value) -> str:
        return r.at("%buffer", (r.divided(i - start, tall) & (places - 1)) * _SUMS)

    def save(i: Value, rows: Value) -> None:
        invoke(r, "save", buffer_of(i), r.at(c, i * c_row), c_row, c_column, r.at(d, i * d_row), d_row, d_column,
              rows, columns, ("float", alpha), ("float", beta), reads)  # fmt: skip

    with _loop(r, maximum(r.field("deep"), 1), r.field("slice")) as p:
        final = p + r.field("slice") >= r.field("deep")
        with r.loop(start, stop, tall) as i:
            panels = r.at(left, r.divided(i - start, unit) * panel)
            if kind == "tiles":
                _tiles(r, panels, right, further, i, minimum(stop - i, tall), columns, p, buffer_of(i))
            else:
                invoke(r, "dots", panels, right, further, depth, buffer_of(i))
            with r.when(final & (i > start)):  # sums are rounded while the next ones are computed
                save(i - tall, r.constant("i64", tall))
    last = start + r.divided(stop - start - 1, tall) * tall
    save(last, stop - last)
    return r


def _pack_columns(r: _Threaded, right: str, further: str, j: Value, columns: Value) -> None:
    depth, row, column = r.field("depth"), r.field("b_row"), r.field("b_column")
    source = r.at(r.place("b"), j * column)
    both, apart, end = r.label(), r.label(), r.label()
    r.branch_if((columns == COLUMNS) & (column == 2), both, apart)
    r.start_block(both)
    invoke(r, "pack_both", right, further, source, row, depth)
    r.branch(end)
    r.start_block(apart)
    invoke(r, "pack_right", right, source, column, row, minimum(columns, LANES), depth)
    with r.when(columns > LANES):
        invoke(r, "pack_right", further, r.at(source, column * LANES), column, row, columns - LANES, depth)
    r.branch(end)
    r.start_block(end)


def _tiles(
    r: _Threaded, panels: str, right: str, further: str, i: Value, rows: Value, columns: Value,
    p: Value, buffer: str,
) -> None:  # fmt: skip
    """A block of sums over a slice of the depth, which begins with block p, from panels or from a left operand that is
    read where it lies; the last rows of that and the end of its depth are in panels at `rest`."""
    depth, panel, row, direct = r.field("depth"), r.field("panel"), r.field("a_row"), r.field("direct") != 0
    rest = r.place("rest")
    here = direct & (i < (r.field("rows") & -32))
    packed = r.raw(f"select i1 {direct.name}, ptr {rest}, ptr {panels}")
    a = r.raw(f"select i1 {here.name}, ptr {r.at(r.place('a'), i * row)}, ptr {packed}")
    lower = r.at(a, r.select(here, row * LANES, panel))
    stride = r.select(here, row, r.constant("i64", 64))
    step = r.select(here, r.constant("i64", 64), r.constant("i64", TILE))
    final = p + r.field("slice") >= r.field("deep")
    tails = r.select(here & final & ((depth & 31) != 0), r.constant("i64", 1), r.constant("i64", 0))
    blocks = minimum(r.field("deep") - p, r.field("slice")) - tails
    right, further = r.at(right, p * TILE), r.at(further, p * TILE)
    tail = r.at(rest, panel * 2, i * 64)
    given = (r.at(a, p * step), r.at(lower, p * step), stride, step, right, further, blocks, tail, tails, buffer, p > 0)
    end = r.label()
    for high in (2, 1):
        for wide in (2, 1):
            yes, no = r.label(), r.label()
            r.branch_if((rows > LANES * (high - 1)) & (columns > LANES * (wide - 1)), yes, no)
            r.start_block(yes)
            invoke(r, f"tile_{high}_{wide}", *given)
            r.branch(end)
            r.start_block(no)
    r.branch(end)
    r.start_block(end)


def _share(kind: str) -> _Threaded:
    """share(work, slot): what one thread does: the pieces of its own share, then what the others have left of theirs."""
    r = _Threaded("share", ["i64 %slot"])
    if kind == "tiles":
        amx.configure(r)
    zero, one, threads, pieces = r.constant("i64", 0), r.constant("i64", 1), r.field("threads"), r.field("pieces")
    slot, blocks = r.i64("%slot"), r.field("blocks")
    buffer = r.at(r.place("slots"), slot * r.field("room"))
    held = [r.variable("i64"), r.variable("i64")]  # which rows and which columns are packed
    for slot_of in held:
        r.write(slot_of, "i64", r.constant("i64", -1))
    packs = r.field("direct") == 0
    with r.loop(zero, threads) as turn:
        owner = slot + turn
        owner = r.select(owner < threads, owner, owner - threads)
        first, stop = (r.divided(pieces * n, threads) for n in (owner, owner + one))
        counter = r.at("%work", _COUNTERS, owner * 64)
        head, ask, body, end = r.label(), r.label(), r.label(), r.label()
        r.branch(head)
        r.start_block(head)
        taken = r.value(f"load atomic i64, ptr {counter} monotonic, align 8", "i64")
        enough = r.select((turn > 0) & packs, r.constant("i64", _WORTH_PACKING), one)
        r.branch_if(first + taken + enough <= stop, ask, end)
        r.start_block(ask)
        number = first + r.value(f"atomicrmw add ptr {counter}, i64 1 monotonic", "i64")
        r.branch_if(number < stop, body, end)
        r.start_block(body)
        chunk = r.divided(number, blocks)
        block = number - chunk * blocks
        fresh_rows, fresh_columns = (n != r.read(h, "i64") for n, h in zip((chunk, block), held))
        invoke(r, "piece", "%work", number, buffer, fresh_rows & packs, fresh_columns)
        for n, slot_of in zip((chunk, block), held):
            r.write(slot_of, "i64", n)
        r.branch(head)
        r.start_block(end)
    if kind == "tiles":
        amx.release(r)
    return r


class _Main(Frame, Pairs):
    """The ufunc's loop: tells the threads what to do, item by item and block by block of rows."""

    def __init__(self, kind: str, added: bool):
        super().__init__(Plan("f32", LANES), 7 if added else 4)
        self.kind, self.added = kind, added
        self.zero = self.constant("i64", 0)
        self.work = self.aligned(self.pointer(5 if added else 2))
        self._body()

    def _tell(self, **fields: Any) -> None:
        for name, value in fields.items():
            kind = f"i64 {value.name}" if isinstance(value, Value) else f"ptr {value}"
            self.emit(f"store {kind}, ptr {self.at(self.work, _FIELDS[name])}, align 8")

    def _threads(self) -> tuple[str, Value]:
        """The pool's entry and how many threads to use; without data, one."""
        found, count = self.variable("i64"), self.variable("i64")
        self.write(found, "i64", self.zero)
        self.write(count, "i64", self.constant("i64", 1))
        with self.when(self.i64(self.raw("ptrtoint ptr %data to i64")) > NOT_NUMPY):
            self.write(found, "i64", self.word("%data", 1))
            self.write(count, "i64", self.word("%data", 2))
        return self.raw(f"inttoptr i64 {self.read(found, 'i64').name} to ptr"), self.read(count, "i64")

    def _run(self, threads: Value, run: str) -> None:
        several, alone, end = self.label(), self.label(), self.label()
        self.branch_if(threads > 1, several, alone)
        self.start_block(several)
        self.emit(f"call void {run}(ptr @share, ptr {self.work}, i64 {threads.name}, i64 {threads.name})")
        self.branch(end)
        self.start_block(alone)
        invoke(self, "share", self.work, self.zero)
        self.branch(end)
        self.start_block(end)

    def _body(self) -> None:
        added, kind = self.added, self.kind
        count = self.operands
        batch, m, k, n = (self.word("%dims", i) for i in range(4))
        outer = [self.word("%steps", i) for i in range(count)]
        core = [self.core(i) for i in range(9 if added else 7)]
        d_row, d_column = core[4:6] if added else core[-2:]
        run, threads = self._threads()
        panel = ((k + 31) & -32) * 32  # bytes of a packed panel, which has sixteen lanes
        panels = maximum(self.value(f"udiv i64 {_LEFT_BYTES}, {maximum(panel, 1).name}", "i64"), _FEWEST_PANELS) & -2
        rest = self.at(self.work, _COUNTERS, threads * 64)
        self._tell(
            a_row=core[0], a_column=core[1], b_row=core[2], b_column=core[3], c_row=core[-2], c_column=core[-1],
            d_row=d_row, d_column=d_column, columns=n, depth=k, panel=panel, rest=rest, threads=threads,
            slots=self.at(rest, panel * 2 + _MOST_ROWS * 64), room=panel * 2 + _BUFFER + panels * panel,
        )  # fmt: skip
        with self.loop(self.zero, batch) as item:
            a, b, c = (self.at(self.pointer(i), outer[i] * item) for i in (0, 1, count - 1))
            d = self.at(self.pointer(2), outer[2] * item) if added else c
            self._factors([self.at(self.pointer(i), outer[i] * item) for i in (3, 4)] if added else [])
            direct = self._in_place(a, core[0], core[1], n)
            with self.loop(self.zero, m, _MOST_ROWS) as first:
                rows, here = minimum(m - first, _MOST_ROWS), self.at(a, first * core[0])
                self._tell(
                    a=here, b=b, c=self.at(c, first * core[-2]), d=self.at(d, first * d_row), rows=rows,
                    direct=self.cast(direct, "i64"),
                )  # fmt: skip
                if kind == "tiles":
                    with self.when(direct):
                        self._pack_rest(here, rows, k, panel, rest, core)
                self._cut(rows, n, k, threads, direct, panels * _PANEL[kind])
                self._run(threads, run)
        self.clear_float_status()

    def _in_place(self, a: str, row: Value, column: Value, n: Value) -> Value:
        """Whether the left operand is read where it lies."""
        if self.kind != "tiles":
            return self.constant("b1", False)
        whole_lines = ((self.i64(self.raw(f"ptrtoint ptr {a} to i64")) | row) & 63) == 0
        return (column == 2) & (whole_lines | (n < _NARROW))

    def _factors(self, places: list[str]) -> None:
        alpha, beta, reads = "1.0", "1.0", self.zero
        if places:
            alpha, beta = (self.load(p, "f32").name for p in places)
            reads = self.cast(Value(self, self.raw(f"fcmp une float {beta}, 0.0"), "b1"), "i64")
        for name, value in (("alpha", alpha), ("beta", beta)):
            self.emit(f"store float {value}, ptr {self.at(self.work, _FIELDS[name])}, align 8")
        self._tell(reads=reads)

    def _pack_rest(self, a: str, rows: Value, k: Value, panel: Value, rest: str, core: list[Value]) -> None:
        """The last rows and the end of the depth, padded with zeros, of an operand that is read where it lies."""
        whole, (row, column) = rows & -32, core[:2]
        with self.loop(whole, rows, LANES) as i:
            invoke(self, "pack_left", self.at(rest, ((i - whole) >> 4) * panel), self.at(a, i * row), row, column,
                  minimum(rows - i, LANES), k)  # fmt: skip
        with self.when((k & 31) != 0), self.loop(self.zero, whole, LANES) as i:
            invoke(self, "pack_left", self.at(rest, panel * 2, i * 64), self.at(a, i * row, (k & -32) * 2), row, column,
                  self.constant("i64", LANES), k & 31)  # fmt: skip

    def _cut(self, rows: Value, n: Value, k: Value, threads: Value, direct: Value, most: Value) -> None:
        """Pieces of work: rows that stay in the cache, or `most` that are packed, and a block of columns."""
        tall, one = ROWS[self.kind], self.constant("i64", 1)

        def ceiling(a: Value, b: Value) -> Value:
            return self.value(f"udiv i64 {(a + b - 1).name}, {b.name}", "i64")

        blocks = ceiling(n, self.constant("i64", COLUMNS))
        cached = maximum(self.value(f"udiv i64 {_CACHED}, {maximum(k * 2, 1).name}", "i64"), 4 * tall)
        limit = self.select(direct, cached, _smaller(cached, most))
        deep = (k + 31) >> 5
        slice_ = maximum(deep, 1)
        if self.kind == "tiles":
            slice_ = ceiling(slice_, ceiling(slice_, self.constant("i64", _SLICE)))
            limit = self.select(slice_ < deep, minimum(limit, _HELD * tall), limit)
        wished = self.select(threads > 1, threads * _SHARES, one)
        # squares, roughly, if both operands have to be packed
        square = self.select(direct, one, _smaller(threads, ceiling(rows * 2, maximum(n, 1))))
        parts = _larger(_larger(ceiling(wished, maximum(blocks, 1)), square), ceiling(rows, limit))
        height = _smaller(maximum(ceiling(rows, parts), 2 * tall), limit)
        chunk = ceiling(height, self.constant("i64", tall)) * tall
        self._tell(blocks=blocks, chunk=chunk, pieces=ceiling(rows, chunk) * blocks, deep=deep, slice=slice_)
        with self.loop(self.zero, threads) as i:
            self.emit(f"store i64 0, ptr {self.at(self.work, _COUNTERS, i * 64)}, align 8")


def _larger(a: Value, b: Value) -> Value:
    return a.r.select(a > b, a, b)


def _smaller(a: Value, b: Value) -> Value:
    return a.r.select(a < b, a, b)


@contextmanager
def _loop(r: Pairs, stop: Value, step: Value) -> Iterator[Value]:
    """A loop from 0 whose step is known only at run time."""
    slot = r.variable("i64")
    r.write(slot, "i64", r.constant("i64", 0))
    head, body, end = r.label(), r.label(), r.label()
    r.branch(head)
    r.start_block(head)
    i = r.read(slot, "i64")
    r.branch_if(i < stop, body, end)
    r.start_block(body)
    yield i
    r.write(slot, "i64", i + step)
    r.branch(head)
    r.start_block(end)


@jit.rendered
def _kernel(kind: str, added: bool) -> str:
    sums = [tile(high, wide) for high in (1, 2) for wide in (1, 2)] if kind == "tiles" else [dots()]
    parts = [pack("pack_left", kind == "tiles"), pack("pack_right", False), pack_both(), *sums, store()]
    return joined([*parts, _piece(kind), _share(kind)], _Main(kind, added))


def gemm(kind: str, added: bool, depth: int, threads: int = 1, batches: int = 1) -> tuple[Any, int]:
    """The ufunc a, b, [d, alpha, beta,] scratch -> c over bits of bfloat16, and its scratch; see `gemm.gemm`.

    Either `threads` work on each product, or `batches` threads on parts of a batch.
    """
    size = scratch(depth, threads)
    return _ufunc(kind, added, threads) if batches == 1 else _batched(kind, added, size, batches), size * batches


@functools.cache
def _ufunc(kind: str, added: bool, threads: int) -> Any:
    address = _kernel(kind, added)
    data = None if threads == 1 else array("q", [address, pool.runner(), threads])
    return make_ufunc(f"gemm_bf16_{kind}", address, _inputs(added), ("bf16",), signature(added), data)


@functools.cache
def _batched(kind: str, added: bool, size: int, batches: int) -> Any:
    address = _kernel(kind, added)
    return on_grid(
        f"gemm_bf16_{kind}", address, _inputs(added), "bf16", added, size, (pool.EACH * batches, 1, 1), threads=batches
    )[0]


def _inputs(added: bool) -> tuple[str, ...]:
    return ("bf16", "bf16", "bf16", "f32", "f32", "u8") if added else ("bf16", "bf16", "u8")


def scratch(depth: int, threads: int) -> int:
    """Bytes of scratch that a product of this depth needs, in whole cache lines."""
    panel = -(-depth // 32) * 32 * 32
    panels = 2 + max(_LEFT_BYTES // max(panel, 1), _FEWEST_PANELS)
    return 64 + _COUNTERS + 64 * threads + 2 * panel + 64 * _MOST_ROWS + threads * (_BUFFER + panels * panel)
