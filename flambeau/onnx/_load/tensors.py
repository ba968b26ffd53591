"""Tensors of ONNX files as arrays, from the file itself or from files of data beside it."""

from __future__ import annotations

import math
import os
import stat
from typing import Any

import numpy as np

from ..._core.dtypes import BY_NAME
from ..._core.dtypes import dtype as _dtype
from ..errors import OnnxModelError
from .wire import Message

# ONNX's numbers of element types. Types of four bits lie in pairs and become int8 and uint8.
_ELEMENTS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
}  # fmt: skip
_HALVES = {21: "uint8", 22: "int8"}
_LARGEST = 1 << 48  # elements: more than any memory holds


def element_type(number: Any) -> _dtype:
    """The dtype that a number of ONNX stands for."""
    name = _ELEMENTS.get(number) or _HALVES.get(number)
    if name is None:
        words = {8: "strings", 23: "float4", 0: "undefined"}
        raise OnnxModelError(f"tensors of the element type {number} ({words.get(number, 'unknown')}) cannot be read")
    return BY_NAME[name]


class Tensors:
    """Reads tensors of one file. `folder` is where its files of data are, None if there is none."""

    def __init__(self, folder: str | None):
        self.folder = None if folder is None else os.path.realpath(folder)
        self._read: dict[str, int] = {}  # bytes taken from each file of data

    def array(self, t: Message) -> np.ndarray[Any, Any]:
        """The elements of a tensor, in memory of their own."""
        label = f"the tensor {t.name!r}"
        kind = element_type(t.data_type)
        shape = tuple(t.dims)
        if any(n < 0 for n in shape) or len(shape) > 32 or math.prod(shape) > _LARGEST:
            raise OnnxModelError(f"{label} has an impossible shape {shape if len(shape) < 40 else len(shape)}")
        count = math.prod(shape)
        halves = t.data_type in _HALVES
        size = (count + 1) // 2 if halves else count * kind.numpy.itemsize
        if t.data_location == 1:
            raw = self._external(t, label, size)
        elif t.raw_data is not None:
            raw = t.raw_data
        else:
            return self._listed(t, kind, label, shape, halves)
        if len(raw) != size:
            raise OnnxModelError(f"{label} of shape {shape} needs {size} bytes, and the file has {len(raw)}")
        if halves:
            return _unpacked(np.frombuffer(raw, np.uint8), kind, count).reshape(shape)
        # The order of bytes in files is little-endian, as on all machines that we know.
        return np.frombuffer(raw, np.uint8).copy().view(kind.numpy).reshape(shape)

    def _listed(self, t: Message, kind: _dtype, label: str, shape: Any, halves: bool) -> np.ndarray[Any, Any]:
        """The elements of a tensor that are given one by one."""
        count = math.prod(shape)
        field, item = {
            "float32": ("float_data", np.float32), "complex64": ("float_data", np.float32), "float64": ("double_data", np.float64),
            "complex128": ("double_data", np.float64), "int64": ("int64_data", np.int64), "uint32": ("uint64_data", np.uint64),
            "uint64": ("uint64_data", np.uint64),
        }.get(kind.name, ("int32_data", np.int64))  # fmt: skip
        values = np.asarray(getattr(t, field), item)
        wanted = count * 2 if kind.is_complex else (count + 1) // 2 if halves else count
        if len(values) != wanted:
            raise OnnxModelError(f"{label} of shape {shape} needs {wanted} numbers, and the file has {len(values)}")
        if halves:
            return _unpacked(values.astype(np.uint8), kind, count).reshape(shape)
        if kind.is_complex:
            return values.view(kind.numpy).reshape(shape)
        if kind.name in ("float16", "bfloat16") or kind.name.startswith("float8"):  # their bits, as whole numbers
            return values.astype(f"u{kind.numpy.itemsize}").view(kind.numpy).reshape(shape)
        return values.astype(kind.numpy).reshape(shape)

    def _external(self, t: Message, label: str, size: int) -> bytes:
        """The bytes of a tensor that lie in a file of data: a plain one inside of the model's folder."""
        if self.folder is None:
            raise OnnxModelError(
                f"{label} lies in a file beside the model: give load the path of the model, not its bytes"
            )
        entries = {e.key: e.value for e in t.external_data}
        location = entries.get("location") or ""
        path = os.path.realpath(os.path.join(self.folder, location.replace("\0", "")))  # links are followed first
        inside = path.startswith(os.path.join(self.folder, ""))
        if not inside or "\0" in location or os.path.isabs(location):
            raise OnnxModelError(f"{label} lies in {location!r}, which is not a file inside of the model's folder")
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or size)
        except ValueError:
            raise OnnxModelError(f"{label} has an offset or a length that is no number") from None
        if offset < 0 or length != size:
            raise OnnxModelError(f"{label} needs {size} bytes, and {length} from {offset} on are named")
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise OnnxModelError(f"{label} lies in {location!r}, which cannot be opened: {error.strerror}") from error
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or offset + length > found.st_size:
                raise OnnxModelError(f"{label} ends outside of {location!r}, which has {found.st_size} bytes")
            # A small file whose bytes are named many times must not fill the memory.
            taken = self._read[path] = self._read.get(path, 0) + length
            if taken > found.st_size:
                raise OnnxModelError(f"tensors of the model overlap in {location!r}")
            file.seek(offset)
            return file.read(length)


def _unpacked(pairs: np.ndarray[Any, Any], kind: _dtype, count: int) -> np.ndarray[Any, Any]:
    """Numbers of four bits, the lower half of each byte first."""
    both = np.stack([pairs & 15, pairs >> 4], -1).reshape(-1)[:count]
    return both if kind.name == "uint8" else ((both ^ 8).astype(np.int8) - 8).astype(np.int8)
