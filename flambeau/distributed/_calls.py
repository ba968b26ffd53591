"""What all calls between processes share: the checks of their arguments, their start, and blocks of calls side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from .._tensor import Tensor
from ._buffers import Finish
from ._groups import ProcessGroup, current, get_group_rank, is_outside
from ._kinds import RedOpType, ReduceOp
from ._progress import progress
from ._work import Work

__all__ = ["supports_complex"]

_NOT_COMPLEX = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_BITS = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)


# -- arguments ----------------------------------------------------------------------------------------------------------


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction works on complex numbers."""
    return reduceOp not in _NOT_COMPLEX


def check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type list[torch.Tensor] but got {type(values)} instead."
        )


def same_dtype(tensors: Sequence[Tensor], first: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not first.dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypesFound {tensor.dtype} and  {first.dtype}")


def reduction(tensor: Tensor, op: Any, name: str) -> tuple[RedOpType, Any]:
    """The kind of a reduction, and its factor if it has one; raises if it does not suit the tensor."""
    if op is RedOpType.SUM:
        return op, None
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")
    kind, factor = (op.op, op.factor) if isinstance(op, ReduceOp) else (op, None)
    if not isinstance(kind, RedOpType) or (kind is RedOpType.PREMUL_SUM and factor is None):
        raise TypeError(
            f"{name}: incompatible function arguments. Expected a ReduceOp such as ReduceOp.SUM, got {op!r}"
        )
    if kind in _BITS and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind is RedOpType.AVG and not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {tensor.dtype}: AVG needs floats"
        )
    return kind, factor


def group_rank(group: ProcessGroup, rank: int | None, own: int | None, default: int | None = None) -> int:
    """The number in the group of a process that is named by its number in the world or in the group."""
    if rank is not None and own is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if own is not None:
        return own
    if rank is None:
        rank = default
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if not isinstance(rank, int):
        raise TypeError(f"a rank is a number, got {rank!r}")
    return rank if len(group.ranks) > rank and group.ranks[rank] == rank else get_group_rank(group, rank)


def root_rank(group: ProcessGroup, rank: int | None, own: int | None, name: str, default: int | None = None) -> int:
    try:
        found = group_rank(group, rank, own, default)
    except ValueError as error:
        if "is not part" in str(error) and group is current():
            raise RuntimeError(f"{name}: invalid root rank: {rank}") from None
        raise
    if not 0 <= found < group.size():
        raise RuntimeError(f"{name}: invalid root rank: {found}")
    return found


def enter(group: Any, tensor: Tensor) -> tuple[Any, Any]:
    """The group of a call and what carries it out for a tensor; None and None in processes that are not in the group."""
    if is_outside(group):
        return None, None
    group = current(group)
    return group, group.channel(tensor.device.type)


def check_parts(
    parts: Any, tensor: Tensor, group: ProcessGroup, name: str, list_name: str, here: bool, way: str
) -> None:
    """Whether the list of tensors for all processes is right: there where it belongs, and as long as the group."""
    role = "destination" if way == "output" else "source"
    if not here:
        if parts:
            raise ValueError(f"Argument ``{list_name}`` must NOT be specified on non-{role} ranks.")
        return
    if not parts:
        raise ValueError(f"Argument ``{list_name}`` must be specified on {role} rank.")
    check_tensors(parts, list_name)
    same_dtype(parts, tensor)
    if len(parts) != group.size():
        raise RuntimeError(
            f"{name}: Incorrect {way} list size {len(parts)}. {way.capitalize()} list size should be {group.size()}, same as "
            "size of the process group."
        )
    check_sizes(parts, tensor, name)


def check_length(values: Any, group: ProcessGroup, name: str) -> None:
    if len(values) != group.size():
        raise RuntimeError(f"{name}: invalid tensor list (expected length {group.size()}, got {len(values)})")


def check_size(target: Tensor, numel: int, name: str, index: int = 0) -> None:
    if target.numel() != numel:
        raise RuntimeError(
            f"{name}: invalid tensor size at index {index} (expected {numel} elements, got {tuple(target.shape)})"
        )


def check_sizes(targets: Sequence[Tensor], tensor: Tensor, name: str) -> None:
    for index, target in enumerate(targets):
        check_size(target, tensor.numel(), name, index)


# -- running a call -----------------------------------------------------------------------------------------------------

_local = threading.local()  # .works: those of a coalescing block


def issue(
    group: ProcessGroup,
    name: str,
    start: Callable[[Any], Any],
    result: Any,
    finish: list[Finish],
    async_op: bool,
    nbytes: int,
    channel: Any,
    timeout: float | None = None,
    among: Sequence[int] | None = None,
) -> Work | None:
    """Starts a call and waits for it, or gives it back if it is to run in the background.

    `among` are the processes that take part, if not all of the group do.
    """
    if among is None:
        group.calls += 1
        group.doing.append(name)
    try:
        request = start(channel)
    except RuntimeError as error:
        if type(error).__module__.startswith("mpi4py"):
            raise channel.broken(name, error) from error
        raise

    def end() -> None:
        for step in finish:
            step()

    work = Work(name, result, channel, request, end, group.seconds if timeout is None else timeout, nbytes)
    work.group, work.number, work.among = group, group.calls, among
    works = getattr(_local, "works", None)
    if works is not None:
        works.append(work)
    elif not async_op:
        work.wait()
        return None
    if request is not None:
        progress.add(work)
    return work


class Together(Work):
    """Several works as one."""

    def __init__(self, works: list[Work]):
        self.works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self.works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all([work.poll() for work in self.works])

    def get_future(self) -> Any:
        from ..futures import collect_all

        return collect_all([work.get_future() for work in self.works]).then(
            lambda done: [value for future in done.value() for value in future.value() or ()]
        )


class _CoalescingManager:
    """What a coalescing block gives: `wait` waits for all calls that were made in it."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None) -> None:
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool | None = False
) -> Iterator[_CoalescingManager]:
    """A block whose calls run side by side; at its end they are waited for, unless `async_ops`."""
    manager = _CoalescingManager()
    if getattr(_local, "works", None) is not None:
        raise RuntimeError("ProcessGroup has non-empty op list at the start of coalescing: the blocks cannot be nested")
    _local.works = manager.works
    try:
        yield manager
    finally:
        _local.works = None
    if not async_ops:
        manager.wait()


def premultiply(flat: Any, factor: Any) -> None:
    if factor is not None:
        flat *= flat.dtype.type(factor.item() if isinstance(factor, Tensor) else factor)


def divide(flat: Any, size: int) -> Finish:
    def divide() -> None:
        flat[...] = flat / flat.dtype.type(size)

    return divide
