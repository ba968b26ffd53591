"""Copies of tensors as Python objects: `copy`, `deepcopy` and pickling, which keep shared memory shared."""

from __future__ import annotations

import copy
import copyreg
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .. import _tensor
from .._autograd.node import is_leaf
from .._core.dtypes import ALL, COMPLEX, FLOATING, dtype, int32, int64
from .._core.layouts import layout, sparse_coo
from .._core.sizes import Size
from .._core.state import CONJ, CUDA, GRAD, META, NEG, POSTPONED, QUANTIZED, SPARSE, local
from .._dispatch import backend_of
from .._ops.layout.storages import raw_bytes
from .._ops.layout.striding import address, byte_bounds
from .._ops.making.generator import Generator
from .._ops.quantized.quantization import quantizer_from, quantizer_parts, with_quantizer
from .._ops.registry import ops
from .._ops.sparse.array import COMPRESSED, SparseArray, check_compressed, check_coo
from .._ops.sparse.tensors import index_tensor
from .._ops.sparse.tensors import rebuild as rebuild_sparse
from . import Storage, Tensor, detached, meta_of, storage_of, wrap
from .storage import UntypedStorage, wrapper_of
from .storage_memory import copy_storage, view_memory
from .typed_storage import dtype_names, typed

# Dtypes without a storage class: checkpoints keep them in untyped storages.
_STORED_UNTYPED = frozenset(d for d in ALL if d not in dtype_names())
_TENSOR_SLOTS = frozenset(Tensor.__slots__)
# One storage object for each piece of memory, also where `.data` has split its counts of writes.
_memories: WeakValueDictionary[tuple[int, int], Storage] = WeakValueDictionary()


def memory_of(t: Tensor) -> Storage:
    """The storage that stands for the tensor's memory."""
    storage = storage_of(t)
    bounds = byte_bounds(storage.array)
    if bounds[0] == bounds[1]:
        return storage
    found = _memories.get(bounds)
    if found is None or byte_bounds(found.array) != bounds:  # one that was resized has its memory elsewhere
        found = _memories[bounds] = storage
    return found


def geometry(t: Tensor, storage: Storage) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(offset, shape, strides) of a tensor in its storage, in elements."""
    offset = (address(t._array) - byte_bounds(storage.array)[0]) // t.dtype.itemsize if t._array.size else 0
    return offset, tuple(t._array.shape), tuple(t.stride())


# -- pickling ----------------------------------------------------------------------------------------------------
# The functions that make tensors again have the names and arguments that checkpoints of PyTorch give them.


class _Deferred(threading.local):
    """Work on tensors whose memory is filled only after the pickle is read; None while memory comes first."""

    jobs: list[Callable[[], Any]] | None = None


deferred = _Deferred()


def when_filled(job: Callable[[], Any]) -> None:
    """Does something that looks at elements: now, or when the file has been read."""
    if deferred.jobs is None:
        job()
    else:
        deferred.jobs.append(job)


def _numbers(values: Any, what: str) -> tuple[int, ...]:
    made = tuple(values)
    for n in made:
        if n.__class__ is not int or not 0 <= n < 1 << 63:
            raise RuntimeError(f"a saved tensor has an impossible {what}")
    return made


def rebuild_storage(raw: Any, where: str = "cpu") -> Storage:
    return UntypedStorage(Storage(raw)).to(device=where)._memory


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor over a typed storage; RuntimeError if it would reach beyond its end."""
    return _on_storage(storage._untyped_storage, storage.dtype, storage_offset, size, stride)


