"""Attention and its gradient as two native functions that threads share: each takes the next piece of work that is
left. Scores exist only for a block of keys and a few queries at a time.

Both get a list of numbers and addresses (`FORWARD`, `BACKWARD` name them) and memory of their own to work in. Widths
of heads are multiples of the layout's `unit`, and the elements of a row are neighbours.
"""

from __future__ import annotations

import math
from typing import Any

from ..building import jit
from ..math.exponentials import exp_moderate
from ..render.symbols import symbols
from ..render.tiles import SCALAR, invoke, joined, maximum, minimum
from ..render.value import Value
from .attention_tiles import Layout, Tiles, columns_tile, rows_tile, turn, turn_back

KEYS = 128  # of a block; its scores and values stay near the first cache
CHUNK = 4  # panels of queries that are one piece of work
_PLACE = ("", "_batch", "_head", "_row")  # an array: its address, and the bytes between neighbours


def _places(*names: str) -> tuple[str, ...]:
    return tuple(name + part for name in names for part in _PLACE)


_COMMON = ("next", "team", "pieces", "heads", "group", "length", "keys", "width", "depth", "causal", "scale", "factor")
_MASK = (*_places("mask"), "mask_key", *_places("keep"))
FORWARD = (*_COMMON, *_places("q", "k", "v", "out", "total"), *_MASK)
BACKWARD = (*_COMMON, *_places("q", "k", "v", "out", "total", "g", "dq", "dk", "dv"), *_MASK)


