"""CUDA text of running folds (`folds/scan.py`): threads scan a row together, or each walks down a column of its own.

A state is what a running fold is so far: a total, or an extremum with its place. `join` makes one of two states of which the second comes
later in the row; it need not be commutative. Few long rows are cut into pieces, each a block's, which folds its piece, tells the others what
that gives, waits for what the pieces before its own give, and goes through the piece a second time. Of columns, which are cut into few
pieces, a first kernel folds every piece, and a second begins each with what the pieces before it give.
"""

from __future__ import annotations

import functools

from ..folds.reduce import highest, lowest, rank
from ..folds.scan import START, WIDE, join
from ..loops.lang import KernelScope
from ..loops.pointwise import load, store
from ..render.symbols import symbols
from ..render.value import COMPUTE, SIZE, Value
from .render import KERNEL, PACKS, Cuda, joined
from .rows import offsets

THREADS = 256
EXTREMA = {"max": 1, "min": -1}
_RESIDENT = ", 4"  # blocks that a processor has at once: registers enough for that many
_TOGETHER = 4  # elements of a column that are read before any is written

_TEXT = """
template <int size> __device__ __forceinline__ Pack<size> from_below(Pack<size> p, int away, int width) {
  union { Pack<size> p; int w[(size + 3) / 4]; } u;
  u.p = p;
  #pragma unroll
  for (int j = 0; j < (size + 3) / 4; ++j) u.w[j] = __shfl_up_sync(0xffffffff, u.w[j], away, width);
  return u.p;
}
// Packs are written as words, as `render` does.
template <int size> __device__ __forceinline__ void write(char* to, Pack<size> p) {
  #pragma unroll
  for (int j = 0; j < size / 16; ++j) ((uint4*)to)[j] = ((uint4*)p.bytes)[j];
  if (size == 8) *(uint2*)to = *(uint2*)p.bytes;
  if (size == 4) *(unsigned int*)to = *(unsigned int*)p.bytes;
}
typedef Pack<STATE> State;
#define WIDTH (LANES < 32 ? LANES : 32)

// What the threads before this one in its row have together, joined to `before`; `whole` is joined with what all have.
__device__ __forceinline__ State earlier(State mine, State before, State& whole) {
  __shared__ State ends[THREADS / 32];
  int t = threadIdx.x, lane = t % WIDTH;
  #pragma unroll
  for (int away = 1; away < WIDTH; away *= 2) {
    State other = from_below(mine, away, WIDTH);
    if (lane >= away) { join(other.bytes, mine.bytes); mine = other; }
  }
  State made = before, last = from_below(mine, 1, WIDTH);
  if (LANES > 32) {
    if (lane == 31) ends[t / 32] = mine;
    __syncthreads();
    int head = t / LANES * LANES / 32;
    for (int w = head; w < head + LANES / 32; ++w) {
      if (w < t / 32) join(made.bytes, ends[w].bytes);
      join(whole.bytes, ends[w].bytes);
    }
    __syncthreads();
  }
  if (lane) join(made.bytes, last.bytes);
  return made;
}
"""

