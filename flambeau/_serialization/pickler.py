"""Pickles of checkpoints: tensors by reference to storages that are written apart, and names that PyTorch knows.

Python's fast pickler writes names as they are here. They are changed in the finished pickle, where each one is found
once; in the rare case that it is not so plain, or for newer protocols, the pickler written in Python names things itself.
"""

from __future__ import annotations

import io
import pickle
import re
import types
import warnings
from typing import Any

import numpy as np

from .._core.dtypes import BY_NAME, dtype
from .._core.layouts import layout, strided
from .._core.quantizers import qscheme
from .._core.state import CUDA, META
from .._dispatch import backend_of
from .._ops.layout.striding import byte_bounds
from .._ops.making.generator import Generator
from .._tensor import Storage, Tensor, copying
from .._tensor.storage import UntypedStorage, bytes_of
from .._tensor.typed_storage import TypedStorage
from . import names
from .locations import location_tag
from .options import local

_NAMED = re.compile(rb"c(" + names.PACKAGE.encode() + rb"(?:\.\w+)*)\n([\w.]+)\n")
_GLOBALS = (type, types.FunctionType, types.BuiltinFunctionType)


class Storages:
    """The storages that a pickle refers to, in the order in which they were met."""

    def __init__(self, legacy: bool = False):
        self._legacy = legacy
        self._found: dict[Any, tuple[str, Storage, dtype]] = {}
        self._classes = names.storage_classes()
        self.kinds = frozenset({UntypedStorage, TypedStorage, *self._classes.values()})

    def reference(self, storage: Any) -> tuple[Any, ...]:
        """What stands for a storage in the pickle."""
        untyped = bytes_of(storage)
        typed = untyped is not storage
        d = storage.dtype if typed else BY_NAME["uint8"]
        memory = untyped._memory
        low, high = byte_bounds(memory.array)
        place = (low, high) if high > low and untyped.pretended is None else id(memory)
        key, _, known = self._found.setdefault(place, (str(len(self._found)), memory, d))
        if known is not d and high > low:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        kind = self._classes[f"torch.{storage._pickle_storage_type()}"] if typed else UntypedStorage
        made = ("storage", kind, key, location_tag(untyped), (high - low) // d.itemsize)
        return (*made, None) if self._legacy else made

    def buffers(self) -> list[tuple[str, Any, dtype]]:
        """(key, memory as a buffer, dtype) of all storages."""
        return [(key, _bytes_of(memory), d) for key, memory, d in self._found.values()]


def _bytes_of(memory: Storage) -> Any:
    storage = UntypedStorage(memory)
    if (
        storage.device.type == "meta"
    ):  # of fake tensors: only the length counts, and the system gives zeros when they are read
        return memoryview(np.zeros(storage.nbytes(), np.uint8))
    return memoryview(backend_of(CUDA).asnumpy(storage._raw()) if storage.is_cuda else storage._raw())


def _reduced(obj: Any) -> Any:
    """How some objects are pickled for checkpoints; NotImplemented for those that know it themselves."""
    kind = type(obj)
    if kind is dtype or kind is qscheme:
        return obj.name
    if kind is layout:
        return names._get_layout, (repr(obj),)
    if kind is Generator:
        return Generator, (obj.device,), (obj.initial_seed(), None, obj.get_state())
    if local.skip and isinstance(obj, Tensor):
        return _without_data(obj)
    return NotImplemented


def _without_data(t: Tensor) -> Any:
    """How tensors are pickled inside of `skip_data`."""
    if t.is_nested and t.layout is strided:
        raise RuntimeError("Cannot serialize nested tensor under skip_data context manager: save its parts instead")
    if not t._k & META:
        return NotImplemented
    if not hasattr(t, "fake_mode"):
        warnings.warn("Serializing tensors on the meta device under skip_data context manager is a no-op", stacklevel=2)
        return NotImplemented
    return copying.reduce_fake(t) if local.materialize else NotImplemented


class _Ambiguous(Exception):
    """The fast way would not name something rightly."""


class _Fast(pickle.Pickler):
    """Python's own pickler; notes which names of ours it writes."""

    def __init__(self, file: Any, protocol: int, storages: Storages):
        super().__init__(file, protocol)
        self.named: dict[tuple[str, str], Any] = {}
        self._kinds, self._reference = storages.kinds, storages.reference

    def persistent_id(self, obj: Any) -> Any:
        return self._reference(obj) if obj.__class__ in self._kinds else None

    def reducer_override(self, obj: Any) -> Any:
        made = _reduced(obj)
        if made.__class__ is str or isinstance(obj, _GLOBALS):
            module = getattr(obj, "__module__", None) or ""
            if names.public_path(obj) is not None:  # an operation, not where Python looks for it
                raise _Ambiguous
            if names.is_ours(module):
                self.named[module, made if made.__class__ is str else obj.__qualname__] = obj
            elif module.partition(".")[0] == "torch":  # the same for a class of ours under PyTorch's name
                raise _Ambiguous
        return made


def _slow(base: type) -> type:
    """A pickler in Python, of the standard library or derived from it, that names our objects as PyTorch's."""

    class Slow(base):
        def __init__(self, file: Any, protocol: int, storages: Storages):
            super().__init__(file, protocol)
            self._kinds, self._reference = storages.kinds, storages.reference

        def persistent_id(self, obj: Any) -> Any:
            return self._reference(obj) if obj.__class__ in self._kinds else None

        def reducer_override(self, obj: Any) -> Any:
            return _reduced(obj)

        def save_global(self, obj: Any, name: str | None = None) -> None:
            module = getattr(obj, "__module__", None) or ""
            name = name or getattr(obj, "__qualname__", None) or obj.__name__
            foreign, written = names.to_torch(module, name, obj)
            if foreign.partition(".")[0] != "torch" or ("." in written and self.proto < 4):
                super().save_global(obj, name)
                return
            if self.proto >= 4:
                self.save(foreign)
                self.save(written)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(b"c" + f"{foreign}\n{written}\n".encode())
            self.memoize(obj)

        dispatch = {**base.dispatch, types.FunctionType: save_global}  # type: ignore[attr-defined]

    return Slow


def _plain(base: type) -> type:
    """A pickler of another module that cannot be told how to name things: the pickle is for flambeau only."""

    class Plain(base):
        storages: Storages

        def persistent_id(self, obj: Any) -> Any:
            return self.storages.reference(obj) if obj.__class__ in self.storages.kinds else None

    return Plain


def dump(obj: Any, storages: Storages, protocol: int, module: Any) -> bytes:
    """The pickle of an object; what it refers to is put into `storages`."""
    if module is pickle and protocol < 4:
        made = _dump_fast(obj, storages, protocol)
        if made is not None:
            return made
    base = pickle._Pickler if module is pickle else module.Pickler
    file = io.BytesIO()
    if issubclass(base, pickle._Pickler):
        _slow(base)(file, protocol, storages).dump(obj)
    else:
        pickler = _plain(base)(file, protocol=protocol)
        pickler.storages = storages
        pickler.dump(obj)
    return file.getvalue()


def _dump_fast(obj: Any, storages: Storages, protocol: int) -> bytes | None:
    """A pickle by Python's fast pickler; None if it cannot be told where it names objects of ours."""
    file = io.BytesIO()
    pickler = _Fast(file, protocol, storages)
    try:
        pickler.dump(obj)
    except _Ambiguous:
        return None
    made, named = file.getvalue(), pickler.named
    if not named:
        return made
    found = [(a.decode(), b.decode()) for a, b in _NAMED.findall(made)]
    if len(found) != len(named) or set(found) != named.keys():
        return None

    def translated(match: re.Match[bytes]) -> bytes:
        module, name = match[1].decode(), match[2].decode()
        return "c{}\n{}\n".format(*names.to_torch(module, name, named[module, name])).encode()

    return _NAMED.sub(translated, made)
