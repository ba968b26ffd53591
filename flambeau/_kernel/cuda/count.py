"""CUDA text of counts: how often integers occur, or floats in bins of equal width, or which weights they have together."""

from __future__ import annotations

import functools

from ..loops.pointwise import load, store
from ..render.symbols import symbols
from ..render.value import COMPUTE, Value
from .render import KERNEL, Cuda, joined

_NUMBERS = ("low", "high", "bins", "width")
_TABLE = 4096  # counts that a block has of its own

_TEXT = """
  __shared__ int table[TABLE];
  bool own = !WEIGHED && length <= TABLE;
  if (own) for (int i = threadIdx.x; i < length; i += blockDim.x) table[i] = 0;
  __syncthreads();
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x) {
    long long place; bin_of(x + i * step, low, high, bins, width, length, (char*)&place);
    if (place < 0 || place >= length) continue;
    if (own) atomicAdd(&table[place], 1);
    else { SUM one = 1; WEIGH atomicAdd(&out[place], one); }
  }
  __syncthreads();
  if (own) for (int i = threadIdx.x; i < length; i += blockDim.x) if (table[i]) atomicAdd(&out[i], (SUM)table[i]);
"""


def _bin(code: str, even: bool) -> str:
    """Where an element counts; a place that is none if it does not. Every step in bins of `even` width is rounded to its precision."""
    parameters = ["char* x", *[f"double {n}" for n in _NUMBERS], "long long length", "char* made"]
    r = Cuda("bin_of", parameters, "__device__ __forceinline__")
    v, m = load(r, "x", code), symbols
    place = v
    if even:
        low, high, bins, width = (m.cast(Value(r, n, "f64"), v.type) for n in _NUMBERS)
        rounded = lambda a: m.stored(a, code) if code in COMPUTE else a
        inside = (v >= low) & (v <= high)
        place = rounded(rounded(rounded(m.where(inside, v, low) - low) * bins) / width)
        last = Value(r, "length", "i64") - 1
        place = m.where(inside, m.minimum(m.cast(place, "i64"), last), -1)
    store(r, "made", "i64", m.cast(place, "i64"))
    return joined([r])


@functools.cache
def count(name: str, code: str, even: bool, weight: str | None) -> str:
    """Parameters: a vector, its weights, counts that are 0 (float64 with weights, int64 without); length of the vector, bytes from one element
    and weight to the next, number of counts; of bins of `even` width low and high end, number and width of all, as elements."""
    total, weigh = (
        ("unsigned long long", "") if weight is None else ("double", "weigh(w + i * weight_step, (char*)&one);")
    )
    r = Cuda("weigh", ["char* w", "char* made"], "__device__ __forceinline__")
    if weight is not None:
        store(r, "made", "f64", symbols.cast(load(r, "w", weight), "f64"))
    words = {"TABLE": _TABLE, "WEIGHED": int(weight is not None), "SUM": total, "WEIGH": weigh}
    defined = "\n".join(f"#define {word} {text}" for word, text in words.items())
    numbers = [f"long long {n}" for n in ("n", "step", "weight_step", "length")] + [f"double {n}" for n in _NUMBERS]
    return f"""{defined}
{joined([r])}
{_bin(code, even)}
{KERNEL} void {name}(char* x, char* w, {total}* out, {", ".join(numbers)}) {{{_TEXT}}}
"""
