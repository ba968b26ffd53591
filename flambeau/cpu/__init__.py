"""The CPU seen as an accelerator: streams and devices that do nothing, for programs that are written for any device."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from . import amp as amp

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "get_capabilities", "is_available", "is_initialized",
    "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The one order in which a CPU works."""

    def __init__(self, priority: int = -1):
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass


class Event:
    """A moment; all work before it has been done."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass


_stream = Stream()


class StreamContext(AbstractContextManager[None]):
    """`with torch.cpu.stream(s):` changes nothing."""

    def __init__(self, stream: Any):
        self.stream = stream

    def __exit__(self, *error: Any) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    return _stream


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """There is one CPU."""


def device_count() -> int:
    return 1


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def synchronize(device: Any = None) -> None:
    """Operations on the CPU have ended when they return."""


def get_capabilities() -> dict[str, Any]:
    """What this CPU can do, by the names that LLVM has for it."""
    from .._kernel import jit  # loads LLVM

    return dict(jit.cpu_features())


def _is_avx2_supported() -> bool:
    """Whether the CPU has AVX2."""
    return bool(get_capabilities().get("avx2", False))


def _is_avx512_supported() -> bool:
    """Whether the CPU has AVX-512."""
    return bool(get_capabilities().get("avx512f", False))


def _is_avx512_bf16_supported() -> bool:
    """Whether the CPU has AVX-512's dot products of bfloat16."""
    return bool(get_capabilities().get("avx512bf16", False))


def _is_vnni_supported() -> bool:
    """Whether the CPU has dot products of 8-bit integers."""
    return bool(get_capabilities().get("avx512vnni", False))


def _is_amx_tile_supported() -> bool:
    """Whether the CPU has AMX."""
    return bool(get_capabilities().get("amx-tile", False))


def _is_amx_fp16_supported() -> bool:
    """Whether AMX multiplies float16."""
    return bool(get_capabilities().get("amx-fp16", False))
