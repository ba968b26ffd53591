"""CUDA text that copies several arrays of few elements in one launch."""

from __future__ import annotations

import functools

from .render import KERNEL, PACKS, elements, geometry


@functools.cache
def join(name: str, size: int, parts: tuple[tuple[int, str], ...]) -> str:
    """Copies of elements of `size` bytes, each by blocks of its own (`blockIdx.y`). For each part its rank and how elements are numbered, as
    `render` has them. Parameters: for each part the array, where it goes, and what says where elements are."""
    functions, calls, parameters = dict[str, str](), [], []
    for k, (rank, index) in enumerate(parts):
        part, numbers = f"copy_{rank}_{index}", geometry(2, rank)
        functions[part] = f"""__device__ __forceinline__ void {part}(char* x0, char* x1, {", ".join(numbers)}) {{
{elements(2, rank, index)}
  *(Pack<{size}>*)(x1 + o1) = *(Pack<{size}>*)(x0 + o0);
  }}
}}"""
        own = [f"{kind} p{k}_{i}" for i, kind in enumerate(["char*", "char*", *["long long"] * len(numbers)])]
        calls.append(f"  if (blockIdx.y == {k}) {part}({', '.join([p.split()[-1] for p in own])});")
        parameters += own
    return "\n".join([PACKS, *functions.values(), f"{KERNEL} void {name}({', '.join(parameters)}) {{", *calls, "}"])
