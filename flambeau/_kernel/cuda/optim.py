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
    setup = "\n".join(lines)
    return f"""{joined([r])}
{KERNEL} void {name}(const long long* table, long long rows) {{
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
  for (long long i = begin + threadIdx.x; i < stop; i += {THREADS}) element({", ".join(places)});
}}
"""
