"""CUDA text that takes whole rows by index: a row is moved in words of 16 bytes where it lies so that it can be."""

from __future__ import annotations

import functools

from .render import KERNEL, PACKS

THREADS = 256
_WORD = 16  # bytes that a thread moves at once

_TEXT = """
  int lane = threadIdx.x % LANES;
  long long at = blockIdx.x * (long long)(THREADS / LANES) + threadIdx.x / LANES;
  if (at >= n) return;
  long long j = index[at];
  if (FROM_END && j < 0) j += size;
  if (j < 0 || j >= size) { if (lane == 0) *wrong = 1; return; }
  const char* __restrict__ from = x + j * step;
  char* __restrict__ to = out + at * bytes;
  if ((((unsigned long long)from | (unsigned long long)to | (unsigned long long)bytes) & 15) == 0) {
    #pragma unroll 4
    for (long long i = lane; i < bytes / 16; i += LANES) ((uint4*)to)[i] = ((const uint4*)from)[i];
  } else {
    #pragma unroll 4
    for (long long i = lane; i < bytes / SIZE; i += LANES) ((Pack<SIZE>*)to)[i] = ((const Pack<SIZE>*)from)[i];
  }
"""


def lanes(size: int) -> int:
    """Threads that move a row of so many bytes."""
    return min(THREADS, 1 << max(-(-size // _WORD) - 1, 0).bit_length())


@functools.cache
def take_rows(name: str, size: int, index: str, lanes: int, from_end: bool) -> str:
    """Rows of elements of `size` bytes. Parameters: elements, indices, result, what is told of an index out of range; number of indices, of
    rows, bytes of a row and from one to the next."""
    words = {"SIZE": size, "LANES": lanes, "THREADS": THREADS, "FROM_END": int(from_end)}
    defined = "\n".join(f"#define {word} {value}" for word, value in words.items())
    kind = {"i32": "int", "i64": "long long"}[index]
    pointers = f"char* x, {kind}* index, char* out, long long* wrong"
    return f"""{PACKS}
{defined}
{KERNEL} void __launch_bounds__({THREADS}) {name}({pointers}, long long n, long long size, long long bytes, long long step) {{{_TEXT}}}
"""
