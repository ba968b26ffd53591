"""Storages: the memory behind tensors."""

from __future__ import annotations

import io
from typing import Any

from ._core.dtypes import uint8
from ._tensor import typed_storage
from ._tensor.storage import StorageBase, UntypedStorage
from ._tensor.typed_storage import TypedStorage, dtype_names

__all__ = ["TypedStorage", "UntypedStorage"]

# What packages take from here by PyTorch's private names.
_StorageBase = StorageBase
_LegacyStorage = typed_storage.LegacyStorage
_warn_typed_storage_removal = typed_storage.warn_of_removal
_reset_warn_typed_storage_removal = typed_storage.reset_warning
_get_always_warn_typed_storage_removal = typed_storage.get_always_warn
_set_always_warn_typed_storage_removal = typed_storage.set_always_warn


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """The names of the old storage classes, by dtype."""
    return dict(dtype_names())


def _storage_type_to_dtype_map() -> dict[str, Any]:
    """The dtypes of the old storage classes, by name."""
    return {name: d for d, name in dtype_names().items()}


def _load_from_bytes(b: bytes) -> Any:
    """What `save` wrote, from bytes: pickles of storages call this."""
    from .serialization import load  # which needs the storages first

    return load(io.BytesIO(b), weights_only=False)


_load_from_bytes.__module__ = "torch.storage"  # pickles name it so, under the name `torch`


def _saved_bytes(storage: UntypedStorage) -> bytes:
    """What `_load_from_bytes` reads."""
    from .serialization import save

    file = io.BytesIO()
    save(typed_storage.typed(storage, uint8), file, _use_new_zipfile_serialization=False)
    return file.getvalue()
