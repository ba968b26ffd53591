"""Operators that exist only in `torch.ops.aten`: what PyTorch's functions are made of, with their argument lists."""

from __future__ import annotations

import builtins
from typing import Any

from .._core import dtypes as d
from .._core.state import META, local
from .._ops.registry import ops
from .._tensor import Tensor
from . import aten_arguments as _aten_arguments
from . import aten_backward as _aten_backward
from . import aten_gradients as _aten_gradients
from . import aten_graphs as _aten_graphs
from . import aten_layers as _aten_layers

_everything = builtins.slice(None)


def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if layout is not None and layout is not self.layout:
        raise RuntimeError(f"to(options) doesn't support converting to a different layout: {self.layout} to {layout}")
    options = {} if memory_format is None else {"memory_format": memory_format}
    where = {} if device is None else {"device": device}
    return ops.to(
        self, dtype=self.dtype if dtype is None else dtype, copy=True, non_blocking=non_blocking, **where, **options
    )


def _local_scalar_dense(self: Tensor) -> Any:
    if not self.numel():
        raise RuntimeError("_local_scalar_dense: Empty tensor not supported")
    return self.item()


def alias(self: Tensor) -> Tensor:
    return ops.alias(self)


def slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    index: list[Any] = [_everything] * self.ndim
    index[dim] = builtins.slice(start, end, step)
    return self[tuple(index)]


def index(self: Tensor, indices: list[Tensor | None]) -> Tensor:
    if not indices:
        raise IndexError("index: at least one index must be provided")
    return self[tuple(_everything if i is None else i for i in indices)]


def index_put(self: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    return index_put_(self.clone(), indices, values, accumulate)


def index_put_(self: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    if None not in indices:
        return ops.index_put_(self, tuple(indices), values, accumulate)
    key = tuple(_everything if i is None else i for i in indices)
    if accumulate:
        values = self[key] + values
    self[key] = values
    return self


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return ops.softmax(self, dim, dtype=d.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return ops.log_softmax(self, dim, dtype=d.float32 if half_to_float else None)


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool, allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    return ops.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _unsafe_view(self: Tensor, size: Any) -> Tensor:
    return ops.reshape(self, size)


def lift_fresh(self: Tensor) -> Tensor:
    return self if local.fake is None or self._k & META else local.fake.lifted(self)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    return self.pin_memory()


def _sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * self + alpha * ops.mm(mat1, mat2)


def _sparse_mm_reduce_impl(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor | None]:
    if reduce != "sum":
        raise NotImplementedError(
            f"a product of a sparse matrix with the reduction {reduce!r}: use torch.scatter_reduce"
        )
    return ops.mm(self, other), None


def size(self: Tensor, dim: int | None = None) -> Any:
    return list(self.shape) if dim is None else self.shape[dim]


def stride(self: Tensor, dim: int | None = None) -> Any:
    return list(self.stride()) if dim is None else self.stride(dim)


def dim(self: Tensor) -> int:
    return self.ndim


def sym_numel(self: Tensor) -> int:
    return self.numel()


def sym_storage_offset(self: Tensor) -> int:
    return self.storage_offset()


FUNCTIONS = {
    f.__name__: f
    for f in (
        _to_copy, _local_scalar_dense, alias, slice, index, index_put, index_put_, _softmax, _log_softmax, _convolution, _unsafe_view, lift_fresh, _pin_memory,
        _sparse_addmm, _sparse_mm_reduce_impl, size, stride, dim, sym_numel, sym_storage_offset,
    )
} | {"sym_size": size, "sym_stride": stride} | _aten_arguments.FUNCTIONS | _aten_backward.FUNCTIONS | _aten_gradients.FUNCTIONS | _aten_layers.FUNCTIONS | _aten_graphs.FUNCTIONS  # fmt: skip


SCHEMAS = """
_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
_local_scalar_dense(Tensor self) -> Scalar
alias|lift_fresh(Tensor(a) self) -> Tensor(a)
slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
index.list_Tensor(Tensor[] self, Tensor el) -> int
index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
_softmax|_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor
_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor
_unsafe_view(Tensor self, SymInt[] size) -> Tensor
_pin_memory(Tensor self, Device? device=None) -> Tensor
_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)
size|stride(Tensor self) -> int[]
size|stride.int(Tensor self, int dim) -> int
dim(Tensor self) -> int
sym_size|sym_stride(Tensor self) -> SymInt[]
sym_size|sym_stride.int(Tensor self, int dim) -> SymInt
sym_numel|sym_storage_offset(Tensor self) -> SymInt
"""
