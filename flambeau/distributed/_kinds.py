"""Kinds of reductions, options and errors of distributed programs."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any, NewType

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions",
    "BuiltinCommHookType", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "GatherOptions", "GroupName", "QueueEmptyError", "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "reduce_op",
]  # fmt: skip

GroupName = NewType("GroupName", str)


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """A store failed."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""


class RedOpType(enum.IntEnum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """How values of several processes become one: `ReduceOp.SUM`, `AVG`, `MAX`, …"""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM

    def __init__(self, op: Any, factor: Any = None):
        self.op = op.op if isinstance(op, ReduceOp) else op
        self.factor = factor  # of PREMUL_SUM: what every tensor is multiplied by before

    def __eq__(self, other: object) -> bool:
        return self.op == (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self.op)


class _reduce_op:
    """The older name of `ReduceOp`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ReduceOp, name)


reduce_op = _reduce_op()


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """A sum of tensors that are multiplied by a number, or a tensor of one, before."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


class DebugLevel(enum.Enum):
    """How much is checked and told."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class BuiltinCommHookType(enum.Enum):
    """How gradients travel."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


class _Options:
    """Options of one kind of collective call."""

    asyncOp = True
    timeout = timedelta(minutes=30)


class AllreduceOptions(_Options):
    """Options of `all_reduce`."""

    reduceOp: Any = ReduceOp.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `all_reduce_coalesced`."""


class AllgatherOptions(_Options):
    """Options of `all_gather`."""


class AllToAllOptions(_Options):
    """Options of `all_to_all`."""


class BarrierOptions(_Options):
    """Options of `barrier`."""

    device_ids: list[int] = []
    device: Any = None


class BroadcastOptions(_Options):
    """Options of `broadcast`."""

    rootRank = rootTensor = 0


class GatherOptions(_Options):
    """Options of `gather`."""

    rootRank = 0


class ScatterOptions(_Options):
    """Options of `scatter`."""

    rootRank = 0


class ReduceOptions(_Options):
    """Options of `reduce`."""

    reduceOp: Any = ReduceOp.SUM
    rootRank = rootTensor = 0


class ReduceScatterOptions(_Options):
    """Options of `reduce_scatter`."""

    reduceOp: Any = ReduceOp.SUM
