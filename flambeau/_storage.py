"""The memory behind tensors as users see it: `UntypedStorage` and `TypedStorage`."""

from __future__ import annotations

import functools
import gc
import os
import sys
from typing import Any

import numpy as np

from ._backend import meta, segments
from ._backend.placement import as_device, bits
from ._core.devices import CPU, device
from ._core.devices import META as META_DEVICE
from ._core.dtypes import ALL, BY_NAME, default, dtype, uint8
from ._core.state import CUDA, META
from ._dispatch import backend_of
from ._ops.basic import empty_array
from ._ops.casting import cast_array
from ._ops.conversion import to_device
from ._ops.rules import SCALAR_NAMES, type_name
from ._ops.striding import address, byte_bounds, strided
from ._tensor import Storage, Tensor, storage_of, wrap


def raw_bytes(storage: Storage) -> Any:
    """All memory of a storage as a flat array of bytes."""
    array = storage.array
    low, high = byte_bounds(array)
    size = array.itemsize
    flat = strided(array, ((high - low) // size,), (size,), low - address(array)) if high > low else array.reshape(-1)
    return flat.view(np.uint8)


def map_file(path: Any, shared: bool, nbytes: int) -> Any:
    """The first bytes of a file as an array; 0 bytes mean all of them. A shared file grows as needed."""
    import mmap  # only for those who map files

    with open(path, "r+b" if shared and os.path.exists(path) else "w+b" if shared else "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if shared and nbytes > size:
            file.truncate(nbytes)
        elif nbytes > size:
            raise RuntimeError(f"{path}: the file has {size} bytes, fewer than {nbytes}")
        count = nbytes or size
        if not count:
            return np.empty(0, np.uint8)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.frombuffer(mmap.mmap(file.fileno(), count, access=access), np.uint8)


def view_memory(storage: Storage, d: dtype, shape: Any, strides: Any, offset: int) -> Any:
    """An array over a storage: shape, strides and offset in elements of `d`; RuntimeError beyond its end."""
    raw = raw_bytes(storage)
    size = d.itemsize
    reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    if (offset + reach) * size > raw.size and reach:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)} and offset {offset} need "
            f"{(offset + reach) * size} bytes and are out of bounds for storage of size {raw.size}"
        )
    if not reach:
        return strided(raw[:0].view(d.numpy), tuple(shape), tuple(s * size for s in strides))
    start = raw[offset * size : (offset + reach) * size]
    if isinstance(raw, np.ndarray):
        return np.ndarray(tuple(shape), d.numpy, start, 0, tuple(s * size for s in strides))
    return strided(start.view(d.numpy), tuple(shape), tuple(s * size for s in strides))


