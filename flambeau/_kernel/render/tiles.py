"""What tiles of products have in common: their sizes for the CPU's vectors, and the renderer with vectors of one type."""

from __future__ import annotations

import functools
import re
from typing import Any

from ..building import cpus, jit
from ..building.modules import SHARED
from .llvm import Llvm
from .value import SIZE, Value

SCALAR = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
MEMORY = {"f16": "half", "bf16": "i16", "i8": "i8", "u8": "i8", "i16": "i16"} | SCALAR
COMPUTE = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "i16": "i32"} | {t: t for t in SCALAR}


@functools.cache
def vectors() -> tuple[int, int]:
    """Width in bytes and number of the CPU's vector registers."""
    return cpus.vectors(jit.cpu_features())


def by_lanes() -> bool:
    """Whether multiplications take a lane of a vector as it is, while to spread a number in memory costs one of them."""
    return vectors() == (16, 32)


def lanes(type: str) -> int:
    return vectors()[0] // SIZE[type]


# The most rows of a register tile by its width in vectors; some registers are left for the operands.
_MOST_ROWS = {32: {2: 14, 3: 8, 4: 6, 6: 4, 8: 3}, 16: {2: 6, 4: 2, 8: 1}}
_DOUBLES = 24  # vectors of sums that NEON keeps in registers beside the operands: 28 take twice as long (one core, GFLOP/s: 17.7 and 8.7)
_NEAR = 16 << 10  # bytes that surely stay in the first cache
_IN_FLIGHT = 8  # multiplications that must go on side by side, as each waits for the one before it
TOGETHER = 8  # panels that are packed together from long rows
FEW = 16  # rows of a product that are too few to pack its right operand for


