"""The tiles of AMX: whether this process may use them, and how a kernel sets them up."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import Any

from ..building import jit
from ..render.value import Value

ROWS, BYTES = 16, 64  # of a tile
_TILES = 8


@functools.cache
def permitted() -> bool:
    """Whether the CPU has tiles and Linux lets this process use them."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not sys.platform.startswith("linux"):
        return False
    if not jit.cpu_features().get("amx-tile"):
        return False
    try:
        # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) holds for the whole process
        return bool(ctypes.CDLL(None).syscall(ctypes.c_long(158), ctypes.c_long(0x1023), ctypes.c_long(18)) == 0)
    except (OSError, AttributeError):
        return False


def configure(r: Any, rows: dict[int, Value] | None = None) -> None:
    """Eight tiles of 64 bytes a row and 16 rows, or as many as `rows` says of some."""
    place = r.fresh()
    r.slots.append(f"  {place} = alloca [64 x i8], align 64")
    values = bytearray(64)
    values[0] = 1
    for t in range(_TILES):
        values[16 + 2 * t], values[48 + t] = BYTES, ROWS
    for at in range(0, 64, 8):
        r.emit(f"store i64 {int.from_bytes(values[at : at + 8], 'little')}, ptr {r.at(place, at)}, align 8")
    for t, count in (rows or {}).items():
        r.store(r.at(place, 48 + t), "u8", r.cast(count, "u8"))
    r.declarations.add("declare void @llvm.x86.ldtilecfg(ptr)")
    r.emit(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def release(r: Any) -> None:
    r.declarations.add("declare void @llvm.x86.tilerelease()")
    r.emit("call void @llvm.x86.tilerelease()")
