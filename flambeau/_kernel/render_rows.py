"""CUDA text of kernels over rows: values folded along them by threads together, then elements made from the totals.

A program is a list of stages `(fold, lift)` and a last step. `lift(m, *elements, *totals)` is what a stage adds up
(`FOLDS[fold]` says how), the totals of earlier stages being at hand; the last step gives either every element of the
results or one value for each row.
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
_PACK = "template <int size> struct alignas(size < 16 ? size : 16) Pack { char bytes[size]; };"


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
        r = function(f"take{s}", ["char* total", *elements, *totals[:s]])
        part = lift(symbols, *loaded(r, inputs, "x"), *loaded(r, types[:s], "t"))
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
    terms = []
    for d in range(rank - 1, 0, -1):
        lines.append(f"    {name} += (rest % {size}{d}) * {strides}{d}; rest /= {size}{d};")
    terms.append(f"    {name} += {'rest' if rank > 1 else index} * {strides}0;")
    return ["  {", *lines, *terms, "  }"]


def render_rows(
    name: str, rows: Rows, inputs: Sequence[str], outputs: Sequence[str], code: str, outer: int, inner: int
) -> str:
    """CUDA text. `code` is the element type that says how totals are kept; `outer` and `inner` count the merged
    dimensions around and along the rows.

    Parameters: pointers; number of rows m and their length n; elements that one block takes of a row; what
    `count` is in the last step; lanes (threads that share a row) and whether neighbouring threads have neighbouring
    rows; bytes between the results of two blocks of a row; extents; strides of each operand, outer then inner.
    """
    types = total_types(rows, code)
    operands = len(inputs) + len(outputs)
    names = [f"x{k}" for k in range(operands)]
    sizes = [f"m{d}" for d in range(1, outer)] + [f"n{d}" for d in range(1, inner)]
    strides = [f"{p}{k}_{d}" for k in range(operands) for p, rank in (("s", outer), ("t", inner)) for d in range(rank)]
    numbers = ["m", "n", "piece", "count", "lanes", "columns", "between", *sizes, *strides]
    lines = [
        f"  __shared__ Pack<{max(SIZE[t] for t in types)}> space[{THREADS}];",
        f"  int t = threadIdx.x, across = {THREADS} / (int)lanes;",
        "  int lane = columns ? t / across : t % (int)lanes, mine = columns ? t % across : t / (int)lanes;",
        "  int next = columns ? across : 1, head = t - lane * next;",
        "  long long row = blockIdx.x * (long long)across + mine, first = blockIdx.y * piece + lane;",
        "  long long stop = row < m ? (blockIdx.y + 1) * piece < n ? (blockIdx.y + 1) * piece : n : 0;",
    ]
    for k in range(operands):
        lines += [f"  long long o{k} = 0;", *_offsets(f"o{k}", "row", outer, "m", f"s{k}_")]

    def places(numbers: Sequence[int]) -> list[str]:
        found = []
        for k in numbers:
            found += [f"  long long p{k} = o{k};", *_offsets(f"p{k}", "i", inner, "n", f"t{k}_")]
        return found

    given = [f"{names[k]} + p{k}" for k in range(len(inputs))]
    for s, t in enumerate(types):
        earlier = [f"total{e}.bytes" for e in range(s)]
        lines += [
            f"  Pack<{SIZE[t]}> total{s}; start{s}(total{s}.bytes);",
            "  for (long long i = first; i < stop; i += lanes) {", *places(range(len(inputs))),
            f"  take{s}({', '.join([f'total{s}.bytes', *given, *earlier])});", "  }",
            f"  *(Pack<{SIZE[t]}>*)space[t].bytes = total{s}; __syncthreads();",
            "  for (int half = lanes / 2; half; half /= 2) {",
            f"  if (lane < half) join{s}(space[t].bytes, space[t + half * next].bytes);", "  __syncthreads();", "  }",
            f"  total{s} = *(Pack<{SIZE[t]}>*)space[head].bytes; __syncthreads();",
        ]  # fmt: skip
    totals = [f"total{s}.bytes" for s in range(len(types))]
    results = range(len(inputs), operands)
    if rows.each:
        targets = [f"{names[k]} + p{k}" for k in results]
        lines += ["  for (long long i = first; i < stop; i += lanes) {", *places(range(operands))]
        lines += [f"  last({', '.join([*given, *totals, *targets, 'count'])});", "  }"]
    else:
        targets = [f"{names[k]} + o{k} + blockIdx.y * between" for k in results]
        lines += [f"  if (lane == 0 && row < m) last({', '.join([*totals, *targets, 'count'])});"]
    parameters = ", ".join([*(f"char* {n}" for n in names), *(f"long long {n}" for n in numbers)])
    body = "\n".join(lines)
    return f"{_PACK}\n{_functions(rows, inputs, outputs, code)}\n{KERNEL} void {name}({parameters}) {{\n{body}\n}}\n"
