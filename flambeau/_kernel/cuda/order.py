"""CUDA text of orders along rows: short rows are sorted in a block's shared memory, longer ones as runs that are merged, long ones digit by
digit of their keys; a part of an order is selected by digits, too.

An item is a key and the place of its element; no two are equal, so every order of items is the stable order of the elements. Keys of up to
32 bits stand beside their place in one word.
"""

from __future__ import annotations

import functools

from ..folds.sort import sort_key
from ..loops.lang import KernelScope
from ..loops.pointwise import load, store
from ..render.symbols import symbols
from ..render.value import BITS, SIZE, is_float
from .render import KERNEL, PACKS, Cuda, joined
from .rows import offsets

BYTES = 1 << 15  # of items that a block sorts, at most
_SHORTENED = {"f16": 13, "bf16": 16}  # bits of a float32 that are always zero: keys do without them
_BITS = {"b1": 8, "f16": 19, "bf16": 16, "f32": 32, "f64": 64}

_ITEMS = """
typedef unsigned long long word;
#if WIDE
struct Item { word high, low; };
__device__ __forceinline__ Item item(word key, word place) { Item made; made.high = key; made.low = place; return made; }
__device__ __forceinline__ word key(Item a) { return a.high; }
__device__ __forceinline__ word place(Item a) { return a.low; }
__device__ __forceinline__ bool below(Item a, Item b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }
__device__ __forceinline__ Item none() { return item(~0ull, ~0ull); }
#else
struct Item { word bits; };
__device__ __forceinline__ Item item(word key, word place) { Item made; made.bits = key << 32 | place; return made; }
__device__ __forceinline__ word key(Item a) { return a.bits >> 32; }
__device__ __forceinline__ word place(Item a) { return a.bits & 0xffffffffull; }
__device__ __forceinline__ bool below(Item a, Item b) { return a.bits < b.bits; }
__device__ __forceinline__ Item none() { return item(0xffffffffull, 0xffffffffull); }
#endif
__device__ __forceinline__ Item item_at(char* x, long long place) {
  long long k; order_key(x, (char*)&k);
  return item(KEY, (word)place);
}

__device__ __forceinline__ word of_lane(word w, int away) {
  unsigned int low = __shfl_xor_sync(0xffffffff, (int)w, away), high = __shfl_xor_sync(0xffffffff, (int)(w >> 32), away);
  return (word)high << 32 | low;
}
__device__ __forceinline__ Item of_lane(Item a, int away) {
#if WIDE
  return item(of_lane(a.high, away), of_lane(a.low, away));
#else
  Item made; made.bits = of_lane(a.bits, away); return made;
#endif
}

// Sorts runs of RUN items, a power of two, among COUNT of a block: networks of comparisons at distances that halve. A thread has HAD items side
// by side: near ones are its own, those of its warp's other lanes come by shuffles, and only far ones through memory.
#define HAD (COUNT > THREADS ? COUNT / THREADS : 1)
__device__ __forceinline__ void sort_tile(Item* tile) {
  int t = threadIdx.x;
  Item mine[HAD];
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < HAD; ++e) mine[e] = t * HAD + e < COUNT ? tile[t * HAD + e] : none();
  for (int size = 2; size <= RUN; size *= 2) {
    for (int away = size / 2; away >= HAD; away /= 2) {
      int lanes = away / HAD;
      if (lanes >= 32) {
        __syncthreads();
        #pragma unroll
        for (int e = 0; e < HAD; ++e) if (t * HAD < COUNT) tile[e * (COUNT / HAD) + t] = mine[e];
        __syncthreads();
      }
      #pragma unroll
      for (int e = 0; e < HAD; ++e) {
        int i = t * HAD + e;
        Item other = lanes < 32 ? of_lane(mine[e], lanes) : i < COUNT ? tile[e * (COUNT / HAD) + (t ^ lanes)] : none();
        bool first = ((i & (RUN - 1) & size) == 0) == ((i & away) == 0);
        if (below(other, mine[e]) == first) mine[e] = other;
      }
    }
    #pragma unroll
    for (int away = HAD / 2; away; away /= 2) if (away < size) {
      #pragma unroll
      for (int e = 0; e < HAD; ++e) if (!(e & away)) {
        Item a = mine[e], b = mine[e + away];
        if (below(b, a) == (((t * HAD + e) & (RUN - 1) & size) == 0)) { mine[e] = b; mine[e + away] = a; }
      }
    }
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < HAD; ++e) if (t * HAD + e < COUNT) tile[t * HAD + e] = mine[e];
  __syncthreads();
}
"""

