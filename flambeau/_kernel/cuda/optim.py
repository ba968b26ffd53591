"""CUDA text of optimizer steps over many parameters at once: one launch, whose blocks look up what they work on.

The table has a row for each parameter: the number of blocks up to its end, its length, the addresses of parameter,
gradient and states, and the numbers that its elements share (as doubles).
"""

from __future__ import annotations

from typing import Any

from ..render.symbols import symbols
from ..render.value import COMPUTE, SIZE, Value
from .render import KERNEL, Cuda, joined

THREADS = 256
CHUNK = 4096  # elements that one block takes
_PLAIN = {"f32": "float", "f64": "double"}


def render(name: str, update: Any, options: Any, code: str, states: int, numbers: int) -> str:
    """The kernel of a formula's `update`; its parameters are the table and the number of rows."""
    operands, compute = 2 + states, COMPUTE.get(code, code)
    kind = _PLAIN[compute]
    pointers = [f"char* x{k}" for k in range(operands)]
    r = Cuda("element", [*pointers, *(f"{kind} n{k}" for k in range(numbers))], "__device__ __forceinline__")
    p, g, *old = [r.load(f"x{k}", code) for k in range(operands)]
    new, changed = update(symbols, p, g, old, [Value(r, f"n{k}", compute) for k in range(numbers)], options)
    for k, value in zip((0, *range(2, operands)), (new, *changed), strict=True):
        r.store(f"x{k}", code, value)
    width = 2 + operands + numbers
    lines = [f"  char* x{k} = (char*)row[{2 + k}];" for k in range(operands)]
    lines += [f"  {kind} n{k} = ({kind})__longlong_as_double(row[{2 + operands + k}]);" for k in range(numbers)]
    places = [*(f"x{k} + i * {SIZE[code]}" for k in range(operands)), *(f"n{k}" for k in range(numbers))]
    return _over_rows(name, r, "", "", "\n".join(lines), f"element({', '.join(places)});", width)


def render_unscale(name: str, code: str) -> str:
    """The kernel that multiplies elements by a number and makes `found` 1 if one of them is infinite or NaN. The addresses of both follow the
    table; its rows have the end in blocks, the length and the address."""
    compute = COMPUTE.get(code, code)
    r = Cuda("element", ["char* x", f"{_PLAIN[compute]} factor", "char* odd"], "__device__ __forceinline__")
    value = r.load("x", code)
    r.store("odd", compute, r.load("odd", compute) + value * 0.0)  # NaN from then on
    r.store("x", code, value * Value(r, "factor", compute))
    setup = f"  char* x = (char*)row[2];\n  {_PLAIN[compute]} odd = 0, times = *factor;"
    step = f"element(x + i * {SIZE[code]}, times, (char*)&odd);"
    return _over_rows(name, r, ", const float* factor, float* found", "  if (odd != odd) *found = 1;\n", setup, step, 3)


def _over_rows(name: str, element: Cuda, more: str, end: str, setup: str, step: str, width: int) -> str:
    """A kernel whose blocks find their row of the table, and do a step for each element of their piece of it."""
    return f"""{joined([element])}
{KERNEL} void {name}(const long long* table, long long rows{more}) {{
  long long block = blockIdx.x, low = 0, high = rows - 1;
  while (low < high) {{
    long long middle = (low + high) / 2;
    if (table[middle * {width}] > block) high = middle; else low = middle + 1;
  }}
  const long long* row = table + low * {width};
  long long begin = (block - (low ? row[-{width}] : 0)) * {CHUNK}, n = row[1];
  long long stop = begin + {CHUNK} < n ? begin + {CHUNK} : n;
{setup}
  #pragma unroll 4
  for (long long i = begin + threadIdx.x; i < stop; i += {THREADS}) {step}
{end}}}
"""
