"""`torch.cuda.memory`: figures about GPU memory, limits, pools and allocators."""

from __future__ import annotations

from typing import Any

from . import (
    _cupy,
    empty_cache,
    is_available,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from .allocator import (
    CUDAPluggableAllocator,
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_disabled,
    caching_allocator_enable,
    change_current_allocator,
    get_allocator_backend,
    get_per_process_memory_fraction,
    memory_stats_as_nested_dict,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from .monitoring import list_gpu_processes

__all__ = [
    "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator", "empty_cache",
    "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot",
    "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_host_memory_stats", "reset_peak_memory_stats", "set_per_process_memory_fraction", "use_mem_pool",
]  # fmt: skip


def host_memory_stats() -> dict[str, Any]:
    """Figures about pinned memory of the host; empty without a GPU."""
    if not is_available():
        return {}
    free = int(_cupy().get_default_pinned_memory_pool().n_free_blocks())
    return {"segments.free": free}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The figures of `host_memory_stats` in dictionaries of dictionaries; empty without a GPU."""
    nested: dict[str, Any] = {}
    for name, value in host_memory_stats().items():
        group, _, last = name.partition(".")
        nested.setdefault(group, {})[last] = value
    return nested


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[Any]:
    """The pieces of GPU memory one by one. CuPy's pool does not list them."""
    _cupy()
    raise NotImplementedError("memory_snapshot: the pool of GPU memory does not list its pieces; use memory_stats()")


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Starts sums over time anew; the pool keeps none, so that there is nothing to start."""
    _cupy()


def reset_accumulated_host_memory_stats() -> None:
    """Starts sums over time of pinned memory anew; none are kept."""
    _cupy()


def reset_peak_host_memory_stats() -> None:
    """Starts the peaks of pinned memory anew; none are kept."""
    _cupy()
