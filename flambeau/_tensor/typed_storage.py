"""Storages that count elements of a dtype: `TypedStorage`, and the old classes such as FloatStorage."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend.placement import as_device
from .._core.devices import META as META_DEVICE
from .._core.dtypes import BY_NAME, QUANTIZED, default, dtype, uint8
from .._errors.frames import warn_user
from .._ops.records.casting import cast_array
from .._ops.records.rules import SCALAR_NAMES, type_name
from . import Storage, Tensor
from .storage import StorageBase, UntypedStorage, bytes_tensor, wrapper_of

_CAST_NAMES = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "char": "int8", "byte": "uint8", "bool": "bool", "bfloat16": "bfloat16", "complex_double": "complex128",
    "complex_float": "complex64", "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2fnuz": "float8_e5m2fnuz", "float8_e4m3fnuz": "float8_e4m3fnuz",
}  # fmt: skip


# -- the warning that these classes go away ----------------------------------------------------------------------


class _Warning(threading.local):
    given = False
    always = False


_warning = _Warning()


def warn_of_removal() -> None:
    """Says once (or always, if so set) that typed storages are deprecated, at the line of the program that uses one."""
    if _warning.given and not _warning.always:
        return
    _warning.given = True
    warn_user(
        "TypedStorage is deprecated and will be removed; UntypedStorage is the storage class that stays. It matters only "
        "to programs that use storages: take tensor.untyped_storage() instead of tensor.storage()"
    )


def reset_warning() -> None:
    _warning.given = False


def set_always_warn(always: bool) -> None:
    _warning.always = bool(always)


def get_always_warn() -> bool:
    return _warning.always


# -- typed storages ----------------------------------------------------------------------------------------------


class TypedStorage:
    """Memory counted in elements of a dtype. Names that begin with an underscore do the same without a warning."""

    dtype: Any
    _dtype: Any = None
    is_sparse = False
    is_hpu = False

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ):
        if not _internal:
            warn_of_removal()
        if wrap_storage is not None:
            _check_wrapping(args, wrap_storage, dtype, device)
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        self.dtype = default.float if dtype is None else dtype
        self._untyped_storage = _new_elements(args, self.dtype, device)

    def _array(self) -> Any:
        whole = self._size() * self._element_size()  # there may be bytes of a part of an element behind them
        return self._untyped_storage._raw()[:whole].view(self.dtype.numpy)

    def _tensor_of(self, d: dtype | None) -> Tensor:
        """A tensor over the memory; RuntimeError for a dtype that is not the storage's."""
        return tensor_of_storage(self, d or self.dtype)

    def _size(self) -> int:
        return len(self._untyped_storage) // int(self.dtype.itemsize)

    def _element_size(self) -> int:
        return int(self.dtype.itemsize)

    def _resize_(self, size: int) -> TypedStorage:
        self._untyped_storage.resize_(size * self._element_size())
        return self

    def _pickle_storage_type(self) -> str:
        return type_name(self.dtype) + "Storage"

    def _tolist(self) -> list[Any]:
        array = self._array()
        return (array if array.dtype.isbuiltin == 1 else array.astype(np.float32)).tolist()

    def _getitem(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if self.device is META_DEVICE:
            raise NotImplementedError("Not available for 'meta' device type: its tensors have no memory")
        i, size = index.__index__(), self._size()
        if not -size <= i < size:
            raise IndexError(f"index {i} out of range for storage of size {size}")
        return self._array()[i].item()

    def _setitem(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice) and not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if is_storage(value):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        array = self._array()
        if not isinstance(index, slice) and not -array.size <= index.__index__() < array.size:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {array.size}")
        array[index] = value
        self._untyped_storage._memory.version += 1

    def _fill_(self, value: Any) -> TypedStorage:
        self._setitem(slice(None), value)
        return self

    def _to_type(self, d: dtype) -> TypedStorage:
        if self.dtype is d:
            return self
        if self.device is META_DEVICE:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return typed(wrapper_of(Storage(cast_array(self._array(), d))), d)

    def _cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        return self._to(device="cuda" if device is None else device)

    def _to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        if self.dtype in QUANTIZED and as_device(device).type == "cuda":
            raise RuntimeError("Cannot create CUDA storage with quantized dtype")
        return typed(self._untyped_storage.to(device=device), self.dtype)

    def _untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the old class of this dtype; with a class (or its name), the elements in another dtype."""
        warn_of_removal()
        if dtype is None:
            name = self._pickle_storage_type()
            known = name in legacy_classes()
            place = "torch.cuda" if self._untyped_storage.is_cuda else "torch"
            return f"{place}.{name}" if known else "torch.storage.TypedStorage"
        kind = legacy_classes().get(dtype.rpartition(".")[2]) if isinstance(dtype, str) else dtype
        if kind is None:
            raise AttributeError(f"module 'torch' has no attribute {dtype.rpartition('.')[2]!r}")
        return self._to_type(kind._dtype)

    device = property(lambda self: self._untyped_storage.device)
    _cdata = property(lambda self: self._untyped_storage._cdata)
    filename = property(lambda self: self._untyped_storage.filename)

    @property
    def is_cuda(self) -> bool:
        warn_of_removal()
        return self._untyped_storage.is_cuda

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._nbytes()

    def __iter__(self) -> Any:
        warn_of_removal()
        return iter(self._tolist())

    def __repr__(self) -> str:
        warn_of_removal()
        shown = "..." if self.device is META_DEVICE else "\n".join(f" {value}" for value in self._tolist())
        return f"{shown}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self._size()}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __reduce__(self) -> tuple[Any, ...]:
        return typed, (self._untyped_storage, self.dtype)

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:
        d = cls._dtype or default.float
        return typed(UntypedStorage._new_shared(size * d.itemsize), d)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """Elements mapped from a file (see `UntypedStorage.from_file`)."""
        warn_of_removal()
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes, such as torch.FloatStorage")
        return typed(UntypedStorage.from_file(filename, shared, size * cls._dtype.itemsize), cls._dtype)

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0) -> TypedStorage:
        """Elements copied from a buffer, in the given order of bytes (native, little, big).

        >>> import flambeau as torch
        >>> torch.ShortStorage.from_buffer(bytearray([0, 1]), "big")[0]
        1
        """
        warn_of_removal()
        return cls._from_buffer(buffer, byte_order, count, offset)

    @classmethod
    def _from_buffer(cls, buffer: Any, byte_order: str = "native", count: int = -1, offset: int = 0) -> TypedStorage:
        d = cls._dtype or default.float
        if byte_order not in ("native", "little", "big"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little' or 'native')")
        raw = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * d.itemsize, offset).copy()
        if raw.size % d.itemsize:
            raise ValueError(f"buffer size ({raw.size}) must be a multiple of element size ({d.itemsize})")
        storage = UntypedStorage(Storage(raw))
        if byte_order not in ("native", sys.byteorder):
            storage.byteswap(d)
        return typed(storage, d)


def _of_memory(name: str) -> Any:
    """A method that the memory does: a storage that comes of it is one of the same dtype, or this one."""
    method = getattr(UntypedStorage, name)

    @functools.wraps(method)
    def call(self: TypedStorage, *args: Any, **named: Any) -> Any:
        made = method(self._untyped_storage, *args, **named)
        if not isinstance(made, UntypedStorage):
            return made
        return self if made is self._untyped_storage and name.endswith("_") else typed(made, self.dtype)

    return call


_OF_MEMORY = (
    "nbytes", "data_ptr", "is_shared", "share_memory_", "copy_", "clone", "cpu", "pin_memory", "is_pinned", "resizable",
    "get_device",
)  # fmt: skip
for _name in _OF_MEMORY:
    setattr(TypedStorage, "_" + _name, _of_memory(_name))
for _name in ("_share_fd_cpu_", "_share_filename_cpu_", "_write_file"):
    setattr(TypedStorage, _name, _of_memory(_name))
TypedStorage._deepcopy = _of_memory("__deepcopy__")  # type: ignore[attr-defined]


def _warned(private: str, name: str) -> Any:
    """The public form of a method: it warns that the class goes away."""
    method = getattr(TypedStorage, private)

    @functools.wraps(method)
    def public(self: TypedStorage, *args: Any, **named: Any) -> Any:
        warn_of_removal()
        return method(self, *args, **named)

    public.__name__ = name
    public.__qualname__ = f"TypedStorage.{name}"
    return public


for _name, _private in {
    "__len__": "_size", "__getitem__": "_getitem", "__setitem__": "_setitem", "__copy__": "_clone",
    "__deepcopy__": "_deepcopy", **{name: f"_{name}" for name in (
        *_OF_MEMORY, "size", "element_size", "resize_", "pickle_storage_type", "tolist", "fill_", "cuda", "to", "untyped",
    )},
}.items():  # fmt: skip
    setattr(TypedStorage, _name, _warned(_private, _name))


def typed(storage: UntypedStorage, d: dtype) -> TypedStorage:
    """A typed storage over untyped memory, without a warning."""
    return TypedStorage(wrap_storage=storage, dtype=d, _internal=True)


def _check_wrapping(args: Any, wrapped: Any, d: Any, where: Any) -> None:
    if args:
        raise RuntimeError(f"No positional arguments should be given when using 'wrap_storage', got {len(args)}")
    if d is None:
        raise RuntimeError("Argument 'dtype' must be specified")
    if not isinstance(d, dtype):
        raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(d)}")
    if where is not None:
        raise RuntimeError("Argument 'device' should not be specified when 'wrap_storage' is given")
    if not isinstance(wrapped, StorageBase):
        raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrapped)}")


def _new_elements(args: tuple[Any, ...], d: dtype, where: Any) -> UntypedStorage:
    """New memory of a typed storage: for so many elements, or with those of a sequence."""
    kind = "cpu" if where is None else str(where).partition(":")[0]
    if kind not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"Storage device not recognized: {kind}")
    if kind == "cuda" and d in QUANTIZED:
        raise RuntimeError("Cannot create CUDA storage with quantized dtype")
    if len(args) > 1:
        raise RuntimeError(f"Too many positional arguments: at most a size or a sequence, got {len(args)}")
    given = args[0] if args else 0
    if isinstance(given, str):
        raise TypeError("new(): invalid data type 'str'")
    if hasattr(given, "__index__") and not isinstance(given, Tensor):
        return UntypedStorage(given.__index__() * d.itemsize, device=where)
    if not isinstance(given, Sequence):
        raise TypeError(f"Argument type not recognized: {type(given)}; give a size or a sequence of numbers")
    if kind == "meta":
        return UntypedStorage(len(given) * d.itemsize, device=where)
    made = UntypedStorage(Storage(cast_array(np.asarray(given).reshape(-1), d)))
    return made if kind == "cpu" else made.to(device=where)


def _storage_cast(d: dtype) -> Any:
    def cast(self: Any) -> TypedStorage:
        if isinstance(self, StorageBase):  # its elements are bytes
            return typed(self, uint8)._to_type(d)  # type: ignore[arg-type]
        warn_of_removal()
        return self._to_type(d)

    return cast


for _name, _of in _CAST_NAMES.items():
    setattr(TypedStorage, _name, _storage_cast(BY_NAME[_of]))
    setattr(StorageBase, _name, _storage_cast(BY_NAME[_of]))


# -- the old classes ---------------------------------------------------------------------------------------------


class _LegacyStorageMeta(type):
    """Lets `isinstance(storage, FloatStorage)` look at the dtype; `FloatStorage(…)` makes a TypedStorage."""

    _dtype: Any
    _placed: str

    @property
    def dtype(cls) -> Any:
        warn_of_removal()
        return cls._dtype

    def __call__(
        cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, _internal: bool = False
    ) -> Any:
        if not _internal:
            warn_of_removal()
        if cls._dtype is None:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        for word, given in (("device", device), ("dtype", dtype)):
            if given is not None:
                raise RuntimeError(f"'{word}' cannot be specified: {cls.__name__} has one; use torch.TypedStorage")
        if wrap_storage is None:
            return TypedStorage(*args, dtype=cls._dtype, device=cls._placed, _internal=True)
        if isinstance(wrap_storage, StorageBase) and wrap_storage.device.type != cls._placed and not args:
            raise RuntimeError(f"Device of 'wrap_storage' must be {cls._placed}, but got {wrap_storage.device.type}")
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls._dtype, _internal=True)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TypedStorage) and instance.dtype is cls._dtype and instance.device.type == cls._placed
        )


class LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What FloatStorage and the like inherit from."""

    _placed = "cpu"


class CudaLegacyStorage(LegacyStorage):
    """What torch.cuda.FloatStorage and the like inherit from."""

    _placed = "cuda"

    @classmethod
    def from_buffer(cls, *args: Any, **named: Any) -> Any:
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **named: Any) -> Any:
        raise RuntimeError("_new_with_weak_ptr: Not available for CUDA storage")

    @classmethod
    def _new_shared_filename(cls, *args: Any, **named: Any) -> Any:
        raise RuntimeError("_new_shared_filename: Not available for CUDA storage")


