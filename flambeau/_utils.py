"""Small functions of `torch._utils` that other libraries call: tensors made again from their parts, devices, buckets."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._core.devices import device as _device
from ._core.dtypes import dtype as _dtype
from ._ops.registry import ops
from ._serialization.rebuild import _rebuild_device_tensor_from_cpu_tensor, _rebuild_device_tensor_from_numpy
from ._tensor import Tensor
from ._tensor.copying import (
    _rebuild_meta_tensor_no_storage,
    _rebuild_qtensor,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
)
from ._tensor.copying import set_state as _set_obj_state
from ._tensor.copying import state_of as _get_obj_state
from .nn.parameter import _rebuild_parameter, _rebuild_parameter_with_state
from .utils.data._utils.errors import ExceptionWrapper

__all__ = [
    "ExceptionWrapper", "_element_size", "_flatten_dense_tensors", "_get_all_device_indices", "_get_available_device_type",
    "_get_device_index", "_get_device_module", "_get_obj_state", "_import_dotted_name",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_meta_tensor_no_storage",
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_tensor",
    "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_set_obj_state", "_take_tensors", "_unflatten_dense_tensors",
    "classproperty", "is_compiling",
]  # fmt: skip


def _element_size(dtype: _dtype) -> int:
    """The bytes of one element."""
    if not isinstance(dtype, _dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return int(dtype.itemsize)


# -- devices -------------------------------------------------------------------------------------------------------


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device; -1 for the CPU where that is allowed, None for None where that is."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return None
    found = None if device is None else _device(device)
    if found is not None and found.type == "cpu":
        if not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1
    if found is None or (found.index is None and not optional):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return found.index


def _get_available_device_type() -> str | None:
    """The kind of accelerator that can be used, None without one."""
    from . import cuda

    return "cuda" if cuda.is_available() else None


def _get_all_device_indices() -> list[int]:
    """The numbers of all GPUs."""
    from . import cuda

    return list(range(cuda.device_count()))


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device."""
    try:
        return importlib.import_module(f"{__package__}.{device_type}")
    except ModuleNotFoundError:
        raise RuntimeError(f"there is no module for the device type {device_type!r}") from None


# -- buckets of tensors --------------------------------------------------------------------------------------------


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements of tensors of one dtype in one flat tensor."""
    return ops.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of a flat tensor with the shapes of given tensors, one after the other."""
    made, start = [], 0
    for t in tensors:
        count = t.numel()
        made.append(flat.narrow(0, start, count).view(t.shape))
        start += count
    return tuple(made)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors in groups of one type, of about so many bytes each."""
    groups: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        kind = t.type()
        size = t.numel() * t.element_size()
        group, total = groups.get(kind, ([], 0))
        if group and total + size > size_limit:
            yield group
            group, total = [], 0
        groups[kind] = ([*group, t], total + size)
    for group, _ in groups.values():
        if group:
            yield group


# -- odds and ends -------------------------------------------------------------------------------------------------


def _import_dotted_name(name: str) -> Any:
    """The object at a path such as `torch.nn.functional.relu`."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


class classproperty:
    """A property of a class rather than of its objects."""

    def __init__(self, func: Callable[[Any], Any]):
        self.function = func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.function(type(instance) if owner is None else owner)


def _maybe_view_chunk_cat(res: Tensor, group_size: int, gather_dim: int) -> Tensor:
    """`cat(chunk(res, group_size), gather_dim)`, without a copy where that is only another view."""
    if gather_dim == 0:
        return res
    parts = ops.unflatten(res, 0, (group_size, -1))
    return ops.flatten(ops.movedim(parts, 0, gather_dim), gather_dim, gather_dim + 1)


def is_compiling() -> bool:
    """Whether the program is being compiled rather than run."""
    from .compiler import is_compiling

    return is_compiling()
