"""Files of named tensors in the safetensors format: a header in JSON, and then the memory of the tensors, nothing else.

The functions have the names and arguments of those in the package `safetensors.torch`, which is not needed.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._backend.placement import as_device
from .._core.dtypes import BY_NAME, dtype
from .._core.state import CUDA, META, SPARSE
from .._dispatch import backend_of
from .._ops.layout.striding import byte_bounds
from .._ops.making.conversion import to_device
from .._serialization.files import FileSource, MappedSource, replacing
from .._serialization.loading import aligned
from .._tensor import Tensor, storage_of, wrap

_TYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
}  # fmt: skip
_DTYPES = {code: BY_NAME[name] for name, code in _TYPES.items()}
_LARGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file that is not a sound one of this format."""


# -- writing -----------------------------------------------------------------------------------------------------


def _layout(tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> tuple[bytes, list[Any]]:
    """The beginning of the file, and the memory of the tensors in order: wide elements first, so that all are aligned."""
    _check(tensors)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    buffers, at = [], 0
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        array = backend_of(CUDA).asnumpy(t._array) if t._k & CUDA else t._array
        data = memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")
        header[name] = {
            "dtype": _TYPES[t.dtype.name], "shape": list(t._array.shape), "data_offsets": [at, at + len(data)],
        }  # fmt: skip
        buffers.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, buffers


def _check(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"expected a dictionary of tensors by name, got {type(tensors).__name__}")
    memory: dict[tuple[int, int], str] = {}
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise ValueError(f"expected tensors by name, got {type(t).__name__} for {name!r}")
        if t._k & (SPARSE | META):
            raise ValueError(f"tensor {name!r} is sparse or has no memory; only dense tensors can be saved")
        if t.dtype.name not in _TYPES:
            raise ValueError(f"tensor {name!r} has dtype {t.dtype}, which the format does not have")
        if not t._array.flags.c_contiguous:
            raise ValueError(f"tensor {name!r} is not contiguous; save {name}.contiguous() instead")
        bounds = byte_bounds(storage_of(t).array)
        if bounds[1] > bounds[0] and memory.setdefault(bounds, name) != name:
            raise RuntimeError(
                f"tensors {memory[bounds]!r} and {name!r} share memory, which the format cannot express; "
                "clone one of them, or use save_model"
            )


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Tensors as the bytes of a file.

    >>> import flambeau as torch
    >>> from flambeau.utils.safetensors import load, save
    >>> load(save({"a": torch.arange(3)}))
    {'a': tensor([0, 1, 2])}
    """
    head, buffers = _layout(tensors, metadata)
    return b"".join([head, *buffers])


def save_file(tensors: dict[str, Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Writes tensors to a file, which appears when it is complete."""
    head, buffers = _layout(tensors, metadata)
    with replacing(filename) as write:
        write(head)
        for data in buffers:
            if len(data):
                write(data)


# -- reading -----------------------------------------------------------------------------------------------------


class _Entry:
    """What the header says of a tensor."""

    __slots__ = ("dtype", "shape", "start", "stop")

    def __init__(self, name: str, said: Any):
        try:
            self.dtype: dtype = _DTYPES[said["dtype"]]
            self.shape = tuple(said["shape"])
            self.start, self.stop = said["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise SafetensorError(f"the header does not describe tensor {name!r:.100} rightly") from None
        numbers = (*self.shape, self.start, self.stop)
        if not all(n.__class__ is int and 0 <= n < 1 << 62 for n in numbers):
            raise SafetensorError(f"tensor {name!r:.100} has an impossible size")
        if self.stop - self.start != math.prod(self.shape) * self.dtype.itemsize:
            raise SafetensorError(f"tensor {name!r:.100} does not have as many bytes as its shape needs")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise SafetensorError("the header names something twice")
    return made


def _read_header(source: Any) -> tuple[dict[str, _Entry], dict[str, str], int]:
    """The tensors by name, the metadata, and where the memory begins. Tensors must fill the file without gaps."""
    if source.size < 8:
        raise SafetensorError("the file is too short for a header")
    (length,) = struct.unpack("<Q", source.read(0, 8))
    if length > min(_LARGEST_HEADER, source.size - 8):
        raise SafetensorError("the header is longer than the file, or than is allowed")
    text = source.read(8, length)
    try:
        if text[:1] != b"{":
            raise SafetensorError("the header does not begin as it should")
        said = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise SafetensorError("the header is not valid JSON") from None
    metadata = said.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorError("the metadata are not strings by name")
    entries = {name: _Entry(name, value) for name, value in said.items()}
    at = 0
    for entry in sorted(entries.values(), key=lambda e: (e.start, e.stop)):
        if entry.start != at:
            raise SafetensorError("tensors overlap, or there are gaps between them")
        at = entry.stop
    if 8 + length + at != source.size:
        raise SafetensorError("the file does not end with its last tensor: it was cut short, or is damaged")
    return entries, metadata, 8 + length


class _Bytes:
    """Bytes in memory as a source."""

    def __init__(self, data: Any):
        self.data, self.size = memoryview(data), len(data)

    def read(self, start: int, count: int) -> bytes:
        return bytes(self.data[start : start + count])

    def read_into(self, start: int, memory: Any) -> None:
        memory[:] = self.data[start : start + len(memory)]


def _tensor(source: Any, entry: _Entry, base: int, device: Any) -> Tensor:
    raw = aligned(entry.stop - entry.start)
    if raw.size:
        source.read_into(base + entry.start, memoryview(raw))
    t = wrap(raw.view(entry.dtype.numpy).reshape(entry.shape), entry.dtype)
    target = as_device(device)
    return t if target.type == "cpu" else to_device(t, t.dtype, target)


def _load(source: Any, device: Any) -> dict[str, Tensor]:
    entries, _, base = _read_header(source)
    return {name: _tensor(source, entry, base, device) for name, entry in entries.items()}


def load(data: bytes) -> dict[str, Tensor]:
    """Tensors by name, from the bytes of a file."""
    return _load(_Bytes(data), "cpu")


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """Tensors by name, from a file."""
    with open(filename, "rb", buffering=0) as file:
        return _load(FileSource(file), device)


class safe_open:
    """A file whose tensors are read one by one, or in parts.

    >>> import flambeau as torch, os, tempfile
    >>> from flambeau.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> save_file({"a": torch.arange(6).reshape(3, 2)}, path)
    >>> with safe_open(path, framework="pt") as file:
    ...     file.get_slice("a")[1:]
    tensor([[2, 3],
            [4, 5]])
    """

    def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu"):
        if framework not in ("pt", "torch", "pytorch"):
            raise SafetensorError(f"framework {framework!r} is not supported here; use 'pt'")
        self._source = MappedSource(os.fspath(filename))
        self._entries, self._metadata, self._base = _read_header(self._source)
        self._device = device

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        pass  # tensors may still look at the mapped file; it is closed with the last of them

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """The names in the order of the tensors in the file."""
        return sorted(self._entries, key=lambda name: self._entries[name].start)

    def metadata(self) -> dict[str, str] | None:
        """What was saved besides the tensors."""
        return dict(self._metadata) or None

    def get_tensor(self, name: str) -> Tensor:
        """One tensor; its memory is its own."""
        mapped = self._mapped(name)
        t = wrap(mapped._array.copy(), mapped.dtype)
        target = as_device(self._device)
        return t if target.type == "cpu" else to_device(t, t.dtype, target)

    def get_slice(self, name: str) -> _Slice:
        """One tensor of which only parts are read."""
        return _Slice(self._mapped(name), self._entries[name])

    def _mapped(self, name: str) -> Tensor:
        entry = self._entries.get(name)
        if entry is None:
            raise SafetensorError(f"the file has no tensor {name!r}")
        count = entry.stop - entry.start
        raw = self._source.array(self._base + entry.start, count) if count else np.empty(0, np.uint8)
        if raw.__array_interface__["data"][0] % entry.dtype.itemsize:
            raw = raw.copy()
        return wrap(raw.view(entry.dtype.numpy).reshape(entry.shape), entry.dtype)


class _Slice:
    """A tensor in a file, to be indexed."""

    def __init__(self, mapped: Tensor, entry: _Entry):
        self._tensor, self._entry = mapped, entry

    def get_shape(self) -> list[int]:
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return _TYPES[self._entry.dtype.name]

    def __getitem__(self, index: Any) -> Tensor:
        part = self._tensor[index]
        return wrap(part._array.copy(), part.dtype)


# -- models ------------------------------------------------------------------------------------------------------


def _one_of_each(state: dict[str, Tensor]) -> dict[str, list[str]]:
    """Names of tensors that are the same memory, under the first of them."""
    found: dict[Any, str] = {}
    groups: dict[str, list[str]] = {}
    for name, t in state.items():
        low, high = byte_bounds(t._array)
        kept = found.setdefault((low, high, t._array.shape, t._array.strides) if high > low else name, name)
        groups.setdefault(kept, []).append(name)
    return groups


def save_model(
    model: Any, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Writes the state of a module; tensors that are shared are written once, and `load_model` knows it."""
    state = model.state_dict()
    groups = _one_of_each(state)
    notes = dict(metadata or {})
    notes.update((name, kept) for kept, same in groups.items() for name in same[1:])
    save_file({kept: state[kept].contiguous() if force_contiguous else state[kept] for kept in groups}, filename, notes)


def load_model(model: Any, filename: Any, strict: bool = True, device: Any = "cpu") -> tuple[list[str], list[str]]:
    """Loads what `save_model` wrote into a module; gives the missing and the unexpected names."""
    missing, unexpected = model.load_state_dict(load_file(filename, device), strict=False)
    missing = _really_missing(missing, _one_of_each(model.state_dict()).values())
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"the file does not fit the module: missing {sorted(missing)}, unexpected {sorted(unexpected)}"
        )
    return missing, list(unexpected)


def _really_missing(missing: Iterable[str], groups: Iterable[list[str]]) -> list[str]:
    """Names of which no other name for the same memory was loaded."""
    gone = set(missing)
    return sorted(name for group in groups for name in group if gone.issuperset(group))
