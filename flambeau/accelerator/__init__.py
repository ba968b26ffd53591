"""The device beside the CPU, whatever it is: a CUDA GPU here, or none."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

from .. import cuda
from .._core.devices import device as _device

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream",
    "synchronize",
]  # fmt: skip


def _need() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> import flambeau as torch
    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """How many accelerators there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> _device | None:
    """The accelerator as a device without a number; None if there is none."""
    return _device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The number of the accelerator that is used if none is named."""
    _need()
    return cuda.current_device()


def current_device_idx() -> int:
    """The older name of `current_device_index`."""
    warnings.warn("Use `current_device_index` instead.", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_index(device: Any, /) -> None:
    """Chooses the accelerator that is used if none is named."""
    _need()
    cuda.set_device(device)


def set_device_idx(device: Any, /) -> None:
    """The older name of `set_device_index`."""
    warnings.warn("Use `set_device_index` instead.", FutureWarning, stacklevel=2)
    set_device_index(device)


class device_index:
    """Chooses an accelerator for the time of a `with` block; None changes nothing."""

    def __init__(self, device: int | None, /):
        self._inner = None if device is None else cuda.device(device)

    def __enter__(self) -> None:
        if self._inner is not None:
            self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._inner is not None:
            self._inner.__exit__(*error)


def current_stream(device: Any = None, /) -> Any:
    """The queue of work that an accelerator takes from."""
    _need()
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Chooses the queue of work."""
    _need()
    cuda.set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Waits for all work on an accelerator."""
    _need()
    cuda.synchronize(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What an accelerator can compute with."""
    _need()
    from .._core.dtypes import ALL  # asked rarely

    return {"supported_dtypes": set(ALL)}


def empty_cache() -> None:
    """Gives memory that is not in use back to the device."""
    _need()
    cuda.empty_cache()


def empty_host_cache() -> None:
    """Gives page-locked memory that is not in use back."""
    _need()


def memory_stats(device_index: Any = None, /) -> OrderedDict[str, Any]:
    """Figures about the memory of an accelerator."""
    _need()
    return cuda.memory_stats(device_index)


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes that tensors use."""
    _need()
    return cuda.memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most bytes that tensors used at once."""
    _need()
    return cuda.max_memory_allocated(device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes taken from the device."""
    _need()
    return cuda.memory_reserved(device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most bytes taken from the device at once."""
    _need()
    return cuda.max_memory_reserved(device_index)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Starts the counts of "the most" anew."""
    _need()
    cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Starts the sums of the memory figures anew."""
    reset_peak_memory_stats(device_index)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free and total bytes of an accelerator."""
    _need()
    return cuda.mem_get_info(device_index)


class Graph:
    """Work on the accelerator that is recorded once and repeated; cannot be made, as `cuda.CUDAGraph` cannot."""

    def __init__(self, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default"):
        _need()
        cuda.CUDAGraph(keep_graph)
