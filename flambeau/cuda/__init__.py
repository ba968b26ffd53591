"""GPUs: what there is, streams and events, memory figures. Without a GPU everything here says so."""

from __future__ import annotations

import importlib
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .._backend.placement import cuda_problem
from .._core.config import AcceleratorError
from .._core.config import OutOfMemoryError as OutOfMemoryError
from .._core.devices import device as _device_class
from .._core.state import CUDA
from .._dispatch import backend_of
from .._ops.making.generator import default_of
from .._tensor.constructors import typed_classes
from .._tensor.typed_storage import legacy_classes
from . import amp as amp
from .allocator import *  # noqa: F403
from .allocator import Peak
from .monitoring import *  # noqa: F403

if TYPE_CHECKING:
    from .graphs import CUDAGraph as CUDAGraph
    from .graphs import graph as graph
    from .graphs import graph_pool_handle as graph_pool_handle
    from .graphs import is_current_stream_capturing as is_current_stream_capturing
    from .graphs import make_graphed_callables as make_graphed_callables

CudaError = AcceleratorError
has_half = True
has_magma = False


class DeferredCudaCallError(Exception):
    """An error of a call that had waited until the GPU was first used."""


def _cupy() -> Any:
    """CuPy, or PyTorch's error if there is no GPU to use it with."""
    problem = cuda_problem()
    if problem is not None:
        raise problem
    import cupy  # an optional dependency, loaded by those who use a GPU

    return cupy


def is_available() -> bool:
    """Whether a GPU can be used.

    >>> import flambeau as torch
    >>> device = "cuda" if torch.cuda.is_available() else "cpu"
    """
    return cuda_problem() is None


def device_count() -> int:
    """How many GPUs there are; 0 without one."""
    return int(_cupy().cuda.runtime.getDeviceCount()) if is_available() else 0


def is_initialized() -> bool:
    """Whether GPUs have been looked for and found."""
    return cuda_problem.cache_info().currsize > 0 and is_available()


def init() -> None:
    """Prepares the GPU; otherwise the first use does."""
    _cupy()


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Calls a function that wants a GPU: at once if there is one, otherwise never. Programs in Megatron's style import this."""
    if is_available():
        callable()


_forked = [False]


def _note_fork() -> None:
    _forked[0] = is_initialized()


