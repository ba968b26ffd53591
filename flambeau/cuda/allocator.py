"""How GPU memory is got: limits, pools, raw pieces, allocators of a program's own; handles of the libraries below."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

__all__ = [
    "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator", "check_error", "cudaStatus", "cudart", "current_blas_handle",
    "current_solver_handle", "get_allocator_backend", "get_per_process_memory_fraction", "memory_stats_as_nested_dict",
    "set_per_process_memory_fraction", "use_mem_pool",
]  # fmt: skip

_pieces: dict[int, Any] = {}  # raw memory by address, alive while it is here
_fraction: dict[int, float] = {}
_own: list[Any] = []  # the allocator of the program's own, if it has chosen one


def _cupy() -> Any:
    from . import _cupy as cupy

    return cupy()


# -- limits and figures ------------------------------------------------------------------------------------------


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets this process take at most a part of a GPU's memory; more raises OutOfMemoryError."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    cupy = _cupy()
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    from . import _index

    index = _index(device)
    with cupy.cuda.Device(index):
        cupy.get_default_memory_pool().set_limit(fraction=fraction)
    _fraction[index] = fraction


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that this process may take."""
    _cupy()
    from . import _index

    return _fraction.get(_index(device), 1.0)


def get_allocator_backend() -> str:
    """ "native": a pool of this process; "pluggable" after `change_current_allocator`."""
    return "pluggable" if _own else "native"


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The figures of `memory_stats` in dictionaries of dictionaries; empty without a GPU."""
    from . import memory_stats

    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


class Peak:
    """The most bytes in use since it was asked for. Pieces are counted as CuPy's pool gives them out in this thread, once somebody wants to know."""

    def __init__(self) -> None:
        self.used = self.most = 0
        self.hook: Any = None

    def reset(self) -> None:
        cupy = _cupy()
        if self.hook is None:
            peak = self

            class Hook(cupy.cuda.MemoryHook):
                name = "Peak"

                def malloc_postprocess(self, **about: Any) -> None:
                    peak.used += about["mem_size"]
                    peak.most = max(peak.most, peak.used)

                def free_postprocess(self, **about: Any) -> None:
                    peak.used -= about["mem_size"]

            self.hook = Hook()
            self.hook.__enter__()
        self.used = self.most = int(cupy.get_default_memory_pool().used_bytes())

    def seen(self, used: int) -> int:
        """The most that was in use, now that so many bytes are."""
        self.used, self.most = used, max(self.most, used)
        return self.most


# -- raw memory --------------------------------------------------------------------------------------------------


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of so many bytes of GPU memory, for use by other libraries."""
    cupy = _cupy()
    from . import _index

    with cupy.cuda.Device(_index(device)):
        piece = cupy.cuda.alloc(int(size))
    _pieces[piece.ptr] = piece
    return int(piece.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back what `caching_allocator_alloc` gave."""
    if _pieces.pop(mem_ptr, None) is None:
        raise ValueError(f"caching_allocator_delete: no memory was given out at address {mem_ptr:#x}")


def caching_allocator_enable(value: bool = True) -> None:
    """Whether freed memory is kept for later; nothing happens without a GPU."""
    from . import is_available

    if is_available():
        cupy = _cupy()
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc if value else None)


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Freed memory goes back to the GPU at once, for the time of a `with` block."""
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(True)


# -- pools and allocators ----------------------------------------------------------------------------------------


class CUDAPluggableAllocator:
    """An allocator in a shared library: `alloc(size, device, stream) -> address` and `free(address, size, device, stream)`."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        library = ctypes.CDLL(path_to_so_file)
        self._alloc, self._free = getattr(library, alloc_fn_name), getattr(library, free_fn_name)
        self._alloc.restype = ctypes.c_void_p
        self._alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self._free.restype = None
        self._free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self._sizes: dict[int, int] = {}

    def allocator(self) -> CUDAPluggableAllocator:
        """What `MemPool` takes."""
        return self

    def _source(self) -> Any:
        """The same as CuPy knows it."""
        cupy = _cupy()

        def alloc(size: int, device: int) -> int:
            address = self._alloc(size, device, cupy.cuda.get_current_stream().ptr)
            if not address:
                raise cupy.cuda.memory.OutOfMemoryError(size, 0)
            self._sizes[address] = size
            return int(address)

        def free(address: int, device: int) -> None:
            self._free(address, self._sizes.pop(address, 0), device, cupy.cuda.get_current_stream().ptr)

        return cupy.cuda.PythonFunctionAllocator(alloc, free)


def change_current_allocator(allocator: CUDAPluggableAllocator) -> None:
    """Takes all further GPU memory from an allocator of the program's own."""
    source = allocator._source()
    _cupy().cuda.set_allocator(source.malloc)
    _own[:] = [source]


class MemPool:
    """Memory of its own for what is made inside `use_mem_pool`."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False):
        cupy = _cupy()
        self._source = None if allocator is None else allocator._source()
        self._pool = cupy.cuda.MemoryPool() if allocator is None else cupy.cuda.MemoryPool(self._source.malloc)
        self.allocator = allocator

    @property
    def id(self) -> tuple[int, int]:
        return 0, id(self)

    def use_count(self) -> int:
        """How many pieces of it are in use: 1 for the pool itself, and 1 if tensors live in it."""
        return 1 + int(self._pool.used_bytes() > 0)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Takes memory from a pool for the time of a `with` block, in this thread."""
    with _cupy().cuda.using_allocator(pool._pool.malloc):
        yield


# -- what lies below ---------------------------------------------------------------------------------------------


class cudaStatus:
    """Results of calls of the CUDA runtime."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def cudart() -> Any:
    """The CUDA runtime as a module of functions."""
    return _cupy().cuda.runtime


def check_error(res: int) -> None:
    """Raises unless a call of the CUDA runtime succeeded."""
    if int(res) != cudaStatus.SUCCESS:
        from . import CudaError

        text = cudart().getErrorString(int(res)) if hasattr(cudart(), "getErrorString") else ""
        raise CudaError(f"CUDA error {int(res)} {text}".rstrip())


def current_blas_handle() -> int:
    """The address of the cuBLAS handle of the current GPU."""
    return int(_cupy().cuda.device.get_cublas_handle())


def current_solver_handle() -> int:
    """The address of the cuSOLVER handle of the current GPU."""
    return int(_cupy().cuda.device.get_cusolver_handle())
