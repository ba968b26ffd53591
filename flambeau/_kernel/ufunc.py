"""Gives machine code to NumPy as real ufuncs, so that broadcasting, strides and `out=` cost what NumPy costs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_VOID_P = ctypes.c_void_p
_TYPE_NUMBER = {
    "b1": np.dtype("?").num, "i8": np.dtype("i1").num, "i16": np.dtype("i2").num, "i32": np.dtype("i4").num,
    "i64": np.dtype("i8").num, "u8": np.dtype("u1").num, "u16": np.dtype("u2").num, "u32": np.dtype("u4").num,
    "u64": np.dtype("u8").num, "f16": np.dtype("f2").num, "f32": np.dtype("f4").num, "f64": np.dtype("f8").num,
    "c64": np.dtype("c8").num, "c128": np.dtype("c16").num,
    "bf16": np.dtype("u2").num,  # NumPy sees the bits
}  # fmt: skip
_kept: list[Any] = []  # NumPy keeps pointers into these
addresses: dict[Any, int] = {}  # of the loops behind our ufuncs


def _api(index: int, *arguments: Any) -> Callable[..., Any]:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _VOID_P, [ctypes.py_object, ctypes.c_char_p]
    table = get(np._core._multiarray_umath._UFUNC_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(_VOID_P))[index]
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(address)


def make_ufunc(name: str, address: int, inputs: Sequence[str], outputs: Sequence[str], signature: str = "") -> Any:
    """A ufunc (a generalized one if a signature is given) with the one loop at `address`."""
    types = bytes(_TYPE_NUMBER[t] for t in [*inputs, *outputs])
    loops, data = (_VOID_P * 1)(address), (_VOID_P * 1)(None)
    codes, label = ctypes.create_string_buffer(types), ctypes.c_char_p(name.encode())
    _kept.append((loops, data, codes, label))
    common = [_VOID_P, _VOID_P, _VOID_P, *[ctypes.c_int] * 4, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    values = [loops, data, codes, 1, len(inputs), len(outputs), -1, label, None, 0]
    if signature:
        text = ctypes.c_char_p(signature.encode())
        _kept.append(text)
        made = _api(31, *common, ctypes.c_char_p)(*values, text)
    else:
        made = _api(1, *common)(*values)
    addresses[made] = address
    return made