os.register_at_fork(after_in_child=_note_fork)


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had used the GPU, and so cannot use it."""
    return _forked[0]


def _index(device: Any = None) -> int:
    """The number of a GPU given as a number, a name or a device; None is the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    found = _device_class(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return current_device() if found.index is None else found.index


def current_device() -> int:
    """The number of the GPU that is used if none is named."""
    return int(_cupy().cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Chooses the GPU that is used if none is named."""
    index = _index(device)
    if index >= 0:
        _cupy().cuda.Device(index).use()


class device:
    """Chooses a GPU for the time of a `with` block."""

    def __init__(self, device: Any):
        self.idx = -1 if device is None else device if isinstance(device, int) else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *error: Any) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):
    """Chooses the GPU of a tensor for the time of a `with` block; nothing for tensors on the CPU."""

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.is_cuda else None)


# -- facts about a GPU -------------------------------------------------------------------------------------------


class _Properties:
    """What is known of a GPU."""

    def __init__(self, raw: dict[str, Any]):
        self.name: str = raw["name"].decode()
        self.major, self.minor = int(raw["major"]), int(raw["minor"])
        self.total_memory = int(raw["totalGlobalMem"])
        self.multi_processor_count = int(raw["multiProcessorCount"])
        self.warp_size = int(raw["warpSize"])
        self.max_threads_per_multi_processor = int(raw["maxThreadsPerMultiProcessor"])

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: Any = None) -> _Properties:
    """Name, memory and size of a GPU."""
    return _Properties(_cupy().cuda.runtime.getDeviceProperties(_index(device)))


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(major, minor) compute capability of a GPU."""
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes with bfloat16."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def get_arch_list() -> list[str]:
    """The GPU architectures that kernels are made for: the one that is there."""
    return ["sm_{}{}".format(*get_device_capability())] if is_available() else []


def get_gencode_flags() -> str:
    """The options with which nvcc compiles for the architectures of `get_arch_list`."""
    numbers = [name.removeprefix("sm_") for name in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def is_tf32_supported() -> bool:
    """Whether the GPU multiplies float32 matrices in TF32."""
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU reads the memory of another directly."""
    return bool(_cupy().cuda.runtime.deviceCanAccessPeer(_index(device), _index(peer_device)))


# -- running -----------------------------------------------------------------------------------------------------


def synchronize(device: Any = None) -> None:
    """Waits until all work given to a GPU is done."""
    cupy = _cupy()
    with cupy.cuda.Device(_index(device)):
        cupy.cuda.runtime.deviceSynchronize()
    backend = backend_of(CUDA)
    if backend.lent.used or backend.lent.leaving:
        backend.lent.look()
        backend.lent.look()  # nothing is in the way of what has just been marked
    backend.errors.check()


class Stream:
    """A queue of work on a GPU; work in different streams may overlap."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any):
        if not is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        cupy = _cupy()
        self.device = _device_class("cuda", _index(device))
        with cupy.cuda.Device(self.device.index):
            self._stream = kwargs.get("_stream") or cupy.cuda.Stream(non_blocking=True, priority=priority)

    def synchronize(self) -> None:
        self._stream.synchronize()
        backend_of(CUDA).errors.check()

    def query(self) -> bool:
        return bool(self._stream.done)

    def wait_event(self, event: Event) -> None:
        self._stream.wait_event(event._event)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    @property
    def cuda_stream(self) -> int:
        return int(self._stream.ptr)

    def __enter__(self) -> Stream:
        self._stream.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)


class ExternalStream(Stream):
    """A stream that another library made, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any):
        external = _cupy().cuda.ExternalStream(int(stream_ptr), _index(device))
        super().__init__(device, _stream=external, **kwargs)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library made, by its address."""
    return ExternalStream(data_ptr, device)


class Event:
    """A mark in a stream: to wait for, or to measure the time between two."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ):
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: there is no GPU")
        self._event = _cupy().cuda.Event(block=blocking, disable_timing=not enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        self._event.record(stream._stream if stream is not None else current_stream()._stream)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        return bool(self._event.done)

    def synchronize(self) -> None:
        self._event.synchronize()
        backend_of(CUDA).errors.check()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        return float(_cupy().cuda.get_elapsed_time(self._event, end_event._event))


class StreamContext:
    """Gives work to a stream for the time of a `with` block; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


def stream(stream: Stream | None) -> StreamContext:
    """Gives work to a stream for the time of a `with` block."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Gives all further work to a stream."""
    if stream is not None:
        stream._stream.use()


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to now."""
    return Stream(device, _stream=_cupy().cuda.get_current_stream())


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to if no other is chosen."""
    return Stream(device, _stream=_cupy().cuda.Stream.null)


# -- memory ------------------------------------------------------------------------------------------------------

_peak = Peak()
_reserved = [0]  # the most that was held


def _pool() -> Any:
    return _cupy().get_default_memory_pool()


def memory_allocated(device: Any = None) -> int:
    """Bytes of GPU memory that tensors occupy; 0 without a GPU."""
    if not is_available():
        return 0
    used = int(_pool().used_bytes())
    _peak.seen(used)
    return used


def memory_reserved(device: Any = None) -> int:
    """Bytes of GPU memory held by this process, in use or kept for later."""
    if not is_available():
        return 0
    held = int(_pool().total_bytes())
    _reserved[0] = max(_reserved[0], held)
    return held


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors occupied since `reset_peak_memory_stats`; if it was not called, the largest figure that was asked for."""
    return _peak.seen(memory_allocated(device))


def max_memory_reserved(device: Any = None) -> int:
    """The largest figure that `memory_reserved` was seen to have."""
    memory_reserved(device)
    return _reserved[0]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Lets the maxima start again from now."""
    _reserved[0] = 0
    if is_available():
        _peak.reset()


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Memory figures by name; empty without a GPU."""
    if not is_available():
        return OrderedDict()
    return OrderedDict(
        (("allocated_bytes.all.current", memory_allocated(device)), ("allocated_bytes.all.peak", max_memory_allocated(device)),
         ("reserved_bytes.all.current", memory_reserved(device)), ("reserved_bytes.all.peak", max_memory_reserved(device)))
    )  # fmt: skip


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory figures as text."""
    return "\n".join(f"{name}: {value}" for name, value in memory_stats(device).items()) or "no GPU"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    cupy = _cupy()
    with cupy.cuda.Device(_index(device)):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def empty_cache() -> None:
    """Gives memory that is kept for later back to the GPU."""
    if is_available():
        backend_of(CUDA).lent.look()
        _pool().free_all_blocks()


def ipc_collect() -> None:
    """Nothing to collect: memory is not shared between processes."""


# -- random numbers ----------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seeds the current GPU's random numbers; nothing happens without a GPU."""
    _seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the random numbers of all GPUs; nothing happens without one."""
    _seed(seed)


def _seed(seed: int) -> None:
    if is_available():
        _random().manual_seed(int(seed))


def seed() -> None:
    """Seeds the current GPU's random numbers with a number that is not known beforehand."""
    _seed(int.from_bytes(os.urandom(7), "little"))


seed_all = seed


def initial_seed() -> int:
    """The seed of the current GPU's random numbers."""
    return int(_random().initial_seed())


def get_rng_state(device: Any = "cuda") -> Any:
    """Where the stream of a GPU's random numbers is."""
    return _random().get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continues the stream where `get_rng_state` was called."""
    _random().set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Sets the states of all GPUs."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def _random() -> Any:
    _cupy()
    return default_of(CUDA)


default_generators: tuple[Any, ...] = ()
globals().update(typed_classes("cuda"), **legacy_classes("cuda"))


_OF_MEMORY = frozenset(
    (
        "host_memory_stats", "host_memory_stats_as_nested_dict", "memory_snapshot", "reset_accumulated_host_memory_stats",
        "reset_accumulated_memory_stats", "reset_peak_host_memory_stats",
    )
)  # fmt: skip


_OF_GRAPHS = frozenset(
    ("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables")
)


def get_sync_debug_mode() -> int:
    """What happens when the program waits for the GPU: 0, nothing."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Says what happens when the program waits for the GPU; only "default" (0) can be had."""
    if debug_mode not in (0, 1, 2, "default", "warn", "error"):
        raise RuntimeError(f"invalid value of debug_mode {debug_mode}, expected one of default, warn, error")
    if debug_mode not in (0, "default"):
        raise NotImplementedError(
            "set_sync_debug_mode: waits are not reported; torch.profiler shows where a program waits"
        )


def __getattr__(name: str) -> Any:
    if name == "_initialized":
        return is_initialized()
    if name in _OF_MEMORY:
        return getattr(importlib.import_module(f"{__name__}.memory"), name)
    if name in _OF_GRAPHS:
        return getattr(importlib.import_module(f"{__name__}.graphs"), name)
    if name not in ("_utils", "comm", "graphs", "memory", "nccl", "nvtx", "profiler", "random", "streams"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")  # they take their names from here
