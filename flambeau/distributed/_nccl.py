"""Calls between GPUs by NCCL, through CuPy."""

from __future__ import annotations

from typing import Any


def installed() -> bool:
    """Whether CuPy is there with NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))


def require() -> Any:
    """`cupy.cuda.nccl`; refuses where there is no GPU for it."""
    if not installed():
        raise RuntimeError(
            "Distributed package doesn't have NCCL built in: it needs CuPy with NCCL and a GPU; use gloo"
        )
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    return cupy.cuda.nccl