_SORT = """
  __shared__ Item tile[COUNT];
  long long runs = (n + RUN - 1) / RUN;
  for (int i = threadIdx.x; i < COUNT; i += THREADS) {
    long long row = blockIdx.x / runs * (COUNT / RUN) + i / RUN, at = blockIdx.x % runs * RUN + i % RUN;
    PLACES
    tile[i] = row < m && at < n ? item_at(x0 + o0 + at * t0_0, at) : none();
  }
  sort_tile(tile);
  for (int i = threadIdx.x; i < COUNT; i += THREADS) {
    long long row = blockIdx.x / runs * (COUNT / RUN) + i / RUN, at = blockIdx.x % runs * RUN + i % RUN;
    if (row >= m || at >= (LAST ? length : n)) continue;
    if (LAST) { PLACES PUT(tile[i], at) } else into[row * n + at] = tile[i];
  }
"""

_MERGE = """
  for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < m * n; i += gridDim.x * (long long)THREADS) {
    long long row = i / n, at = i % n, start = at / (2 * run) * (2 * run);
    long long middle = start + run < n ? start + run : n, stop = middle + run < n ? middle + run : n;
    Item mine = from[i], *all = from + row * n;
    long long low = at < middle ? middle : start, high = at < middle ? stop : middle;
    while (low < high) {
      long long half = (low + high) / 2;
      if (below(all[half], mine)) low = half + 1; else high = half;
    }
    long long to = at + low - middle;
    if (LAST) { if (to < length) { PLACES PUT(mine, to) } } else into[row * n + to] = mine;
  }
"""

_SELECT = """
  __shared__ Item tile[COUNT];
  __shared__ int table[256], found[4];
  int t = threadIdx.x;
  long long row = blockIdx.x, begin = blockIdx.y * run, stop = begin + run < n ? begin + run : n;
  PLACES
  #define GET(i) (AGAIN ? from[row * n + (i)] : item_at(x0 + o0 + (i) * t0_0, i))
  long long want = length < stop - begin ? length - 1 : stop - begin - 1;
  if (NANS) {
    if (t == 0) found[0] = 0;
    __syncthreads();
    int nans = 0;
    for (long long i = begin + t; i < stop; i += THREADS) nans += key(GET(i)) == LARGEST;
    atomicAdd(&found[0], nans);
    __syncthreads();
    long long numbers = n - found[0];
    want = NANS == 1 && numbers < n ? numbers : numbers ? (numbers - 1) / 2 : 0;
    __syncthreads();
  }
  // Digit by digit, the one that the wanted item has: of keys, then of places.
  word known_key = 0, mask_key = 0, known_place = 0, mask_place = 0;
  for (int d = KEY_DIGITS + (int)digits - 1; d >= 0; --d) {
    bool by_key = d >= digits;
    int shift = 8 * (by_key ? d - (int)digits : d);
    if (t < 256) table[t] = 0;
    __syncthreads();
    for (long long i = begin + t; i < stop; i += THREADS) {
      Item a = GET(i);
      if ((key(a) & mask_key) == known_key && (place(a) & mask_place) == known_place)
        atomicAdd(&table[(by_key ? key(a) : place(a)) >> shift & 255], 1);
    }
    __syncthreads();
    for (int away = 1; away < 256; away *= 2) {
      int before = t < 256 && t >= away ? table[t - away] : 0;
      __syncthreads();
      if (t < 256) table[t] += before;
      __syncthreads();
    }
    if (t < 256) {
      int before = t ? table[t - 1] : 0;
      if (want >= before && want < table[t]) { found[0] = t; found[1] = before; found[2] = table[t] - before; }
    }
    __syncthreads();
    word digit = (word)found[0] << shift, mask = (word)255 << shift;
    if (by_key) { known_key |= digit; mask_key |= mask; } else { known_place |= digit; mask_place |= mask; }
    want -= found[1];
    bool known = ONE ? found[2] == 1 : want == found[2] - 1;
    __syncthreads();
    if (known) break;
  }
  if (ONE) {
    for (long long i = begin + t; i < stop; i += THREADS) {
      Item a = GET(i);
      if ((key(a) & mask_key) == known_key && (place(a) & mask_place) == known_place) { PUT(a, 0) }
    }
    return;
  }
  for (int i = t; i < COUNT; i += THREADS) tile[i] = none();
  if (t == 0) found[3] = 0;
  __syncthreads();
  for (long long i = begin + t; i < stop; i += THREADS) {
    Item a = GET(i);
    word mine = key(a) & mask_key;
    if (mine < known_key || (mine == known_key && (place(a) & mask_place) <= known_place)) tile[atomicAdd(&found[3], 1)] = a;
  }
  sort_tile(tile);
  for (int i = t; i < length; i += THREADS) {
    if (LAST) { PUT(tile[i], i) } else into[(row * gridDim.y + blockIdx.y) * length + i] = tile[i];
  }
"""
# A table for each digit and row: how often the digit has each value. Lanes count in several columns, as many have the same value.
_TALLY = """
  __shared__ unsigned int table[KEY_DIGITS * 256 * COLUMNS];
  int t = threadIdx.x;
  long long row = blockIdx.x, begin = blockIdx.y * run, stop = begin + run < n ? begin + run : n;
  PLACES
  for (int i = t; i < KEY_DIGITS * 256 * COLUMNS; i += THREADS) table[i] = 0;
  __syncthreads();
  for (long long i = begin + t; i < stop; i += THREADS) {
    word k = key(item_at(x0 + o0 + i * t0_0, i));
    #pragma unroll
    for (int d = 0; d < KEY_DIGITS; ++d) atomicAdd(&table[(d * 256 + (int)(k >> 8 * d & 255)) * COLUMNS + t % COLUMNS], 1u);
  }
  __syncthreads();
  for (int i = t; i < KEY_DIGITS * 256; i += THREADS) {
    unsigned int sum = 0;
    for (int c = 0; c < COLUMNS; ++c) sum += table[i * COLUMNS + c];
    if (sum) atomicAdd(&work[(i / 256 * m + row) * 256 + i % 256], sum);
  }
"""