@functools.cache
def dtype_names() -> dict[dtype, str]:
    """The dtypes that have an old class, and its name."""
    return {
        BY_NAME[d]: word + "Storage"
        for d, word in SCALAR_NAMES.items() if not word.startswith(("UInt", "ComplexHalf"))
    }  # fmt: skip


@functools.cache
def legacy_classes(kind: str = "cpu") -> dict[str, type]:
    """FloatStorage and the like, by name."""
    base, module = (LegacyStorage, "flambeau") if kind == "cpu" else (CudaLegacyStorage, f"torch.{kind}")
    return {
        name: _LegacyStorageMeta(name, (base,), {
            "_dtype": d, "__module__": module, "__doc__": f"The memory of a tensor as elements of dtype {d.name}.",
        })
        for d, name in dtype_names().items() if kind == "cpu" or d not in QUANTIZED
    }  # fmt: skip


def is_storage(obj: Any, /) -> bool:
    """Whether an object is a storage."""
    return isinstance(obj, (StorageBase, TypedStorage))


def tensor_of_storage(source: Any, d: dtype) -> Tensor:
    """A flat tensor over all of a storage."""
    if isinstance(source, StorageBase):
        return bytes_tensor(source, d)
    if source.dtype is not d:
        raise RuntimeError(
            f"Expected a Storage of type {type_name(d)} or an UntypedStorage, but got type {type_name(source.dtype)} "
            "for argument 1 'storage'"
        )
    return bytes_tensor(source._untyped_storage, d)
