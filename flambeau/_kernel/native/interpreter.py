"""What machine code knows of this interpreter: where objects have their slots, and which objects and functions it meets by address.

Everything is looked at before it is relied upon; where it is not as expected, there is no native entry and Python's functions do the work.
"""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np

from ..._core.c_interface import c_function, capsule_pointer
from ..._core.state import modes

HEAD = object.__basicsize__  # where an array's own fields begin
TYPE = HEAD - 8
_NEW_FROM_DESCR = 94  # the place of PyArray_NewFromDescr in NumPy's table of functions
# Objects and functions that the machine code must know, by their addresses in this process.
KNOWN_NAMES = (
    "tensor", "parameter", "ndarray", "new", "attach", "zero", "one", "none", "true", "false", "float", "int", "tuple", "list", "size",
    "str", "dtype", "new_tuple", "modes", "local", "grad", "mark", "node", "kept", "sequence", "inference", "seen", "two", "three",
    "device", "gpu", "destination", "settings", "allocate", "handler", "views", "storage", "add_view", "inherited",
    "autocast", "casting", "out", "device_views", "nowhere", "place", "usual", "where",
)  # fmt: skip


def slot_offset(slot: Any) -> int:
    """Where an attribute that is a slot lies in its objects."""
    member = ctypes.c_void_p.from_address(id(slot) + HEAD + 3 * 8).value  # a descriptor: type, name, qualified name
    assert member is not None
    return ctypes.c_ssize_t.from_address(member + 16).value  # a member: name, type, offset


def _buffer_offset() -> int:
    """Where an `array.array` has the address of its elements."""
    probe = array.array("q", [0])
    return next(
        i for i in range(HEAD, 64, 8) if ctypes.c_int64.from_address(id(probe) + i).value == probe.buffer_info()[0]
    )


def new_array() -> int | None:
    """The address of PyArray_NewFromDescr; None if it is not where it should be."""
    table = capsule_pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[_NEW_FROM_DESCR]
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, integer, pointer, pointer, pointer, integer, pointer
    )(address)
    d, shape = np.dtype(np.int16), (ctypes.c_ssize_t * 2)(3, 5)
    c_function("Py_IncRef", None, ctypes.py_object)(d)  # the function takes one
    made = make(np.ndarray, d, 2, ctypes.addressof(shape), None, None, 0, None)
    fits = made.__class__ is np.ndarray and made.shape == (3, 5) and made.dtype is d and made.flags.c_contiguous
    return address if fits else None


class Offsets:
    """Where the machine code finds the slots of objects."""

    on: int

    def __init__(self, tensor: Any, node: Any, kept: Any, site: Any) -> None:
        moment: Any = type(modes)
        for name in ("on", "inferring", "default", "overrides", "watching"):
            setattr(self, name, slot_offset(getattr(moment, name)))
        self.array, self.dtype, self.k = slot_offset(tensor._array), slot_offset(tensor.dtype), slot_offset(tensor._k)
        self.edge, self.meta = slot_offset(tensor._edge), slot_offset(tensor._autograd_meta)
        self.storage, self.view = slot_offset(tensor._storage), slot_offset(tensor._view)
        self.words, self.buffer = slot_offset(site.words), _buffer_offset()
        self.version = slot_offset(kept.version)
        for name in ("array", "dtype", "k", "number", "shared", "views"):
            setattr(self, f"kept_{name}", slot_offset(getattr(kept, name)))
        for name in ("op", "edges", "saved", "outputs", "versions", "info", "hooks", "pre_hooks", "seq", "label"):
            setattr(self, f"node_{name}", slot_offset(getattr(node, name)))

    def hold(self, tensor: Any) -> bool:
        """Whether slots lie where this says, in a tensor made for the purpose."""
        probe = object.__new__(tensor)
        slots = {"_array": self.array, "dtype": self.dtype, "_k": self.k, "_edge": self.edge, "_view": self.view}
        slots |= {"_autograd_meta": self.meta, "_storage": self.storage}
        for name, offset in slots.items():
            mark = object()
            setattr(probe, name, mark)
            if ctypes.c_void_p.from_address(id(probe) + offset).value != id(mark):
                return False
        return ctypes.c_void_p.from_address(id(modes) + self.on).value == id(modes.on)