def _on_storage(storage: UntypedStorage, d: dtype, offset: int, size: Any, stride: Any) -> Tensor:
    shape, strides = _numbers(size, "size"), _numbers(stride, "stride")
    (offset,) = _numbers((offset,), "storage offset")
    if len(shape) != len(strides):
        raise RuntimeError(f"a saved tensor has {len(shape)} sizes but {len(strides)} strides")
    memory = storage._memory
    kind = storage.device.type
    t = wrap(
        view_memory(memory, d, shape, strides, offset), d, CUDA if kind == "cuda" else META if kind == "meta" else 0
    )
    t._storage = memory
    return t if storage.pretended is None else local.fake.fake(t, storage.pretended)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    """The same with whether gradients are required, and with marks such as {"conj": True}."""
    return _finished(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, dtype: dtype,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    """The same over untyped memory, for dtypes that have no storage class."""
    return _finished(_on_storage(storage.untyped(), dtype, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_qtensor(
    storage: Any, storage_offset: int, size: Any, stride: Any, quantizer_params: Any, requires_grad: bool,
    backward_hooks: Any = None,
) -> Tensor:  # fmt: skip
    """A quantized tensor: integers over a storage, and (scheme, scale, zero point) or (scheme, scales, zero points, axis)."""
    t = _rebuild_tensor(storage, storage_offset, size, stride)
    t._array = with_quantizer(t._array, quantizer_from(t.dtype, t._array.shape, quantizer_params, when_filled))
    t._k |= QUANTIZED
    return t


_MARKS = (("conj", CONJ), ("neg", NEG))


def _finished(t: Tensor, requires_grad: bool, marks: Any) -> Tensor:
    for mark, bit in _MARKS:
        if marks and marks.get(mark):
            if t.dtype.category < (COMPLEX if mark == "conj" else FLOATING):
                raise RuntimeError(f"a saved tensor of dtype {t.dtype} is marked as {mark}, which it cannot be")
            t._k |= bit
    if requires_grad:
        _require_grad(t)
    return t


def _require_grad(t: Tensor) -> None:
    if t.dtype.category < FLOATING:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    t._k |= GRAD


def _rebuild_meta_tensor_no_storage(dtype: dtype, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    t = ops.empty_strided(_numbers(size, "size"), _numbers(stride, "stride"), dtype=dtype, device="meta")
    if requires_grad:
        _require_grad(t)
    return t


def _rebuild_sparse_tensor(layout: layout, data: tuple[Any, ...]) -> Tensor:
    """A sparse tensor from its parts: indices, values, size (and whether it is coalesced)."""
    count = 1 if layout is sparse_coo else 2 if layout in COMPRESSED else 0
    if not count:
        raise NotImplementedError(f"loading a tensor of layout {layout} is not supported")
    *parts, values = data[: count + 1]
    shape = _numbers(data[count + 1], "size")
    for part in parts:
        if part._k or part.dtype not in (int32, int64):
            raise RuntimeError("a saved sparse tensor has indices that are not integers in memory")
    coalesced = len(data) > count + 2 and bool(data[count + 2])
    t = rebuild_sparse(detached(values), SparseArray(layout, None, values._array, shape, coalesced))

    def fill() -> None:
        # copies: other tensors of the file may share this memory, and writing to them must not move checked indices
        index = [part._array.astype(np.int64) for part in parts]
        if count == 1:
            check_coo(index[0], values._array, shape)
        else:
            check_compressed(layout, *index, values._array, shape)
        t._array.index = index[0] if count == 1 else tuple(index)

    when_filled(fill)
    return t


def _rebuild_from_type_v2(rebuild: Any, kind: type, args: tuple[Any, ...], state: Any) -> Any:
    """A tensor of a subclass, or one with attributes of its own."""
    t = rebuild(*args)
    if type(t) is not kind:
        keeps, t = t._k & GRAD, Tensor._make_subclass(kind, t)
        t._k |= keeps
    if has_plain_state(kind):
        set_state(t, state)
    else:
        t.__setstate__(state)
    return t


def has_plain_state(kind: type) -> bool:
    """Whether the state of tensors of a class are attributes: it does not restore itself in a way of its own."""
    return getattr(kind, "__setstate__", None) is Tensor.__setstate__


def own_slots(kind: type) -> list[str]:
    """The slots of a subclass of Tensor that tensors do not have."""
    return [name for name in copyreg._slotnames(kind) if name not in _TENSOR_SLOTS]  # type: ignore[attr-defined]


def set_state(t: Tensor, state: Any) -> None:
    """Gives a tensor the attributes that it was saved with: a dictionary, or a pair of those for slots too."""
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        t.__dict__.update(state)
    if slots:
        allowed = own_slots(type(t))
        for name, value in slots.items():
            if name not in allowed:
                raise RuntimeError(
                    f"a saved tensor has a value for {name!r:.100}, which is no slot of {type(t).__name__}"
                )
            setattr(t, name, value)


def state_of(t: Tensor) -> Any:
    """The attributes of a tensor, or what its class says that its state is."""
    if getattr(type(t), "__getstate__", None) is not getattr(object, "__getstate__", None):
        return t.__getstate__()
    own = dict(t.__dict__)
    names = [name for name in own_slots(type(t)) if hasattr(t, name)]
    return (own, {n: getattr(t, n) for n in names}) if names else own or None


def _reduce_storage(self: Storage, protocol: int) -> tuple[Any, ...]:
    """Memory as an array; under the name `torch` as PyTorch's pickles have it, since unpicklers of programs look for
    `torch.storage._load_from_bytes` to say where tensors go."""
    package = sys.modules[__name__.partition(".")[0]]
    if sys.modules.get("torch") is package:
        return package.storage._load_from_bytes, (package.storage._saved_bytes(UntypedStorage(self)),)
    raw = raw_bytes(self)
    if isinstance(raw, np.ndarray):
        return rebuild_storage, (raw,)
    return rebuild_storage, (backend_of(CUDA).asnumpy(raw), str(UntypedStorage(self).device))


def reduce_plain(t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """(function, arguments) that make the tensor again, without its class and attributes."""
    d = t.dtype
    if t._k & SPARSE:
        return _rebuild_sparse_tensor, _sparse_parts(t)
    if t._k & QUANTIZED:
        memory = memory_of(t)
        return _rebuild_qtensor, (
            typed(wrapper_of(memory), d),
            *geometry(t, memory),
            quantizer_parts(t),
            False,
            OrderedDict(),
        )
    requires_grad = bool(t._k & GRAD)
    if t._k & META:
        return _rebuild_meta_tensor_no_storage, (d, tuple(t._array.shape), tuple(t.stride()), requires_grad)
    if t._autograd_meta is not None and t._autograd_meta.hooks:
        _warn_of_hooks(t._autograd_meta.hooks)
    memory = memory_of(t)
    return _reduce_on(wrapper_of(memory), memory, t)


def reduce_fake(t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """The same for a fake tensor, which becomes a tensor with memory where the fake one says that it is."""
    storage = storage_of(t)
    untyped = wrapper_of(storage)
    untyped.pretended = t.device
    return _reduce_on(untyped, storage, t)


def _reduce_on(untyped: UntypedStorage, memory: Storage, t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    d, requires_grad = t.dtype, bool(t._k & GRAD)
    where = (*geometry(t, memory), requires_grad, OrderedDict())
    marks = ({name: bool(t._k & bit) for name, bit in _MARKS if t._k & bit},) if t._k & POSTPONED else ()
    if d in _STORED_UNTYPED:
        return _rebuild_tensor_v3, (untyped, *where, d, *marks)
    return _rebuild_tensor_v2, (typed(untyped, d), *where, *marks)


def _sparse_parts(t: Tensor) -> tuple[Any, ...]:
    array = t._array
    values = wrap(array.values, t.dtype)
    if array.layout is sparse_coo:
        return sparse_coo, (index_tensor(array.index), values, Size(array.shape), array.coalesced)
    return array.layout, (*map(index_tensor, array.index), values, Size(array.shape))


def _warn_of_hooks(hooks: dict[int, Any]) -> None:
    for hook in hooks.values():
        if not getattr(hook, "__torch_unserializable__", False):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized", stacklevel=2)


def _reduce(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    rebuild, args = reduce_plain(self)
    state = state_of(self)
    if type(self) is Tensor and not state:
        return rebuild, args
    return _rebuild_from_type_v2, (rebuild, type(self), args, state)


rebuild_from_type = _rebuild_from_type_v2  # the name that parameters know


# -- copies ------------------------------------------------------------------------------------------------------


def _deepcopy(self: Tensor, memo: dict[Any, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    if not is_leaf(self):
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol; "
            "use detach().clone()"
        )
    if self._k & (META | SPARSE | QUANTIZED):
        rebuild, args = reduce_plain(self)
        made = rebuild(*(args if self._k & META else copy.deepcopy(args, memo)))
    elif self._k & POSTPONED:  # a copy of what it reads as
        made = ops.clone(detached(self))
    else:
        storage = storage_of(self)
        place = geometry(self, storage)
        copied = copy_storage(storage, memo)
        made = wrap(view_memory(copied, self.dtype, place[1], place[2], place[0]), self.dtype, self._k & CUDA)
        made._storage = copied
    if type(self) is not Tensor:
        made = Tensor._make_subclass(type(self), made)
    made._k |= self._k & GRAD
    memo[id(self)] = made
    if self._autograd_meta is not None and self._autograd_meta.grad is not None:
        meta_of(made).grad = _deepcopy(self._autograd_meta.grad, memo)
    if self.__dict__:
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    for name in own_slots(type(self)):
        if hasattr(self, name):
            setattr(made, name, copy.deepcopy(getattr(self, name), memo))
    return made


def _setstate(self: Tensor, state: Any) -> None:
    if isinstance(state, dict):
        set_state(self, state)
        return
    raise RuntimeError("__setstate__ expects a tensor's attributes")


def _set_generator_state(self: Generator, state: Any) -> None:
    """A saved generator: its seed, its place on a GPU, and the state of its stream."""
    when_filled(lambda: self.set_state(state[2]))


def attach() -> None:
    _tensor._rebuild_from_type_v2 = _rebuild_from_type_v2  # type: ignore[attr-defined]  # where programs look for it
    Generator.__setstate__ = _set_generator_state  # type: ignore[attr-defined]
    Storage.__reduce_ex__ = _reduce_storage  # type: ignore[method-assign]
    Tensor.__reduce_ex__ = _reduce  # type: ignore[method-assign, assignment]
    Tensor.__deepcopy__ = _deepcopy
    Tensor.__setstate__ = _setstate
