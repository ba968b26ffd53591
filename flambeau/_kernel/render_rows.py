"""CUDA text of kernels over rows: values folded along them by threads together, then elements made from the totals.

A program is a list of stages `(fold, lift)` and a last step. `lift(m, *elements, *totals, count)` is what a stage adds
up (`FOLDS[fold]` says how), the totals of earlier stages and the length of a row being at hand; the last step gives
either every element of the results or one value for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .lang import KernelScope
from .loops import load, store
from .reduce import FOLDS
from .render_cuda import KERNEL, Cuda, joined
from .symbols import symbols
from .value import SIZE, Value

THREADS = 256
_PACK = 16  # bytes that a thread reads at once
_PACK_TYPE = "template <int size> struct alignas(size < 16 ? size : 16) Pack { char bytes[size]; };"


class Rows(NamedTuple):
    """What is computed along rows."""

    stages: tuple[tuple[str, Callable[..., Any]], ...]
    last: Callable[..., Any]  # (m, *elements, *totals, count) or, for one value a row, (m, *totals, count)
    each: bool = True  # whether the last step is made for every element


def total_types(rows: Rows, code: str) -> list[str]:
    """The types in which the stages add up."""
    return [FOLDS[fold].wide(code) for fold, _ in rows.stages]


def _functions(rows: Rows, inputs: Sequence[str], outputs: Sequence[str], code: str) -> str:
    """The device functions: of each stage its start, one element's part and the joining of two totals; the last step."""
    types = total_types(rows, code)
    made = []
    elements = [f"char* x{k}" for k in range(len(inputs))]
    totals = [f"char* t{s}" for s in range(len(types))]

    def function(name: str, parameters: list[str]) -> Cuda:
        made.append(Cuda(name, parameters, "__device__ __forceinline__"))
        return made[-1]

    def loaded(r: Cuda, kinds: Sequence[str], prefix: str) -> list[Any]:
        return [load(r, f"{prefix}{k}", t) for k, t in enumerate(kinds)]

    for s, ((fold, lift), wide) in enumerate(zip(rows.stages, types)):
        f = FOLDS[fold]
        r = function(f"start{s}", ["char* total"])
        store(r, "total", wide, KernelScope(r).value(f.start(wide), wide))
        r = function(f"take{s}", ["char* total", *elements, *totals[:s], "long long count"])
        part = lift(symbols, *loaded(r, inputs, "x"), *loaded(r, types[:s], "t"), Value(r, "count", "i64"))
        store(r, "total", wide, f.join(symbols, load(r, "total", wide), symbols.cast(part, wide)))
        r = function(f"join{s}", ["char* total", "char* other"])
        store(r, "total", wide, f.join(symbols, load(r, "total", wide), load(r, "other", wide)))
    targets = [f"char* y{k}" for k in range(len(outputs))]
    r = function("last", [*(elements if rows.each else []), *totals, *targets, "long long count"])
    given = loaded(r, inputs, "x") if rows.each else []
    results = rows.last(symbols, *given, *loaded(r, types, "t"), Value(r, "count", "i64"))
    for k, (t, value) in enumerate(zip(outputs, results if isinstance(results, tuple) else (results,))):
        store(r, f"y{k}", t, value)
    return joined(made)


def _offsets(name: str, index: str, rank: int, size: str, strides: str) -> list[str]:
    """Lines that turn a number into an offset, by extents `size`d and strides `strides`d of merged dimensions."""
    lines = [f"    long long rest = {index};"] if rank > 1 else []
    for d in range(rank - 1, 0, -1):
        lines.append(f"    {name} += (rest % {size}{d}) * {strides}{d}; rest /= {size}{d};")
    lines.append(f"    {name} += {'rest' if rank > 1 else index} * {strides}0;")
    return ["  {", *lines, "  }"]


