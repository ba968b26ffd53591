"""A tensor's memory from its own side: its storage, its address, other memory in its place, shared and pinned memory."""

from __future__ import annotations

from typing import Any

from .._backend import segments
from .._backend.placement import cuda_problem, pinned
from .._core.layouts import reach_of
from .._core.sizes import contiguous_strides, size_argument
from .._core.state import BATCHED, CUDA, DISPATCH, DUAL, GRAD, META, OVERRIDE, QUANTIZED, SPARSE, local
from .._ops.basic import empty_array
from .._ops.layout.storages import laid_over, raw_bytes
from .._ops.layout.striding import address, byte_bounds, storage_bounds
from .._ops.quantized.quantization import with_quantizer
from .._ops.records.rules import type_name
from .._ops.records.writable import check_writable
from .._ops.registry import public
from . import Storage, Tensor, storage_of, version_of, wrap, wrapper_copy
from .storage import UntypedStorage, wrapper_of
from .storage_memory import share, view_memory
from .typed_storage import TypedStorage, legacy_classes, tensor_of_storage, typed, warn_of_removal


@public("Tensor.untyped_storage")
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor and its views share."""
    found = wrapper_of(storage_of(self))
    if "_wrapper_device" in self.__dict__ and not hasattr(self, "fake_mode"):
        found.pretended = self.device  # of a wrapper: there is no memory, wherever the tensor says that it is
    return found


@public("Tensor.storage")
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor and its views share, counted in elements."""
    warn_of_removal()
    return typed(untyped_storage(self), self.dtype)


@public("Tensor._typed_storage")
def _typed_storage(self: Tensor) -> TypedStorage:
    """As `storage`, without the warning that typed storages go away."""
    return typed(untyped_storage(self), self.dtype)


@public("Tensor.storage_type")
def storage_type(self: Tensor) -> type | None:
    """The typed class of the tensor's storage; None for a dtype that has none."""
    return legacy_classes().get(type_name(self.dtype) + "Storage")


@public("Tensor.data_ptr", "Tensor.const_data_ptr", aliases=("const_data_ptr",))
def data_ptr(self: Tensor) -> int:
    """The address of the tensor's first element; 0 for an empty tensor, counted from 0 for one without memory."""
    if self._k & META:
        return int(self.storage_offset()) * self.dtype.itemsize
    return int(address(self._array)) if self._array.size else 0


@public("Tensor.is_set_to")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors look at the same memory with the same shape and strides."""
    a, b = self._array, tensor._array
    return (
        a.shape == b.shape and self.stride() == tensor.stride()
        and address(a) == address(b) and storage_bounds(self) == storage_bounds(tensor)
    )  # fmt: skip


@public("Tensor.set_")
def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Makes the tensor look at other memory: that of a tensor, or a storage with offset, size and strides."""
    check_writable(self, expanded=True)
    if self._k & GRAD and local.grad:
        raise RuntimeError("derivative for set_ is not implemented: detach() the tensor first")
    if self._k & DUAL:
        raise NotImplementedError("Trying to use forward AD with set_ that does not support it")
    d = self.dtype
    if source is None:
        source = wrap(empty_array((0,), d, self._k), d)
    if not isinstance(source, Tensor):
        if size is not None and not isinstance(source, TypedStorage) and not self._k & QUANTIZED:
            _make_room(self, source, storage_offset, size, stride)
        source = tensor_of_storage(source, d)
        size = (source._array.size - storage_offset,) if size is None else size
    elif size is not None:
        if not source.is_contiguous():
            raise RuntimeError("passed in tensor to be used as storage must be contiguous")
        storage_offset += source.storage_offset()
    if source.dtype is not d:
        raise RuntimeError(f"Could not set tensor of type {source.dtype.name} to a tensor of type {d.name}")
    if (source._k ^ self._k) & (CUDA | META):
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device "{source.device}".  '
            "This is no longer allowed; the devices must match."
        )
    array, memory = source._array, storage_of(source)
    if size is not None:
        shape = size_argument((size,))
        steps = contiguous_strides(shape) if stride is None else size_argument((stride,), "stride")
        array = view_memory(memory, d, shape, steps, storage_offset)
    if self._k & QUANTIZED:
        array = with_quantizer(array, self._array.quantizer)
    if memory is self._storage:
        memory.version += 1
    else:  # writes are counted apart, and what a backward pass has kept of the tensor is no longer there
        memory = memory.twin(version_of(self) + 1)
    self._array, self._storage, self._view = array, memory, None
    return self


