"""The memory behind tensors as users see it: `UntypedStorage`, which counts bytes."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .._backend import meta, segments
from .._backend.placement import as_device, bits
from .._core.devices import CPU, device
from .._core.devices import META as META_DEVICE
from .._core.dtypes import dtype, int64, uint8
from .._core.state import CUDA, META
from .._dispatch import backend_of
from .._ops.basic import empty_array
from .._ops.layout.storages import raw_bytes, resizable, settle
from .._ops.layout.striding import byte_bounds
from .._ops.making.conversion import to_device
from . import Storage, Tensor, storage_of, wrap
from .storage_memory import copy_storage, map_file, resize_memory, share, view_memory

_NO_DATA = "Cannot copy out of meta tensor; no data!"


class StorageBase:
    """What storages that count bytes can do."""

    filename: str | None = None  # of the file that the memory is mapped from
    pretended: device | None = None  # where the storage of fake tensors and wrappers says that it is
    _memory: Storage

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is StorageBase:
            raise RuntimeError("Cannot directly construct StorageBase; use torch.UntypedStorage or a subclass")
        self = object.__new__(cls)
        if args and isinstance(args[0], Storage):
            self._memory = args[0]
            return self
        where = kwargs.pop("device", None)
        if kwargs or len(args) > 1:
            raise TypeError(
                "torch.UntypedStorage() received an invalid combination of arguments: "
                "expected (size or sequence of bytes, *, device=None)"
            )
        self._memory = Storage(_new_bytes(args[0] if args else 0, where))
        return self

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
        self._check_pretence("access the data pointer")
        array = self._memory.array
        if not self.nbytes() or (isinstance(array, np.ndarray) and meta.holds(array)):
            return 0
        return byte_bounds(array)[0]

    def _check_pretence(self, what: str) -> None:
        if self.pretended is not None:
            raise RuntimeError(
                f"Attempted to {what} on an invalid python storage: ask the tensors inside of the wrapper"
            )

    def _fix_weakref(self) -> None:
        """Nothing: a weak reference here never outlives its object."""

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

    def _tensor_of(self, d: dtype | None) -> Tensor:
        """A tensor over the memory, of int64 if no dtype is given."""
        return bytes_tensor(self, d or int64)

    def __getitem__(self, index: Any) -> Any:
        raw = self._raw()
        if isinstance(index, slice):
            return UntypedStorage(Storage(raw[_plain_slice(index)]))
        if not hasattr(index, "__index__"):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        i = index.__index__()
        if not -raw.size <= i < raw.size:
            raise IndexError(f"index {i} out of range for storage of size {raw.size}")
        return int(raw[i])

    def __setitem__(self, index: Any, value: Any) -> None:
        if not hasattr(value, "__index__"):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        raw = self._raw()
        if isinstance(index, slice):
            index = _plain_slice(index)
        elif not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        elif not 0 <= index.__index__() < raw.size:
            raise RuntimeError("out of bounds")
        raw[index] = value.__index__() & 255
        self._memory.version += 1

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __repr__(self) -> str:
        shown = "..." if self.device is META_DEVICE else "\n".join(f" {value}" for value in self.tolist())
        return f"{shown}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageBase) and self._cdata == other._cdata and len(self) == len(other)

    def __hash__(self) -> int:
        return hash((self._cdata, len(self)))

    def fill_(self, value: int) -> UntypedStorage:
        if self.device is not META_DEVICE:
            self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Takes over the bytes of a storage of the same size."""
        if not isinstance(source, StorageBase) and not hasattr(source, "_untyped_storage"):
            raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {type(source).__name__}")
        source = bytes_of(source)
        if len(source) != len(self):
            raise RuntimeError(f"size does not match, self was {len(self)} bytes but src was {len(source)} bytes")
        if source.device is META_DEVICE:
            raise NotImplementedError(_NO_DATA)
        if self.device is not META_DEVICE:
            self._raw()[...] = source.to(device=self.device)._raw()
            self._memory.version += 1
        return self

    def clone(self) -> UntypedStorage:
        if self.device is META_DEVICE:
            return UntypedStorage(len(self), device=META_DEVICE)
        return UntypedStorage(Storage(self._raw().copy()))

    __copy__ = clone

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        if self.device is META_DEVICE:
            return memo.setdefault(id(self), self.clone())
        return wrapper_of(copy_storage(self._memory, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _untyped, (self._memory,)

    def new(self) -> UntypedStorage:
        return UntypedStorage(device=self.device)

    def resizable(self) -> bool:
        """Whether the memory may be given another size: not where a NumPy array or a file shares it."""
        return self.filename is None and resizable(self._memory)

    def resize_(self, size: int) -> UntypedStorage:
        """Gives the storage another size; tensors over it follow. One that it has become too small for reads zeros."""
        self._check_pretence("call resize_()")
        if size < 0:
            raise RuntimeError(f"a storage cannot have the negative size {size}")
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if self.device is META_DEVICE:
            self._memory.array = empty_array((size,), uint8, META)
        else:
            resize_memory(self._memory, size)
        return self

    def _swap_data_ptr_(self, other: UntypedStorage) -> None:
        """Exchanges the memory of two storages; the tensors over each of them follow."""
        if self.device != other.device:
            raise RuntimeError(f"expected two storages on the same device, got {self.device} and {other.device}")
        mine, theirs = len(self), len(other)
        if mine and theirs and mine != theirs:
            raise RuntimeError(f"expected two storages of the same nbytes (or an empty one), got {mine} and {theirs}")
        if self == other or self.device is META_DEVICE:
            return
        a, b = self._memory, other._memory
        first, second = raw_bytes(a), raw_bytes(b)
        settle(a, second)
        settle(b, first)
        a.version += 1
        b.version += 1

    def cpu(self) -> UntypedStorage:
        if self.device is META_DEVICE:
            raise NotImplementedError(_NO_DATA)
        return UntypedStorage(Storage(backend_of(CUDA).asnumpy(self._raw()))) if self.is_cuda else self

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The same bytes on another device; the storage itself if it is there already."""
        target = as_device(device)
        here = self.device
        if target.type == here.type and target.index in (None, here.index):
            return self
        if target.type == "meta":
            return UntypedStorage(self.nbytes(), device=target)
        moved = to_device(bytes_tensor(self), uint8, target)
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
        if self.device is META_DEVICE:
            raise RuntimeError("_share_fd_: only available on CPU")
        if not self.is_cuda:
            share(self._memory)
        return self

    def _share_fd_cpu_(self) -> Any:
        if self.device is not CPU:
            raise RuntimeError("_share_fd_: only available on CPU")
        raise NotImplementedError("_share_fd_cpu_: memory is shared through torch.multiprocessing, not by descriptors")

    def _share_filename_cpu_(self) -> Any:
        if self.device is not CPU:
            raise RuntimeError("_share_filename_: only available on CPU")
        raise NotImplementedError("_share_filename_cpu_: memory is shared through torch.multiprocessing, not by names")

    def _write_file(self, f: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Writes the bytes to an open file, behind the count of elements if wanted."""
        raw = self.cpu()._raw()
        if save_size:
            f.write((raw.size // element_size).to_bytes(8, "little"))
        f.write(raw.tobytes())

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        return cls(size, device=device).fill_(0).share_memory_()

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        if self.device is not CPU:
            raise TypeError("cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned")
        raise RuntimeError("Cannot access accelerator device when none is available.")


class UntypedStorage(StorageBase):
    """Memory counted in bytes, shared by a tensor and its views.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3)[1].untyped_storage().nbytes()
    24
    """


# The objects that users hold, by the array that tells the extent of their memory: one for each piece of memory.
_wrappers: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()


def _untyped(memory: Any) -> UntypedStorage:
    """A storage over pickled memory, which is a storage itself where `_load_from_bytes` made it."""
    return UntypedStorage(memory) if isinstance(memory, Storage) else memory._untyped_storage


def wrapper_of(memory: Storage) -> UntypedStorage:
    """The storage object that stands for memory, the same one as long as somebody holds it."""
    found = _wrappers.get(id(memory.array))
    if found is None or found._memory.array is not memory.array:
        found = _wrappers[id(memory.array)] = UntypedStorage(memory)
    return found


def bytes_of(storage: Any) -> UntypedStorage:
    """The untyped storage of any storage."""
    return storage if isinstance(storage, StorageBase) else storage._untyped_storage  # type: ignore[return-value]


def _new_bytes(given: Any, where: Any) -> Any:
    """The array of a new storage: so many bytes, or those of a sequence."""
    kind = "cpu" if where is None else as_device(where).type
    if kind not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: {kind}")
    if hasattr(given, "__index__") and not isinstance(given, Tensor):
        if given.__index__() < 0:
            raise RuntimeError(f"a storage cannot have the negative size {given}")
        return empty_array((given.__index__(),), uint8, bits(where))
    if isinstance(given, Tensor) or not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {type(given).__name__}")
    wrong = next((item for item in given if not hasattr(item, "__index__")), None)
    if wrong is not None:
        raise RuntimeError(
            f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(given).__name__}), "
            f"but one of the items was of type {type(wrong).__name__} instead of int"
        )
    array = empty_array((len(given),), uint8, bits(where))
    if kind != "meta":
        array[...] = backend_of(bits(where)).xp.asarray([item.__index__() & 255 for item in given], np.uint8)
    return array


def _plain_slice(index: slice) -> slice:
    if index.step not in (None, 1):
        raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
    return index


def bytes_tensor(storage: StorageBase, d: dtype = uint8) -> Tensor:
    """A flat tensor over all of a storage."""
    memory, kind = storage._memory, storage.device.type
    shape = (storage.nbytes() // d.itemsize,)
    t = wrap(view_memory(memory, d, shape, (1,), 0), d, CUDA if kind == "cuda" else META if kind == "meta" else 0)
    t._storage = memory
    return t
