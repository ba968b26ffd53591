"""CUDA text of what goes by marks: elements that are not zero, or that begin a run of equal ones, are counted, then put side by side.

Blocks have a tile of elements each. A first kernel counts the marks of tiles, a second adds them up, and a third, which knows where its
tile's marks begin, visits those that are marked.
"""

from __future__ import annotations

import functools

from ..loops.pointwise import load, store
from ..render.symbols import symbols
from ..render.value import SIZE
from .render import KERNEL, PACKS, Cuda, joined
from .rows import offsets

THREADS = 256
SUMMING = 1024  # threads that add tiles up
_TOGETHER = 8  # tiles that each of them has at once

_TEXT = """
#define TILE (THREADS * ITEMS)
// Which of a thread's elements are marked, in bits.
__device__ __forceinline__ unsigned int marks_of(char* x, long long first, long long n) {
  unsigned int set = 0;
  if (((unsigned long long)x & 15) == 0 && first + ITEMS <= n) {
    struct alignas(16) { char bytes[ITEMS * SIZE]; } whole;
    #pragma unroll
    for (int j = 0; j < ITEMS * SIZE / 16; ++j) ((uint4*)whole.bytes)[j] = ((uint4*)(x + first * SIZE))[j];
    #pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
      char made;
      mark(whole.bytes + j * SIZE, BEGINS && !j ? x + (first - (first > 0)) * SIZE : whole.bytes + (j - BEGINS) * SIZE, &made);
      set |= (unsigned int)(made || (BEGINS && first + j == 0)) << j;
    }
  } else for (int j = 0; j < ITEMS && first + j < n; ++j) {
    char made;
    mark(x + (first + j) * SIZE, x + (first + j - (BEGINS && first + j > 0)) * SIZE, &made);
    set |= (unsigned int)(made || (BEGINS && first + j == 0)) << j;
  }
  return set;
}
// The sum of what the threads before this one have; all get the sum of all.
template <int threads> __device__ __forceinline__ int earlier(int own, int& whole) {
  __shared__ int ends[threads / 32];
  int t = threadIdx.x, sum = own;
  #pragma unroll
  for (int away = 1; away < 32; away *= 2) {
    int other = __shfl_up_sync(0xffffffff, sum, away, 32);
    if (t % 32 >= away) sum += other;
  }
  if (t % 32 == 31) ends[t / 32] = sum;
  __syncthreads();
  int before = sum - own;
  whole = 0;
  for (int w = 0; w < threads / 32; ++w) {
    if (w < t / 32) before += ends[w];
    whole += ends[w];
  }
  __syncthreads();
  return before;
}
"""

_COUNT = """
  long long first = ((long long)blockIdx.x * THREADS + threadIdx.x) * ITEMS;
  int whole;
  earlier<THREADS>(__popc(marks_of(x, first, n)), whole);
  if (threadIdx.x == 0) totals[blockIdx.x] = whole;
"""

_SUM = f"""
  long long before = 0;
  for (long long first = 0; first < tiles; first += {SUMMING * _TOGETHER}) {{
    long long at = first + threadIdx.x * {_TOGETHER};
    int own[{_TOGETHER}], sum = 0, whole;
    #pragma unroll
    for (int j = 0; j < {_TOGETHER}; ++j) {{ own[j] = at + j < tiles ? (int)totals[at + j] : 0; sum += own[j]; }}
    long long place = before + earlier<{SUMMING}>(sum, whole);
    #pragma unroll
    for (int j = 0; j < {_TOGETHER}; ++j) {{ if (at + j < tiles) totals[at + j] = place; place += own[j]; }}
    before += whole;
  }}
  if (threadIdx.x == 0) *answer = before;
"""

_VISIT = """
  __shared__ unsigned short list[TILE];
  long long begin = blockIdx.x * (long long)TILE, first = begin + threadIdx.x * ITEMS;
  long long base = ONE_TILE ? 0 : totals[blockIdx.x];
  unsigned int set = marks_of(x, first, n);
  int whole, place = earlier<THREADS>(__popc(set), whole);
{each}
  for (int j = 0; j < ITEMS; ++j) if (set >> j & 1) list[place++] = threadIdx.x * ITEMS + j;
  __syncthreads();
  for (int k = threadIdx.x; k < whole; k += THREADS) {{
    long long at = begin + list[k], to = base + k;
{visit}
  }}
"""

_RUNS = """  long long run = base + place - 1;
  for (int j = 0; j < ITEMS && first + j < n; ++j) { run += set >> j & 1; inverse[order[first + j]] = run; }"""


def tile(code: str) -> int:
    """Elements of a type that a block has."""
    return THREADS * _items(code)


