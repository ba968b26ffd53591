"""The pickle of `.metadata`, written under PyTorch's names and read with nothing but the classes that it may contain."""

from __future__ import annotations

import io
import pathlib
import pickle
from typing import Any

from ..._core.dtypes import BY_NAME, dtype
from ..._core.layouts import layout
from ..._core.sizes import Size
from ..._serialization.names import _get_layout
from . import metadata
from ._storage_info import _HFStorageInfo, _StorageInfo
from .metadata import Metadata

_HERE, _THERE = "flambeau.", "torch."
_METADATA = "torch.distributed.checkpoint.metadata"


def _member(kind: Any, name: str) -> Any:
    """What `getattr` stands for in files that Python 3.11.0 to 3.11.3 wrote: a member of the enumeration, and nothing else."""
    if kind is not metadata._MEM_FORMAT_ENCODING:
        raise pickle.UnpicklingError("the checkpoint's metadata asks for an attribute, which does not belong there")
    return kind[name]


_ALLOWED: dict[tuple[str, str], Any] = {
    ("builtins", "getattr"): _member,
    **{(_METADATA, name): getattr(metadata, name) for name in (*metadata.__all__, "_MEM_FORMAT_ENCODING")},
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): _StorageInfo,
    ("torch.distributed.checkpoint._storage_info", "_HFStorageInfo"): _HFStorageInfo,
    ("torch", "Size"): Size,
    ("torch.serialization", "_get_layout"): _get_layout,
    **{("pathlib", name): pathlib.PurePosixPath for name in ("Path", "PosixPath", "PurePosixPath")},
    ("pathlib._local", "PosixPath"): pathlib.PurePosixPath,
    **{("pathlib", name): pathlib.PureWindowsPath for name in ("WindowsPath", "PureWindowsPath")},
    ("collections", "OrderedDict"): dict,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None and module == "torch":
            found = BY_NAME.get(name)
        if found is None:
            raise pickle.UnpicklingError(
                f"the checkpoint's metadata names {module}.{name}, which does not belong there"
            )
        return found


def unpack(data: bytes) -> Any:
    """What `pack` packed; raises `ValueError` for anything else."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except Exception as error:
        raise ValueError(f"the checkpoint's .metadata cannot be read: {error}") from error


def read(data: bytes) -> Metadata:
    """The metadata in a pickle; raises `ValueError` for anything else."""
    found = unpack(data)
    if not isinstance(found, Metadata) or not isinstance(found.state_dict_metadata, dict):
        raise ValueError("the checkpoint's .metadata holds something else")
    if not isinstance(found.storage_data, dict):
        raise ValueError("the checkpoint's .metadata does not say where things are: it was written by another storage")
    return found


class _Writer(pickle._Pickler):
    """The pickler in Python, whose names can be changed."""

    def _name(self, module: str, name: str) -> None:
        super().save(module)
        super().save(name)
        self.write(pickle.STACK_GLOBAL)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) is Size:
            self._call("torch", "Size", (tuple(obj),))
        elif isinstance(obj, dtype):
            self._name("torch", obj.name)
        elif isinstance(obj, layout):
            self._call("torch.serialization", "_get_layout", (str(obj),))
        else:
            super().save(obj, save_persistent_id)

    def _call(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self._name(module, name)
        super().save(args)
        self.write(pickle.REDUCE)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if obj is _StorageInfo:
            self._name("torch.distributed.checkpoint.filesystem", "_StorageInfo")
        else:
            self._name(obj.__module__.replace(_HERE, _THERE, 1), obj.__qualname__)
        self.memoize(obj)


def pack(found: Any) -> bytes:
    """The pickle of metadata, or of parts of it, which PyTorch reads."""
    out = io.BytesIO()
    _Writer(out, 4).dump(found)
    return out.getvalue()
