"""The CPU seen as an accelerator: streams and devices that do nothing, for programs that are written for any device."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .._kernel.building.cpus import words
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


_ASKED = """
    aes amx_bf16 amx_fp16 amx_int8 amx_tile avx avx2 avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_bw avx512_cd avx512_dq
    avx512_f avx512_fp16 avx512_ifma avx512_vbmi avx512_vbmi2 avx512_vl avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx_vnni bmi bmi2
    f16c fma3 lzcnt popcnt sse sse2 sse3 sse4_1 sse4_2 sse4a ssse3
""".split()  # noqa: SIM905
_OTHERWISE = {"abm": "lzcnt", "bmi1": "bmi", "fma": "fma3", "pni": "sse3"}  # Linux' names of some


def get_capabilities() -> dict[str, Any]:
    """The architecture, the number of cores and, for each kind of instructions, whether the CPU has them.

    >>> import flambeau as torch
    >>> torch.cpu.get_capabilities()["num_logical_cores"] >= 1
    True
    """
    found = {_OTHERWISE.get(word, re.sub("^avx512_?", "avx512_", word)) for word in words()}
    machine = platform.machine().lower()
    known = dict.fromkeys(_ASKED if machine in ("x86_64", "amd64") else (), False)
    return {"architecture": machine, "num_logical_cores": os.cpu_count() or 1, **known, **dict.fromkeys(found, True)}


def _has(feature: str, what: str) -> Callable[[], bool]:
    def supported() -> bool:
        return bool(get_capabilities().get(feature, False))

    supported.__doc__ = f"Whether {what}."
    return supported


_is_avx2_supported = _has("avx2", "the CPU has AVX2")
_is_avx512_supported = _has("avx512_f", "the CPU has AVX-512")
_is_avx512_bf16_supported = _has("avx512_bf16", "the CPU has AVX-512's dot products of bfloat16")
_is_vnni_supported = _has("avx512_vnni", "the CPU has dot products of 8-bit integers")
_is_amx_tile_supported = _has("amx_tile", "the CPU has AMX")
_is_amx_fp16_supported = _has("amx_fp16", "AMX multiplies float16")
