"""Tools around tensors."""

import weakref
from typing import Any

from .._core.submodules import submodule
from .._tensor import storage_of, version_of
from .._tensor.copying import own_slots
from . import dlpack as dlpack


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchanges what two tensor objects are; every reference to one then sees the other.

    >>> import flambeau as torch
    >>> a, b = torch.zeros(1), torch.ones(2)
    >>> torch.utils.swap_tensors(a, b); a
    tensor([1., 1.])
    """
    names = ("__class__", "__dict__", "dtype", "_array", "_autograd_meta", "_edge", "_k", "_storage", "_view")
    if t1._view is not None or t2._view is not None:
        raise RuntimeError("Cannot swap tensors that are views")
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefcount(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if any(v is not None and v._view and v._view[0] is t for v in (r() for r in storage_of(t).views or ())):
            raise RuntimeError(f"Cannot swap {name} because there are views of it")
    version = max(version_of(t1), version_of(t2)) + 1  # what was kept of them for a backward pass is no longer there
    storage_of(t1).version = storage_of(t2).version = version
    slots = own_slots(type(t1))
    if sorted(slots) != sorted(own_slots(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    names = (*names, *(name for name in slots if hasattr(t1, name) or hasattr(t2, name)))
    missing = object()
    first, second = ([getattr(t, name, missing) for name in names] for t in (t1, t2))
    for t, values in ((t1, second), (t2, first)):
        for name, value in zip(names, values):
            if value is not missing:
                setattr(t, name, value)
            elif hasattr(t, name):
                delattr(t, name)


def __getattr__(name: str) -> Any:
    """Loads parts at their first use."""
    return submodule(__name__, name)
