"""Settings of saving and loading, and the classes and functions that users declared safe to load."""

from __future__ import annotations

import mmap
import threading
from enum import Enum
from types import SimpleNamespace
from typing import Any

from .names import to_torch


class LoadEndianness(Enum):
    """The order of bytes that files are taken to have if they do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class Settings:
    """What `utils.serialization.config` shows."""

    save = SimpleNamespace(compute_crc32=True, use_pinned_memory_for_d2h=False, storage_alignment=64)
    load = SimpleNamespace(
        mmap=False, endianness=None, mmap_flags=getattr(mmap, "MAP_PRIVATE", None), calculate_storage_offsets=False
    )


class _Local(threading.local):
    skip = False  # whether the data of storages is left out
    materialize = False


settings = Settings()
local = _Local()
_safe: dict[str, Any] = {}  # by full names


def full_name(entry: Any) -> tuple[str, Any]:
    """The name in files and the object, of an object or an (object, name) pair."""
    if isinstance(entry, tuple):
        if len(entry) != 2 or not isinstance(entry[1], str):
            raise ValueError(f"expected a pair of an object and its full name, got {entry!r:.100}")
        return entry[1], entry[0]
    name = getattr(entry, "__qualname__", None) or getattr(entry, "__name__", None)
    if name is None:
        raise TypeError(f"expected classes, functions or (object, name) pairs, got {type(entry).__name__}")
    owner = getattr(entry, "__self__", None)  # a built-in method has no module of its own
    home = entry.__module__ or (owner if isinstance(owner, type) else type(owner)).__module__
    return ".".join(to_torch(home, name, entry)), entry


def get_safe_globals() -> list[Any]:
    """What was declared safe to load with `weights_only=True`."""
    return [value if full_name(value)[0] == name else (value, name) for name, value in _safe.items()]


def clear_safe_globals() -> None:
    """Forgets what was declared safe."""
    _safe.clear()


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Lets `load` make objects of these classes and call these functions even with `weights_only=True`.

    >>> import flambeau as torch
    >>> torch.serialization.add_safe_globals([range])
    >>> torch.serialization.get_safe_globals()
    [<class 'range'>]
    >>> torch.serialization.clear_safe_globals()
    """
    _safe.update(full_name(entry) for entry in safe_globals)


class safe_globals:
    """Declares classes and functions safe inside of a `with` block."""

    def __init__(self, safe_globals: list[Any]):
        self._added = dict(full_name(entry) for entry in safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_safe)
        _safe.update(self._added)

    def __exit__(self, *error: Any) -> None:
        _safe.clear()
        _safe.update(self._before)


class skip_data:
    """Inside of a `with` block, `save` leaves room for the data of storages without writing it, and `load` does not read it."""

    def __init__(self, materialize_fake_tensors: bool = False):
        self._new = (True, materialize_fake_tensors)

    def __enter__(self) -> None:
        self._old = (local.skip, local.materialize)
        local.skip, local.materialize = self._new

    def __exit__(self, *error: Any) -> None:
        local.skip, local.materialize = self._old


def get_crc32_options() -> bool:
    """Whether `save` computes checksums."""
    return bool(settings.save.compute_crc32)


def set_crc32_options(compute_crc32: bool) -> None:
    """Sets whether `save` computes checksums; without them, damage is not noticed by `load`."""
    settings.save.compute_crc32 = bool(compute_crc32)


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes assumed for files that do not say it."""
    return settings.load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the order of bytes assumed for files that do not say it."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("set_default_load_endianness expects a LoadEndianness or None")
    settings.load.endianness = endianness


def get_default_mmap_options() -> int | None:
    """How `load(mmap=True)` maps files: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`."""
    return settings.load.mmap_flags


class set_default_mmap_options:
    """Sets how `load(mmap=True)` maps files, for good or for a `with` block."""

    def __init__(self, flags: int):
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(f"set_default_mmap_options expects mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}")
        self._before = settings.load.mmap_flags
        settings.load.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        settings.load.mmap_flags = self._before