class UntypedStorage:
    """Memory counted in bytes, shared by a tensor and its views.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3)[1].untyped_storage().nbytes()
    24
    """

    filename: str | None = None  # of the file that the memory is mapped from

    def __init__(self, *args: Any, **kwargs: Any):
        device = kwargs.pop("device", None)
        if args and isinstance(args[0], Storage):
            self._memory: Storage = args[0]
            self._owner: Any = args[1] if len(args) > 1 else None
            return
        values = np.asarray(args[0], np.uint8) if args and not isinstance(args[0], int) else None
        count = (args[0] if args else 0) if values is None else values.size
        array = empty_array((count,), uint8, bits(device))
        if values is not None:
            array[...] = values
        self._memory, self._owner = Storage(array), None

    def _raw(self) -> Any:
        if isinstance(self._memory.array, np.ndarray) and meta.holds(self._memory.array):
            raise NotImplementedError("Not available for 'meta' device type: its tensors have no memory")
        return raw_bytes(self._memory)

    @property
    def device(self) -> device:
        array = self._memory.array
        if not isinstance(array, np.ndarray):
            return device("cuda", int(array.device.id))
        return META_DEVICE if meta.holds(array) else CPU

    @property
    def is_cuda(self) -> bool:
        return not isinstance(self._memory.array, np.ndarray)

    is_sparse = False

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    @property
    def _cdata(self) -> int:
        return byte_bounds(self._memory.array)[0]

    def nbytes(self) -> int:
        low, high = byte_bounds(self._memory.array)
        return high - low

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        array = self._memory.array
        if not self.nbytes() or (isinstance(array, np.ndarray) and meta.holds(array)):
            return 0
        return byte_bounds(array)[0]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def element_size(self) -> int:
        return 1

    def untyped(self) -> UntypedStorage:
        return self

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def tolist(self) -> list[int]:
        return self._raw().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raw = self.cpu()._raw()
        return raw.copy() if copy else raw

    def __getitem__(self, index: Any) -> Any:
        raw = self._raw()
        if isinstance(index, slice):
            return UntypedStorage(Storage(raw[index]))
        return int(raw[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._raw()[index] = value
        self._memory.version += 1

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __repr__(self) -> str:
        shown = "..." if self.device is META_DEVICE else "\n".join(f" {value}" for value in self.tolist())
        return f"{shown}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata and len(self) == len(other)

    def __hash__(self) -> int:
        return hash((self._cdata, len(self)))

    def fill_(self, value: int) -> UntypedStorage:
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        self[:] = source.untyped()._raw()
        return self

    def clone(self) -> UntypedStorage:
        return UntypedStorage(Storage(self._raw().copy()))

    __copy__ = clone

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        return UntypedStorage, (self._memory,)

    def new(self) -> UntypedStorage:
        return UntypedStorage(device=self.device)

    def resize_(self, size: int) -> UntypedStorage:
        """Gives the storage another size; the tensor that it was taken from follows."""
        if size < 0:
            raise RuntimeError(f"a storage cannot have the size {size}")
        old = self._raw()
        array = empty_array((size,), uint8, CUDA if self.is_cuda else 0)
        kept = min(size, old.size)
        array[:kept] = old[:kept]
        owner = self._owner() if self._owner is not None else None
        if owner is not None and owner._storage is self._memory:
            offset = (address(owner._array) - self._cdata) // owner.dtype.itemsize
            shape, strides = owner._array.shape, owner.stride()
            self._memory.array = array
            if owner._array.nbytes <= size:
                owner._array = view_memory(self._memory, owner.dtype, shape, strides, offset)
        self._memory.array = array
        return self

    def cpu(self) -> UntypedStorage:
        return UntypedStorage(Storage(backend_of(CUDA).asnumpy(self._raw()))) if self.is_cuda else self

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The same bytes on another device; the storage itself if it is there already."""
        target = as_device(device)
        here = self.device
        if target.type == here.type and target.index in (None, here.index):
            return self
        if target.type == "meta":
            return UntypedStorage(self.nbytes(), device=target)
        moved = to_device(tensor_of_storage(self, uint8), uint8, target)
        return UntypedStorage(storage_of(moved))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        return self.to(device="cuda" if device is None else device)

    def byteswap(self, dtype: dtype) -> None:
        """Turns the bytes of every element around, in place; parts of complex numbers each by themselves."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        if size > 1:
            words = self._raw().view(f"u{size}")
            words[...] = words.byteswap()

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Memory mapped from a file: writes stay private, or (shared) go to the file, which is made if it is not there.

        >>> import flambeau as torch, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
        >>> torch.UntypedStorage.from_file(path, shared=True, nbytes=3).fill_(7).tolist()
        [7, 7, 7]
        >>> open(path, "rb").read()
        b'\\x07\\x07\\x07'
        """
        made = cls(Storage(map_file(filename, shared, nbytes)))
        made.filename = os.fspath(filename)
        return made

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return self.is_cuda or segments.segment_of(self._memory.array) is not None

    def share_memory_(self) -> UntypedStorage:
        """Moves the bytes to memory that other processes can see; the tensors over them follow."""
        if not self.is_cuda:
            share(self._memory)
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        return cls(size, device=device).fill_(0).share_memory_()

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        return self


class _TypedMeta(type):
    """Lets `isinstance(storage, FloatStorage)` look at the dtype; `FloatStorage(…)` makes a TypedStorage."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        if cls is TypedStorage:
            return super().__call__(*args, **named)
        return TypedStorage(*args, **{"dtype": cls.dtype, **named})  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is TypedStorage:
            return super().__instancecheck__(instance)
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype  # type: ignore[attr-defined]


class TypedStorage(metaclass=_TypedMeta):
    """Memory counted in elements of a dtype."""

    dtype: Any = None

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ):
        self.dtype = dtype or type(self).dtype or default.float
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], int):
            array = cast_array(np.asarray(args[0]).reshape(-1), self.dtype)
            self._untyped_storage = UntypedStorage(Storage(array))
        else:
            self._untyped_storage = UntypedStorage((args[0] if args else 0) * self.dtype.itemsize, device=device)

    def _array(self) -> Any:
        return self._untyped_storage._raw().view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def __len__(self) -> int:
        return len(self._untyped_storage) // self.dtype.itemsize

    size = __len__
    device = property(lambda self: self._untyped_storage.device)
    is_cuda = property(lambda self: self._untyped_storage.is_cuda)
    _cdata = property(lambda self: self._untyped_storage._cdata)

    def nbytes(self) -> int:
        return len(self._untyped_storage)

    def element_size(self) -> int:
        return int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def tolist(self) -> list[Any]:
        array = self._array()
        return (array if array.dtype.isbuiltin == 1 else array.astype(np.float32)).tolist()

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._array()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array()[index] = value
        self._untyped_storage._memory.version += 1

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __repr__(self) -> str:
        shown = "..." if self.device is META_DEVICE else "\n".join(f" {value}" for value in self.tolist())
        return f"{shown}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def fill_(self, value: Any) -> TypedStorage:
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        self[:] = cast_array(source._array(), self.dtype)
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    __copy__ = clone

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        return _typed, (self._untyped_storage, self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def type(self) -> str:
        return f"torch.{self.pickle_storage_type()}"

    def pickle_storage_type(self) -> str:
        return type_name(self.dtype) + "Storage"

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:
        return cls(size).fill_(0).share_memory_()

    def cpu(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device), dtype=self.dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """Elements mapped from a file (see `UntypedStorage.from_file`)."""
        d = cls.dtype or default.float
        return cls(wrap_storage=UntypedStorage.from_file(filename, shared, size * d.itemsize), dtype=d)

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0) -> TypedStorage:
        """Elements copied from a buffer, in the given order of bytes (native, little, big).

        >>> import flambeau as torch
        >>> torch.ShortStorage.from_buffer(bytearray([0, 1]), "big").tolist()
        [1]
        """
        d = cls.dtype or default.float
        if byte_order not in ("native", "little", "big"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little' or 'native')")
        raw = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * d.itemsize, offset).copy()
        if raw.size % d.itemsize:
            raise ValueError(f"buffer size ({raw.size}) must be a multiple of element size ({d.itemsize})")
        storage = UntypedStorage(Storage(raw))
        if byte_order not in ("native", sys.byteorder):
            storage.byteswap(d)
        return TypedStorage(wrap_storage=storage, dtype=d)

    @classmethod
    def _from_buffer(cls, buffer: Any) -> TypedStorage:
        return cls.from_buffer(buffer)


