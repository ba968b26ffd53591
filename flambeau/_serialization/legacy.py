"""The format before archives: a few pickles one after the other, and then the memory of the storages."""

from __future__ import annotations

import inspect
import pickle
import struct
import sys
import warnings
from typing import Any

import numpy as np

from .._core.dtypes import uint8
from .._tensor import Storage
from .._tensor.storage import UntypedStorage
from .loading import Reading, _text, aligned, finished, kind_of, memory_later, reference
from .locations import empty_storage
from .options import local
from .pickler import Storages, dump

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


class SourceChangeWarning(Warning):
    """The source of a saved class is not what it was."""


def save(obj: Any, write: Any, module: Any, protocol: int) -> None:
    """Writes an object in the old format."""
    storages = Storages(legacy=True)
    content = dump(obj, storages, protocol, module)
    system = {
        "protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }  # fmt: skip
    buffers = storages.buffers()
    head = [pickle.dumps(value, protocol) for value in (MAGIC_NUMBER, PROTOCOL_VERSION, system)]
    write(b"".join([*head, content, pickle.dumps([key for key, _, _ in buffers], protocol)]))
    for _, data, d in buffers:
        write(struct.pack("<q", len(data) // d.itemsize))
        write(data)


class _NoStorages:
    """The small pickles around the object refer to nothing."""

    def __call__(self, saved: Any) -> Any:
        raise pickle.UnpicklingError("the file refers to a storage where none can be")


_none = _NoStorages()


def load(data: Any, start: int, how: Reading) -> tuple[Any, int]:
    """The object that begins at `start` in bytes or a mapped file, and where it ends."""
    if len(data) <= start:
        raise EOFError("the file is empty: there is nothing to load")
    plain = Reading(None, None, True, {})  # numbers and strings only, however the object is read
    magic, at = _first(plain, data, start)
    if magic != MAGIC_NUMBER:
        raise RuntimeError("the file does not begin as a checkpoint does: it is damaged, or not one")
    version, at = plain.unpickle(data, at, _none)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"the file has protocol version {version!r:.50}; only {PROTOCOL_VERSION} is known")
    system, at = plain.unpickle(data, at, _none)
    storages = _LegacyStorages(len(data) - at, how)
    with memory_later():
        made, at = how.unpickle(data, at, storages.find)
        keys, at = plain.unpickle(data, at, _none)
        little = not isinstance(system, dict) or system.get("little_endian", True) is not False
        return made, storages.fill(data, at, keys, little)


def _first(plain: Reading, data: Any, start: int) -> tuple[Any, int]:
    try:
        return plain.unpickle(data, start, _none)
    except (pickle.UnpicklingError, EOFError) as error:
        raise pickle.UnpicklingError(
            f"the file does not begin as a checkpoint does: it is damaged, or not one ({error})"
        ) from None


class _LegacyStorages:
    """Storages made when the pickle refers to them, and filled when it has been read."""

    def __init__(self, room: int, how: Reading):
        self.room, self.how = room, how
        self.roots: dict[str, tuple[UntypedStorage, Any, int]] = {}
        self.views: dict[str, UntypedStorage] = {}

    def find(self, saved: Any) -> Any:
        if isinstance(saved, tuple) and len(saved) == 4 and saved[0] in ("module", b"module"):
            if isinstance(saved[1], type):
                _check_source(*saved[1:])
            return saved[1]
        kind, key, location, count, view = reference(saved, 6)
        d = kind_of(kind)
        size = (d or uint8).itemsize
        if key not in self.roots:
            self.room -= count * size  # the file must hold what it asks memory for
            if self.room < 0:
                raise RuntimeError("the file is shorter than its storages: it was cut short, or is damaged")
            made = (
                UntypedStorage(Storage(aligned(count * size)))
                if not self.how.on_meta
                else empty_storage(count * size, True)
            )
            self.roots[key] = (self.how.restore(made, location), d, count)
        root, _, total = self.roots[key]
        if view is None:
            if total != count:
                raise pickle.UnpicklingError(f"the file gives storage {key!r:.50} two sizes")
            return finished(root, d)
        if not isinstance(view, tuple) or len(view) != 3:
            raise pickle.UnpicklingError("the file refers to a part of a storage that it does not describe")
        name, offset, length = _text(view[0]), *view[1:]
        if not all(n.__class__ is int and n >= 0 for n in (offset, length)) or offset + length > total:
            raise pickle.UnpicklingError("a storage lies outside of the one that it is a part of")
        part = self.views.get(name)
        if part is None:
            part = self.views[name] = root[offset * size : (offset + length) * size]
        return finished(part, d)

    def fill(self, data: Any, at: int, keys: Any, little: bool) -> int:
        """Reads the memory of the storages, in the order of `keys`; gives the end of the last one."""
        if not isinstance(keys, list) or len(keys) != len(self.roots) or set(map(str, keys)) != self.roots.keys():
            raise pickle.UnpicklingError("the file's list of storages is not that of its tensors")
        for key in keys:
            storage, d, count = self.roots[str(key)]
            if at + 8 > len(data):
                raise EOFError("the file ends before its last storage: it was cut short")
            (said,) = struct.unpack("<q", data[at : at + 8])
            nbytes = count * (d or uint8).itemsize
            at += 8
            if said != count:
                raise RuntimeError(f"a storage should have {count} elements, but the file has {said}")
            if at + nbytes > len(data):
                raise EOFError("the file ends before its last storage: it was cut short")
            if nbytes and not self.how.on_meta and not local.skip:
                _fill(storage, data, at, nbytes)
                if d is not None and little != (sys.byteorder == "little"):
                    storage.byteswap(d)
            at += nbytes
        return at


def _fill(storage: UntypedStorage, data: Any, at: int, nbytes: int) -> None:
    kind = storage.device.type
    if kind == "meta":
        return
    target = storage if kind == "cpu" else UntypedStorage(nbytes, device="cpu")
    target._raw()[:] = np.frombuffer(data, np.uint8, nbytes, at)
    if kind != "cpu":
        storage.copy_(target.to(device=storage.device))


def _check_source(kind: type, file: Any, source: Any) -> None:
    """Warns if the class of a whole saved module was written differently then."""
    if not source or kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return
    try:
        now = inspect.getsource(kind)
    except (OSError, TypeError):
        return
    if now != source:
        warnings.warn(
            f"the source code of {kind.__module__}.{kind.__qualname__} has changed since it was saved",
            SourceChangeWarning,
        )
