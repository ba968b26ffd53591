"""What kernels over register tiles share: sums that stay in registers while a tile is made, and the loop around tiles."""

from __future__ import annotations

from collections.abc import Callable

from .streaming import prefetch
from .tiles import SCALAR, Plan, Vectors, by_lanes, vectors
from .value import Value

AHEAD = 8  # steps along the depth by which a tile asks for its operands in advance


class Frame(Vectors):
    """The outermost function: a generalized ufunc's loop."""

    def __init__(self, plan: Plan, operands: int):
        super().__init__("kernel", ["ptr noalias %args", "ptr noalias %dims", "ptr noalias %steps", "ptr %data"], plan)
        self.operands = operands

    def word(self, base: str, index: int) -> Value:
        return self.load(self.at(base, 8 * index), "i64")

    def pointer(self, index: int) -> str:
        return self.raw(f"load ptr, ptr {self.at('%args', 8 * index)}, align 8")

    def operand(self, index: int, item: Value) -> str:
        start = self.pointer(index)
        return self.at(start, self.word("%steps", index) * item)

    def core(self, index: int) -> Value:
        return self.word("%steps", self.operands + index)

    def aligned(self, pointer: str) -> str:
        """The next place that begins with a cache line."""
        start = self.i64(self.raw(f"ptrtoint ptr {pointer} to i64"))
        return self.raw(f"inttoptr i64 {((start + 63) & -64).name} to ptr")


def accumulators(r: Vectors, rows: int, wide: int) -> list[list[str]]:
    """Sums of a tile, zero at first; LLVM keeps them in registers."""
    slots = [[r.fresh() for _ in range(wide)] for _ in range(rows)]
    for slot in (s for row in slots for s in row):
        r.slots.append(f"  {slot} = alloca {r.vector}, align {vectors()[0]}")
        r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
    return slots


def ask_ahead(r: Vectors, place: str, size: int, write: bool = False) -> None:
    """Asks for what a tile needs soon, unless the CPU foresees lines that follow each other by itself, as x86 does: there an
    instruction more takes the place of another, and threads that share a core share these places, too."""
    if by_lanes():
        prefetch(r, place, size, write)


def in_order(r: Vectors) -> None:
    """Keeps loads of the next step behind this one: LLVM otherwise fetches all factors of some steps first, which fills the
    registers and sends the rest to memory and back (float64 with AVX-512: half the speed). NEON's have room for both."""
    if not by_lanes():
        r.emit('call void asm sideeffect "", "~{memory}"()')


def accumulate(r: Vectors, slot: str, a: str, b: str) -> None:
    held = r.raw(f"load {r.vector}, ptr {slot}")
    r.emit(f"store {r.vector} {r.multiply_add(a, b, held)}, ptr {slot}")


def add_products(r: Vectors, slots: list[list[str]], left: Callable[[int], str], right: list[str]) -> None:
    """Adds to each row of sums its scalar, to which left(row) points, times the vectors on the right."""
    scalar, size = SCALAR[r.plan.compute], r.plan.size
    for i, row in enumerate(slots):
        factor = r.splat(r.raw(f"load {scalar}, ptr {left(i)}, align {size}"))
        for slot, vector in zip(row, right):
            accumulate(r, slot, factor, vector)


def add_lanes(r: Vectors, slots: list[list[str]], left: list[str], lane: int, right: list[str]) -> None:
    """Adds to each row of sums one lane of its vector on the left times the vectors on the right."""
    for row, vector in zip(slots, left):
        factor = r.lane(vector, lane)
        for slot, other in zip(row, right):
            accumulate(r, slot, factor, other)


def store_sums(r: Vectors, slots: list[list[str]], adds: Value) -> None:
    """c = the sums, or c + them."""
    n, size = r.plan.lanes, r.plan.size
    yes, no, end = r.label(), r.label(), r.label()
    r.branch_if(adds, yes, no)
    for label, added in ((yes, True), (no, False)):
        r.start_block(label)
        for i, row in enumerate(slots):
            for v, slot in enumerate(row):
                to = r.at("%c", r.i64("%c_row") * i, v * n * size)
                made = r.raw(f"load {r.vector}, ptr {slot}")
                made = r.add(made, r.load_vector(to, aligned=False)) if added else made
                r.store_vector(to, made, aligned=False)
        r.branch(end)
    r.start_block(end)
