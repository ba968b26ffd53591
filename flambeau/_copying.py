"""Copies of tensors as Python objects: `copy`, `deepcopy` and pickling, which keep shared memory shared."""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakValueDictionary

from ._core.devices import device
from ._core.dtypes import dtype
from ._core.state import CUDA, GRAD, META
from ._dispatch import backend_of
from ._ops.conversion import to_device
from ._ops.registry import ops
from ._ops.striding import address, byte_bounds
from ._storage import raw_bytes, view_memory
from ._tensor import Storage, Tensor, meta_of, storage_of, wrap

# One storage object for each piece of memory, also where `.data` has split its counts of writes.
_memories: WeakValueDictionary[tuple[int, int], Storage] = WeakValueDictionary()


def memory_of(t: Tensor) -> Storage:
    """The storage that stands for the tensor's memory."""
    storage = storage_of(t)
    low, high = byte_bounds(storage.array)
    return _memories.setdefault((low, high), storage) if high > low else storage


def geometry(t: Tensor, storage: Storage) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(offset, shape, strides) of a tensor in its storage, in elements."""
    offset = (address(t._array) - byte_bounds(storage.array)[0]) // t.dtype.itemsize if t._array.size else 0
    return offset, tuple(t._array.shape), tuple(t.stride())  # type: ignore[attr-defined]


# -- pickling ----------------------------------------------------------------------------------------------------


def rebuild_storage(raw: Any) -> Storage:
    return Storage(raw)


def rebuild_tensor(
    storage: Storage, d: dtype, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], requires_grad: bool,
    where: device | None = None,
) -> Tensor:  # fmt: skip
    k = 0 if storage.array.__class__.__module__.startswith("numpy") else CUDA
    t = wrap(view_memory(storage, d, shape, strides, offset), d, k)
    t._storage = storage
    if where is not None and k == 0 and where.type != "cpu":
        t = to_device(t, d, where)
    if requires_grad:
        t._k |= GRAD
    return t


def rebuild_meta(d: dtype, shape: tuple[int, ...], strides: tuple[int, ...], requires_grad: bool) -> Tensor:
    t = ops.empty_strided(shape, strides, dtype=d, device="meta")
    t._k |= GRAD if requires_grad else 0
    return t  # type: ignore[no-any-return]


def rebuild_from_type(rebuild: Any, kind: type, args: tuple[Any, ...], state: dict[str, Any] | None) -> Any:
    """A tensor of a subclass, or one with attributes of its own."""
    t = rebuild(*args)
    if type(t) is not kind:
        keeps, t = t._k & GRAD, Tensor._make_subclass(kind, t)  # type: ignore[attr-defined]
        t._k |= keeps
    set_state(t, state)
    return t


def set_state(t: Tensor, state: Any) -> None:
    if state:
        t.__dict__.update(state)


def _reduce_storage(self: Storage, protocol: int) -> tuple[Any, ...]:
    raw = raw_bytes(self)
    return rebuild_storage, (backend_of(0 if raw.__class__.__module__.startswith("numpy") else CUDA).asnumpy(raw),)


def reduce_plain(t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """(function, arguments) that make the tensor again, without its class and attributes."""
    requires_grad = bool(t._k & GRAD)
    if t._k & META:
        return rebuild_meta, (t.dtype, tuple(t._array.shape), tuple(t.stride()), requires_grad)  # type: ignore[attr-defined]
    storage = memory_of(t)
    where = (t.device,) if t._k & CUDA else ()  # type: ignore[attr-defined]
    return rebuild_tensor, (storage, t.dtype, *geometry(t, storage), requires_grad, *where)


def _reduce(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    rebuild, args = reduce_plain(self)
    if type(self) is Tensor and not self.__dict__:
        return rebuild, args
    return rebuild_from_type, (rebuild, type(self), args, dict(self.__dict__) or None)


# -- copies ------------------------------------------------------------------------------------------------------


def copy_storage(storage: Storage, memo: dict[Any, Any]) -> Storage:
    """A copy of a storage, the same one for all tensors that share it."""
    low, high = byte_bounds(storage.array)
    key = ("storage", low, high) if high > low else ("storage", id(storage))
    if key not in memo:
        memo[key] = Storage(raw_bytes(storage).copy())
        memo["kept", key] = storage  # the address must not be used again while the memo lives
    return memo[key]  # type: ignore[no-any-return]


def _deepcopy(self: Tensor, memo: dict[Any, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    if self._edge is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol; "
            "use detach().clone()"
        )
    if self._k & META:
        rebuild, args = reduce_plain(self)
        made = rebuild(*args)
    else:
        storage = storage_of(self)
        place = geometry(self, storage)
        copied = copy_storage(storage, memo)
        made = wrap(view_memory(copied, self.dtype, place[1], place[2], place[0]), self.dtype, self._k & CUDA)
        made._storage = copied
    if type(self) is not Tensor:
        made = Tensor._make_subclass(type(self), made)  # type: ignore[attr-defined]
    made._k |= self._k & GRAD
    memo[id(self)] = made
    if self._meta is not None and self._meta.grad is not None:
        meta_of(made).grad = _deepcopy(self._meta.grad, memo)
    if self.__dict__:
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _setstate(self: Tensor, state: Any) -> None:
    if isinstance(state, dict):
        set_state(self, state)
        return
    raise RuntimeError("__setstate__ expects a tensor's attributes")




def attach() -> None:
    Storage.__reduce_ex__ = _reduce_storage  # type: ignore[method-assign]
    Tensor.__reduce_ex__ = _reduce  # type: ignore[method-assign, assignment]
    Tensor.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]
    Tensor.__setstate__ = _setstate  # type: ignore[attr-defined]
