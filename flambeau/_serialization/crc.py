"""CRC-32, the checksum of zip archives: zlib's, or for much data carry-less multiplication, which is several times as fast."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernel.building import jit

_SMALL = 1 << 16  # bytes up to which zlib is as good
_WORTH_LOADING = 1 << 28  # bytes from which it pays to make a kernel for this alone
_BLOCK = 64

# Blocks of 64 bytes are folded into 16 bytes that have the same remainder: each part is multiplied by a power of x
# modulo the polynomial (bits reversed) and added to the part that lies so far behind it. The numbers are
# x^(512+32), x^(512-32) for four parts at a time, and x^(128+32), x^(128-32) for the last three steps.
_FAR = (0x154442BD4, 0x1C6E41596)
_NEAR = (0x1751997D0, 0xCCAA009E)


def _assembly() -> str:
    lines = []

    def fold(name: str, x: str, powers: tuple[int, int], other: str) -> None:
        k = f"<2 x i64> <i64 {powers[0]}, i64 {powers[1]}>"
        lines.extend((
            f"  %{name}l = call <2 x i64> @llvm.x86.pclmulqdq(<2 x i64> {x}, {k}, i8 0)",
            f"  %{name}h = call <2 x i64> @llvm.x86.pclmulqdq(<2 x i64> {x}, {k}, i8 17)",
            f"  %{name}x = xor <2 x i64> %{name}l, %{name}h",
            f"  %{name} = xor <2 x i64> %{name}x, {other}",
        ))  # fmt: skip

    def loads(name: str, at: str) -> None:
        for i in range(4):
            lines.append(f"  %{name}p{i} = getelementptr i8, ptr {at}, i64 {16 * i}")
            lines.append(f"  %{name}{i} = load <2 x i64>, ptr %{name}p{i}, align 1")

    loads("s", "%data")
    lines.append("  %wide = zext i32 %register to i64")
    lines.append("  %first = insertelement <2 x i64> zeroinitializer, i64 %wide, i32 0")
    lines.append("  %t0 = xor <2 x i64> %s0, %first")
    lines.append("  %some = icmp sgt i64 %blocks, 1\n  br i1 %some, label %loop, label %end\nloop:")
    lines.append("  %n = phi i64 [ 1, %entry ], [ %next, %loop ]")
    starts = ["%t0", "%s1", "%s2", "%s3"]
    lines.extend(f"  %a{i} = phi <2 x i64> [ {starts[i]}, %entry ], [ %b{i}, %loop ]" for i in range(4))
    lines.append("  %offset = shl i64 %n, 6\n  %at = getelementptr i8, ptr %data, i64 %offset")
    loads("d", "%at")
    for i in range(4):
        fold(f"b{i}", f"%a{i}", _FAR, f"%d{i}")
    lines.append("  %next = add i64 %n, 1\n  %more = icmp slt i64 %next, %blocks")
    lines.append("  br i1 %more, label %loop, label %end\nend:")
    lines.extend(f"  %e{i} = phi <2 x i64> [ {starts[i]}, %entry ], [ %b{i}, %loop ]" for i in range(4))
    for i, x in ((1, "%e0"), (2, "%f1"), (3, "%f2")):
        fold(f"f{i}", x, _NEAR, f"%e{i}")
    body = "\n".join(lines)
    return (
        "declare <2 x i64> @llvm.x86.pclmulqdq(<2 x i64>, <2 x i64>, i8)\n"
        "define void @fold_crc(ptr %data, i64 %blocks, i32 %register, ptr %out) nounwind {\nentry:\n"
        f"{body}\n  store <2 x i64> %f3, ptr %out, align 1\n  ret void\n}}\n"
    )


@functools.cache
def _folding() -> Callable[..., None] | None:
    """The native function; None on CPUs without the instruction."""
    try:
        if not jit.cpu_features().get("pclmul"):
            return None
        address = jit.compile("fold_crc", _assembly())
    except (ImportError, OSError, RuntimeError):
        return None
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32, ctypes.c_void_p)(address)


class _Work:
    seen = 0  # bytes of large pieces up to now


def crc32(data: Any) -> int:
    """The checksum of bytes; other threads may run meanwhile."""
    size = len(data)
    if size < _SMALL:
        return zlib.crc32(data)
    _Work.seen += size
    fold = _folding() if jit.in_use() or _Work.seen > _WORTH_LOADING else None
    if fold is None:
        return zlib.crc32(data)
    address = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    folded = ctypes.create_string_buffer(16)
    fold(address, size // _BLOCK, 0xFFFFFFFF, folded)
    # the folded bytes take the place of all those blocks, with a register that was already counted in
    return zlib.crc32(memoryview(data)[size // _BLOCK * _BLOCK :], zlib.crc32(folded.raw, 0xFFFFFFFF))
