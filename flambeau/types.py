"""Names for types of arguments, for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, Union

from ._core.devices import device as _device
from ._core.dtypes import dtype as _dtype
from ._core.layouts import layout as _layout
from ._core.sizes import Size
from ._core.symbolic import SymBool, SymFloat, SymInt
from ._tensor import Tensor
from ._tensor.storage import UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _bytes, _complex = builtins.bool, builtins.bytes, builtins.complex
_float, _int, _str = builtins.float, builtins.int, builtins.str

Number = Union[int, float, bool]
_Number = (int, float, bool)
Device = Union[_device, str, int, None]
FileLike = Union[str, os.PathLike, IO[bytes]]
IntLikeType = Union[int, SymInt]
FloatLikeType = Union[float, SymFloat]
BoolLikeType = Union[bool, SymBool]
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = Union[SymInt, SymFloat, SymBool]
_size = Union[Size, list[int], tuple[int, ...]]
_symsize = Union[Size, Sequence[Union[int, SymInt]]]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrOptionalTensors = Union[Tensor, Sequence[Union[Tensor, None]]]
_TensorOrTensorsOrGradEdge = Union[Tensor, Sequence[Tensor], Any]
_dispatchkey = str


class Storage:
    """What storages have in common, for annotations and `isinstance`."""

    _cdata: int
    device: _device
    dtype: _dtype

    def __init_subclass__(cls) -> None:
        raise TypeError("torch.types.Storage is only for annotations; use torch.UntypedStorage")

    def __new__(cls) -> Any:
        raise TypeError("torch.types.Storage is only for annotations; use torch.UntypedStorage")


_PRIVATE = (_layout, UntypedStorage)
