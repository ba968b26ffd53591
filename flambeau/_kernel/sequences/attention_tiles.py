"""What the attention kernels are made of: vectors of scores, register tiles over strided operands, turned blocks.

Scores are kept turned, (keys, queries): a vector holds one key's scores for neighbouring queries, so that maxima and
sums over the keys need nothing from neighbouring lanes, and keys and values are read where they lie.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..render.llvm import Llvm
from ..render.register_tiles import accumulators, add_lanes, add_products
from ..render.tiles import SCALAR, Vectors, by_lanes, minimum, vectors
from ..render.value import SIZE, Value, is_float

_TYPE = {"b1": "i1", "i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64", "f32": "float", "f64": "double"}
_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_UNROLL = 4


class Layout:
    """Sizes of the register tile: `rows` scalars of the left operand times `wide` vectors of the right one.

    A `narrow` one has half as many vectors: for as few queries as these hold.
    """

    def __init__(self, type: str, narrow: bool):
        self.type = self.compute = type
        self.narrow = narrow
        self.size = self.step = SIZE[type]
        width, registers = vectors()
        self.lanes = width // self.size
        # Short vectors come in more of them at a time: a scalar has to be spread before it multiplies.
        self.rows, self.wide = (4, 2) if registers < 32 else (4, 4) if width == 16 else (8, 2)
        if narrow:
            self.wide //= 2
        self.columns = self.wide * self.lanes
        self.unit = max(self.lanes, self.rows)  # of the widths of heads
        self.row = self.columns * self.size  # bytes of a row of a panel

    def __repr__(self) -> str:
        return f"Layout({self.type!r}, {self.narrow})"  # a part of kernels' keys


class Lanes:
    """A renderer of vectors: bodies over `Value`s of scalars, read with it, compute in all lanes at once."""

    rare_conditions = None

    def __init__(self, r: Llvm, count: int):
        self.r, self.count = r, count

    def type(self, type: str) -> str:
        return f"<{self.count} x {_TYPE[type]}>"

    def value(self, text: str, type: str) -> Value:
        return Value(self, self.r.value(text, type).name, type)

    def constant(self, type: str, number: Any) -> Value:
        one = self.r.constant(type, number).name
        return Value(self, "<" + ", ".join([f"{_TYPE[type]} {one}"] * self.count) + ">", type)

    def splat(self, scalar: str, type: str) -> Value:
        first = self.r.value(f"insertelement {self.type(type)} poison, {_TYPE[type]} {scalar}, i64 0", type).name
        zeros = f"<{self.count} x i32> zeroinitializer"
        return self.value(f"shufflevector {self.type(type)} {first}, {self.type(type)} poison, {zeros}", type)

    def numbers(self, type: str, start: int) -> Value:
        """Lanes start, start + 1, …"""
        names = ", ".join(f"{_TYPE[type]} {start + i}" for i in range(self.count))
        return Value(self, f"<{names}>", type)

    def binary(self, op: str, a: Value, b: Value, flags: str = "") -> Value:
        if is_float(a.type):
            op = "f" + op
        elif op == "shr":
            op = "ashr" if a.type[0] == "i" else "lshr"
        return self.value(f"{op} {flags}{self.type(a.type)} {a.name}, {b.name}", a.type)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        if is_float(a.type):
            text = f"fcmp {_COMPARE[op]}"
        else:
            text = f"icmp {op}" if op in ("eq", "ne") else f"icmp {'s' if a.type[0] == 'i' else 'u'}{op}"
        return self.value(f"{text} {self.type(a.type)} {a.name}, {b.name}", "b1")

    def select(self, c: Value, a: Value, b: Value) -> Value:
        t = self.type(a.type)
        return self.value(f"select {self.type('b1')} {c.name}, {t} {a.name}, {t} {b.name}", a.type)

    def negate(self, a: Value) -> Value:
        return self.value(f"fneg {self.type(a.type)} {a.name}", a.type)

    def intrinsic(self, name: str, *args: Value) -> Value:
        t, bits = self.type(args[0].type), 8 * SIZE[args[0].type]
        full = f"llvm.{ {'abs': 'fabs'}.get(name, name) }.v{self.count}f{bits}"
        self.r.declarations.add(f"declare {t} @{full}({', '.join([t] * len(args))})")
        return self.value(f"call {t} @{full}({', '.join(f'{t} {a.name}' for a in args)})", args[0].type)

    def rare(self, condition: Value, slow: Callable[[], Any], fast: Any, everywhere: bool = False) -> Any:
        return slow() if everywhere else self.select(condition, slow(), fast)

    def bitcast(self, a: Value, type: str) -> Value:
        if _TYPE[a.type] == _TYPE[type]:
            return Value(self, a.name, type)
        return self.value(f"bitcast {self.type(a.type)} {a.name} to {self.type(type)}", type)

    def cast(self, a: Value, type: str) -> Value:
        if a.type == type:
            return a
        return self.value(f"sitofp {self.type(a.type)} {a.name} to {self.type(type)}", type)


class Tiles(Vectors):
    """A function in the making over vectors as wide as the CPU's."""

    plan: Any

    def __init__(self, name: str, parameters: list[str], layout: Layout):
        super().__init__(name, parameters, layout)  # type: ignore[arg-type]
        self.lay = layout
        self.all = Lanes(self, layout.lanes)
        self.zero = self.constant("i64", 0)

    def take(self, pointer: str, aligned: bool = True) -> Value:
        return Value(self.all, self.load_vector(pointer, aligned), self.lay.type)

    def put(self, pointer: str, value: Value, aligned: bool = True) -> None:
        self.store_vector(pointer, value.name, aligned)

    def vector_slots(self, count: int) -> list[str]:
        """Places on the stack for vectors, which LLVM keeps in registers."""
        slots = [self.fresh() for _ in range(count)]
        self.slots += [f"  {slot} = alloca {self.vector}, align 64" for slot in slots]
        return slots

    def held(self, slot: str) -> Value:
        return Value(self.all, self.raw(f"load {self.vector}, ptr {slot}"), self.lay.type)

    def hold(self, slot: str, value: Value) -> None:
        self.emit(f"store {self.vector} {value.name}, ptr {slot}")

    def spread(self, pointer: str) -> Value:
        """A scalar in memory, in all lanes."""
        return self.all.splat(self.load(pointer, self.lay.type).name, self.lay.type)

    def number(self, x: float) -> Value:
        return self.all.constant(self.lay.type, x)

    def vectors_of(self, pointer: str) -> list[str]:
        """Where the vectors of a panel's row lie."""
        return [self.at(pointer, v * self.lay.lanes * self.lay.size) for v in range(self.lay.wide)]

    def each_vector(self) -> Any:
        """A loop over the vectors of a panel's row: the number of their first lane. For what is long to unroll."""
        return self.loop(self.zero, self.constant("i64", self.lay.columns), self.lay.lanes)

    def prefetch(self, pointer: str) -> None:
        """Asks for memory that will be read soon; any address will do."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def masked_store(self, pointer: str, value: Value, mask: str) -> None:
        name, mask_type = f"llvm.masked.store.{self.code}.p0", f"<{self.lay.lanes} x i1>"
        self.declarations.add(f"declare void @{name}({self.vector}, ptr, i32, {mask_type})")
        self.emit(
            f"call void @{name}({self.vector} {value.name}, ptr {pointer}, i32 {self.lay.size}, {mask_type} {mask})"
        )


# -- register tiles ------------------------------------------------------------------------------------------------


def _multiply(
    r: Tiles, slots: list[list[str]], scalar: Callable[[int, Value, int], str], neighbours: bool = False
) -> None:
    """slots[i] += scalar(i, p) * row p of %b, for every p below %depth; `neighbours` says that scalars of a row lie side by side."""
    lay, size = r.lay, r.lay.size
    depth, wide = r.i64("%depth"), len(slots[0])

    def right(p: Value) -> list[str]:
        source = r.at("%b", p * r.i64("%b_row"))
        return [r.load_vector(r.at(source, v * lay.lanes * size), aligned=False) for v in range(wide)]

    in_lanes = neighbours and by_lanes()
    unroll = lay.lanes if in_lanes else _UNROLL
    whole = depth & -unroll
    with r.loop(r.zero, whole, unroll) as p:
        left = [r.load_vector(scalar(i, p, 0), aligned=False) for i in range(len(slots))] if in_lanes else []
        for ahead in range(unroll):
            if in_lanes:
                add_lanes(r, slots, left, ahead, right(p + ahead))
            else:
                add_products(r, slots, lambda i: scalar(i, p, ahead), right(p + ahead))
    with r.loop(whole, depth) as p:
        add_products(r, slots, lambda i: scalar(i, p, 0), right(p))


def rows_tile(lay: Layout, name: str, wide: int) -> Tiles:
    """tile(a, a_row, b, b_row, depth, c, c_row, rows, adds): c[i] = or += sum over p of a[i, p] * b[p].

    Rows from `rows` on are neither read nor written; the elements of a row of `a` are neighbours.
    """
    r = Tiles(name, [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %b_row", "i64 %depth", "ptr noalias %c", "i64 %c_row",
        "i64 %rows", "i1 %adds",
    ], lay)  # fmt: skip
    size, last = lay.size, r.i64("%rows") - 1
    starts = [r.at("%a", minimum(r.constant("i64", i), last) * r.i64("%a_row")) for i in range(lay.rows)]
    slots = accumulators(r, lay.rows, wide)
    _multiply(r, slots, lambda i, p, ahead: r.at(r.at(starts[i], p * size), ahead * size), neighbours=True)

    def store(i: int, adds: bool) -> None:
        for v, slot in enumerate(slots[i]):
            to = r.at("%c", r.i64("%c_row") * i, v * lay.lanes * size)
            made = r.raw(f"load {r.vector}, ptr {slot}")
            if adds:
                made = r.add(made, r.load_vector(to, aligned=False))
            r.store_vector(to, made, aligned=False)

    def store_all(adds: bool) -> None:
        full, part, end = r.label(), r.label(), r.label()
        r.branch_if(r.i64("%rows") == lay.rows, full, part)
        r.start_block(full)
        for i in range(lay.rows):
            store(i, adds)
        r.branch(end)
        r.start_block(part)
        for i in range(lay.rows - 1):
            with r.when(r.i64("%rows") > i):
                store(i, adds)
        r.branch(end)
        r.start_block(end)

    _either(r, Value(r, "%adds", "b1"), lambda: store_all(True), lambda: store_all(False))
    return r


def columns_tile(lay: Layout) -> Tiles:
    """columns_tile(a, a_row, b, b_row, depth, c, c_row, factor, adds): c[i] = [factor * c[i] +] sum over p of
    a[p, i] * b[p]."""
    r = Tiles("columns_tile", [
        "ptr noalias %a", "i64 %a_row", "ptr noalias %b", "i64 %b_row", "i64 %depth", "ptr noalias %c", "i64 %c_row",
        "ptr noalias %factor", "i1 %adds",
    ], lay)  # fmt: skip
    size = lay.size
    slots = accumulators(r, lay.rows, lay.wide)
    _multiply(r, slots, lambda i, p, ahead: r.at(r.at("%a", (p + ahead) * r.i64("%a_row")), i * size))

    def store(adds: bool) -> None:
        factors = [r.load_vector(place) for place in r.vectors_of("%factor")] if adds else []
        for i, row in enumerate(slots):
            for v, slot in enumerate(row):
                to = r.at("%c", r.i64("%c_row") * i, v * lay.lanes * size)
                made = r.raw(f"load {r.vector}, ptr {slot}")
                if adds:
                    made = r.multiply_add(factors[v], r.load_vector(to), made)
                r.store_vector(to, made)

    _either(r, Value(r, "%adds", "b1"), lambda: store(True), lambda: store(False))
    return r


def _either(r: Tiles, condition: Value, first: Callable[[], None], second: Callable[[], None]) -> None:
    yes, no, end = r.label(), r.label(), r.label()
    r.branch_if(condition, yes, no)
    for label, body in ((yes, first), (no, second)):
        r.start_block(label)
        body()
        r.branch(end)
    r.start_block(end)


# -- turned blocks -------------------------------------------------------------------------------------------------


def turn(lay: Layout) -> Tiles:
    """turn(to, to_row, from, from_row, count, width, factor): to[d, i] = from[i, d] * factor for a panel of rows i;
    rows beyond `count` repeat the last. The width is a multiple of the lanes."""
    scalar = SCALAR[lay.type]
    r = Tiles("turn", [
        "ptr noalias %to", "i64 %to_row", "ptr noalias %from", "i64 %from_row", "i64 %count", "i64 %width",
        f"{scalar} %factor",
    ], lay)  # fmt: skip
    n, size, last = lay.lanes, lay.size, r.i64("%count") - 1
    factor = r.splat("%factor")
    with r.each_vector() as first:
        starts = [r.at("%from", minimum(first + i, last) * r.i64("%from_row")) for i in range(n)]
        with r.loop(r.zero, r.i64("%width"), n) as d:
            block = r.transpose([r.load_vector(r.at(start, d * size), aligned=False) for start in starts])
            for i, vector in enumerate(block):
                to = r.at("%to", (d + i) * r.i64("%to_row"), first * size)
                r.store_vector(to, r.multiply(vector, factor))
    return r


def turn_back(lay: Layout) -> Tiles:
    """turn_back(to, to_row, from, from_row, count, width, factor): to[i, d] = from[d, i] * factor[i] for the first
    `count` lanes i of a panel."""
    r = Tiles("turn_back", [
        "ptr noalias %to", "i64 %to_row", "ptr noalias %from", "i64 %from_row", "i64 %count", "i64 %width",
        "ptr noalias %factor",
    ], lay)  # fmt: skip
    n, size = lay.lanes, lay.size
    with r.each_vector() as first:
        factor = r.load_vector(r.at("%factor", first * size))
        with r.loop(r.zero, r.i64("%width"), n) as d:
            rows = [r.load_vector(r.at("%from", (d + i) * r.i64("%from_row"), first * size)) for i in range(n)]
            block = r.transpose([r.multiply(row, factor) for row in rows])
            for i, vector in enumerate(block):
                with r.when(r.i64("%count") > first + i):
                    to = r.at("%to", r.i64("%to_row") * (first + i), d * size)
                    r.store_vector(to, vector, aligned=False)
    return r


@functools.cache
def layout(type: str, narrow: bool = False) -> Layout:
    return Layout(type, narrow)
