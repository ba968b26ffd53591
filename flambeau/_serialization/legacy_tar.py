"""The oldest format: a tar archive of three files, for storages, tensors and the pickle. It is only read."""

from __future__ import annotations

import pickle
import struct
import tarfile
from typing import Any

from .._tensor import Storage
from .._tensor.copying import _rebuild_tensor
from .._tensor.storage import UntypedStorage, bytes_of
from .loading import Reading, aligned, finished, kind_of

_MARK_AT = 257


def is_tar(source: Any, start: int) -> bool:
    return source.size >= start + 512 and source.read(start + _MARK_AT, 5) == b"ustar"


def load(file: Any, start: int, how: Reading) -> Any:
    """The object in a tar archive. Its tensors are named by numbers in the pickle."""
    if how.safe:
        raise pickle.UnpicklingError(
            "the file is in the oldest (.tar) format, which cannot be read as weights only; if you trust it, "
            "load it with weights_only=False and save it again"
        )
    file.seek(start)
    with tarfile.open(fileobj=file, mode="r:") as tar:
        parts = {name: _member(tar, name) for name in ("storages", "tensors", "pickle")}
    storages = _storages(parts["storages"], how)
    tensors = _tensors(parts["tensors"], storages, how)

    def find(saved: Any) -> Any:
        if isinstance(saved, tuple):  # a class with its source
            return saved[0]
        return tensors[int(saved)] if int(saved) in tensors else storages[int(saved)]

    return how.unpickle(parts["pickle"], 0, find)[0]


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    for path in (name, "./" + name):
        try:
            content = tar.extractfile(path)
        except KeyError:
            continue
        if content is not None:
            return content.read()
    raise RuntimeError(f"the tar archive has no file {name!r}: it is damaged, or not a checkpoint")


def _nothing(saved: Any) -> Any:
    raise pickle.UnpicklingError("the file refers to a storage where none can be")


def _number(data: bytes, at: int, form: str = "<q") -> tuple[int, int]:
    size = struct.calcsize(form)
    if at + size > len(data):
        raise EOFError("the file was cut short")
    return struct.unpack_from(form, data, at)[0], at + size


def _storages(data: bytes, how: Reading) -> dict[int, Any]:
    """Storages by number: how many, then for each a description and its memory, then parts of storages."""
    count, at = how.unpickle(data, 0, _nothing)
    found: dict[int, Any] = {}
    for _ in range(count):
        (key, location, kind), at = how.unpickle(data, at, _nothing)
        d = kind_of(kind)
        elements, at = _number(data, at)
        nbytes = elements * (d.itemsize if d else 1)
        if not 0 <= nbytes <= len(data) - at:
            raise EOFError("the file was cut short")
        array = aligned(nbytes)
        array.data[:] = data[at : at + nbytes]
        at += nbytes
        found[int(key)] = finished(how.restore(UntypedStorage(Storage(array)), location), d)
    views, at = how.unpickle(data, at, _nothing)
    for target, root_key, offset, length in views:
        root = found[int(root_key)]
        size = root.element_size()
        part = bytes_of(root)[offset * size : (offset + length) * size]
        found[int(target)] = finished(part, getattr(root, "dtype", None))
    return found


def _tensors(data: bytes, storages: dict[int, Any], how: Reading) -> dict[int, Any]:
    """Tensors by number: how many, then for each which storage, and its geometry."""
    count, at = how.unpickle(data, 0, _nothing)
    found: dict[int, Any] = {}
    for _ in range(count):
        (key, storage, _kind), at = how.unpickle(data, at, _nothing)
        dims, at = _number(data, at, "<i4x")
        numbers = []
        for _ in range(2 * dims + 1):
            number, at = _number(data, at)
            numbers.append(number)
        found[int(key)] = _rebuild_tensor(storages[int(storage)], numbers[-1], numbers[:dims], numbers[dims : 2 * dims])
    return found