class Main(Tiles):
    """The outermost function: numbers by name, and scratch memory cut into parts."""

    def __init__(self, lay: Layout, names: tuple[str, ...]):
        super().__init__("kernel", ["ptr %args", "ptr %dims", "ptr %steps", "ptr %data"], lay)
        self.words = self.raw("load ptr, ptr %args, align 8")
        given = self.raw(f"load ptr, ptr {self.at('%args', 8)}, align 8")
        start = self.i64(self.raw(f"ptrtoint ptr {given} to i64"))
        self.free = self.raw(f"inttoptr i64 {((start + 63) & -64).name} to ptr")
        self.member = self.load(self.at("%args", 16), "i64")
        self.number_of = {name: self.load(self.at(self.words, 8 * i), "i64") for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> Value:
        return self.number_of[name]

    def part(self, size: Any) -> str:
        """Some bytes of the scratch memory."""
        made, self.free = self.free, self.at(self.free, size)
        return made

    def place(self, name: str, batch: Value, head: Value) -> str:
        """Where the rows of a head begin."""
        offset = self[name] + batch * self[name + "_batch"] + head * self[name + "_head"]
        return self.raw(f"inttoptr i64 {offset.name} to ptr")

    def row(self, name: str, pointer: str, number: Any) -> str:
        return self.at(pointer, self[name + "_row"] * number)

    def pieces(self, work: Any) -> None:
        """Calls `work` with the number of each piece that no other thread has taken.

        Each member of the team begins with its own share, of which `next` has the first piece that is left, a cache line
        for each. So it gets the same heads again, which its core's cache may still hold.
        """
        team, zero = self["team"], self.constant("i64", 0)
        with self.loop(zero, team) as others:
            at = self.member + others
            owner = self.select(at < team, at, at - team)
            end = self.value(f"udiv i64 {(self['pieces'] * (owner + 1)).name}, {team.name}", "i64")
            counter = self.raw(f"inttoptr i64 {(self['next'] + owner * 64).name} to ptr")
            head, body, done = self.label(), self.label(), self.label()
            self.branch(head)
            self.start_block(head)
            piece = self.value(f"atomicrmw add ptr {counter}, i64 1 seq_cst", "i64")
            self.branch_if(piece < end, body, done)
            self.start_block(body)
            work(piece)
            self.branch(head)
            self.start_block(done)


def decay(x: Value) -> Value:
    """exp(x) for x <= 0, with zero for what would not be a normal number."""
    least = -87.3 if x.type == "f32" else -708.3
    return symbols.where(x < least, 0.0, exp_moderate(symbols, x))


def rounded(x: Value, short: str | None) -> Value:
    return symbols.rounded(x, short) if short else x


# -- blocks of scores ----------------------------------------------------------------------------------------------


def _hide(lay: Layout) -> Tiles:
    """hide(s, s_row, keys, offset): -inf for keys that come after a query; key 0 is `offset` before lane 0."""
    r = Tiles("hide", ["ptr noalias %s", "i64 %s_row", "i64 %keys", "i64 %offset"], lay)
    kind = "i32" if lay.type == "f32" else "i64"
    with r.loop(maximum(r.i64("%offset") + 1, 0), r.i64("%keys")) as k:
        first = r.all.splat(r.cast(k - r.i64("%offset"), kind).name, kind)
        for v, place in enumerate(r.vectors_of(r.at("%s", k * r.i64("%s_row")))):
            seen = r.all.numbers(kind, v * lay.lanes) >= first
            r.put(place, symbols.where(seen, r.take(place), -math.inf))
    return r


def _add_mask(lay: Layout) -> Tiles:
    """add_mask(s, s_row, keys, mask, m_query, m_key, count): s[k, i] += mask[i, k]; from `count` on, the last i."""
    r = Tiles("add_mask", [
        "ptr noalias %s", "i64 %s_row", "i64 %keys", "ptr noalias %mask", "i64 %m_query", "i64 %m_key", "i64 %count",
    ], lay)  # fmt: skip
    n, size, zero = lay.lanes, lay.size, r.zero
    keys, m_query, m_key, last = r.i64("%keys"), r.i64("%m_query"), r.i64("%m_key"), r.i64("%count") - 1
    alike, other, end = r.label(), r.label(), r.label()

    def add(k: Value, first: Any, value: Value) -> None:
        place = r.at("%s", k * r.i64("%s_row"), first * size)
        r.put(place, r.take(place) + value)

    r.branch_if(m_query == 0, alike, other)
    r.start_block(alike)
    with r.loop(zero, keys) as k:
        value = r.spread(r.at("%mask", k * m_key))
        for v in range(lay.wide):
            add(k, v * n, value)
    r.branch(end)

    r.start_block(other)
    whole = r.select(m_key == size, keys & -n, zero)
    with r.each_vector() as first:
        starts = [r.at("%mask", minimum(first + i, last) * m_query) for i in range(n)]
        with r.loop(zero, whole, n) as k:
            block = r.transpose([r.load_vector(r.at(start, k * size), aligned=False) for start in starts])
            for i, vector in enumerate(block):
                add(k + i, first, Value(r.all, vector, lay.type))
    buffer = r.local_array(lay.type, lay.columns)
    with r.loop(whole, keys) as k:
        with r.loop(zero, r.constant("i64", lay.columns)) as q:
            value = r.load(r.at("%mask", minimum(q, last) * m_query, k * m_key), lay.type)
            r.store(r.at(buffer, q * size), lay.type, value)
        for v, place in enumerate(r.vectors_of(buffer)):
            add(k, v * n, r.take(place))
    r.branch(end)
    r.start_block(end)
    return r


def _spread_keep(lay: Layout) -> Tiles:
    """spread_keep(to, to_row, keys, keep, k_row, count, factor): to[k, i] = factor where keep[i, k], a byte, is 1 and
    0 where it is 0; from `count` on, the last i. Whole vectors of keys are written."""
    n, scalar = lay.lanes, SCALAR[lay.type]
    r = Tiles("spread_keep", [
        "ptr noalias %to", "i64 %to_row", "i64 %keys", "ptr noalias %keep", "i64 %k_row", "i64 %count",
        f"{scalar} %factor",
    ], lay)  # fmt: skip
    keys, last, factor = r.i64("%keys"), r.i64("%count") - 1, r.splat("%factor")
    name, bytes_ = f"llvm.masked.load.v{n}i8.p0", f"<{n} x i8>"
    r.declarations.add(f"declare {bytes_} @{name}(ptr, i32, <{n} x i1>, {bytes_})")
    with r.each_vector() as first:
        starts = [r.at("%keep", minimum(first + i, last) * r.i64("%k_row")) for i in range(n)]
        with r.loop(r.zero, keys, n) as k:
            mask, rows = r.lanes_below(keys - k), []
            for start in starts:
                given = f"ptr {r.at(start, k)}, i32 1, <{n} x i1> {mask}, {bytes_} zeroinitializer"
                loaded = r.raw(f"call {bytes_} @{name}({given})")
                rows.append(r.raw(f"uitofp {bytes_} {loaded} to {r.vector}"))
            for i, vector in enumerate(r.transpose(rows)):
                to = r.at("%to", (k + i) * r.i64("%to_row"), first * lay.size)
                r.store_vector(to, r.multiply(vector, factor))
    return r


def _exponentials(lay: Layout, short: str | None, dropout: bool) -> Tiles:
    """exponentials(s, keys, high, total, factor[, kept]): scores to exp(score - high), with the running maximum and
    sum of each lane brought up to date; `factor` is what earlier results are to be multiplied by."""
    r = Tiles("exponentials", [
        "ptr noalias %s", "i64 %keys", "ptr noalias %high", "ptr noalias %total", "ptr noalias %factor",
        *(["ptr noalias %kept"] if dropout else []),
    ], lay)  # fmt: skip
    keys = r.i64("%keys")

    def greater(a: Value, b: Value) -> Value:  # a maximum of one instruction; NaN shows in the exponentials
        return symbols.where(a > b, a, b)

    slots = r.vector_slots(2 * lay.wide)
    highs, sums = slots[: lay.wide], slots[lay.wide :]

    before = [r.take(place) for place in r.vectors_of("%high")]
    for slot, value in zip(highs, before):
        r.hold(slot, value)
    whole = keys & -4
    with r.loop(r.zero, whole, 4) as k:
        rows = [[r.take(p) for p in r.vectors_of(r.at("%s", (k + i) * lay.row))] for i in range(4)]
        for slot, a, b, c, d in zip(highs, *rows):
            r.hold(slot, greater(greater(greater(a, b), greater(c, d)), r.held(slot)))
    with r.loop(whole, keys) as k:
        for slot, place in zip(highs, r.vectors_of(r.at("%s", k * lay.row))):
            r.hold(slot, greater(r.take(place), r.held(slot)))
    shifts = []
    for slot, sum_, old, high, factor in zip(highs, sums, before, r.vectors_of("%high"), r.vectors_of("%factor")):
        found = r.held(slot)
        shift = symbols.where(found == -math.inf, 0.0, found)  # nothing seen so far
        r.put(high, found)
        r.put(factor, decay(old - shift))
        r.hold(sum_, r.number(0.0))
        shifts.append(shift)
    with r.loop(r.zero, keys) as k:
        kept = r.vectors_of(r.at("%kept", k * lay.row)) if dropout else [""] * lay.wide
        for place, shift, sum_, keep in zip(r.vectors_of(r.at("%s", k * lay.row)), shifts, sums, kept):
            e = decay(r.take(place) - shift)
            r.put(place, e * r.take(keep) if dropout else rounded(e, short))
            r.hold(sum_, r.held(sum_) + e)
    for place, factor, sum_ in zip(r.vectors_of("%total"), r.vectors_of("%factor"), sums):
        r.put(place, symbols.fma(r.take(place), r.take(factor), r.held(sum_)))
    return r


def _shares(lay: Layout) -> Tiles:
    """shares(high, total, factor, to, count): factor = 1 / total, to = high + log(total) of the first lanes; for
    queries that saw nothing 0 and -inf."""
    r = Tiles("shares", [
        "ptr noalias %high", "ptr noalias %total", "ptr noalias %factor", "ptr noalias %to", "i64 %count",
    ], lay)  # fmt: skip
    parts = [r.vectors_of(f"%{name}") for name in ("high", "total", "factor", "to")]
    for v, (high, total, factor, to) in enumerate(zip(*parts)):
        t = r.take(total)
        r.put(factor, symbols.where(t == 0.0, 0.0, 1.0 / t))
        mask = r.lanes_below(r.i64("%count") - v * lay.lanes)
        r.masked_store(to, r.take(high) + symbols.log(t), mask)
    return r


# -- forward -------------------------------------------------------------------------------------------------------


def piece_of(r: Main, piece: Value, parts: Value) -> tuple[Value, Value, Value]:
    """The batch, the head and the part of a head that a piece of work is."""
    rest = r.value(f"udiv i64 {piece.name}, {parts.name}", "i64")
    batch = r.value(f"udiv i64 {rest.name}, {r['heads'].name}", "i64")
    return batch, rest - batch * r["heads"], piece - rest * parts


def float_of(r: Main, name: str) -> tuple[str, str]:
    """A number that is given as a double, as an argument."""
    return SCALAR[r.lay.type], r.cast(r.bitcast(r[name], "f64"), r.lay.type).name


def _forward(lay: Layout, dropout: bool) -> Main:
    r = Main(lay, FORWARD)
    size, row, columns = lay.size, r.constant("i64", lay.row), lay.columns
    chunk = CHUNK * columns
    length, keys, width, depth = (r[n] for n in ("length", "keys", "width", "depth"))
    causal, scale = r["causal"] != 0, float_of(r, "scale")
    high, total, factor = (r.part(lay.row) for _ in range(3))
    scores, turned, made = r.part(KEYS * lay.row), r.part(width * lay.row), r.part(depth * lay.row)
    kept = [r.part(KEYS * lay.row)] if dropout else []
    parts = r.value(f"udiv i64 {(length + (chunk - 1)).name}, {chunk}", "i64")
    no = r.constant("b1", False)

    def work(piece: Value) -> None:
        batch, head, part = piece_of(r, piece, parts)
        shared = r.value(f"udiv i64 {head.name}, {r['group'].name}", "i64")
        q, out, total_, mask, keep = (r.place(n, batch, head) for n in ("q", "out", "total", "mask", "keep"))
        k, v = (r.place(n, batch, shared) for n in ("k", "v"))
        first = (parts - 1 - part) * chunk  # the longest first
        with r.loop(first, minimum(length, first + chunk), columns) as q0:
            count = minimum(length - q0, columns)
            seen = r.select(causal, minimum(keys, q0 + count), keys)
            invoke(r, "turn", turned, row, r.row("q", q, q0), r["q_row"], count, width, scale)
            for places, start in ((r.vectors_of(high), -math.inf), (r.vectors_of(total), 0.0)):
                for place in places:
                    r.put(place, r.number(start))
            with r.loop(r.zero, seen, KEYS) as k0:
                n = minimum(seen - k0, KEYS)
                with r.loop(r.zero, n, lay.rows) as i:
                    source, to = r.row("k", k, k0 + i), r.at(scores, i * lay.row)
                    invoke(
                        r, "rows_tile", source, r["k_row"], turned, row, width, to, row, minimum(n - i, lay.rows), no
                    )
                _mask_scores(r, scores, row, n, q0, k0, count, mask, causal)
                for to in kept:
                    source = r.at(r.row("keep", keep, q0), k0)
                    invoke(r, "spread_keep", to, row, n, source, r["keep_row"], count, float_of(r, "factor"))
                invoke(r, "exponentials", scores, n, high, total, factor, *kept)
                with r.loop(r.zero, depth, lay.rows) as d:
                    source, to = r.at(r.row("v", v, k0), d * size), r.at(made, d * lay.row)
                    invoke(r, "columns_tile", source, r["v_row"], scores, row, n, to, row, factor, k0 > 0)
            invoke(r, "shares", high, total, factor, r.at(total_, q0 * size), count)
            invoke(r, "turn_back", r.row("out", out, q0), r["out_row"], made, row, count, depth, factor)

    r.pieces(work)
    r.clear_float_status()
    return r


def _mask_scores(
    r: Main, scores: str, row: Value, n: Value, q0: Value, k0: Value, count: Value, mask: str, causal: Value
) -> None:
    with r.when(r["mask"] != 0):
        source = r.at(mask, q0 * r["mask_row"], k0 * r["mask_key"])
        invoke(r, "add_mask", scores, row, n, source, r["mask_row"], r["mask_key"], count)
    with r.when(causal):
        invoke(r, "hide", scores, row, n, q0 - k0)


# -- backward ------------------------------------------------------------------------------------------------------


def _slopes(lay: Layout, short: str | None, dropout: bool) -> Tiles:
    """slopes(s, g, row, keys, level, inner, scale[, kept]): scores to shares p = exp(score - level), and their gradients to
    those by the scores, p * (g - inner) * scale. For 16-bit floats both are rounded and the scale is left out."""
    scalar = SCALAR[lay.type]
    r = Tiles("slopes", [
        "ptr noalias %s", "ptr noalias %g", "i64 %row", "i64 %keys", "ptr noalias %level", "ptr noalias %inner",
        f"{scalar} %scale", *(["ptr noalias %kept"] if dropout else []),
    ], lay)  # fmt: skip
    levels, inners = ([r.take(p) for p in r.vectors_of(name)] for name in ("%level", "%inner"))
    scale = r.all.splat("%scale", lay.type)
    with r.loop(r.zero, r.i64("%keys")) as k:
        offset = k * r.i64("%row")
        at_scores, at_slopes = (r.vectors_of(r.at(name, offset)) for name in ("%s", "%g"))
        kept = r.vectors_of(r.at("%kept", offset)) if dropout else [""] * lay.wide
        for at_score, at_slope, level, inner, keep in zip(at_scores, at_slopes, levels, inners, kept):
            p, g = decay(r.take(at_score) - level), r.take(at_slope)
            if dropout:
                factor = r.take(keep)
                g = g * factor
            slope = p * (g - inner)
            r.put(at_score, p * factor if dropout else rounded(p, short))
            r.put(at_slope, rounded(slope, short) if short else slope * scale)
    return r


def _levels(lay: Layout) -> Tiles:
    """levels(level, inner, total, g, g_row, out, out_row, count, room, depth): for each of `count` queries its
    logarithm of the sum, and the product of its row of g with its row of the result; after them, and for queries
    that saw nothing, a level at which every share is zero."""
    r = Tiles("levels", [
        "ptr noalias %level", "ptr noalias %inner", "ptr noalias %total", "ptr noalias %g", "i64 %g_row",
        "ptr noalias %out", "i64 %out_row", "i64 %count", "i64 %room", "i64 %depth",
    ], lay)  # fmt: skip
    size, scalar, count = lay.size, SCALAR[lay.type], r.i64("%count")
    name = f"llvm.vector.reduce.fadd.{r.code}"
    r.declarations.add(f"declare {scalar} @{name}({scalar}, {r.vector})")
    slot = r.fresh()
    r.slots.append(f"  {slot} = alloca {r.vector}, align 64")
    with r.loop(r.zero, count) as i:
        total = r.load(r.at("%total", i * size), lay.type)
        r.store(r.at("%level", i * size), lay.type, symbols.where(total == -math.inf, math.inf, total))
        r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
        with r.loop(r.zero, r.i64("%depth"), lay.lanes) as d:
            a = r.load_vector(r.at("%g", i * r.i64("%g_row"), d * size), aligned=False)
            b = r.load_vector(r.at("%out", i * r.i64("%out_row"), d * size), aligned=False)
            held = r.raw(f"load {r.vector}, ptr {slot}")
            r.emit(f"store {r.vector} {r.multiply_add(a, b, held)}, ptr {slot}")
        zero = r.constant(lay.type, -0.0).name
        held = r.raw(f"load {r.vector}, ptr {slot}")
        made = r.raw(f"call reassoc {scalar} @{name}({scalar} {zero}, {r.vector} {held})")
        r.store(r.at("%inner", i * size), lay.type, Value(r, made, lay.type))
    with r.loop(count, r.i64("%room")) as i:
        r.store(r.at("%level", i * size), lay.type, r.constant(lay.type, math.inf))
        r.store(r.at("%inner", i * size), lay.type, r.constant(lay.type, 0.0))
    return r


def _clear(lay: Layout) -> Tiles:
    """clear(to, row, count, width): rows of zeros."""
    r = Tiles("clear", ["ptr noalias %to", "i64 %row", "i64 %count", "i64 %width"], lay)
    with r.loop(r.zero, r.i64("%count")) as i, r.loop(r.zero, r.i64("%width"), lay.lanes) as d:
        r.put(r.at("%to", i * r.i64("%row"), d * lay.size), r.number(0.0), aligned=False)
    return r


def pitch(lay: Layout) -> int:
    """Bytes between rows of the blocks of a chunk of queries; not a power of two, for the sake of the caches."""
    return CHUNK * lay.row + 64


def _backward(lay: Layout, short: str | None, dropout: bool) -> Main:
    r = Main(lay, BACKWARD)
    size, row, columns = lay.size, r.constant("i64", pitch(lay)), lay.columns
    chunk = CHUNK * columns
    length, keys, width, depth = (r[n] for n in ("length", "keys", "width", "depth"))
    causal, scale = r["causal"] != 0, float_of(r, "scale")
    level, inner, ones, last = (r.part(pitch(lay)) for _ in range(4))
    scores, slopes = r.part(KEYS * pitch(lay)), r.part(KEYS * pitch(lay))
    q_turned, g_turned, dq_turned = (r.part(n * pitch(lay)) for n in (width, depth, width))
    kept = [r.part(KEYS * pitch(lay))] if dropout else []
    no, one = r.constant("b1", False), (scale[0], r.constant(lay.type, 1.0).name)
    for place in r.vectors_of(ones):
        r.put(place, r.number(1.0))
    for place in r.vectors_of(last):
        r.store_vector(place, r.splat(scale[1]) if short else r.number(1.0).name)

    def panel(j: Value, q0: Value, k0: Value, n: Value, k: str, v: str, mask: str, keep: str, nq: Value) -> None:
        """Scores and slopes of a panel of queries, and what they add to dq."""
        at = j * size
        count = minimum(nq - j, columns)
        s, g = r.at(scores, at), r.at(slopes, at)
        with r.loop(r.zero, n, lay.rows) as i:
            rows = minimum(n - i, lay.rows)
            for source, step, turned, inner_, to in (
                (r.row("k", k, k0 + i), r["k_row"], q_turned, width, s),
                (r.row("v", v, k0 + i), r["v_row"], g_turned, depth, g),
            ):
                target = r.at(to, i * row)
                invoke(r, "rows_tile", source, step, r.at(turned, at), row, inner_, target, row, rows, no)
        _mask_scores(r, s, row, n, q0 + j, k0, count, mask, causal)
        for to in kept:
            source = r.at(r.row("keep", keep, q0 + j), k0)
            invoke(r, "spread_keep", r.at(to, at), row, n, source, r["keep_row"], count, float_of(r, "factor"))
        invoke(r, "slopes", s, g, row, n, r.at(level, at), r.at(inner, at), scale, *[r.at(to, at) for to in kept])
        with r.loop(r.zero, width, lay.rows) as d:
            source, to = r.at(r.row("k", k, k0), d * size), r.at(dq_turned, d * row, at)
            invoke(r, "columns_tile", source, r["k_row"], g, row, n, to, row, ones, k0 > 0)

    def by_keys(blocks: Any, k0: Value, q0: Value, n: Value, nq: Value) -> None:
        """What a block adds to dk and dv."""
        with r.loop(r.zero, n, lay.rows) as i:
            ahead = maximum(k0 + i - q0, 0) & -columns
            start = r.select(causal, ahead, r.zero)
            rows = minimum(n - i, lay.rows)
            for block, name, right, target, to_name, extent in blocks:
                left = r.at(block, i * row, start * size)
                source, to = r.row(name, right, q0 + start), r.row(to_name, target, k0 + i)
                args = (left, row), (r[name + "_row"], nq - start), (r[to_name + "_row"], rows, r.constant("b1", True))
                whole = extent & -columns

                def product(tile: str, d: Value, args: Any = args, source: str = source, to: str = to) -> None:
                    invoke(r, tile, *args[0], r.at(source, d * size), *args[1], r.at(to, d * size), *args[2])

                with r.loop(r.zero, whole, columns) as d:
                    product("rows_tile", d)
                with r.loop(whole, extent, lay.lanes) as d:
                    product("narrow_tile", d)

    def work(piece: Value) -> None:
        batch, shared, _ = piece_of(r, piece, r.constant("i64", 1))
        k, v, dk, dv = (r.place(n, batch, shared) for n in ("k", "v", "dk", "dv"))
        invoke(r, "clear", dk, r["dk_row"], keys, width)
        invoke(r, "clear", dv, r["dv_row"], keys, depth)
        with r.loop(r.zero, r["group"]) as member, r.loop(r.zero, length, chunk) as q0:
            head = shared * r["group"] + member
            q, g, out, dq = (r.place(x, batch, head) for x in ("q", "g", "out", "dq"))
            total, mask, keep = (r.place(x, batch, head) for x in ("total", "mask", "keep"))
            nq = minimum(length - q0, chunk)
            invoke(r, "levels", level, inner, r.at(total, q0 * size), r.row("g", g, q0), r["g_row"],
                  r.row("out", out, q0), r["out_row"], nq, r.constant("i64", chunk), depth)  # fmt: skip
            with r.loop(r.zero, nq, columns) as j:
                count = minimum(nq - j, columns)
                for name, source, to, extent, factor in (
                    ("q", q, q_turned, width, scale), ("g", g, g_turned, depth, one),
                ):  # fmt: skip
                    invoke(r, "turn", r.at(to, j * size), row, r.row(name, source, q0 + j), r[name + "_row"], count,
                          extent, factor)  # fmt: skip
            seen = r.select(causal, minimum(keys, q0 + nq), keys)
            with r.loop(r.zero, seen, KEYS) as k0:
                n = minimum(seen - k0, KEYS)
                with r.loop(r.zero, nq, columns) as j:
                    limit = r.select(causal, minimum(n, q0 + j + columns - k0), n)
                    with r.when(limit > 0):
                        panel(j, q0, k0, limit, k, v, mask, keep, nq)
                blocks = (slopes, "q", q, dk, "dk", width), (scores, "g", g, dv, "dv", depth)
                by_keys(blocks, k0, q0, n, nq)
            with r.loop(r.zero, nq, columns) as j:
                invoke(r, "turn_back", r.row("dq", dq, q0 + j), r["dq_row"], r.at(dq_turned, j * size), row,
                      minimum(nq - j, columns), width, last)  # fmt: skip

    r.pieces(work)
    r.clear_float_status()
    return r


# -- compiled ------------------------------------------------------------------------------------------------------


def forward_scratch(lay: Layout, width: int, depth: int, dropout: bool) -> int:
    """Bytes that a thread needs."""
    return (3 + KEYS * (2 if dropout else 1) + width + depth) * lay.row + 64


def backward_scratch(lay: Layout, width: int, depth: int, dropout: bool) -> int:
    return (4 + KEYS * (3 if dropout else 2) + 2 * width + depth) * pitch(lay) + 64


@jit.rendered
def attention(lay: Layout, short: str | None, dropout: bool) -> str:
    """The address of the forward function for f32 or f64; `short` names the 16-bit type to whose precision shares
    are rounded, `dropout` says that some of them are left out."""
    parts = [
        rows_tile(lay, "rows_tile", lay.wide), columns_tile(lay), turn(lay), turn_back(lay), _hide(lay),
        _add_mask(lay), _exponentials(lay, short, dropout), _shares(lay), *([_spread_keep(lay)] if dropout else []),
    ]  # fmt: skip
    return joined(parts, _forward(lay, dropout))


@jit.rendered
def attention_backward(lay: Layout, short: str | None, dropout: bool) -> str:
    """The address of the function that computes the gradients."""
    parts = [
        rows_tile(lay, "rows_tile", lay.wide), rows_tile(lay, "narrow_tile", 1), columns_tile(lay), turn(lay),
        turn_back(lay), _hide(lay), _add_mask(lay), _slopes(lay, short, dropout), _levels(lay), _clear(lay),
        *([_spread_keep(lay)] if dropout else []),
    ]  # fmt: skip
    return joined(parts, _backward(lay, short, dropout))