def _storage_cast(d: dtype) -> Any:
    def cast(self: Any) -> TypedStorage:
        if isinstance(self, UntypedStorage):  # its elements are bytes
            self = TypedStorage(wrap_storage=self, dtype=uint8)
        return self if self.dtype is d else TypedStorage(cast_array(self._array(), d), dtype=d)

    return cast


for _name in ("float", "double", "half", "int", "long", "short"):
    _cast = _storage_cast(next(d for d in ALL if _name in d.aliases))
    setattr(TypedStorage, _name, _cast)
    setattr(UntypedStorage, _name, _cast)
for _name, _d in (("bfloat16", "bfloat16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool")):
    _cast = _storage_cast(BY_NAME[_d])
    setattr(TypedStorage, _name, _cast)
    setattr(UntypedStorage, _name, _cast)


def _typed(storage: UntypedStorage, d: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=d)


@functools.cache
def legacy_classes() -> dict[str, type]:
    """FloatStorage and the like, by name."""
    return {
        word + "Storage": _TypedMeta(word + "Storage", (TypedStorage,), {
            "dtype": BY_NAME[d], "__module__": "flambeau", "__doc__": f"The memory of a tensor as elements of dtype {d}.",
        })
        for d, word in SCALAR_NAMES.items() if not word.startswith(("UInt", "ComplexHalf"))
    }  # fmt: skip


def is_storage(obj: Any, /) -> bool:
    """Whether an object is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def tensor_of_storage(source: Any, d: dtype) -> Tensor:
    """A flat tensor over all of a storage."""
    if isinstance(source, TypedStorage) and source.dtype is not d:
        raise RuntimeError(
            f"Expected a Storage of type {d} or an UntypedStorage, but got type {source.dtype} for argument 1 'storage'"
        )
    memory = source.untyped()._memory
    count = source.nbytes() // d.itemsize
    kind = source.device.type
    t = wrap(view_memory(memory, d, (count,), (1,), 0), d, CUDA if kind == "cuda" else META if kind == "meta" else 0)
    t._storage = memory
    return t


def share(storage: Storage) -> None:
    """Moves a storage's bytes to memory that other processes can see, together with all tensors over them."""
    raw = raw_bytes(storage)
    area = segments.share(raw)
    if area is raw:
        return
    low = byte_bounds(storage.array)[0]
    for holder in gc.get_referrers(storage):
        if isinstance(holder, Tensor):
            holder._array = laid_over(area, holder._array, low)
    storage.array = laid_over(area, storage.array, low)


def laid_over(area: Any, array: Any, low: int) -> Any:
    """The array as it is, over a copy of the bytes that begin at address `low`."""
    return np.ndarray(array.shape, array.dtype, area, address(array) - low if array.size else 0, array.strides)
