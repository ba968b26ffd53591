"""Meta tensors: shapes without data. Their arrays are read-only views of one reserved, never filled, range of memory,
so that every view of them is computed by NumPy itself; whoever asks for an element gets an error."""

from __future__ import annotations

import mmap
import sys
from typing import Any, NoReturn

import numpy as np

from .._core.dtypes import dtype
from .._core.sizes import contiguous_strides

_SPACE = 1 << 44  # bytes of address space; nothing is ever stored there, and larger arrays reach beyond it
_state: dict[str, Any] = {}


_FEATURES = frozenset(
    [
        "shape", "strides", "dtype", "ndim", "size", "nbytes", "itemsize", "flags", "reshape", "transpose", "T", "view", "swapaxes",
        "squeeze", "real", "imag", "base", "diagonal", "setflags", "_refuse", "__class__", "__array_interface__", "__array_ufunc__",
        "__array_function__", "__array_finalize__", "__array_priority__", "__array_wrap__",
    ]
)  # fmt: skip
_VIEWS = frozenset(
    [
        np.broadcast_to, np.moveaxis, np.swapaxes, np.transpose, np.squeeze, np.expand_dims, np.reshape, np.shape, np.ndim,
        np.lib.stride_tricks.as_strided, np.lib.stride_tricks.sliding_window_view, np.may_share_memory, np.shares_memory,
        np.broadcast_arrays, np.real, np.imag,
    ]
)  # fmt: skip


class Elementless(np.ndarray):
    """An array whose elements nobody may read: a result must not depend on what happens to lie there."""

    def _refuse(self, *args: Any, **named: Any) -> NoReturn:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def __getattribute__(self, name: str) -> Any:
        if name not in _FEATURES:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return super().__getattribute__(name)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        if function not in _VIEWS:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return super().__array_function__(function, types, args, named)

    def __getitem__(self, key: Any) -> Any:
        made = super().__getitem__(key)
        return made if isinstance(made, np.ndarray) else self._refuse()  # an element

    def __iter__(self) -> Any:
        return super().__iter__() if self.ndim > 1 else self._refuse()

    __array_ufunc__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = _refuse
    __setitem__ = __copy__ = __deepcopy__ = __reduce__ = _refuse


def _space() -> Any:
    if not _state:
        reserve = getattr(mmap, "MAP_NORESERVE", 0x40 if sys.platform == "darwin" else 0x4000)
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
    space, size = _space(), d.itemsize
    if count * size <= space.size:
        steps = None if strides is None else [s * size for s in strides]
        return np.ndarray.__new__(Elementless, shape, d.numpy, space, 0, steps)
    if count * size >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    one = np.ndarray.__new__(Elementless, (1,), d.numpy, space)
    steps = [s * size for s in strides or contiguous_strides(shape)]
    return np.lib.stride_tricks.as_strided(one, shape, steps, subok=True, writeable=False)


def holds(array: Any) -> bool:
    """Whether a NumPy array is one of those over no memory."""
    return isinstance(array, Elementless)
