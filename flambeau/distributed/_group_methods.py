"""The calls of a group as its methods, which give works: `group.allreduce([tensor]).wait()`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .._tensor import Tensor
from . import _collectives as calls
from . import _point_to_point as direct
from ._groups import ProcessGroup
from ._kinds import ReduceOp
from ._work import Work


def _one(tensors: Any) -> Any:
    """The tensor of a call; lists have one for each of a process's devices, of which it has one."""
    if isinstance(tensors, (list, tuple)) and not isinstance(tensors, Tensor):
        if len(tensors) != 1:
            raise ValueError(f"expected one tensor, as this process has one device, got {len(tensors)}")
        return tensors[0]
    return tensors


def _op(opts: Any) -> Any:
    return getattr(opts, "reduceOp", opts) if opts is not None else ReduceOp.SUM


def _root(opts: Any) -> int:
    return int(getattr(opts, "rootRank", opts if isinstance(opts, int) else 0))


class Methods:
    """What is attached to `ProcessGroup`. Options are objects such as `AllreduceOptions`, or their only value."""

    def allreduce(self: Any, tensors: Any, opts: Any = None, **options: Any) -> Work | None:
        """`all_reduce`."""
        return calls.all_reduce(_one(tensors), _op(options.get("op", opts)), self, True)

    def allreduce_coalesced(self: Any, tensors: Any, opts: Any = None) -> Work | None:
        """`all_reduce` of several tensors."""
        return calls.all_reduce_coalesced(list(tensors), _op(opts), self, True)

    def broadcast(self: Any, tensors: Any, opts: Any = None, **options: Any) -> Work | None:
        """`broadcast` from a process of the group."""
        return calls.broadcast(_one(tensors), None, self, True, group_src=_root(options.get("root", opts)))

    def reduce(self: Any, tensors: Any, opts: Any = None, op: Any = None, **options: Any) -> Work | None:
        """`reduce` for a process of the group."""
        how = op if op is not None else getattr(opts, "reduceOp", ReduceOp.SUM)
        return calls.reduce(_one(tensors), None, how, self, True, group_dst=_root(options.get("root", opts)))

    def allgather(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """`all_gather`."""
        outputs = output_tensors[0] if isinstance(output_tensors[0], (list, tuple)) else output_tensors
        return calls.all_gather(list(outputs), _one(input_tensors), self, True)

    def allgather_coalesced(self: Any, output_lists: Any, input_list: Any, opts: Any = None) -> Work | None:
        """`all_gather` of several tensors."""
        return calls.all_gather_coalesced(output_lists, input_list, self, True)

    def all_gather_single(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Work | None:
        """`all_gather_into_tensor`."""
        return calls.all_gather_into_tensor(output, input, self, True)

    _allgather_base = all_gather_single

    def gather(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, **options: Any) -> Work | None:
        """`gather` for a process of the group."""
        outputs = (
            output_tensors[0] if output_tensors and isinstance(output_tensors[0], (list, tuple)) else output_tensors
        )
        return calls.gather(
            _one(input_tensors), list(outputs) or None, None, self, True, _root(options.get("root", opts))
        )

    def scatter(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, **options: Any) -> Work | None:
        """`scatter` from a process of the group."""
        inputs = input_tensors[0] if input_tensors and isinstance(input_tensors[0], (list, tuple)) else input_tensors
        return calls.scatter(
            _one(output_tensors), list(inputs) or None, None, self, True, _root(options.get("root", opts))
        )

    def reduce_scatter(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, op: Any = None) -> Any:
        """`reduce_scatter`."""
        inputs = input_tensors[0] if isinstance(input_tensors[0], (list, tuple)) else input_tensors
        how = op if op is not None else _op(opts)
        return calls.reduce_scatter(_one(output_tensors), list(inputs), how, self, True)

    def reduce_scatter_single(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Work | None:
        """`reduce_scatter_tensor`."""
        return calls.reduce_scatter_tensor(output, input, _op(opts), self, True)

    _reduce_scatter_base = reduce_scatter_single

    def alltoall(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work | None:
        """`all_to_all`."""
        return calls.all_to_all(list(output_tensors), list(input_tensors), self, True)

    def all_to_all_single(
        self: Any, output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
        opts: Any = None,
    ) -> Work | None:  # fmt: skip
        """`all_to_all_single`."""
        return calls.all_to_all_single(output, input, output_split_sizes, input_split_sizes, self, True)

    alltoall_base = all_to_all_single

    def barrier(self: Any, opts: Any = None, timeout: timedelta | None = None) -> Work | None:
        """`barrier`."""
        return calls.barrier(self, True, timeout=timeout)

    def monitored_barrier(self: Any, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """`barrier` whose error says who is missing."""
        calls.monitored_barrier(self, timeout, wait_all_ranks)

    def send(self: Any, tensors: Any, dstRank: int, tag: int = 0) -> Work | None:
        """`isend` to a process of the group."""
        return direct.isend(_one(tensors), None, self, tag, dstRank)

    def recv(self: Any, tensors: Any, srcRank: int, tag: int = 0) -> Work | None:
        """`irecv` from a process of the group."""
        return direct.irecv(_one(tensors), None, self, tag, srcRank)

    def recv_anysource(self: Any, tensors: Any, tag: int = 0) -> Work | None:
        """`irecv` from whoever sends first."""
        return direct.irecv(_one(tensors), None, self, tag)


for _name, _method in list(vars(Methods).items()):
    if callable(_method):
        setattr(ProcessGroup, _name, _method)