_ROWS = """
  int t = threadIdx.x, lane = t % LANES;
  long long pieces = (n + piece - 1) / piece, number = blockIdx.x;
  int* known = (int*)totals + 1;  // whether the state of a piece is
  State* told = (State*)(totals + (gridDim.x + 4) / 4 * 16);
  if (PIECES) {{  // blocks take pieces in the order in which they begin, so that nobody waits for one that does not run
    __shared__ int taken;
    if (t == 0) taken = atomicAdd((int*)totals, 1);
    __syncthreads();
    number = taken;
  }}
  long long before_it = PIECES ? number % pieces : 0, row = PIECES ? number / pieces : number * (THREADS / LANES) + t / LANES;
  long long begin = before_it * piece, end = begin + piece < n ? begin + piece : n, stop = row < m ? end : begin;
{offsets}
  bool packed = PACKED && (({places}) & 15) == 0;
  State carry, own; start(carry.bytes); start(own.bytes);
  #pragma unroll
  for (int folding = PIECES; folding >= 0; --folding) {{
    #pragma unroll 2
    for (long long first = begin; first < end; first += LANES * ITEMS) {{
      long long at = first + lane * ITEMS;
      State made[ITEMS];
      if (packed && at + ITEMS <= stop) {{
        Pack<SIZE0 * ITEMS> whole = *(Pack<SIZE0 * ITEMS>*)(x0 + o0 + at * SIZE0);
        #pragma unroll
        for (int j = 0; j < ITEMS; ++j) lift(made[j].bytes, whole.bytes + j * SIZE0, at + j);
      }} else {{
        #pragma unroll
        for (int j = 0; j < ITEMS; ++j) if (at + j < stop) lift(made[j].bytes, x0 + o0 + (at + j) * t0_0, at + j); else start(made[j].bytes);
      }}
      State mine = made[0];
      #pragma unroll
      for (int j = 1; j < ITEMS; ++j) {{ join(mine.bytes, made[j].bytes); made[j] = mine; }}
      if (folding && ANY_ORDER) {{ join(own.bytes, mine.bytes); continue; }}  // each thread by itself: nobody waits
      State before = carry;
      before = earlier(mine, before, carry);
      if (folding) continue;
      #pragma unroll
      for (int j = 0; j < ITEMS; ++j) {{ mine = before; join(mine.bytes, made[j].bytes); made[j] = mine; }}
{written}
    }}
    if (!folding) break;
    if (ANY_ORDER) earlier(own, own, carry);
    if (t == 0) {{
      told[number] = carry;
      __threadfence();
      *(volatile int*)(known + number) = 1;
    }}
    // Each thread joins the states of some pieces side by side.
    long long each = (before_it + THREADS - 1) / THREADS, from = t * each, to = from + each < before_it ? from + each : before_it;
    start(carry.bytes); start(own.bytes);
    for (long long p = from; p < to; ++p) {{
      long long other = number - before_it + p;
      while (!*(volatile int*)(known + other));
      __threadfence();
      join(own.bytes, told[other].bytes);
    }}
    earlier(own, own, carry);
  }}
"""

_COLUMNS = """
  long long row = blockIdx.x * (long long)THREADS + threadIdx.x, begin = blockIdx.y * piece;
  long long stop = begin + piece < n ? begin + piece : n;
  if (row >= m) return;
{offsets}
  State carry; start(carry.bytes);
  if (CARRIED) for (long long p = 0; p < blockIdx.y; ++p) join(carry.bytes, ((State*)totals)[p * m + row].bytes);
  for (long long at = begin; at < stop; at += ITEMS) {{
    State made[ITEMS];
    #pragma unroll
    for (int j = 0; j < ITEMS; ++j) if (at + j < stop) lift(made[j].bytes, x0 + o0 + (at + j) * t0_0, at + j); else start(made[j].bytes);
    #pragma unroll
    for (int j = 0; j < ITEMS; ++j) {{ join(carry.bytes, made[j].bytes); made[j] = carry; }}
    if (FOLDED) continue;
    {each}
  }}
  if (FOLDED) ((State*)totals)[blockIdx.y * m + row] = carry;
"""


def state_size(fold: str, code: str) -> int:
    """Bytes of a state."""
    return 16 if fold in EXTREMA else SIZE[WIDE.get(code, "i64")]


def _functions(fold: str, code: str, outs: tuple[str, ...]) -> str:
    """How a state begins, what it is of one element, how two are joined, and what is written of it."""
    device = "__device__ __forceinline__"
    start, lift = Cuda("start", ["char* s"], device), Cuda("lift", ["char* s", "char* x", "long long at"], device)
    both = Cuda("join", ["char* s", "char* later"], device)
    put = Cuda("put", ["char* s", *[f"char* y{k}" for k in range(len(outs))]], device)
    place = lambda r, s: r.address(s, r.constant("i64", 8))
    if fold in EXTREMA:
        kind, sign = COMPUTE.get(code, code), EXTREMA[fold]
        store(start, "s", kind, KernelScope(start).value((lowest if sign > 0 else highest)(kind), kind))
        store(start, place(start, "s"), "i64", start.constant("i64", 0))
        store(lift, "s", kind, load(lift, "x", code))
        store(lift, place(lift, "s"), "i64", Value(lift, "at", "i64"))
        (old, new), at, other = [load(both, s, kind) for s in ("s", "later")], place(both, "s"), place(both, "later")
        before, after = rank(symbols, old, sign), rank(symbols, new, sign)
        found = (after >= before) | (after != after)
        store(both, "s", kind, symbols.where(found, new, old))
        store(both, at, "i64", symbols.where(found, load(both, other, "i64"), load(both, at, "i64")))
        store(put, "y0", outs[0], load(put, "s", kind))
        store(put, "y1", outs[1], load(put, place(put, "s"), "i64"))
    else:
        wide = WIDE.get(code, "i64")
        store(start, "s", wide, KernelScope(start).value(START[fold], wide))
        store(lift, "s", wide, symbols.cast(load(lift, "x", code), wide))
        store(both, "s", wide, join(symbols, fold, load(both, "s", wide), load(both, "later", wide)))
        store(put, "y0", outs[0], load(put, "s", wide))
    return joined([start, lift, both, put])


