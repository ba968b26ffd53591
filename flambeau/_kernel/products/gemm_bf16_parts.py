"""The parts of bfloat16 products: packing in pairs, a block of sums in tiles or vectors, rounding it into the result.

Both AMX tiles and AVX-512's dot products take a 32-bit lane for two neighbours along the depth.
"""

from __future__ import annotations

from ..render.tiles import Plan, Vectors, maximum, minimum
from ..render.value import Value

LANES = 16  # 32-bit lanes of a vector, and rows of a tile
COLUMNS = 32  # of the block that is computed at a time
ROWS = {"tiles": 32, "dots": 14}  # of that block: four accumulator tiles, or 28 accumulator vectors
TILE = 1024  # bytes of a packed block of 16 lanes and a depth of 32


class Pairs(Vectors):
    """Vectors of sixteen pairs of bfloat16."""

    def elements(self, pointer: str, count: int, mask: str | None) -> str:
        kind = f"<{count} x i16>"
        if mask is None:
            return self.raw(f"load {kind}, ptr {pointer}, align 2")
        name = f"llvm.masked.load.v{count}i16.p0"
        self.declarations.add(f"declare {kind} @{name}(ptr, i32, <{count} x i1>, {kind})")
        return self.raw(f"call {kind} @{name}(ptr {pointer}, i32 2, <{count} x i1> {mask}, {kind} zeroinitializer)")

    def below(self, limit: Value, count: int) -> str:
        """The mask of the first `limit` of `count` lanes."""
        short = self.raw(f"trunc i64 {minimum(limit, count).name} to i16")
        first = self.raw(f"insertelement <{count} x i16> poison, i16 {short}, i64 0")
        zeros = f"<{count} x i32> zeroinitializer"
        all_ = self.raw(f"shufflevector <{count} x i16> {first}, <{count} x i16> poison, {zeros}")
        numbers = "<" + ", ".join(f"i16 {i}" for i in range(count)) + ">"
        return self.raw(f"icmp sgt <{count} x i16> {all_}, {numbers}")

    def interleaved(self, low: str, high: str) -> str:
        """Two vectors of sixteen elements as pairs."""
        order = ", ".join(f"i32 {lane}, i32 {LANES + lane}" for lane in range(LANES))
        pairs = self.raw(f"shufflevector <16 x i16> {low}, <16 x i16> {high}, <32 x i32> <{order}>")
        return self.raw(f"bitcast <32 x i16> {pairs} to {self.vector}")


