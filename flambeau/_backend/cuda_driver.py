"""Addresses of C functions of the CUDA driver and of CuPy, for machine code that calls them."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from .._core.c_interface import capsule_name, capsule_pointer


def addresses() -> dict[str, int]:
    """Those that the native entry calls; raises if one is not found."""
    driver = ctypes.CDLL("libcuda.so.1")
    return {
        "launch": address_of(driver.cuLaunchKernel),
        "stream": exported("cupy_backends.cuda.stream", "get_current_stream_ptr"),
    }


def address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def exported(module: str, name: str) -> int:
    """A function that one module written in Cython offers to others."""
    capsule = importlib.import_module(module).__pyx_capi__[name]
    signature = capsule_name(capsule)
    if signature.split(b" (")[0] != b"intptr_t" or b"(void)" not in signature:
        raise LookupError(f"{name} is not what it was: {signature!r}")
    return capsule_pointer(capsule, signature)