class _Text:
    """The body of one row kernel, written line by line."""

    def __init__(self, types: Sequence[str], reads: int, outer: int, inner: int, dense: bool):
        self.types, self.reads, self.inner = types, reads, inner
        self.count = _PACK // max(SIZE[t] for t in types) if dense else 1
        self.lines: list[str] = []
        for k in range(len(types)):
            self.lines += [f"  long long o{k} = 0;", *_offsets(f"o{k}", "row", outer, "m", f"s{k}_")]
        together = " | ".join(f"(unsigned long long)(x{k} + o{k})" for k in range(len(types)))
        if self.count > 1:
            self.lines.append(
                f"  long long packed = (({together}) & {_PACK - 1}) == 0 && stop > begin ? begin + (stop - begin) / {self.count} * {self.count} : begin;"
            )
        else:
            self.lines.append("  long long packed = begin;")

    def loop(self, call: Callable[[Callable[[int], str]], str], used: Sequence[int]) -> None:
        """A call for every element of the row that this thread has; `call` gets what says where an operand's is."""
        lines, count, sizes = self.lines, self.count, [SIZE[t] for t in self.types]
        if count > 1:
            lines.append(f"  for (long long i = begin + lane * {count}; i < packed; i += lanes * {count}) {{")
            lines += [f"  Pack<{sizes[k] * count}> a{k};" for k in used]
            lines += [
                f"  a{k} = *(Pack<{sizes[k] * count}>*)(x{k} + o{k} + i * {sizes[k]});" for k in used if k < self.reads
            ]
            lines += [
                "  #pragma unroll",
                f"  for (int j = 0; j < {count}; ++j) {call(lambda k: f'a{k}.bytes + j * {sizes[k]}')}",
            ]
            lines += [
                f"  *(Pack<{sizes[k] * count}>*)(x{k} + o{k} + i * {sizes[k]}) = a{k};" for k in used if k >= self.reads
            ]
            lines.append("  }")
        lines.append("  for (long long i = packed + lane; i < stop; i += lanes) {")
        for k in used:
            lines += [f"  long long p{k} = o{k};", *_offsets(f"p{k}", "i", self.inner, "n", f"t{k}_")]
        lines += [f"  {call(lambda k: f'x{k} + p{k}')}", "  }"]


def render_rows(
    name: str,
    rows: Rows,
    inputs: Sequence[str],
    outputs: Sequence[str],
    code: str,
    outer: int,
    inner: int,
    dense: bool = False,
) -> str:
    """CUDA text. `code` is the element type that says how totals are kept; `outer` and `inner` count the merged
    dimensions around and along the rows; `dense` promises that rows are contiguous.

    Parameters: pointers; number of rows m and their length n; elements that one block takes of a row; what
    `count` is in the last step; lanes (threads that share a row) and whether neighbouring threads have neighbouring
    rows; bytes between the results of two blocks of a row; extents; strides of each operand, outer then inner.
    """
    totals = total_types(rows, code)
    reads, operands = len(inputs), len(inputs) + len(outputs)
    sizes = [f"m{d}" for d in range(1, outer)] + [f"n{d}" for d in range(1, inner)]
    strides = [f"{p}{k}_{d}" for k in range(operands) for p, rank in (("s", outer), ("t", inner)) for d in range(rank)]
    numbers = ["m", "n", "piece", "count", "lanes", "columns", "between", *sizes, *strides]
    text = _Text([*inputs, *(outputs if rows.each else ())], reads, outer, inner, dense)
    if not rows.each:
        for k in range(reads, operands):
            text.lines += [f"  long long o{k} = 0;", *_offsets(f"o{k}", "row", outer, "m", f"s{k}_")]
    for s, t in enumerate(totals):
        earlier = [f"total{e}.bytes" for e in range(s)]
        text.lines.append(f"  Pack<{SIZE[t]}> total{s}; start{s}(total{s}.bytes);")
        text.loop(
            lambda place: f"take{s}({', '.join([f'total{s}.bytes', *map(place, range(reads)), *earlier, 'count'])});",
            range(reads),
        )
        text.lines += [
            f"  *(Pack<{SIZE[t]}>*)space[t].bytes = total{s}; __syncthreads();",
            "  for (int half = lanes / 2; half; half /= 2) {",
            f"  if (lane < half) join{s}(space[t].bytes, space[t + half * next].bytes);", "  __syncthreads();", "  }",
            f"  total{s} = *(Pack<{SIZE[t]}>*)space[head].bytes; __syncthreads();",
        ]  # fmt: skip
    made = [f"total{s}.bytes" for s in range(len(totals))]
    if rows.each:
        everything = range(operands)
        text.loop(
            lambda place: (
                f"last({', '.join([*map(place, range(reads)), *made, *map(place, range(reads, operands)), 'count'])});"
            ),
            everything,
        )
    else:
        targets = [f"x{k} + o{k} + blockIdx.y * between" for k in range(reads, operands)]
        text.lines.append(f"  if (lane == 0 && row < m) last({', '.join([*made, *targets, 'count'])});")
    parameters = ", ".join([*(f"char* x{k}" for k in range(operands)), *(f"long long {n}" for n in numbers)])
    body = "\n".join(text.lines)
    return f"""{_PACK_TYPE}
{_functions(rows, inputs, outputs, code)}
{KERNEL} void {name}({parameters}) {{
  __shared__ Pack<{max(SIZE[t] for t in totals)}> space[{THREADS}];
  int t = threadIdx.x, across = {THREADS} / (int)lanes;
  int lane = columns ? t / across : t % (int)lanes, mine = columns ? t % across : t / (int)lanes;
  int next = columns ? across : 1, head = t - lane * next;
  long long row = blockIdx.x * (long long)across + mine, begin = blockIdx.y * piece;
  long long stop = row < m ? (begin + piece < n ? begin + piece : n) : 0;
{body}
}}
"""