def pack(name: str, by_lane: bool) -> Pairs:
    """pack(to, from, lane stride, depth stride, lanes in use, depth): sixteen lanes, in blocks of 32 along the depth.

    A block is a tile of 1 KiB: a row for each lane if `by_lane`, otherwise a row for each pair. What lies beyond
    the depth is zero; lanes that are not in use repeat the last one or are zero.
    """
    r = Pairs(
        name, ["ptr noalias %to", "ptr noalias %from", "i64 %lane", "i64 %step", "i64 %used", "i64 %depth"],
        Plan("i32", LANES),
    )  # fmt: skip
    lane, step, used, depth = (r.i64(f"%{n}") for n in ("lane", "step", "used", "depth"))
    zero = r.constant("i64", 0)

    def save(rows: list[str], p: Value, turned: bool) -> None:
        for i, row in enumerate(r.transpose(rows) if turned else rows):
            r.store_vector(r.at("%to", p * 32, 64 * i), row)

    whole = depth & -32
    by_depth, by_lanes, by_element, end = r.label(), r.label(), r.label(), r.label()
    other = r.label()
    r.branch_if(step == 2, by_depth, other)
    r.start_block(other)
    r.branch_if(lane == 2, by_lanes, by_element)

    r.start_block(by_depth)
    last = used - 1
    starts = [r.at("%from", minimum(r.constant("i64", i), last) * lane) for i in range(LANES)]

    def rows_by_depth(p: Value, mask: str | None) -> None:
        rows = [r.elements(r.at(start, p * 2), 32, mask) for start in starts]
        save([r.raw(f"bitcast <32 x i16> {row} to {r.vector}") for row in rows], p, not by_lane)

    with r.loop(zero, whole, 32) as p:
        rows_by_depth(p, None)
    with r.loop(whole, depth, 32) as p:
        rows_by_depth(p, r.below(depth - p, 32))
    r.branch(end)

    r.start_block(by_lanes)

    def rows_by_lanes(p: Value, masked: bool) -> None:
        rows = []
        for pair in range(LANES):
            halves = []
            for half in range(2):
                q = p + (2 * pair + half)
                mask = r.below(r.select(q < depth, used, zero), LANES) if masked else None
                source = r.at("%from", (minimum(q, depth - 1) if masked else q) * step)
                halves.append(r.elements(source, LANES, mask))
            rows.append(r.interleaved(*halves))
        save(rows, p, by_lane)

    full = r.select(used == LANES, whole, zero)
    with r.loop(zero, full, 32) as p:
        rows_by_lanes(p, False)
    with r.loop(full, depth, 32) as p:
        rows_by_lanes(p, True)
    r.branch(end)

    r.start_block(by_element)
    padded = (depth + 31) & -32
    with r.loop(zero, r.constant("i64", LANES)) as i, r.loop(zero, padded) as p:
        slot = r.variable("i32")
        r.emit(f"store i16 0, ptr {slot}")
        with r.when((i < used) & (p < depth)):
            element = r.raw(f"load i16, ptr {r.at('%from', i * lane, p * step)}, align 2")
            r.emit(f"store i16 {element}, ptr {slot}")
        inside = p & 31
        row, column = (i * 64, inside * 2) if by_lane else ((inside >> 1) * 64, i * 4 + (inside & 1) * 2)
        to = r.at("%to", (p - inside) * 32, row + column)
        r.emit(f"store i16 {r.raw(f'load i16, ptr {slot}')}, ptr {to}, align 2")
    r.branch(end)
    r.start_block(end)
    return r


def pack_both() -> Pairs:
    """pack_both(to, further, from, depth stride, depth): 32 lanes that lie side by side, as two panels of pairs."""
    r = Pairs(
        "pack_both", ["ptr noalias %to", "ptr noalias %further", "ptr noalias %from", "i64 %step", "i64 %depth"],
        Plan("i32", LANES),
    )  # fmt: skip
    step, depth, zero = r.i64("%step"), r.i64("%depth"), r.constant("i64", 0)

    def save(low: str, high: str, p: Value) -> None:
        for v, base in enumerate(("%to", "%further")):
            order = ", ".join(f"i32 {lane}, i32 {2 * LANES + lane}" for lane in range(v * LANES, (v + 1) * LANES))
            pairs = r.raw(f"shufflevector <32 x i16> {low}, <32 x i16> {high}, <32 x i32> <{order}>")
            r.store_vector(r.at(base, p * 32), r.raw(f"bitcast <32 x i16> {pairs} to {r.vector}"))

    def row(p: Value) -> str:
        return r.elements(r.at("%from", p * step), 32, None)

    together = 8
    many, even = depth & -together, depth & -2
    with r.loop(zero, many, together) as p:
        for q in range(0, together, 2):
            save(row(p + q), row(p + (q + 1)), p + q)
    with r.loop(many, even, 2) as p:
        save(row(p), row(p + 1), p)
    with r.loop(even, depth, 2) as p:
        save(row(p), "zeroinitializer", p)
    with r.loop((depth + 1) & -2, (depth + 31) & -32, 2) as p:
        save("zeroinitializer", "zeroinitializer", p)
    return r