def tile(wide: int = 2, type: str = "f32") -> int:
    """The most rows of a register tile that is so many vectors wide."""
    most = _MOST_ROWS[vectors()[1]][wide]
    return min(most, _DOUBLES // wide) if by_lanes() and SIZE[COMPUTE[type]] == 8 else most


def depth() -> int:
    """The depth of packed blocks: a panel of the right operand stays near the first cache."""
    return max(256, 8 * vectors()[0])


@functools.cache
def strip_bytes() -> int:
    """Bytes of a packed strip of the right operand: it stays in the second cache, from where every tile reads it."""
    found = max(128 << 10, min(jit.cache_size(2) or 1 << 20, 4 << 20) // 2)
    jit.word("strip_bytes", found)
    return found


def height(rows: int, wide: int = 2, type: str = "f32") -> int:
    """Rows of the tile that cuts `rows` into equal panels."""
    panels = -(-rows // tile(wide, type))
    return -(-rows // panels)


def cost(m: int, n: int, wide: int, type: str) -> float:
    """What a product's steps along the depth cost in tiles of a width, in multiplications.

    Lanes beyond the edges count like others. The fewer elements are loaded for a multiplication, the better: that
    is what limits a core whose units are shared.
    """
    rows, columns = height(m, wide, type), wide * lanes(COMPUTE[type])
    area = -(-m // rows) * rows * -(-n // columns) * columns
    return area * (1 + 0.15 * (1 / rows + 1 / wide)) * max(1, _IN_FLIGHT / (rows * wide))


@functools.lru_cache(4096)
def width(m: int, n: int, type: str) -> int:
    """How many vectors wide the tiles of an (m, n) product are best."""
    m, n = max(m, 1), max(n, 1)
    widths = [w for w, rows in _MOST_ROWS[vectors()[1]].items() if w == 2 or rows >= min(m, 6)]
    return min(widths, key=lambda wide: cost(m, n, wide, type))


class Plan:
    """Sizes of one kernel's tiles and blocks.

    With `few`, the kernel is for products of at most `FEW` rows: these read the right operand where it lies.
    """

    def __init__(self, type: str, rows: int, wide: int = 2, few: bool = False):
        self.type, self.compute, self.rows, self.wide, self.few = type, COMPUTE[type], rows, wide, few
        self.result = self.compute if type in ("f16", "bf16") else type  # halves are rounded once, by the caller
        self.size, self.step, self.result_step = SIZE[self.compute], SIZE[type], SIZE[self.result]
        self.lanes = lanes(self.compute)
        self.columns = wide * self.lanes
        self.padded = -(-rows // self.lanes) * self.lanes  # a packed row of the left operand
        self.depth = depth()
        self.length = max(self.depth, _NEAR // (rows * self.size) & -64)  # of `rows` rows that stay in the first cache
        self.unit = self.depth * self.columns * self.size  # bytes of the narrowest strip
        self.strip = max(1, strip_bytes() // self.unit) * self.columns
        self.left_bytes = -(-rows * self.depth * self.size // 64) * 64  # one panel, which stays in the first cache
        self.right_bytes = self.strip * self.depth * self.size

    def strip_bytes_at_run_time(self, r: Any) -> Value:
        """The bytes of a strip, in a kernel: machines with other caches run the same code."""
        r.declarations.add("@strip_bytes = external global i64")
        return r.value("load i64, ptr @strip_bytes, align 8", "i64")

    @property
    def scratch(self) -> int:
        return self.left_bytes * (TOGETHER + 1) + self.right_bytes + 64


class Vectors(Llvm):
    """The renderer of scalars, with what tiles need: vectors of the compute type."""

    as_written = True
    shared = False  # whether kernels of many tiles have it in common, so that it is compiled apart from them however short it is

    def __init__(self, name: str, parameters: list[str], plan: Plan):
        super().__init__(name, parameters)
        self.plan = plan
        self.float = plan.compute[0] == "f"
        self.vector = f"<{plan.lanes} x {SCALAR[plan.compute]}>"
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
        return self.raw(f"{op} {shape(MEMORY[kind])} {name} to {shape('i32')}")

    def load_elements(self, pointer: str, mask: str | None = None, type: str = "") -> str:
        """A vector of memory elements, widened; masked lanes are zero and their memory is not touched."""
        type = type or self.plan.type
        n, kind, align = self.plan.lanes, MEMORY[type], SIZE[type]
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

    def store_elements(self, pointer: str, name: str, mask: str | None = None) -> None:
        """Writes a vector of the compute type anywhere; masked lanes leave memory as it is."""
        if mask is None:
            self.store_vector(pointer, name, aligned=False)
            return
        function, masks = f"llvm.masked.store.{self.code}.p0", f"<{self.plan.lanes} x i1>"
        self.declarations.add(f"declare void @{function}({self.vector}, ptr, i32, {masks})")
        self.emit(f"call void @{function}({self.vector} {name}, ptr {pointer}, i32 {self.plan.size}, {masks} {mask})")

    def splat(self, scalar: str) -> str:
        first = self.raw(f"insertelement {self.vector} poison, {SCALAR[self.plan.compute]} {scalar}, i64 0")
        zeros = f"<{self.plan.lanes} x i32> zeroinitializer"
        return self.raw(f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}")

    def lane(self, vector: str, number: int) -> str:
        """One element of a vector in all lanes."""
        mask = "<" + ", ".join([f"i32 {number}"] * self.plan.lanes) + ">"
        return self.raw(f"shufflevector {self.vector} {vector}, {self.vector} poison, <{self.plan.lanes} x i32> {mask}")

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


def minimum(a: Value, b: Any) -> Value:
    b = b if isinstance(b, Value) else a.r.constant("i64", b)
    return a.r.select(a < b, a, b)


def maximum(a: Value, b: int) -> Value:
    other = a.r.constant("i64", b)
    return a.r.select(a > other, a, other)


def either(r: Vectors, condition: Value, a: Any, b: Any) -> Any:
    if isinstance(a, Value):
        return r.select(condition, a, b)
    return r.raw(f"select i1 {condition.name}, ptr {a}, ptr {b}")


def invoke(r: Vectors, name: str, *args: Any) -> None:
    """A call of a function of the module, or of one that a value points to."""
    given = []
    for a in args:
        if isinstance(a, Value):
            given.append(f"{'i1' if a.type == 'b1' else 'i64'} {a.name}")
        else:
            given.append(f"ptr {a}" if isinstance(a, str) else f"{a[0]} {a[1]}")
    r.emit(f"call void {name if name[0] == '%' else f'@{name}'}({', '.join(given)})")


def _renumbered(text: str, first: int) -> str:
    """A function whose nodes of metadata have other numbers."""
    return re.sub(r"!(\d+)\b", lambda found: f"!{int(found[1]) + first}", text)


def joined(parts: list[Any], main: Any, as_written: bool = True) -> str:
    """One module of several functions; those in `parts` are seen only inside it. Those whose vectors are used again and again far from
    where they are made are not compiled `as_written`."""
    declarations = sorted(set().union(*[part.declarations for part in (*parts, main)]))
    texts, nodes = [], 0
    for part in (*parts, main):
        part.declarations, part.as_written = set(), as_written
        text = _renumbered(part.text(), nodes)
        nodes += len(part.metadata)
        if part is not main:
            apart = f"noinline {SHARED}" if getattr(part, "shared", False) else "noinline"
            text = text.replace("define void", "define internal void", 1).replace(" nounwind", f" {apart} nounwind", 1)
        texts.append(text)
    return "\n".join([*declarations, *texts])
