"""Matrix products in machine code: packed panels and a register tile whose size follows from the CPU's vectors.

The kernel is a generalized ufunc over (m,k),(k,n)->(m,n), so that NumPy hands it any strides and any batch. Panels
of both operands are copied into scratch memory first; that is where transposes and conversions happen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import jit, pool
from .render_llvm import Llvm
from .streaming import prefetch
from .ufunc import make_ufunc
from .value import SIZE, Value

_SCALAR = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
_MEMORY = {"f16": "half", "bf16": "i16", "i8": "i8", "u8": "i8", "i16": "i16"} | _SCALAR
COMPUTE = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "i16": "i32"} | {t: t for t in _SCALAR}
_TOGETHER = 8  # panels that are packed together from long rows
_SMALL = 64 << 10  # bytes up to which a right operand may be read where it lies
_AHEAD = 8  # steps along the depth by which a tile asks for its right operand in advance


@functools.cache
def vectors() -> tuple[int, int]:
    """Width in bytes and number of the CPU's vector registers."""
    features = jit.cpu_features()
    if features.get("avx512f"):
        return 64, 32
    if features.get("avx"):
        return 32, 16
    return 16, 32 if features.get("neon") else 16


def lanes(type: str) -> int:
    return vectors()[0] // SIZE[type]


def tile(wide: int = 2) -> int:
    """The most rows of a register tile that is so many vectors wide; some registers are left for the operands."""
    return {2: 14, 3: 9, 4: 6}[wide] if vectors()[1] == 32 else 6


def depth() -> int:
    """The depth of packed blocks: a panel of the right operand stays near the first cache."""
    return max(256, 8 * vectors()[0])


