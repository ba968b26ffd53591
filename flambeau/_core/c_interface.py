"""Functions of Python's own C interface, each with a prototype that nobody else can change.

What is set as argument types on `ctypes.pythonapi.f` holds for all threads and all libraries: a call in another thread would read its
arguments by it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def c_function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function by its name, for results and arguments of these types.

    >>> c_function("PyLong_AsLong", ctypes.c_long, ctypes.py_object)(7)
    7
    """
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


def c_address(name: str) -> int:
    """Where a function lies; 0 if this Python has none of that name."""
    function = getattr(ctypes.pythonapi, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def capsule_pointer(capsule: Any, name: bytes | None) -> int:
    """The address in a capsule of that name."""
    return c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(capsule, name) or 0


def capsule_name(capsule: Any) -> bytes:
    return c_function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)(capsule) or b""
