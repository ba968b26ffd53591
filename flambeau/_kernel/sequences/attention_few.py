"""Attention of a few queries to many keys, as when text is generated: vectors lie along the heads' widths.

Every query reads the keys and values once; its scores are a row in the thread's scratch memory.
"""

from __future__ import annotations

import math
from typing import Any

from ..building import jit
from ..render.register_tiles import accumulate
from ..render.symbols import symbols
from ..render.tiles import SCALAR, invoke, joined, minimum
from ..render.value import Value
from .attention import FORWARD, Main, decay, float_of, piece_of, rounded
from .attention_tiles import Layout, Tiles, layout

MOST = 5  # queries from which on the tiles are faster
_AHEAD = 24  # rows that are fetched early: all time goes into waiting for them
_TOGETHER = 4  # vectors of a result that are summed together


def _dots(lay: Layout) -> Tiles:
    """dots(to, q, k, k_row, keys, width, scale): to[j] = scale * (q . k[j]); -inf up to the end of a vector."""
    n, size = lay.lanes, lay.size
    r = Tiles("dots", [
        "ptr noalias %to", "ptr noalias %q", "ptr noalias %k", "i64 %k_row", "i64 %keys", "i64 %width",
        f"{SCALAR[lay.type]} %scale",
    ], lay)  # fmt: skip
    keys, scale, ahead = r.i64("%keys"), r.all.splat("%scale", lay.type), r.i64("%k_row") * _AHEAD
    slots = r.vector_slots(n)
    with r.loop(r.zero, keys, n) as j:
        for slot in slots:
            r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")
        starts = [r.at("%k", minimum(j + i, keys - 1) * r.i64("%k_row")) for i in range(n)]
        with r.loop(r.zero, r.i64("%width"), n) as d:
            part = r.load_vector(r.at("%q", d * size), aligned=False)
            for slot, start in zip(slots, starts):
                r.prefetch(r.at(start, ahead, d * size))
                accumulate(r, slot, part, r.load_vector(r.at(start, d * size), aligned=False))
        sums = r.transpose([r.raw(f"load {r.vector}, ptr {slot}") for slot in slots])
        while len(sums) > 1:
            sums = [r.add(a, b) for a, b in zip(sums[::2], sums[1::2])]
        seen = Value(r.all, r.lanes_below(keys - j), "b1")
        r.put(r.at("%to", j * size), symbols.where(seen, Value(r.all, sums[0], lay.type) * scale, -math.inf))
    return r


def _share(lay: Layout, short: str | None) -> Tiles:
    """share(s, keys, total, factor): scores to exp(score - the largest); where the logarithm of their sum and 1 / sum
    are to be put."""
    r = Tiles("share", ["ptr noalias %s", "i64 %keys", "ptr noalias %total", "ptr noalias %factor"], lay)
    n, size, scalar = lay.lanes, lay.size, SCALAR[lay.type]
    high, sum_ = r.vector_slots(2)
    r.hold(high, r.number(-math.inf))
    r.hold(sum_, r.number(0.0))

    def across(slot: str, name: str, start: float | None) -> Value:
        full = f"llvm.vector.reduce.{name}.{r.code}"
        first = "" if start is None else f"{scalar} {r.constant(lay.type, start).name}, "
        r.declarations.add(f"declare {scalar} @{full}({scalar + ', ' if first else ''}{r.vector})")
        flags = "" if start is None else "reassoc "
        return r.value(f"call {flags}{scalar} @{full}({first}{r.vector} {r.held(slot).name})", lay.type)

    with r.loop(r.zero, r.i64("%keys"), n) as j:
        score = r.take(r.at("%s", j * size))
        r.hold(high, symbols.where(score > r.held(high), score, r.held(high)))
    largest = across(high, "fmax", None)
    shift = r.all.splat(symbols.where(largest == -math.inf, 0.0, largest).name, lay.type)
    with r.loop(r.zero, r.i64("%keys"), n) as j:
        place = r.at("%s", j * size)
        e = decay(r.take(place) - shift)
        r.put(place, rounded(e, short))
        r.hold(sum_, r.held(sum_) + e)
    whole = across(sum_, "fadd", -0.0)
    r.store("%factor", lay.type, symbols.where(whole == 0.0, 0.0, 1.0 / whole))
    r.store("%total", lay.type, largest + symbols.log(whole))
    return r