# Items in the order of one digit, those with the same digit as they came. A block takes the next piece of COUNT, puts it in order, tells how
# many of each digit it has, and learns how many the pieces before it have: from the nearest that knows, and those between that told theirs.
# A digit that is the same in the whole row moves nothing. The first step reads elements, the last writes them.
_DIGIT = """
  #define EACH (COUNT / THREADS)
  __shared__ Item tile[COUNT];
  __shared__ unsigned int table[THREADS / 32][256], starts[256], away[256], ends[2][THREADS / 32], alike, number;
  int t = threadIdx.x, warp = t / 32, lane = t % 32;
  long long pieces = (n + COUNT - 1) / COUNT;
  unsigned int* tickets = work + KEY_DIGITS * m * 256;
  if (t == 0) { number = atomicAdd(&tickets[digits], 1u); alike = 0; }
  for (int w = 0; w < THREADS / 32; ++w) table[w][t] = 0;
  __syncthreads();
  long long row = number / pieces, piece = number % pieces, begin = piece * COUNT;
  unsigned int same = 0, bin = 0;
  for (int d = 0; d <= digits; ++d) { bin = work[(d * m + row) * 256 + t]; if (bin == n) same |= 1u << d; }
  if (same) atomicOr(&alike, same);
  __syncthreads();
  int moved = (int)digits - __popc(alike & ((1u << digits) - 1));
  bool moves = !(alike >> digits & 1), last = digits == KEY_DIGITS - 1;
  if (!moves && !last) return;
  Item *given = (moved & 1 ? from : into) + row * n, *made = (moved & 1 ? into : from) + row * n;
  PLACES
  #define GET(i) (moved ? given[i] : item_at(x0 + o0 + (i) * t0_0, i))
  if (!moves) {
    for (long long i = begin + t; i < begin + COUNT && i < length; i += THREADS) { Item a = GET(i); PUT(a, i) }
    return;
  }
  Item mine[EACH];
  unsigned short order[EACH];
  long long first = begin + warp * 32 * EACH + lane;
  #define DIGIT(a) ((int)(key(a) >> 8 * digits & 255))
  #pragma unroll
  for (int j = 0; j < EACH; ++j) mine[j] = first + 32 * j < n ? GET(first + 32 * j) : none();
  #pragma unroll
  for (int j = 0; j < EACH; ++j) {
    bool there = first + 32 * j < n;
    int d = DIGIT(mine[j]);
    unsigned int peers = __ballot_sync(0xffffffff, there);  // lanes with the same digit: found bit by bit
    #pragma unroll
    for (int b = 0; b < 8; ++b) {
      unsigned int set = __ballot_sync(0xffffffff, d >> b & 1);
      peers &= d >> b & 1 ? set : ~set;
    }
    unsigned int before = __popc(peers & ((1u << lane) - 1));
    unsigned int old = table[warp][d];
    __syncwarp();
    order[j] = old + before;
    if (there && !before) table[warp][d] = old + __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  unsigned int sum = 0;
  #pragma unroll
  for (int w = 0; w < THREADS / 32; ++w) { unsigned int own = table[w][t]; table[w][t] = sum; sum += own; }
  volatile unsigned int* told = tickets + KEY_DIGITS + (digits * m + row) * pieces * 256 + t;
  told[piece * 256] = sum | (piece ? TOLD : KNOWN);
  unsigned int start = sum, bins = bin;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    unsigned int a = __shfl_up_sync(0xffffffff, start, d, 32), b = __shfl_up_sync(0xffffffff, bins, d, 32);
    if (lane >= d) { start += a; bins += b; }
  }
  if (lane == 31) { ends[0][warp] = start; ends[1][warp] = bins; }
  __syncthreads();
  start -= sum; bins -= bin;
  for (int w = 0; w < warp; ++w) { start += ends[0][w]; bins += ends[1][w]; }
  starts[t] = start;
  unsigned int before = 0;
  for (long long p = piece - 1; p >= 0; --p) {
    unsigned int state;
    do state = told[p * 256]; while (state < TOLD);
    before += state & (TOLD - 1);
    if (state >= KNOWN) break;
  }
  if (piece) told[piece * 256] = (before + sum) | KNOWN;
  away[t] = bins + before - start;
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < EACH; ++j) if (first + 32 * j < n) {
    int d = DIGIT(mine[j]);
    tile[starts[d] + table[warp][d] + order[j]] = mine[j];
  }
  __syncthreads();
  for (int i = t; i < COUNT && begin + i < n; i += THREADS) {
    Item a = tile[i];
    long long to = away[DIGIT(a)] + i;
    if (last) { if (to < length) { PUT(a, to) } } else made[to] = a;
  }
"""
_BODIES = {"sort": _SORT, "merge": _MERGE, "select": _SELECT, "tally": _TALLY, "digit": _DIGIT}
MOST = 1 << 30  # elements of a row that is sorted digit by digit: two bits of a word say what its number is