def tile(high: int, wide: int) -> Pairs:
    """tile(a, lower a, its row stride, its step, b, further b, blocks, tail, tails, buffer, more): 16 * high rows by
    16 * wide columns as float32 in the buffer, added to what is there if `more`.

    Blocks of depth 32 follow one another in `a` by its step, in `b` densely; `tails` (0 or 1) more of `a` are at `tail`.
    """
    r = Pairs(
        f"tile_{high}_{wide}",
        ["ptr %a", "ptr %lower", "i64 %row", "i64 %step", "ptr %b", "ptr %further", "i64 %blocks", "ptr %tail",
         "i64 %tails", "ptr %buffer", "i1 %more"],
        Plan("i32", LANES),
    )  # fmt: skip
    r.declarations |= {
        "declare void @llvm.x86.tilezero(i8)", "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tileloaddt164(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)", "declare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    }  # fmt: skip
    sums = {
        2 * i + j: r.at("%buffer", i * LANES * 4 * COLUMNS + j * 4 * LANES) for i in range(high) for j in range(wide)
    }

    def clear(t: int) -> None:
        r.emit(f"call void @llvm.x86.tilezero(i8 {t})")

    def load(t: int, pointer: str, stride: str, once: str = "d") -> None:
        r.emit(f"call void @llvm.x86.tileload{once}64(i8 {t}, ptr {pointer}, i64 {stride})")

    more = Value(r, "%more", "b1")
    with r.when(~more):
        for t in sums:
            clear(t)
    with r.when(more):
        for t, place in sums.items():
            load(t, place, str(4 * COLUMNS))

    def multiply(left: tuple[str, str], stride: str, p: Value) -> None:
        """Tiles are cleared after their last use: a core that runs two threads has hardly more tiles than those in
        use, and one that is zero takes none. Without that, loads wait for products (60 % more time)."""
        right = (r.at("%b", p * TILE), r.at("%further", p * TILE))
        for i in range(high):
            for j in range(wide):
                if i == 0:
                    load(6 + j, right[j], "64")
                if j == 0:
                    load(4 + i, left[i], stride, "dt1")  # past the first cache, where `b` is to stay
                r.emit(f"call void @llvm.x86.tdpbf16ps(i8 {2 * i + j}, i8 {4 + i}, i8 {6 + j})")
                if j == wide - 1:
                    clear(4 + i)
                if i == high - 1:
                    clear(6 + j)

    zero, blocks, step = r.constant("i64", 0), r.i64("%blocks"), r.i64("%step")
    with r.loop(zero, blocks) as p:
        multiply((r.at("%a", p * step), r.at("%lower", p * step)), "%row", p)
    with r.loop(zero, r.i64("%tails")):
        multiply(("%tail", r.at("%tail", TILE)), "64", blocks)
    for t, place in sums.items():
        r.emit(f"call void @llvm.x86.tilestored64(i8 {t}, ptr {place}, i64 {4 * COLUMNS})")
    return r


def dots() -> Pairs:
    """dots(a, b, further b, depth, buffer): 14 rows by 32 columns as float32 in the buffer."""
    r = Pairs("dots", ["ptr %a", "ptr %b", "ptr %further", "i64 %depth", "ptr %buffer"], Plan("f32", ROWS["dots"]))
    name, pairs = "llvm.x86.avx512bf16.dpbf16ps.512", "<32 x bfloat>"
    r.declarations.add(f"declare {r.vector} @{name}({r.vector}, {pairs}, {pairs})")
    slots = [[r.fresh() for _ in range(2)] for _ in range(ROWS["dots"])]
    for slot in (s for row in slots for s in row):
        r.slots.append(f"  {slot} = alloca {r.vector}, align 64")
        r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
    with r.loop(r.constant("i64", 0), (r.i64("%depth") + 31) & -32, 2) as p:
        right = [r.raw(f"load {pairs}, ptr {r.at(base, p * 32)}, align 64") for base in ("%b", "%further")]
        for i, row in enumerate(slots):
            pair = r.raw(f"load float, ptr {r.at('%a', p * 32, 4 * i)}, align 4")
            left = r.raw(f"bitcast {r.vector} {r.splat(pair)} to {pairs}")
            for v, slot in enumerate(row):
                held = r.raw(f"load {r.vector}, ptr {slot}")
                made = r.raw(f"call {r.vector} @{name}({r.vector} {held}, {pairs} {left}, {pairs} {right[v]})")
                r.emit(f"store {r.vector} {made}, ptr {slot}")
    for i, row in enumerate(slots):
        for v, slot in enumerate(row):
            r.store_vector(r.at("%buffer", 128 * i + 64 * v), r.raw(f"load {r.vector}, ptr {slot}"))
    return r


def _store_rows(r: Pairs, read: bool, whole: bool) -> None:
    """Rows of 32 elements side by side, or of fewer."""
    alpha, beta = r.splat("%alpha"), r.splat("%beta")
    columns, c_row, d_row = (r.i64(f"%{x}") for x in ("columns", "c_row", "d_row"))
    halves = [None, None] if whole else [r.below(columns, LANES), r.below(maximum(columns - LANES, 0), LANES)]
    mask = None if whole else r.below(columns, COLUMNS)
    name, order = "llvm.masked.store.v32i16.p0", ", ".join(f"i32 {i}" for i in range(COLUMNS))
    with r.loop(r.constant("i64", 0), r.i64("%rows")) as i:
        made = []
        for v, half in enumerate(halves):
            value = r.multiply(alpha, r.load_vector(r.at("%buffer", i * 4 * COLUMNS, 64 * v)))
            if read:
                held = r.widened(r.elements(r.at("%d", i * d_row, 32 * v), LANES, half), LANES, "bf16")
                value = r.multiply_add(beta, held, value)
            made.append(r.raw(f"fptrunc {r.vector} {value} to <16 x bfloat>"))
        both = r.raw(f"shufflevector <16 x bfloat> {made[0]}, <16 x bfloat> {made[1]}, <32 x i32> <{order}>")
        bits, to = r.raw(f"bitcast <32 x bfloat> {both} to <32 x i16>"), r.at("%c", i * c_row)
        if whole:
            r.emit(f"store <32 x i16> {bits}, ptr {to}, align 2")
        else:
            r.declarations.add(f"declare void @{name}(<32 x i16>, ptr, i32, <32 x i1>)")
            r.emit(f"call void @{name}(<32 x i16> {bits}, ptr {to}, i32 2, <32 x i1> {mask})")


def store() -> Pairs:
    """store(buffer, c, c strides, d, d strides, rows, columns, alpha, beta, read d): rounds a block into the result."""
    r = Pairs("save", [
        "ptr noalias %buffer", "ptr %c", "i64 %c_row", "i64 %c_column", "ptr %d", "i64 %d_row", "i64 %d_column",
        "i64 %rows", "i64 %columns", "float %alpha", "float %beta", "i1 %reads",
    ], Plan("f32", LANES))  # fmt: skip
    reads, zero = Value(r, "%reads", "b1"), r.constant("i64", 0)
    columns = r.i64("%columns")
    c_row, c_column, d_row, d_column = (r.i64(f"%{x}") for x in ("c_row", "c_column", "d_row", "d_column"))
    beside = (c_column == 2) & ((d_column == 2) | ~reads)
    vectors, elements, end = r.label(), r.label(), r.label()
    r.branch_if(beside, vectors, elements)

    r.start_block(vectors)
    full = columns == COLUMNS
    for read in (False, True):
        with r.when(reads if read else ~reads):
            for whole in (True, False):
                with r.when(full if whole else ~full):
                    _store_rows(r, read, whole)
    r.branch(end)

    r.start_block(elements)
    total = r.variable("f32")
    with r.loop(zero, r.i64("%rows")) as i, r.loop(zero, columns) as j:
        held = r.raw(f"load float, ptr {r.at('%buffer', i * 128, j * 4)}, align 4")
        made = r.raw(f"fmul float {held}, %alpha")
        r.emit(f"store float {made}, ptr {total}")
        with r.when(reads):
            old = r.load(r.at("%d", i * d_row, j * d_column), "bf16")
            scaled = r.raw(f"fmul float {old.name}, %beta")
            r.emit(f"store float {r.raw(f'fadd float {scaled}, {made}')}, ptr {total}")
        r.store(r.at("%c", i * c_row, j * c_column), "bf16", r.read(total, "f32"))
    r.branch(end)
    r.start_block(end)
    return r
