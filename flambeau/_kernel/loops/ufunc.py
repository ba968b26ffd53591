"""Gives machine code to NumPy as real ufuncs, so that broadcasting, strides and `out=` cost what NumPy costs."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.c_interface import capsule_pointer
from ..building import jit
from ..threads import pool

_VOID_P = ctypes.c_void_p
_TYPE_NUMBER = {
    "b1": np.dtype("?").num, "i8": np.dtype("i1").num, "i16": np.dtype("i2").num, "i32": np.dtype("i4").num,
    "i64": np.dtype("i8").num, "u8": np.dtype("u1").num, "u16": np.dtype("u2").num, "u32": np.dtype("u4").num,
    "u64": np.dtype("u8").num, "f16": np.dtype("f2").num, "f32": np.dtype("f4").num, "f64": np.dtype("f8").num,
    "c64": np.dtype("c8").num, "c128": np.dtype("c16").num,
    "bf16": np.dtype("u2").num,  # NumPy sees the bits
}  # fmt: skip
_CODE: dict[str, str] = {np.dtype(t).char: code for code, t in {
    "b1": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16",
}.items()}  # fmt: skip
_kept: list[Any] = []  # NumPy keeps pointers into these
addresses: dict[Any, int] = {}  # of the loops behind our ufuncs, on one thread
loops: dict[Any, tuple[int, Any]] = {}  # the loops as NumPy calls them, with their data


def _api(index: int, *arguments: Any) -> Callable[..., Any]:
    table = capsule_pointer(np._core._multiarray_umath._UFUNC_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(_VOID_P))[index]
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(address)


def make_ufunc(
    name: str, address: int, inputs: Sequence[str], outputs: Sequence[str], signature: str = "", data: Any = None
) -> Any:
    """A ufunc (a generalized one if a signature is given) with the one loop at `address`, which gets `data` (an array)."""
    types = bytes(_TYPE_NUMBER[t] for t in [*inputs, *outputs])
    own, places = (_VOID_P * 1)(address), (_VOID_P * 1)(data.buffer_info()[0] if data is not None else None)
    codes, label = ctypes.create_string_buffer(types), ctypes.c_char_p(name.encode())
    _kept.append((own, places, codes, label, data))
    common = [_VOID_P, _VOID_P, _VOID_P, *[ctypes.c_int] * 4, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    values = [own, places, codes, 1, len(inputs), len(outputs), -1, label, None, 0]
    if signature:
        text = ctypes.c_char_p(signature.encode())
        _kept.append(text)
        made = _api(31, *common, ctypes.c_char_p)(*values, text)
    else:
        made = _api(1, *common)(*values)
    addresses[made] = address if data is None else data[0]
    loops[made] = address, data
    return made


def rendered(signature: str, *kinds: str) -> Callable[[Callable[..., str]], Callable[..., Any]]:
    """Makes a function of an element type (and of other facts) that gives the text of a kernel one that gives its ufunc. `kinds` are the
    types of the operands; those that are empty are the element type."""

    def decorate(render: Callable[..., str]) -> Callable[..., Any]:
        address, count = jit.rendered(render), signature.partition("->")[0].count("(")

        @functools.cache
        @functools.wraps(render)
        def ufunc(type: str, *facts: Any) -> Any:
            types = [kind or type for kind in kinds]
            return make_ufunc(render.__name__, address(type, *facts), types[:count], types[count:], signature)

        return ufunc

    return decorate


class _Foreign:
    """The data of a loop that is not ours."""

    def __init__(self, address: int, data: int):
        self.address, self.data = address, data

    def buffer_info(self) -> tuple[int, int]:
        return self.data, 0

    def __getitem__(self, place: int) -> int:
        return self.address


def adopted(ufunc: Any, types: str) -> Any:
    """The loop of a generalized ufunc of NumPy's for such types as a ufunc of ours, of which there can be plans; the ufunc itself if its
    loops are not where NumPy's headers say they are."""
    head = object.__basicsize__
    counts = (ctypes.c_int * 3).from_address(id(ufunc) + head)
    functions, data, known = (_VOID_P * 3).from_address(id(ufunc) + head + 16)
    if types not in ufunc.types or list(counts) != [ufunc.nin, ufunc.nout, ufunc.nargs] or not ufunc.signature:
        return ufunc
    if ((known or 0) & 0xFFFFFFFF) != len(ufunc.types):
        return ufunc
    place = ufunc.types.index(types)
    address, own = (_VOID_P.from_address(start + 8 * place).value or 0 if start else 0 for start in (functions, data))
    sides = types.partition("->")
    inputs, outputs = ([_CODE[c] for c in side] for side in (sides[0], sides[2]))
    made = make_ufunc(ufunc.__name__, address, inputs, outputs, ufunc.signature, _Foreign(address, own))
    del addresses[made]  # it always needs its data
    return made


_splitting: dict[Any, Any] = {}


def splitting(ufunc: Any, weight: int = 8) -> Any:
    """The same generalized ufunc, whose loop runs on several threads if it is long; its iterations are independent.

    An element of its extents costs as much as `weight` additions: whoever asks for it knows that it pays."""
    found = _splitting.get((ufunc, weight))
    if found is None:
        core = len(set(re.findall(r"\w+", ufunc.signature)))
        types = ufunc.types[0].partition("->")
        kinds = [[_CODE[t] for t in part] for part in (types[0], types[2])]
        results = 0 if core else ufunc.nout
        address, data = pool.splitting(addresses[ufunc], ufunc.nargs, 1 + core, weight, results)
        found = make_ufunc(ufunc.__name__, address, kinds[0], kinds[1], ufunc.signature, data)
        _splitting[ufunc, weight] = found
    return found
