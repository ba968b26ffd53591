"""Meta tensors: shapes without data. Their arrays are read-only views of one reserved, never filled, range of memory,
so that every view of them is computed by NumPy itself."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from .._core.dtypes import dtype, from_numpy_dtype

_SPACE = 1 << 44  # bytes of address space; nothing is ever stored there
_ZERO_RUN = 1 << 20
_state: dict[str, Any] = {}


def _space() -> Any:
    if not _state:
        reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
        size = _SPACE
        while True:
            try:
                area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve, prot=mmap.PROT_READ)
                break
            except (OSError, ValueError):
                size >>= 1
                if size < 1 << 30:
                    raise RuntimeError("meta tensors need 1 GiB of address space") from None
        _state["bytes"] = np.frombuffer(area, np.uint8)
    return _state["bytes"]


def empty_meta(shape: Any, d: dtype, strides: tuple[int, ...] | None = None) -> Any:
    """An array of a shape and dtype over no memory; row-major unless dense strides (in elements) are given."""
    shape = tuple(shape)
    count = 1
    for n in shape:
        count *= n
    space = _space()
    if count * d.itemsize > space.size:
        raise RuntimeError(
            f"a meta tensor of shape {list(shape)} is larger than the address space reserved for meta tensors"
        )
    flat = space[: max(count, 1) * d.itemsize].view(d.numpy)
    if strides is None:
        return flat[:count].reshape(shape)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * d.itemsize for s in strides], writeable=False)


def holds(array: Any) -> bool:
    """Whether a NumPy array is one of those over no memory."""
    if not _state:
        return False
    start = _state["bytes"].__array_interface__["data"][0]
    return bool(start <= array.__array_interface__["data"][0] < start + _state["bytes"].size)


def run_on_zeros(op: Any, arrays: list[Any], static: Any) -> Any:
    """The shape of a result found by computing it: for ops without a shape rule, while their inputs are small."""
    from .cpu import cpu

    def real(a: Any) -> Any:
        if isinstance(a, list):
            return [real(b) for b in a]
        if not isinstance(a, np.ndarray):
            return a
        if a.size > _ZERO_RUN:
            raise NotImplementedError(f"{op.name}: no shape rule for meta tensors of this size")
        return np.zeros(a.shape, a.dtype)

    made = op.forward(cpu, *[real(a) for a in arrays], *static)

    def back(m: Any) -> Any:
        if isinstance(m, (tuple, list)):
            return type(m)(back(part) for part in m)
        if isinstance(m, (np.ndarray, np.generic)):
            return empty_meta(m.shape, from_numpy_dtype(m.dtype))
        return m

    return back(made)
