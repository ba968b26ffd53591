"""Reading checkpoints: archives and the older format, as weights only or with everything that a pickle can do."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.dtypes import dtype, uint8
from .._core.state import local as state
from .._tensor import Storage, copying
from .._tensor.storage import UntypedStorage
from .._tensor.typed_storage import typed
from . import names, weights_only
from .archive import ALIGNMENT, Reader
from .locations import empty_storage, pretending, restorer, to_meta
from .options import LoadEndianness, local, settings

_LATEST_VERSION = 10


class Reading:
    """How pickles are to be read: what `load` was asked for."""

    def __init__(self, map_location: Any, pickle_module: Any, safe: bool, pickle_load_args: dict[str, Any]):
        fake = state.fake is not None
        self.restore = pretending(map_location) if fake else restorer(map_location)
        self.on_meta = fake or to_meta(map_location)
        self.module, self.safe = pickle_module or pickle, safe
        self.args = {"encoding": "utf-8", **pickle_load_args}
        if safe and self.args.keys() != {"encoding"}:
            unknown = ", ".join(self.args.keys() - {"encoding"})
            raise TypeError(f"load: {unknown} can only be given with weights_only=False")

    def unpickle(self, data: Any, start: int, persistent_load: Callable[[Any], Any]) -> tuple[Any, int]:
        """The object of the pickle that begins at `start`, and where it ends."""
        if self.safe:
            machine = weights_only.Unpickler(data, start, persistent_load, self.args["encoding"])
            return machine.load(), machine.position
        file: Any = data
        if isinstance(data, bytes):
            file = io.BytesIO(data)
        file.seek(start)
        unpickler = _full(self.module.Unpickler)(file, **self.args)
        unpickler.persistent_load = persistent_load
        return unpickler.load(), file.tell()


def _full(base: type) -> type:
    class Unpickler(base):
        """Python's own unpickler, for which PyTorch's names mean ours."""

        def find_class(self, module: str, name: str) -> Any:
            if module.partition(".")[0] in ("torch", names.PACKAGE):
                return names.from_torch(module, name)
            return super().find_class(module, name)

    return Unpickler


@contextmanager
def memory_later() -> Iterator[None]:
    """Work that needs the elements of tensors waits for the end of the block."""
    before, copying.deferred.jobs = copying.deferred.jobs, []
    try:
        yield
        for job in copying.deferred.jobs:
            job()
    finally:
        copying.deferred.jobs = before


def kind_of(storage_type: Any) -> dtype | None:
    """The dtype of a storage class named in a file; None for untyped ones."""
    if storage_type is UntypedStorage:
        return None
    found = getattr(storage_type, "_dtype", None)
    if not isinstance(found, dtype):
        raise pickle.UnpicklingError("the file names something as a storage that is none")
    return found


def finished(storage: UntypedStorage, d: dtype | None) -> Any:
    return storage if d is None else typed(storage, d)


def reference(saved: Any, length: int) -> tuple[Any, ...]:
    """The parts of a reference to a storage, checked: (type, key, location, elements, ...)."""
    if (
        not isinstance(saved, tuple) or len(saved) != length or saved[0] not in ("storage", b"storage")
    ):  # encoding="bytes"
        found = type(saved[0] if isinstance(saved, tuple) and saved else saved)
        raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {found}")
    _, kind, key, location, count, *rest = saved
    key, location = _text(key), _text(location)
    if count.__class__ is not int or not 0 <= count < 1 << 62:
        raise pickle.UnpicklingError("the file has a storage of impossible size")
    return (kind, key, location, count, *rest)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("ascii")
    if not isinstance(value, str):
        raise pickle.UnpicklingError("the file refers to a storage by something that is not text")
    return value


def aligned(nbytes: int) -> Any:
    """Uninitialised bytes that begin at a multiple of 64."""
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -room.__array_interface__["data"][0] % ALIGNMENT
    return room[start : start + nbytes]


# -- archives ----------------------------------------------------------------------------------------------------


def load_archive(source: Any, archive: Reader, how: Reading, mapped: bool) -> Any:
    """The object in an archive."""
    if "constants.pkl" in archive:
        raise RuntimeError("the file holds a TorchScript program, not a checkpoint: it is for torch.jit.load")
    _check_version(archive)
    storages = _ArchiveStorages(source, archive, how, mapped)
    return how.unpickle(archive.read("data.pkl"), 0, storages.find)[0]


def _check_version(archive: Reader) -> None:
    if "version" not in archive:
        return
    text = archive.read("version")[:20].strip()
    if not text.isdigit() or int(text) > _LATEST_VERSION:
        raise RuntimeError(f"the file has format version {text!r}; versions up to {_LATEST_VERSION} are known")


class _ArchiveStorages:
    """The storages of an archive, each read when the pickle first refers to it."""

    def __init__(self, source: Any, archive: Reader, how: Reading, mapped: bool):
        self.source, self.archive, self.how, self.mapped = source, archive, how, mapped
        self.found: dict[str, tuple[UntypedStorage, dtype | None, int]] = {}
        self.swap = _order(archive) != sys.byteorder

    def find(self, saved: Any) -> Any:
        kind, key, location, count = reference(saved, 5)
        d = kind_of(kind)
        nbytes = count * (d or uint8).itemsize
        if key in self.found:
            storage, _, known = self.found[key]
            if known != nbytes:
                raise pickle.UnpicklingError(f"the file gives storage {key!r:.50} two sizes")
            return finished(storage, d)
        storage = self._read(f"data/{key}", nbytes, d)
        storage = self.how.restore(storage, location)
        self.found[key] = (storage, d, nbytes)
        return finished(storage, d)

    def _read(self, name: str, nbytes: int, d: dtype | None) -> UntypedStorage:
        size = self.archive.size(name)
        if size != nbytes:
            raise RuntimeError(
                f"record size ({size} bytes) does not match expected size ({nbytes} bytes) of the storage {name!r:.100}"
            )
        if self.how.on_meta:
            return empty_storage(nbytes, True)
        if self.mapped and nbytes:
            place = self.archive.place(name)
            if place % 16 == 0 and not self.swap:
                return UntypedStorage(Storage(self.source.array(place, nbytes)))
        array = aligned(nbytes)
        if nbytes and not local.skip:
            if self.mapped:
                array[:] = self.source.array(self.archive.place(name), nbytes)
            else:
                self.archive.read_into(name, memoryview(array))
        storage = UntypedStorage(Storage(array))
        if self.swap and d is not None:
            storage.byteswap(d)
        return storage


def _order(archive: Reader) -> str:
    """The order of bytes in an archive: as it says, or as was set, or little endian."""
    if "byteorder" in archive:
        order = archive.read("byteorder").decode("ascii", "replace")
        if order not in ("little", "big"):
            raise ValueError(f"the file has the unknown byte order {order!r:.50}")
        return order
    if settings.load.endianness is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if settings.load.endianness is LoadEndianness.BIG else "little"