def _make_room(t: Tensor, storage: UntypedStorage, offset: int, size: Any, stride: Any) -> None:
    """Lets the storage that a tensor is set to grow, if the tensor gets another size at the same time."""
    shape = size_argument((size,))
    steps = contiguous_strides(shape) if stride is None else size_argument((stride,), "stride")
    if (shape, steps) == (tuple(t._array.shape), tuple(t.stride())):
        return
    reach = reach_of(shape, steps)
    needed = (offset + reach) * t.dtype.itemsize if reach else 0
    if needed > storage.nbytes():
        storage.resize_(needed)


def read_data(t: Tensor) -> Tensor:
    """`.data`: the same memory without history, whose writes are not counted as the tensor's own."""
    if t._k & BATCHED:
        raise RuntimeError("accessing `data` under vmap transform is not allowed; use detach()")
    if t._k & DISPATCH:  # what it wraps has the memory
        return wrapper_copy(t)
    other = wrap(t._array, t.dtype, t._k & ~(GRAD | OVERRIDE | DUAL))
    other._storage, other._autograd_meta = storage_of(t).twin(), None  # made in inference mode or not
    return other


derived_in: Any = None  # set by `func`: the open transforms that a tensor belongs to


def write_data(t: Tensor, value: Tensor) -> None:
    """`.data = value`: other memory (perhaps of another shape, dtype or device) under the same history."""
    if t._k & BATCHED:
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed")
    if local.transforms and derived_in(t):
        raise RuntimeError("mutating directly with `.data` inside functorch transform is not allowed")
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if t._k & GRAD and value.dtype.category < 2:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if (t._k ^ value._k) & SPARSE:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: one is "
            "sparse, the other is not"
        )
    memory = storage_of(value).twin(version_of(t))
    kept = GRAD | t._class_k
    t._array, t.dtype, t._storage = value._array, value.dtype, memory
    t._k = t._k & kept | value._k & ~kept


@public("Tensor.is_shared")
def is_shared(self: Tensor) -> bool:
    """Whether other processes can see the memory."""
    return bool(self._k & CUDA) or segments.segment_of(self._array) is not None


@public("Tensor.share_memory_")
def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory to where other processes can see it; views of it follow."""
    if not self._k & (CUDA | META | SPARSE):
        storage = self._storage
        if storage is None:  # no view was ever taken
            array = self._array
            self._array = laid_over(segments.share(raw_bytes(Storage(array))), array, byte_bounds(array)[0])
        else:
            share(storage)
    return self


@public("Tensor.pin_memory")
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """A copy in memory that GPUs read directly; the tensor itself if it is there. Needs a GPU."""
    if cuda_problem() is not None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if input._k & (CUDA | META | SPARSE):
        raise RuntimeError(f"cannot pin a tensor of {input.device}: only dense CPU tensors can be pinned")
    if is_pinned(input):
        return input
    return wrap(pinned(input._array), input.dtype)


@public("Tensor.is_pinned")
def is_pinned(input: Tensor, device: Any = None) -> bool:
    """Whether GPUs read the memory directly."""
    if not cuda_problem.cache_info().currsize or cuda_problem() is not None or input._k & (CUDA | META | SPARSE):
        return False
    import cupy  # it is loaded: there is a GPU

    host = 1  # CUDA's number for memory of the host that it knows
    return bool(cupy.cuda.runtime.pointerGetAttributes(address(input._array)).type == host)


SCHEMAS = """
is_set_to(Tensor self, Tensor tensor) -> bool
set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)
set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)
set_(Tensor(a!) self) -> Tensor(a!)
set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)
set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)
pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)
is_pinned(Tensor self, Device? device=None) -> bool
"""