def _items(code: str) -> int:
    return min(16, 64 // SIZE[code])


def _text(
    name: str, code: str, begins: bool, parameters: str, body: str, threads: int = THREADS, one: bool = False
) -> str:
    words = {"THREADS": THREADS, "ITEMS": _items(code), "SIZE": SIZE[code], "BEGINS": int(begins), "ONE_TILE": int(one)}
    defined = "\n".join(f"#define {word} {value}" for word, value in words.items())
    r = Cuda("mark", ["char* x", "char* before", "char* made"], "__device__ __forceinline__")
    x = load(r, "x", code)
    store(r, "made", "b1", x != load(r, "before", code) if begins else symbols.cast(x, "b1"))
    return f"""{defined}
{PACKS}
{joined([r])}
{_TEXT}
{KERNEL} void __launch_bounds__({threads}) {name}({parameters}) {{{body}}}
"""


@functools.cache
def count_marks(name: str, code: str, begins: bool) -> str:
    """Parameters: elements, the number of marks in each tile, number of elements."""
    return _text(name, code, begins, "char* x, long long* totals, long long n", _COUNT)


@functools.cache
def sum_tiles(name: str) -> str:
    """For one block: makes of tiles' numbers the sum of those before each. Parameters: these, what gets the sum of all, number of tiles."""
    return _text(name, "b1", False, "long long* totals, long long* answer, long long tiles", _SUM, SUMMING)


def _visit(
    name: str, code: str, begins: bool, one: bool, parameters: list[str], visit: list[str], each: str = ""
) -> str:
    given = ", ".join(["char* x", "long long* totals", "long long n", *parameters])
    return _text(name, code, begins, given, _VISIT.format(each=each, visit="\n".join(visit)), one=one)


@functools.cache
def number_marked(name: str, code: str, one: bool, rank: int, counts: bool = False) -> str:
    """Parameters after elements, tiles' sums and number of elements: indices, how many there are in each dimension; extents but the first.
    With `counts` elements are one tile that nobody has counted: what gets the number of marks is in the place of that number."""
    visit = []
    for d in range(rank - 1, 0, -1):
        visit.append(f"    out[{d} * marked + to] = at % m{d}; at /= m{d};")
    visit.append("    out[to] = at;")
    each = "  if (threadIdx.x == 0) *number = whole;\n  int marked = whole;" if counts else ""
    return _visit(
        name,
        code,
        False,
        one,
        [
            "long long* out",
            "long long* number" if counts else "long long marked",
            *[f"long long m{d}" for d in range(1, rank)],
        ],
        visit,
        each,
    )


@functools.cache
def move_marked(name: str, code: str, one: bool, size: int, outer: int, puts: bool) -> str:
    """Elements of `size` bytes from where they are marked to a dense vector, or (`puts`) the other way. Parameters after elements, tiles' sums and number
    of elements: what lies as the marks do, the vector; extents but the first, and strides."""
    lines = ["    long long o = 0;", *offsets("o", "at", outer, "m", "s")]
    both = f"*(Pack<{size}>*)(y + o)", f"*(Pack<{size}>*)(dense + to * {size})"
    target, source = both if puts else reversed(both)
    numbers = [*[f"long long m{d}" for d in range(1, outer)], *[f"long long s{d}" for d in range(outer)]]
    return _visit(name, code, False, one, ["char* y", "char* dense", *numbers], [*lines, f"    {target} = {source};"])


@functools.cache
def distinct(name: str, code: str, one: bool, inverse: bool) -> str:
    """Of sorted elements the first of each run, where it is, and the run of each element where it was before. Parameters after elements,
    tiles' sums and number of elements: first elements, their places, the elements' places before, runs."""
    visit = ["    *(Pack<SIZE>*)(values + to * SIZE) = *(Pack<SIZE>*)(x + at * SIZE); starts[to] = at;"]
    parameters = ["char* values", "long long* starts", "long long* order", "long long* inverse"]
    return _visit(name, code, True, one, parameters, visit, _RUNS if inverse else "")


@functools.cache
def few_distinct(name: str, code: str, one: bool, inverse: bool) -> str:
    """The same for sorted elements that are one tile, which need nobody to have counted: first elements, how often they occur, the elements'
    places before, runs, and what gets the number of runs."""
    visit = ["    *(Pack<SIZE>*)(values + to * SIZE) = *(Pack<SIZE>*)(x + at * SIZE);"]
    visit += ["    counts[to] = (k + 1 < whole ? list[k + 1] : n) - at;", "    if (k == 0) *answer = whole;"]
    parameters = ["char* values", "long long* counts", "long long* order", "long long* inverse", "long long* answer"]
    return _visit(name, code, True, one, parameters, visit, _RUNS if inverse else "")


@functools.cache
def lengths(name: str) -> str:
    """Parameters: where runs begin, how long they are; number of runs, and of elements."""
    return f"""
{KERNEL} void {name}(long long* starts, long long* counts, long long runs, long long n) {{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < runs; i += gridDim.x * (long long)blockDim.x)
    counts[i] = (i + 1 < runs ? starts[i + 1] : n) - starts[i];
}}
"""