def _mix(lay: Layout) -> Tiles:
    """mix(to, p, v, v_row, keys, depth, factor): to[d] = factor * sum over j of p[j] * v[j, d]."""
    n, size = lay.lanes, lay.size
    r = Tiles("mix", [
        "ptr noalias %to", "ptr noalias %p", "ptr noalias %v", "i64 %v_row", "i64 %keys", "i64 %depth",
        "ptr noalias %factor",
    ], lay)  # fmt: skip
    keys, depth, factor, ahead = r.i64("%keys"), r.i64("%depth"), r.spread("%factor"), r.i64("%v_row") * _AHEAD
    slots = r.vector_slots(2 * _TOGETHER)

    def sums(d: Value, wide: int) -> None:
        """Two rows of values at a time, so that sums do not wait for each other."""
        for slot in slots[: 2 * wide]:
            r.emit(f"store {r.vector} zeroinitializer, ptr {slot}")

        def add(j: Value, half: int) -> None:
            share, row = r.spread(r.at("%p", j * size)), r.at("%v", j * r.i64("%v_row"), d * size)
            for i, slot in enumerate(slots[half * wide : (half + 1) * wide]):
                r.prefetch(r.at(row, ahead, i * n * size))
                value = r.load_vector(r.at(row, i * n * size), aligned=False)
                accumulate(r, slot, share.name, value)

        pairs = keys & -2
        with r.loop(r.zero, pairs, 2) as j:
            add(j, 0)
            add(j + 1, 1)
        with r.loop(pairs, keys) as j:
            add(j, 0)
        for i in range(wide):
            one, two = (r.raw(f"load {r.vector}, ptr {slots[half * wide + i]}") for half in (0, 1))
            made = Value(r.all, r.add(one, two), lay.type) * factor
            r.put(r.at("%to", (d + i * n) * size), made, aligned=False)

    whole = depth & -(_TOGETHER * n)
    with r.loop(r.zero, whole, _TOGETHER * n) as d:
        sums(d, _TOGETHER)
    with r.loop(whole, depth, n) as d:
        sums(d, 1)
    return r


def _main(lay: Layout) -> Main:
    r = Main(lay, FORWARD)
    size = lay.size
    length, keys, width, depth = (r[n] for n in ("length", "keys", "width", "depth"))
    causal, scale = r["causal"] != 0, float_of(r, "scale")
    factor = r.part(64)
    scores = r.part((keys + lay.lanes) * size)

    def work(piece: Value) -> None:
        batch, head, q0 = piece_of(r, piece, length)
        shared = r.value(f"udiv i64 {head.name}, {r['group'].name}", "i64")
        q, out, total, mask = (r.place(n, batch, head) for n in ("q", "out", "total", "mask"))
        k, v = (r.place(n, batch, shared) for n in ("k", "v"))
        seen = r.select(causal, minimum(keys, q0 + 1), keys)
        invoke(r, "dots", scores, r.row("q", q, q0), k, r["k_row"], seen, width, scale)
        with r.when(r["mask"] != 0), r.loop(r.zero, seen) as j:
            place = r.at(scores, j * size)
            added = r.load(r.at(mask, q0 * r["mask_row"], j * r["mask_key"]), lay.type)
            r.store(place, lay.type, r.load(place, lay.type) + added)
        invoke(r, "share", scores, seen, r.at(total, q0 * size), factor)
        invoke(r, "mix", r.row("out", out, q0), scores, v, r["v_row"], seen, depth, factor)

    r.pieces(work)
    r.clear_float_status()
    return r


def scratch(type: str, keys: int) -> int:
    """Bytes that a thread needs."""
    lay = layout(type)
    return (keys + lay.lanes) * lay.size + 128


@jit.rendered
def attention(type: str, short: Any) -> str:
    """The address of the function; it takes the same numbers as the one over tiles, and each query is a piece."""
    lay = layout(type)
    return joined([_dots(lay), _share(lay, short), _mix(lay)], _main(lay))
