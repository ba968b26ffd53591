"""Python objects from process to process. They are pickled, as in PyTorch: what arrives comes from the program's own
processes, through MPI. Stores, files and sockets that strangers reach are never unpickled."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from .._core.dtypes import int64, uint8
from .._tensor import Tensor, wrap
from ._calls import root_rank
from ._collectives import all_gather_into_tensor, broadcast, gather, scatter
from ._groups import current, is_outside
from ._point_to_point import recv, send

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list",
    "send_object_list",
]  # fmt: skip


def _packed(obj: Any) -> Tensor:
    return wrap(np.frombuffer(bytearray(pickle.dumps(obj)), np.uint8), uint8)


def _unpacked(data: Tensor, size: int | None = None) -> Any:
    return pickle.loads(memoryview(data._array)[:size])


def _numbers(*values: int) -> Tensor:
    return wrap(np.array(values, np.int64), int64)


def _room(size: int) -> Tensor:
    return wrap(np.empty(size, np.uint8), uint8)


def _sizes(data: Tensor, group: Any) -> list[int]:
    """The lengths of what all processes have."""
    sizes = wrap(np.empty(current(group).size(), np.int64), int64)
    all_gather_into_tensor(sizes, _numbers(data.numel()), group)
    return sizes.tolist()


def _padded(data: Tensor, size: int) -> Tensor:
    room = _room(size)
    room._array[: data.numel()] = data._array
    return room


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Every process gets the objects of all, in a list.

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]; dist.all_gather_object(found, {"loss": 0.5}); found
    [{'loss': 0.5}]
    >>> dist.destroy_process_group()
    """
    if is_outside(group):
        return
    data = _packed(obj)
    sizes = _sizes(data, group)
    longest = max(sizes)
    out = _room(longest * len(sizes))
    all_gather_into_tensor(out, _padded(data, longest), group)
    for i, size in enumerate(sizes):
        object_list[i] = _unpacked(out[i * longest : (i + 1) * longest], size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """The process `dst` gets the objects of all, in a list."""
    if is_outside(group):
        return
    group = current(group)
    root = root_rank(group, dst, group_dst, "gather_object", 0 if group_dst is None else None)
    here = group.rank() == root
    if here and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if not here and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    data = _packed(obj)
    sizes = _sizes(data, group)
    longest = max(sizes)
    out = list(_room(longest * len(sizes)).chunk(len(sizes))) if here else None
    gather(_padded(data, longest), out, group=group, group_dst=root)
    for i, part in enumerate(out or ()):
        object_gather_list[i] = _unpacked(part, sizes[i])  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Every process gets the objects of the process `src`."""
    if is_outside(group):
        return
    group = current(group)
    root = root_rank(group, src, group_src, "broadcast_object_list", 0 if group_src is None else None)
    here = group.rank() == root
    packed = [_packed(obj) for obj in object_list] if here else []
    sizes = _numbers(*([data.numel() for data in packed] if here else [0] * len(object_list)))
    broadcast(sizes, group=group, group_src=root)
    if not object_list:
        return
    data = _room(int(sizes.sum()))
    if here:
        np.concatenate([p._array for p in packed], out=data._array)
    broadcast(data, group=group, group_src=root)
    if not here:
        _unpack_list(object_list, data, sizes.tolist())


def _unpack_list(object_list: list[Any], data: Tensor, sizes: list[int]) -> None:
    at = 0
    for i, size in enumerate(sizes):
        object_list[i] = _unpacked(data[at : at + size], size)
        at += size


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Every process gets its part of the objects of the process `src`."""
    if is_outside(group):
        return
    group = current(group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = root_rank(group, src, group_src, "scatter_object_list", 0 if group_src is None else None)
    parts, sizes = None, _numbers(*[0] * group.size())
    if group.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        if len(scatter_object_input_list) != group.size():
            raise RuntimeError(
                f"scatter_object_list: expected {group.size()} objects, one for each process, got "
                f"{len(scatter_object_input_list)}"
            )
        parts = [_packed(obj) for obj in scatter_object_input_list]
        sizes = _numbers(*[part.numel() for part in parts])
    broadcast(sizes, group=group, group_src=root)
    longest = int(sizes.max())
    own = _room(longest)
    scatter(own, [_padded(part, longest) for part in parts] if parts else None, group=group, group_src=root)
    scatter_object_output_list[0] = _unpacked(own, sizes.tolist()[group.rank()])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends objects to another process."""
    if is_outside(group):
        return
    packed = [_packed(obj) for obj in object_list]
    send(_numbers(*[data.numel() for data in packed]), dst, group, group_dst=group_dst)
    send(wrap(np.concatenate([data._array for data in packed]), uint8), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives objects from another process, or from whoever sends first; gives its number in the world."""
    if is_outside(group):
        return -1
    sizes = _numbers(*[0] * len(object_list))
    sender = recv(sizes, src, group, group_src=group_src)
    data = _room(int(sizes.sum()))
    recv(data, sender, group)
    _unpack_list(object_list, data, sizes.tolist())
    return sender
