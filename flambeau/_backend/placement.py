"""Which device a `device=` argument means: the property bits of tensors there, and PyTorch's errors where it is not."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.devices import device, get_default_device
from .._core.layouts import is_dense
from .._core.state import CUDA, DISPATCH, META, local, modes


@functools.cache
def cuda_problem() -> Exception | None:
    """Why CUDA cannot be used, or None if it can; looks once."""
    try:
        import cupy  # only to look for a GPU

        count = cupy.cuda.runtime.getDeviceCount()
    except ModuleNotFoundError:
        return AssertionError(
            "Torch not compiled with CUDA enabled (flambeau reaches CUDA through CuPy, which is not installed)"
        )
    except Exception as error:  # CuPy without a driver raises its own kinds of errors
        return RuntimeError(f"No CUDA GPUs are available: {error}")
    return None if count else RuntimeError("No CUDA GPUs are available")


@functools.cache
def gpu_count() -> int:
    """How many GPUs there are."""
    if cuda_problem() is not None:
        return 0
    import cupy  # only to look for GPUs

    return int(cupy.cuda.runtime.getDeviceCount())


def pinned(array: Any) -> Any:
    """A copy of an array in memory that GPUs read directly."""
    import cupy  # there is a GPU

    memory = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(array.nbytes, 1)), np.uint8, array.nbytes)
    strides = array.strides if is_dense(array.shape, array.strides, array.itemsize) else None
    made = np.ndarray(array.shape, array.dtype, memory, 0, strides)
    made[...] = array
    return made


def as_device(given: Any) -> device:
    """A device from any form of a `device=` argument; None means the default device."""
    if given.__class__ is device:
        return given
    return get_default_device() if given is None else device(given)


def bits(given: Any) -> int:
    """The bits in `_k` of tensors on a device (None: the default one); raises if there is no such device."""
    if modes.on & DISPATCH and local.fake is not None:
        return META
    kind = as_device(given).type
    if kind == "cpu":
        return 0
    if kind == "meta":
        return META
    if kind == "cuda":
        problem = cuda_problem()
        if problem is not None:
            raise problem
        return CUDA
    if kind == "mps":
        raise RuntimeError("PyTorch is not linked with support for mps devices")
    raise AssertionError(f"Torch not compiled with {kind.upper()} enabled")
