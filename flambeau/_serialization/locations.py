"""Devices of storages: the tags that files name them by, and where `map_location` puts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._backend.placement import gpu_count
from .._core.devices import device
from .._tensor.storage import UntypedStorage

_Tagger = Callable[[Any], "str | None"]
_Restorer = Callable[[Any, str], Any]
_registry: list[tuple[int, _Tagger, _Restorer]] = []


def register_package(priority: int, tagger: _Tagger, deserializer: _Restorer) -> None:
    """Adds a kind of place: `tagger(storage)` names it or gives None, `deserializer(storage, tag)` moves a storage there.

    Those with smaller priorities are asked first; the CPU has 10 and CUDA 20.
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])


def _of(kind: str) -> _Tagger:
    return lambda storage: str(storage.device) if storage.device.type == kind else None


def _to_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


def _to_cuda(storage: Any, location: str) -> Any:
    if not location.startswith("cuda"):
        return None
    return storage.to(device=validate_cuda_device(location))


def _to_meta(storage: Any, location: str) -> Any:
    return storage.to(device="meta") if location == "meta" else None


register_package(10, _of("cpu"), _to_cpu)
register_package(20, _of("cuda"), _to_cuda)
register_package(22, _of("meta"), _to_meta)
_OWN = len(_registry)


def validate_cuda_device(location: str) -> device:
    """The GPU that a tag names; RuntimeError if this machine has none such."""
    target = device(location)
    count = gpu_count()
    if not count:
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device, but there is none here: "
            "use map_location=torch.device('cpu') to load its storages into the memory of the CPU"
        )
    index = target.index or 0
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index}, but there are only {count} here: "
            "use map_location to put its storages on an existing one"
        )
    return device("cuda", index)


def validate_hpu_device(location: str) -> Any:
    """There are no such devices here."""
    raise RuntimeError(f"cannot load to {location}: hpu devices are not supported")


def location_tag(storage: Any) -> str:
    """The name of a storage's place in files.

    >>> import flambeau as torch
    >>> torch.serialization.location_tag(torch.zeros(2).untyped_storage())
    'cpu'
    """
    if len(_registry) == _OWN or storage.pretended is not None:
        return str(storage.pretended or storage.device)
    for _, tagger, _ in _registry:
        tag = tagger(storage)
        if tag:
            return tag
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at the place that a tag names."""
    for _, _, restore in _registry:
        made = restore(storage, location)
        if made is not None:
            return made
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with {location!r:.100})"
    )


def restorer(map_location: Any) -> _Restorer:
    """The function (storage, tag) -> storage that a `map_location` argument means."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes, device)):
        target = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, target)
    if not callable(map_location):
        raise TypeError(
            f"map_location must be a device, a string, a dictionary or a function, not {type(map_location).__name__}"
        )

    def restore(storage: Any, location: str) -> Any:
        made = map_location(storage, location)
        return default_restore_location(storage, location) if made is None else made

    return restore


def to_meta(map_location: Any) -> bool:
    """Whether all storages become storages without memory, so that nothing needs to be read."""
    return isinstance(map_location, (str, device)) and str(map_location) == "meta"


def pretending(map_location: Any) -> _Restorer:
    """The same for a fake mode: no storage has memory, and each pretends to be at its place, whether that is there or not."""
    restorer(map_location)  # refuses what names no place

    def place(storage: Any, location: str) -> Any:
        if map_location is None:
            return location
        if isinstance(map_location, dict):
            return map_location.get(location, location)
        if not callable(map_location):
            return map_location.decode() if isinstance(map_location, bytes) else map_location
        made = map_location(storage, location)
        return location if made is None else "cpu" if made is storage else made.device

    def restore(storage: Any, location: str) -> Any:
        storage.pretended = device(place(storage, location))
        return storage

    return restore


def empty_storage(nbytes: int, on_meta: bool) -> UntypedStorage:
    return UntypedStorage(nbytes, device="meta" if on_meta else "cpu")