@functools.cache
def strip_bytes() -> int:
    """Bytes of a packed strip of the right operand: it stays in the second cache, from where every tile reads it."""
    return max(128 << 10, min(jit.cache_size(2) or 1 << 20, 4 << 20) // 2)


def height(rows: int, wide: int = 2) -> int:
    """Rows of the tile that cuts `rows` into equal panels."""
    panels = -(-rows // tile(wide))
    return -(-rows // panels)


def cost(m: int, n: int, wide: int, lanes: int) -> float:
    """What a product's steps along the depth cost in tiles of a width, in multiplications.

    Lanes beyond the edges count like others. The fewer elements are loaded for a multiplication, the better: that
    is what limits a core whose units are shared.
    """
    rows, columns = height(m, wide), wide * lanes
    area = -(-m // rows) * rows * -(-n // columns) * columns
    return area * (1 + 0.15 * (1 / rows + 1 / wide))


@functools.lru_cache(4096)
def width(m: int, n: int, type: str) -> int:
    """How many vectors wide the tiles of an (m, n) product are best."""
    count = lanes(COMPUTE[type])
    return min((2, 3, 4) if vectors()[1] == 32 else (2,), key=lambda wide: cost(max(m, 1), max(n, 1), wide, count))


class _Plan:
    """Sizes of one kernel's tiles and blocks."""

    def __init__(self, type: str, rows: int, wide: int = 2):
        self.type, self.compute, self.rows, self.wide = type, COMPUTE[type], rows, wide
        self.result = self.compute if type in ("f16", "bf16") else type  # halves are rounded once, by the caller
        self.size, self.step, self.result_step = SIZE[self.compute], SIZE[type], SIZE[self.result]
        self.lanes = lanes(self.compute)
        self.columns = wide * self.lanes
        self.padded = -(-rows // self.lanes) * self.lanes  # a packed row of the left operand
        self.depth = depth()
        self.strip = max(1, strip_bytes() // (self.depth * self.columns * self.size)) * self.columns
        self.left_bytes = -(-rows * self.depth * self.size // 64) * 64  # one panel, which stays in the first cache
        self.right_bytes = self.strip * self.depth * self.size

    @property
    def scratch(self) -> int:
        return self.left_bytes + self.right_bytes + 64


class _Vectors(Llvm):
    """The renderer of scalars, with what tiles need: vectors of the compute type."""

    def __init__(self, name: str, parameters: list[str], plan: _Plan):
        super().__init__(name, parameters)
        self.plan = plan
        self.float = plan.compute[0] == "f"
        self.vector = f"<{plan.lanes} x {_SCALAR[plan.compute]}>"
        self.code = f"v{plan.lanes}{'f' if self.float else 'i'}{8 * plan.size}"

    def i64(self, name: str) -> Value:
        return Value(self, name, "i64")

    def at(self, pointer: str, *offset: Any) -> str:
        """A pointer some bytes further."""
        total = functools.reduce(lambda a, b: a + b, offset)
        return self.address(pointer, total if isinstance(total, Value) else self.constant("i64", total))

    def raw(self, text: str) -> str:
        return self.value(text, self.plan.compute).name

    def widened(self, name: str, count: int, kind: str = "") -> str:
        """Elements as they lie in memory, in the type that is computed in."""
        kind, compute = kind or self.plan.type, self.plan.compute
        shape = (lambda t: f"<{count} x {t}>") if count > 1 else (lambda t: t)
        if kind == compute:
            return name
        if kind == "f16":
            return self.raw(f"fpext {shape('half')} {name} to {shape('float')}")
        if kind == "bf16":
            wide = self.raw(f"zext {shape('i16')} {name} to {shape('i32')}")
            sixteen = "16" if count == 1 else "<" + ", ".join(["i32 16"] * count) + ">"
            high = self.raw(f"shl {shape('i32')} {wide}, {sixteen}")
            return self.raw(f"bitcast {shape('i32')} {high} to {shape('float')}")
        op = "zext" if kind[0] == "u" else "sext"
        return self.raw(f"{op} {shape(_MEMORY[kind])} {name} to {shape('i32')}")

    def load_elements(self, pointer: str, mask: str | None = None, type: str = "") -> str:
        """A vector of memory elements, widened; masked lanes are zero and their memory is not touched."""
        type = type or self.plan.type
        n, kind, align = self.plan.lanes, _MEMORY[type], SIZE[type]
        vector = f"<{n} x {kind}>"
        if mask is None:
            return self.widened(self.raw(f"load {vector}, ptr {pointer}, align {align}"), n, type)
        name = f"llvm.masked.load.v{n}{ {'half': 'f16', 'float': 'f32', 'double': 'f64'}.get(kind, kind) }.p0"
        self.declarations.add(f"declare {vector} @{name}(ptr, i32, <{n} x i1>, {vector})")
        loaded = self.raw(
            f"call {vector} @{name}(ptr {pointer}, i32 {align}, <{n} x i1> {mask}, {vector} zeroinitializer)"
        )
        return self.widened(loaded, n, type)

    def load_vector(self, pointer: str, aligned: bool = True) -> str:
        align = vectors()[0] if aligned else self.plan.size
        return self.raw(f"load {self.vector}, ptr {pointer}, align {align}")

    def store_vector(self, pointer: str, name: str, aligned: bool = True) -> None:
        align = vectors()[0] if aligned else self.plan.size
        self.emit(f"store {self.vector} {name}, ptr {pointer}, align {align}")

    def splat(self, scalar: str) -> str:
        first = self.raw(f"insertelement {self.vector} poison, {_SCALAR[self.plan.compute]} {scalar}, i64 0")
        zeros = f"<{self.plan.lanes} x i32> zeroinitializer"
        return self.raw(f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}")

    def lanes_below(self, count: Value) -> str:
        """The mask of the first `count` lanes."""
        n = self.plan.lanes
        first = self.raw(f"insertelement <{n} x i64> poison, i64 {count.name}, i64 0")
        all_ = self.raw(f"shufflevector <{n} x i64> {first}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
        numbers = "<" + ", ".join(f"i64 {i}" for i in range(n)) + ">"
        return self.raw(f"icmp sgt <{n} x i64> {all_}, {numbers}")

    def multiply(self, a: str, b: str) -> str:
        return self.raw(f"{'fmul' if self.float else 'mul'} {self.vector} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.raw(f"{'fadd' if self.float else 'add'} {self.vector} {a}, {b}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        if not self.float:
            return self.add(self.multiply(a, b), c)
        name = f"llvm.fma.{self.code}"
        self.declarations.add(f"declare {self.vector} @{name}({', '.join([self.vector] * 3)})")
        return self.raw(f"call {self.vector} @{name}({self.vector} {a}, {self.vector} {b}, {self.vector} {c})")

    def transpose(self, rows: list[str]) -> list[str]:
        """A square block of vectors with rows and columns exchanged: log2(lanes) rounds of shuffles of pairs."""
        n, rows = self.plan.lanes, list(rows)
        s = 1
        while s < n:
            for i in range(n):
                if i & s:
                    continue
                a, b = rows[i], rows[i + s]
                low = [lane if not lane & s else n + lane - s for lane in range(n)]
                high = [lane + s if not lane & s else n + lane for lane in range(n)]
                for at, picked in ((i, low), (i + s, high)):
                    mask = f"<{n} x i32> <" + ", ".join(f"i32 {lane}" for lane in picked) + ">"
                    rows[at] = self.raw(f"shufflevector {self.vector} {a}, {self.vector} {b}, {mask}")
            s *= 2
        return rows


def _minimum(a: Value, b: Any) -> Value:
    b = b if isinstance(b, Value) else a.r.constant("i64", b)
    return a.r.select(a < b, a, b)


# -- packing -----------------------------------------------------------------------------------------------------


_PACKED = ["ptr noalias %to", "ptr noalias %from", "i64 %lane", "i64 %step", "i64 %count", "i64 %depth"]


def _pack_left(plan: _Plan) -> _Vectors:
    """pack_left(to, from, lane stride, depth stride, lanes, depth): one panel of `plan.rows` lanes.

    The depth is cut into blocks as long as a vector; in each block the lanes follow each other. A matrix by rows, the
    common case, is so copied vector by vector. Lanes beyond the last repeat it or are zero: what is computed from them
    is never stored.
    """
    r = _Vectors("pack_left", _PACKED, plan)
    n, size, width = plan.lanes, plan.size, plan.rows
    lane, step, count, depth = (r.i64(f"%{x}") for x in ("lane", "step", "count", "depth"))
    zero, whole = r.constant("i64", 0), depth & -n
    by_lane, other, by_depth, by_element, end = (r.label() for _ in range(5))
    r.branch_if(step == plan.step, by_lane, other)

    r.start_block(by_lane)
    rest = r.lanes_below(depth - whole)
    with r.loop(zero, r.constant("i64", width)) as i:
        row, to = r.at("%from", _minimum(i, count - 1) * lane), r.at("%to", i * (n * size))
        with r.loop(zero, whole, n) as p:
            r.store_vector(r.at(to, p * (width * size)), r.load_elements(r.at(row, p * plan.step)))
        with r.when(whole < depth):
            r.store_vector(r.at(to, whole * (width * size)), r.load_elements(r.at(row, whole * plan.step), rest))
    r.branch(end)

    r.start_block(other)
    r.branch_if(lane == plan.step, by_depth, by_element)
    r.start_block(by_depth)
    groups = range(-(-width // n))
    full, part, after = r.label(), r.label(), r.label()
    r.branch_if(count == width, full, part)
    r.start_block(full)
    _turn_left(r, [None if (g + 1) * n <= width else r.lanes_below(r.constant("i64", width - g * n)) for g in groups])
    r.branch(after)
    r.start_block(part)
    _turn_left(r, [r.lanes_below(count - g * n) for g in groups])
    r.branch(after)
    r.start_block(after)
    _left_elements(r, whole)
    r.branch(end)

    r.start_block(by_element)
    _left_elements(r, zero)
    r.branch(end)
    r.start_block(end)
    return r


def _turn_left(r: _Vectors, masks: list[str | None]) -> None:
    """The lanes lie side by side: square blocks are transposed. The masks say which of them there are."""
    plan, n, size = r.plan, r.plan.lanes, r.plan.size
    for g, mask in enumerate(masks):
        with r.loop(r.constant("i64", 0), r.i64("%depth") & -n, n) as p:
            places = [r.at("%from", (p + d) * r.i64("%step"), g * n * plan.step) for d in range(n)]
            block = r.transpose([r.load_elements(place, mask) for place in places])
            for i, line in enumerate(block[: plan.rows - g * n]):
                r.store_vector(r.at("%to", p * (plan.rows * size), (g * n + i) * (n * size)), line)


def _left_elements(r: _Vectors, start: Value) -> None:
    """One by one, from a depth on: what is left of whole blocks, and any other strides."""
    plan, scalar, n, size = r.plan, _SCALAR[r.plan.compute], r.plan.lanes, r.plan.size
    lanes = r.constant("i64", plan.rows)
    with r.loop(start, r.i64("%depth")) as p, r.loop(r.constant("i64", 0), lanes) as i:
        place = r.at("%from", p * r.i64("%step"), _minimum(i, r.i64("%count") - 1) * r.i64("%lane"))
        element = r.widened(r.raw(f"load {_MEMORY[plan.type]}, ptr {place}, align {plan.step}"), 1)
        to = r.at("%to", (p & -n) * (plan.rows * size), i * (n * size) + (p & (n - 1)) * size)
        r.emit(f"store {scalar} {element}, ptr {to}, align {size}")


def left_steps(
    r: _Vectors, depth: Value, step: Callable[[Value, str], None], block: Callable[[Value], None] | None = None
) -> None:
    """step(p, place of the packed left operand's first lane; the others follow by a vector) for each p along the depth.

    Before each block of them comes block(its number).
    """
    n, size, rows = r.plan.lanes, r.plan.size, r.plan.rows
    whole = depth & -n
    with r.loop(r.constant("i64", 0), whole, n) as p:
        if block is not None:
            block(r.value(f"udiv i64 {p.name}, {n}", "i64"))
        first = r.at("%a", p * (rows * size))
        for u in range(n):
            step(p + u, r.at(first, u * size))
    first = r.at("%a", whole * (rows * size))
    with r.loop(whole, depth) as p:
        step(p, r.at(first, (p - whole) * size))


def _pack(plan: _Plan, name: str, width: int) -> _Vectors:
    """pack(to, from, lane stride, depth stride, lanes, depth): panels of `width` lanes, a few vectors, depth by depth.

    Lanes beyond the last repeat it or are zero: what is computed from them is never stored.
    """
    r = _Vectors(name, _PACKED, plan)
    lane, step, count, depth = (r.i64(f"%{n}") for n in ("lane", "step", "count", "depth"))
    zero = r.constant("i64", 0)
    side_by_side, other, end = r.label(), r.label(), r.label()
    r.branch_if(lane == plan.step, side_by_side, other)

    r.start_block(side_by_side)
    _copy_rows(r, width)
    r.branch(end)

    r.start_block(other)
    whole = r.select(step == plan.step, depth & -plan.lanes, zero)
    with r.loop(zero, count, width) as j:
        panel = r.at("%to", j * depth * plan.size)
        source, used = r.at("%from", j * lane), _minimum(count - j, width)
        _turn(r, panel, source, used, whole, width)
        _copy_elements(r, panel, source, used, whole, width)
    r.branch(end)
    r.start_block(end)
    return r


def _copy_rows(r: _Vectors, width: int) -> None:
    """Lanes lie side by side: rows are read a few panels at a time, whole ones first."""
    plan, n = r.plan, r.plan.lanes
    count, depth, zero = r.i64("%count"), r.i64("%depth"), r.constant("i64", 0)

    def copy(start: Value, panels: int, masks: list[str | None]) -> None:
        source, to = r.at("%from", start * plan.step), r.at("%to", start * depth * plan.size)
        targets = [r.at(to, depth * (q * width * plan.size)) for q in range(panels)]
        with r.loop(zero, depth) as p:
            row = r.at(source, p * r.i64("%step"))
            for q, target in enumerate(targets):
                for g, mask in enumerate(masks):
                    element = r.load_elements(r.at(row, (q * width + g * n) * plan.step), mask)
                    r.store_vector(r.at(target, p * (width * plan.size), g * n * plan.size), element)

    all_: list[str | None] = [None] * (width // n)
    several = count - r.value(f"urem i64 {count.name}, {width * _TOGETHER}", "i64")
    with r.loop(zero, several, width * _TOGETHER) as j:
        copy(j, _TOGETHER, all_)
    whole = count - r.value(f"urem i64 {count.name}, {width}", "i64")
    with r.loop(several, whole, width) as j:
        copy(j, 1, all_)
    with r.when(whole < count):
        copy(whole, 1, [r.lanes_below(count - whole - g * n) for g in range(width // n)])


def _turn(r: _Vectors, panel: str, source: str, used: Value, whole: Value, width: int) -> None:
    """The depth lies side by side: square blocks are transposed."""
    plan, n = r.plan, r.plan.lanes
    last = used - 1
    for g in range(0, width, n):
        starts = [r.at(source, _minimum(r.constant("i64", g + i), last) * r.i64("%lane")) for i in range(n)]
        with r.loop(r.constant("i64", 0), whole, n) as p:
            block = r.transpose([r.load_elements(r.at(start, p * plan.step)) for start in starts])
            for i, vector in enumerate(block):
                r.store_vector(r.at(panel, (p + i) * (width * plan.size), g * plan.size), vector)


def _copy_elements(r: _Vectors, panel: str, source: str, used: Value, start: Value, width: int) -> None:
    """One by one, from a depth on: what is left of whole blocks, and any other strides."""
    plan, scalar, zero = r.plan, _SCALAR[r.plan.compute], r.constant("i64", 0)
    with r.loop(start, r.i64("%depth")) as p:
        with r.loop(zero, used) as i:
            place = r.at(source, p * r.i64("%step"), i * r.i64("%lane"))
            element = r.widened(r.raw(f"load {_MEMORY[plan.type]}, ptr {place}, align {plan.step}"), 1)
            to = r.at(panel, p * (width * plan.size), i * plan.size)
            r.emit(f"store {scalar} {element}, ptr {to}, align {plan.size}")
        with r.loop(used, r.constant("i64", width)) as at:
            to = r.at(panel, p * (width * plan.size), at * plan.size)
            r.emit(f"store {scalar} zeroinitializer, ptr {to}, align {plan.size}")


# -- the register tile -------------------------------------------------------------------------------------------


def _tile(plan: _Plan) -> _Vectors:
    """tile(a, b, b step, depth, c, c strides, d, d strides, rows, columns, alpha, beta, read d, ahead, ahead step):
    c = alpha * (a panel @ b panel) [+ beta * d].

    Memory is asked for early: the place of the result, the right operand some steps on, and, once in a block of the
    depth, what will be packed next (`ahead`).
    """
    scalar = _SCALAR[plan.compute]
    r = _Vectors("tile", [
        "ptr noalias %a", "ptr noalias %b", "i64 %b_step", "i64 %depth", "ptr %c", "i64 %c_row", "i64 %c_column",
        "ptr %d", "i64 %d_row", "i64 %d_column", "i64 %rows", "i64 %columns",
        f"{scalar} %alpha", f"{scalar} %beta", "i1 %reads", "ptr %ahead", "i64 %ahead_step",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    slots = [[r.fresh() for _ in range(plan.wide)] for _ in range(plan.rows)]
    for slot in (s for row in slots for s in row):
        r.slots.append(f"  {slot} = alloca {r.vector}, align {vectors()[0]}")
        r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
    for i in range(plan.rows):
        prefetch(r, r.at("%c", r.i64("%c_row") * i), plan.columns * size, write=True)

    b_step = r.i64("%b_step")

    def step(p: Value, left: str) -> None:
        row = r.at("%b", p * b_step)
        right = [r.load_vector(r.at(row, v * n * size), aligned=False) for v in range(plan.wide)]
        prefetch(r, r.at(row, b_step * _AHEAD), plan.columns * size)
        for i in range(plan.rows):
            element = r.splat(r.raw(f"load {scalar}, ptr {r.at(left, i * n * size)}, align {size}"))
            for v in range(plan.wide):
                held = r.raw(f"load {r.vector}, ptr {slots[i][v]}")
                r.emit(f"store {r.vector} {r.multiply_add(element, right[v], held)}, ptr {slots[i][v]}")

    def block(number: Value) -> None:
        prefetch(r, r.at("%ahead", number * r.i64("%ahead_step")), 1)

    left_steps(r, r.i64("%depth"), step, block)
    alpha, beta = r.splat("%alpha"), r.splat("%beta")
    reads = Value(r, "%reads", "b1")
    c_column, d_column = r.i64("%c_column"), r.i64("%d_column")
    beside = (c_column == plan.result_step) & ((d_column == plan.result_step) | ~reads)
    below = (r.i64("%c_row") == plan.result_step) & ((r.i64("%d_row") == plan.result_step) | ~reads)
    full = beside & (r.i64("%rows") == plan.rows) & (r.i64("%columns") == plan.columns)
    edge, done = r.label(), r.label()
    inside = r.label()
    r.branch_if(full, inside, edge)

    r.start_block(inside)
    if plan.result == plan.compute:
        _store_full(r, slots, alpha, beta, reads)
    else:
        _store_edge(r, slots, beside, below)
    r.branch(done)
    r.start_block(edge)
    _store_edge(r, slots, beside, below)
    r.branch(done)
    r.start_block(done)
    return r


def _store_full(r: _Vectors, slots: list[list[str]], alpha: str, beta: str, reads: Value) -> None:
    n, size = r.plan.lanes, r.plan.size

    def each(value: Any) -> None:
        for i, row in enumerate(slots):
            for v, slot in enumerate(row):
                made = r.multiply(alpha, r.raw(f"load {r.vector}, ptr {slot}"))
                to = r.at("%c", r.i64("%c_row") * i, v * n * size)
                r.store_vector(to, value(i, v, made), aligned=False)

    def added(i: int, v: int, made: str) -> str:
        held = r.load_vector(r.at("%d", r.i64("%d_row") * i, v * n * size), aligned=False)
        return r.multiply_add(beta, held, made)

    yes, no, end = r.label(), r.label(), r.label()
    r.branch_if(reads, yes, no)
    r.start_block(yes)
    each(added)
    r.branch(end)
    r.start_block(no)
    each(lambda i, v, made: made)
    r.branch(end)
    r.start_block(end)


def _store_edge(r: _Vectors, slots: list[list[str]], beside: Value, below: Value) -> None:
    """Through memory: tiles at the edge of the result, and results that are not row-major or of a narrow type."""
    plan, n, size = r.plan, r.plan.lanes, r.plan.size
    buffer = r.fresh()
    r.slots.append(f"  {buffer} = alloca [{plan.padded * plan.columns} x {_SCALAR[plan.compute]}], align 64")

    def collect() -> None:
        for i, row in enumerate(slots):
            for v, slot in enumerate(row):
                held = r.raw(f"load {r.vector}, ptr {slot}")
                r.store_vector(r.at(buffer, (i * plan.columns + v * n) * size), held)

    def collect_turned() -> None:
        for v in range(plan.wide):
            for g in range(0, plan.padded, n):
                block = [r.raw(f"load {r.vector}, ptr {row[v]}") for row in slots[g : g + n]]
                block += ["zeroinitializer"] * (n - len(block))
                for q, vector in enumerate(r.transpose(block)):
                    r.store_vector(r.at(buffer, ((v * n + q) * plan.padded + g) * size), vector)

    if plan.result != plan.compute:
        collect()
        _store_elements(r, buffer)
        return
    rows, columns = r.i64("%rows"), r.i64("%columns")
    by_row, other, by_column, by_element, end = (r.label() for _ in range(5))
    r.branch_if(beside, by_row, other)
    r.start_block(by_row)
    collect()
    _store_rows(r, buffer, rows, columns, plan.columns, "row")
    r.branch(end)
    r.start_block(other)
    r.branch_if(below, by_column, by_element)
    r.start_block(by_column)
    collect_turned()
    _store_rows(r, buffer, columns, rows, plan.padded, "column")
    r.branch(end)
    r.start_block(by_element)
    collect()
    _store_elements(r, buffer)
    r.branch(end)
    r.start_block(end)


def _store_rows(r: _Vectors, buffer: str, count: Value, extent: Value, pitch: int, along: str) -> None:
    """The first `extent` elements of each of `count` lines of the buffer, which are rows or columns of the result."""
    plan, n, size = r.plan, r.plan.lanes, r.plan.size
    mask_type = f"<{n} x i1>"
    name = f"llvm.masked.store.{r.code}.p0"
    r.declarations.add(f"declare void @{name}({r.vector}, ptr, i32, {mask_type})")
    masks = [r.lanes_below(extent - g) for g in range(0, pitch, n)]
    alpha, beta = r.splat("%alpha"), r.splat("%beta")
    slot = r.fresh()
    r.slots.append(f"  {slot} = alloca {r.vector}, align {vectors()[0]}")
    with r.loop(r.constant("i64", 0), count) as i:
        for g, mask in enumerate(masks):
            made = r.multiply(alpha, r.load_vector(r.at(buffer, i * (pitch * size), g * n * size)))
            r.emit(f"store {r.vector} {made}, ptr {slot}")
            with r.when(Value(r, "%reads", "b1")):
                held = r.load_elements(r.at("%d", i * r.i64(f"%d_{along}"), g * n * size), mask, plan.result)
                r.emit(f"store {r.vector} {r.multiply_add(beta, held, made)}, ptr {slot}")
            to = r.at("%c", i * r.i64(f"%c_{along}"), g * n * size)
            value = r.raw(f"load {r.vector}, ptr {slot}")
            r.emit(f"call void @{name}({r.vector} {value}, ptr {to}, i32 {size}, {mask_type} {mask})")


def _store_elements(r: _Vectors, buffer: str) -> None:
    plan, scalar, size = r.plan, _SCALAR[r.plan.compute], r.plan.size
    multiply, add = ("fmul", "fadd") if r.float else ("mul", "add")
    memory = _MEMORY[plan.result]
    slot = r.variable(plan.compute)
    zero = r.constant("i64", 0)
    with r.loop(zero, r.i64("%rows")) as i, r.loop(zero, r.i64("%columns")) as j:
        held = r.raw(f"load {scalar}, ptr {r.at(buffer, i * (plan.columns * size), j * size)}, align {size}")
        made = r.raw(f"{multiply} {scalar} {held}, %alpha")
        r.emit(f"store {scalar} {made}, ptr {slot}")
        with r.when(Value(r, "%reads", "b1")):
            old = r.at("%d", i * r.i64("%d_row"), j * r.i64("%d_column"))
            wide = r.widened(r.raw(f"load {memory}, ptr {old}, align {plan.result_step}"), 1, plan.result)
            scaled = r.raw(f"{multiply} {scalar} {wide}, %beta")
            r.emit(f"store {scalar} {r.raw(f'{add} {scalar} {scaled}, {made}')}, ptr {slot}")
        to = r.at("%c", i * r.i64("%c_row"), j * r.i64("%c_column"))
        value = r.raw(f"load {scalar}, ptr {slot}")
        if plan.result_step < size:
            value = r.raw(f"trunc {scalar} {value} to {memory}")
        r.emit(f"store {memory} {value}, ptr {to}, align {plan.result_step}")


# -- the loops around it -----------------------------------------------------------------------------------------


def _main(plan: _Plan, added: bool) -> _Vectors:
    r = _Vectors("kernel", ["ptr noalias %args", "ptr noalias %dims", "ptr noalias %steps", "ptr %data"], plan)
    scalar, size = _SCALAR[plan.compute], plan.size
    zero = r.constant("i64", 0)

    def word(base: str, index: int) -> Value:
        return r.load(r.at(base, 8 * index), "i64")

    def pointer(index: int) -> str:
        return r.raw(f"load ptr, ptr {r.at('%args', 8 * index)}, align 8")

    # operands: a, b, [d, alpha, beta,] scratch, c
    count = 7 if added else 4
    batch, m, k, n = (word("%dims", i) for i in range(4))
    outer = [word("%steps", i) for i in range(count)]
    core = [word("%steps", count + i) for i in range(9 if added else 7)]
    a_row, a_column, b_row, b_column = core[:4]
    d_row, d_column = core[4:6] if added else (zero, zero)
    c_row, c_column = core[-2:]
    start = r.raw(f"ptrtoint ptr {pointer(count - 2)} to i64")
    aligned = (r.i64(start) + 63) & -64
    left = r.raw(f"inttoptr i64 {aligned.name} to ptr")
    right = r.at(left, plan.left_bytes)
    one = "1.0" if r.float else "1"
    by_rows = a_column == plan.step
    # a small right operand whose rows are whole tiles is read where it lies
    plain = r.constant("b1", plan.step == size) & (b_column == size) & (k <= plan.depth) & (k * n <= _SMALL // size)
    plain = plain & (r.value(f"urem i64 {n.name}, {plan.columns}", "i64") == 0)
    b_step = r.select(plain, b_row, r.constant("i64", plan.columns * size))
    next_row, next_step = r.select(by_rows, a_row, zero), r.select(by_rows, a_column * plan.lanes, zero)

    with r.loop(zero, batch) as item:
        a, b, c = (r.at(pointer(i), outer[i] * item) for i in (0, 1, count - 1))
        d = r.at(pointer(2), outer[2] * item) if added else c
        alpha, beta = one, one
        if added:
            alpha, beta = (
                r.raw(f"load {scalar}, ptr {r.at(pointer(i), outer[i] * item)}, align {size}") for i in (3, 4)
            )
            compare = "fcmp une" if r.float else "icmp ne"
            zero_text = "0.0" if r.float else "0"
            wanted = Value(r, r.raw(f"{compare} {scalar} {beta}, {zero_text}"), "b1")
        with r.loop(zero, n, plan.strip) as jc, r.loop(zero, _maximum(k, 1), plan.depth) as pc:
            depth, columns = _minimum(k - pc, plan.depth), _minimum(n - jc, plan.strip)
            first = pc == 0
            source = r.at(b, pc * b_row, jc * b_column)
            there = _either(r, plain, source, right)
            with r.when(~plain):
                _call(r, "pack_right", right, source, b_column, b_row, columns, depth)
            with r.loop(zero, m, plan.rows) as ic:
                rows = _minimum(m - ic, plan.rows)
                source = r.at(a, ic * a_row, pc * a_column)
                _call(r, "pack_left", left, source, a_row, a_column, rows, depth)
                # while a tile is computed, a row of the next panel comes nearer
                next_panel = _either(r, by_rows, r.at(source, a_row * plan.rows), left)
                with r.loop(zero, columns, plan.columns) as j:
                    to = r.at(c, ic * c_row, (jc + j) * c_column)
                    given = (to, c_row, c_column)
                    factor, reads = one, ~first
                    if added:
                        old = r.at(d, ic * d_row, (jc + j) * d_column)
                        given = tuple(_either(r, first, x, y) for x, y in zip((old, d_row, d_column), given))
                        factor = r.raw(f"select i1 {first.name}, {scalar} {beta}, {scalar} {one}")
                        reads = reads | wanted
                    ahead = r.at(next_panel, r.value(f"udiv i64 {j.name}, {plan.columns}", "i64") * next_row)
                    panel = r.at(there, j * r.select(plain, r.constant("i64", size), depth * size))
                    _call(r, "tile", left, panel, b_step, depth, to, c_row, c_column, *given, rows,
                          _minimum(columns - j, plan.columns), (scalar, alpha), (scalar, factor), reads,
                          ahead, next_step)  # fmt: skip
    if r.float:
        r.clear_float_status()
    return r


def _maximum(a: Value, b: int) -> Value:
    other = a.r.constant("i64", b)
    return a.r.select(a > other, a, other)


def _either(r: _Vectors, condition: Value, a: Any, b: Any) -> Any:
    if isinstance(a, Value):
        return r.select(condition, a, b)
    return r.raw(f"select i1 {condition.name}, ptr {a}, ptr {b}")


def _call(r: _Vectors, name: str, *args: Any) -> None:
    given = []
    for a in args:
        if isinstance(a, Value):
            given.append(f"{'i1' if a.type == 'b1' else 'i64'} {a.name}")
        else:
            given.append(f"ptr {a}" if isinstance(a, str) else f"{a[0]} {a[1]}")
    r.emit(f"call void @{name}({', '.join(given)})")


def render(plan: _Plan, added: bool) -> str:
    """LLVM text of the whole kernel."""
    return joined([_pack_left(plan), _pack(plan, "pack_right", plan.columns), _tile(plan)], _main(plan, added))


def joined(parts: list[Any], main: Any) -> str:
    """One module of several functions; those in `parts` are seen only inside it."""
    declarations = sorted(set().union(*[part.declarations for part in (*parts, main)]))
    texts = []
    for part in (*parts, main):
        part.declarations = set()
        text = part.text()
        if part is not main:
            text = text.replace("define void", "define internal void", 1).replace(" nounwind", " noinline nounwind", 1)
        texts.append(text)
    return "\n".join([*declarations, *texts])


def signature(added: bool) -> str:
    return "(m,k),(k,n),(m,n),(),(),(s)->(m,n)" if added else "(m,k),(k,n),(s)->(m,n)"


@functools.cache
def gemm(type: str, rows: int, added: bool, grid: tuple[int, int, int] = (1, 1, 1), wide: int = 2) -> tuple[Any, int]:
    """The ufunc a, b, [d, alpha, beta,] scratch -> c for a tile of so many rows and vectors, and its bytes of scratch.

    c = a @ b, or alpha * a @ b + beta * d. The scratch (uint8) is written to; each thread has its own. With `grid`, the
    batch, the rows and the columns are cut into so many parts, which run side by side.
    """
    plan = _Plan(type, rows, wide)
    address = jit.compile("kernel", render(plan, added))
    inner = (type, type, plan.result, plan.compute, plan.compute) if added else (type, type)
    name, units = f"gemm_{type}_{rows}x{wide}", (rows, plan.columns)
    return on_grid(name, address, (*inner, "u8"), plan.result, added, plan.scratch, grid, units)


def on_grid(
    name: str,
    address: int,
    inputs: tuple[str, ...],
    output: str,
    added: bool,
    scratch: int,
    grid: tuple[int, int, int],
    units: tuple[int, int] = (1, 1),
) -> tuple[Any, int]:
    """The ufunc of a product whose parts run side by side, cut at multiples of `units`, and the scratch of them all."""
    if grid == (1, 1, 1):
        return make_ufunc(name, address, inputs, (output,), signature(added)), scratch
    count = len(inputs) + 1
    own = -(-scratch // 64) * 64
    places = [(count, -1), (-1, count + 3), (-1, -1), (count + 5, count + 6)]  # strides of a, b, scratch, c
    if added:
        places[2:] = [(count + 4, count + 5), (-1, -1), (-1, -1), (-1, -1), (count + 7, count + 8)]
    loop, data = pool.gridded(address, places, count - 2, own, grid, units)
    made = make_ufunc(name, loop, inputs, (output,), signature(added), data)
    return made, own * grid[0] * grid[1] * grid[2]