@functools.cache
def scan(
    name: str,
    fold: str,
    code: str,
    outs: tuple[str, ...],
    outer: int,
    columns: bool,
    lanes: int,
    dense: bool,
    part: str,
) -> str:
    """CUDA text of a scan of elements of type `code`.

    `part` is "whole" for whole rows and "pieces" for rows in pieces; of columns, "folded" gives the states of pieces, with which "carried"
    begins them. Parameters: pointers, last that of states, or of what blocks tell each other: the number of pieces that were taken, for
    each whether its state is known, from a multiple of 16 bytes on these states; number of rows, their length, that of pieces; extents of dimensions around the rows, and each operand's strides there
    and along the rows.
    """
    types = [code, *outs]
    sizes = [SIZE[t] for t in types]
    items = _TOGETHER if columns else min(max(32 // max(sizes), 4), 8)
    numbers = ["m", "n", "piece", *[f"m{d}" for d in range(1, outer)]]
    numbers += [f"{p}{k}_{d}" for k in range(len(types)) for p, count in (("s", outer), ("t", 1)) for d in range(count)]
    pointers = [f"x{k}" for k in range(len(types))]
    where = [f"  long long o{k} = 0;" for k in range(len(types))]
    for k in range(len(types)):
        where += offsets(f"o{k}", "row", outer, "m", f"s{k}_")
    results = range(1, len(types))
    one = ", ".join(f"x{k} + o{k} + (at + j) * t{k}_0" for k in results)
    each = f"#pragma unroll\n    for (int j = 0; j < {items}; ++j) if (at + j < stop) put(made[j].bytes, {one});"
    packs = [
        *[f"      Pack<{sizes[k] * items}> w{k};" for k in results],
        f"      #pragma unroll\n      for (int j = 0; j < {items}; ++j) put(made[j].bytes, {', '.join(f'w{k}.bytes + j * {sizes[k]}' for k in results)});",
        *[f"      write(x{k} + o{k} + at * {sizes[k]}, w{k});" for k in results],
    ]
    written = "\n".join(["    if (packed && at + ITEMS <= stop) {", *packs, "    } else {", f"    {each}", "    }"])
    places = " | ".join(f"(unsigned long long)(x{k} + o{k})" for k in range(len(types)))
    body = (_COLUMNS if columns else _ROWS).format(offsets="\n".join(where), written=written, places=places, each=each)
    words = {
        "STATE": state_size(fold, code), "THREADS": THREADS, "LANES": lanes, "ITEMS": items, "SIZE0": sizes[0],
        "CARRIED": int(part == "carried"), "FOLDED": int(part == "folded"), "PACKED": int(dense),
        "PIECES": int(part == "pieces"), "ANY_ORDER": int(fold not in EXTREMA),
    }  # fmt: skip
    defined = "\n".join(f"#define {word} {value}" for word, value in words.items())
    parameters = ", ".join([*(f"char* {p}" for p in [*pointers, "totals"]), *(f"long long {n}" for n in numbers)])
    return f"""{defined}
{PACKS}
{_functions(fold, code, outs)}
{_TEXT}
{KERNEL} void __launch_bounds__({THREADS}{_RESIDENT if part == "pieces" else ""}) {name}({parameters}) {{{body}}}
"""