def digits(code: str) -> int:
    """Of a key."""
    return -(-(_BITS.get(code) or BITS[code]) // 8)


def item_size(code: str) -> int:
    """Bytes of an item."""
    return 16 if BITS[code] == 64 else 8


@functools.cache
def order(
    name: str, way: str, code: str, descending: bool, outer: int, threads: int, run: int = 2, count: int = 2,
    last: bool = True, again: bool = False, one: bool = False, nans: int = 0,
) -> str:  # fmt: skip
    """CUDA text of one step of an order of elements of type `code`.

    "sort" sorts runs of `run` items, of which a block has `count`; "merge" merges pairs of runs; "select" finds the first items, or the
    `one` at a place, of rows or of what it found of pieces of them (`again`); "tally" counts the digits of keys, by each of which "digit" then puts
    all items in order. `nans` asks for the lower median: 1 if NaN is the result
    where there is one, 2 if it counts as missing. The `last` step writes elements and their places. Parameters: elements, results, places,
    items read and written; rows and their length, how many items are wanted, length of runs or pieces, digits of places; extents and
    strides.
    """
    r = Cuda("order_key", ["char* x", "char* made"], "__device__ __forceinline__")
    found = symbols.cast(sort_key(KernelScope(r), load(r, "x", code), descending), "i64")
    store(r, "made", "i64", found)
    bits = _BITS.get(code) or BITS[code]
    signed = code in _SHORTENED or is_float(code) or code[0] == "i" or code == "u32"
    low = -(1 << (bits - 1)) if signed else -(1 << bits) if descending else 0
    key = "(word)k ^ 1ull << 63" if bits == 64 else f"(word)((k >> {_SHORTENED.get(code, 0)}) - ({low}ll))"
    words = {
        "WIDE": int(bits == 64), "KEY": key, "KEY_DIGITS": digits(code), "LARGEST": f"{(1 << bits) - 1}ull", "THREADS": threads,
        "RUN": run, "COUNT": count, "LAST": int(last), "AGAIN": int(again), "ONE": int(one), "NANS": nans,
        "COLUMNS": 4 if bits == 64 else 8, "TOLD": f"{MOST}u", "KNOWN": f"{2 * MOST}u",
    }  # fmt: skip
    size = SIZE[code]
    words["PUT(a, to)"] = (
        f"{{ long long at_ = place(a); *(Pack<{size}>*)(x1 + o1 + (to) * t1_0) = *(Pack<{size}>*)(x0 + o0 + at_ * t0_0); "
        "*(long long*)(x2 + o2 + (to) * t2_0) = at_; }"
    )
    where = " ".join([f"long long o{k} = 0;" for k in range(3)])
    for k in range(3):
        where += " ".join(offsets(f"o{k}", "row", outer, "m", f"s{k}_"))
    words["PLACES"] = where
    numbers = ["m", "n", "length", "run", "digits", *[f"m{d}" for d in range(1, outer)]]
    numbers += [f"{p}{k}_{d}" for k in range(3) for p, rank in (("s", outer), ("t", 1)) for d in range(rank)]
    pointers = ["char* x0", "char* x1", "char* x2", "Item* from", "Item* into"]
    pointers += ["unsigned int* work"] if way in ("tally", "digit") else []
    parameters = ", ".join([*pointers, *[f"long long {n}" for n in numbers]])
    defined = "\n".join(f"#define {word} {value}" for word, value in words.items())
    return f"""{PACKS}
{joined([r])}
{defined}
{_ITEMS}
{KERNEL} void __launch_bounds__({threads}) {name}({parameters}) {{{_BODIES[way]}}}
"""
