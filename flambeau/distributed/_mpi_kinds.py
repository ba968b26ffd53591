"""Dtypes and reductions in MPI's terms. What MPI cannot add (bfloat16 and, in older versions, half) is added by kernels."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from .._kernel.building import jit
from .._kernel.loops.pointwise import render_pointwise
from ._kinds import RedOpType

# By the names of NumPy's dtypes.
_KINDS = {
    "float32": "FLOAT", "float64": "DOUBLE", "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
    "bool": "C_BOOL", "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T", "uint8": "UINT8_T",
    "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T",
}  # fmt: skip
_OWN = {"bfloat16": "bf16", "float16": "f16"}  # the kernels' names of what is reduced by them; to MPI these are words
_OPERATIONS = {
    RedOpType.SUM: "SUM", RedOpType.AVG: "SUM", RedOpType.PREMUL_SUM: "SUM", RedOpType.PRODUCT: "PROD",
    RedOpType.MIN: "MIN", RedOpType.MAX: "MAX", RedOpType.BAND: "BAND", RedOpType.BOR: "BOR", RedOpType.BXOR: "BXOR",
}  # fmt: skip
_LOGICAL = {"SUM": "LOR", "MAX": "LOR", "BOR": "LOR", "PROD": "LAND", "MIN": "LAND", "BAND": "LAND", "BXOR": "LXOR"}
_BODIES = {
    "SUM": lambda m, x, y: x + y,
    "PROD": lambda m, x, y: x * y,
    "MIN": lambda m, x, y: m.minimum(x, y),
    "MAX": lambda m, x, y: m.maximum(x, y),
}


def reduced(mpi: Any, x: np.ndarray, op: RedOpType) -> tuple[list[Any], Any]:
    """A flat array as MPI calculates with it, and the reduction for its dtype."""
    kind, how, words = _calculation(mpi, x.dtype, op)
    return [x.view(np.uint16) if words else x, x.size, kind], how


@functools.cache
def _calculation(mpi: Any, dtype: np.dtype[Any], op: RedOpType) -> tuple[Any, Any, bool]:
    """MPI's type for a dtype, its reduction, and whether the elements are words to MPI."""
    own, name = dtype.name, _OPERATIONS[op]
    if own in _OWN:
        return mpi.UINT16_T, _by_kernel(mpi, _OWN[own], name), True
    if own not in _KINDS:
        raise RuntimeError(f"Invalid scalar type: {own} cannot be reduced; convert the tensor first")
    return getattr(mpi, _KINDS[own]), getattr(mpi, _LOGICAL[name] if own == "bool" else name), False


_CALL = """
define void @reduce(ptr %x, ptr %y, ptr %count, ptr %type) nounwind {
  %args = alloca [3 x ptr]
  %dims = alloca i64
  %steps = alloca [3 x i64]
  %args1 = getelementptr ptr, ptr %args, i64 1
  %args2 = getelementptr ptr, ptr %args, i64 2
  %steps1 = getelementptr i64, ptr %steps, i64 1
  %steps2 = getelementptr i64, ptr %steps, i64 2
  store ptr %x, ptr %args
  store ptr %y, ptr %args1
  store ptr %y, ptr %args2
  store i64 2, ptr %steps
  store i64 2, ptr %steps1
  store i64 2, ptr %steps2
  %n = load i32, ptr %count
  %n64 = sext i32 %n to i64
  store i64 %n64, ptr %dims
  call void @elements(ptr %args, ptr %dims, ptr %steps, ptr null)
  ret void
}
"""


def _by_kernel(mpi: Any, type: str, name: str) -> Any:
    """An operation of MPI's that runs a kernel of ours, without the interpreter: y = x + y for elements of two bytes."""
    if name not in _BODIES:
        raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
    loop = render_pointwise("elements", _BODIES[name], (type, type), (type,), ("f32", "f32"), known=(2, 2, 2))
    address = jit.compile("reduce", loop + _CALL)
    made = mpi.Op()
    create = ctypes.CDLL(mpi.__file__).MPI_Op_create
    failed = create(ctypes.c_void_p(address), ctypes.c_int(1), ctypes.c_void_p(mpi._addressof(made)))
    if failed:
        raise RuntimeError(f"MPI_Op_create failed with code {failed}")
    return made
