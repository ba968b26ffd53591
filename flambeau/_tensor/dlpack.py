"""Exchange of memory with other libraries through DLPack.

NumPy makes and reads the capsules. It does not know the short floats: they travel as integers of their size, and the
capsule's type code is set here.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import numpy as np

from .._core.c_interface import capsule_name, capsule_pointer
from .._core.dtypes import (
    bfloat16,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    from_numpy_dtype,
)
from .._core.state import CUDA, GRAD, META, POSTPONED, QUANTIZED, SPARSE
from .._dispatch import backend_of
from .._ops.layout.striding import foreign, strided
from .._ops.registry import ops, public
from . import Borrowed, Tensor, detached, wrap

_UNSIGNED = 1  # DLPack's code of unsigned integers
_CODES = {
    bfloat16: 4, float8_e4m3fn: 10, float8_e4m3fnuz: 11, float8_e5m2: 12, float8_e5m2fnuz: 13, float8_e8m0fnu: 14,
}  # fmt: skip
# where the type code lies in what a capsule of such a name points to: behind the data, the device and the rank
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of device kinds."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def _type_code(capsule: Any) -> Any:
    """The type code in an unused capsule, to be read or set; its bits follow it."""
    name = capsule_name(capsule)
    if name not in _CODE_AT:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Capsules of tensors can be consumed only once, so a tensor may "
            "have been made of it already."
        )
    return (ctypes.c_uint8 * 2).from_address(capsule_pointer(capsule, name) + _CODE_AT[name])


def _check_exportable(t: Tensor) -> None:
    if t._k & GRAD:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if t._k & META:
        raise BufferError("Can't export tensors on the meta device: they have no memory")
    if t._k & SPARSE:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if t._k & QUANTIZED:
        raise BufferError(f"{t.dtype} types are not supported by dlpack: exchange int_repr()")
    if t._k & POSTPONED:
        raise BufferError("Can't export tensors with the conjugate bit set or the negative bit set; resolve them first")


def dlpack(
    self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """A DLPack capsule over the tensor's memory."""
    _check_exportable(self)
    array = self._array
    if stream is not None and not isinstance(stream, int):
        raise TypeError("stream must be ``int`` or ``none``")
    if self._k & CUDA:
        return array.__dlpack__(stream=stream)
    if stream is not None:
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and dl_device[0] not in (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDA):
        raise BufferError(f"Unsupported device_type: {int(dl_device[0])}")
    code = _CODES.get(self.dtype)
    if code is not None:
        array = array.view(f"u{array.itemsize}")
    elif array.dtype.isbuiltin != 1:
        raise BufferError(f"DLPack has no {self.dtype}; exchange a view of it as integers")
    if not array.flags.writeable:  # NumPy exports read-only arrays only to consumers that know the flag
        array = strided(array, array.shape, array.strides)
    given = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    capsule = array.__dlpack__(**{name: value for name, value in given.items() if value is not None})
    if code is not None:
        _type_code(capsule)[0] = code
    return capsule


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(kind, number) of the tensor's device, in DLPack's terms."""
    if self._k & CUDA:
        return DLDeviceType.kDLCUDA, int(self._array.device.id)
    if self._k & META:
        raise ValueError("Unknown device type meta for Dlpack")
    return DLDeviceType.kDLCPU, 0


class _Capsule:
    """A bare DLPack capsule as an object that NumPy takes."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _capsule_of(source: Any) -> Any:
    if not hasattr(source, "__dlpack__"):
        if type(source).__name__ != "PyCapsule":
            raise RuntimeError(f"from_dlpack: expected an object with __dlpack__, got {type(source).__name__}")
        return source
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:  # an older producer
        return source.__dlpack__()


def _read(source: Any) -> tuple[Any, dtype]:
    """The array over a CPU capsule's memory, and its dtype."""
    capsule = _capsule_of(source)
    described = _type_code(capsule)
    code, size = described[0], described[1] // 8
    found = next((d for d, number in _CODES.items() if number == code and d.itemsize == size), None)
    if found is not None:
        described[0] = _UNSIGNED
    unversioned = capsule_name(capsule) == b"dltensor"
    array = np.from_dlpack(_Capsule(capsule))
    if unversioned and not array.flags.writeable:  # such capsules cannot say; PyTorch takes them as writeable
        array = foreign(array, array.shape, array.strides, 0, writeable=True)
    if found is not None:
        array = array.view(found.numpy)
    return array, found or from_numpy_dtype(array.dtype)


@public(method=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array.

    >>> import flambeau as torch, numpy
    >>> torch.from_dlpack(numpy.array([1.0, 2.0], numpy.float32))
    tensor([1., 2.])
    """
    if isinstance(ext_tensor, Tensor):
        _check_exportable(ext_tensor)
        made = detached(ext_tensor)
    elif hasattr(ext_tensor, "__dlpack_device__") and int(ext_tensor.__dlpack_device__()[0]) == DLDeviceType.kDLCUDA:
        array = backend_of(CUDA).xp.from_dlpack(ext_tensor)
        made = wrap(array, from_numpy_dtype(array.dtype), CUDA)
    else:
        array, found = _read(ext_tensor)
        made = wrap(array, found)
        made._storage = Borrowed(array)
    if device is not None:
        made = ops.to(made, device)
    return ops.clone(made) if copy else made
