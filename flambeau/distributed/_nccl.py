"""Calls between GPUs by NCCL, through CuPy. They run on a stream of their own, after what the current stream has done; `wait`
lets the current stream go on after them, and does not stop the program."""

from __future__ import annotations

import json
from typing import Any

from ._kinds import DistBackendError, RedOpType
from ._stores import Store
from ._work import Work

_KINDS = {
    "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
    "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "bfloat16": "BFLOAT16", "bool": "UINT8",
}  # fmt: skip
_OPERATIONS = {
    RedOpType.SUM: "SUM", RedOpType.AVG: "SUM", RedOpType.PREMUL_SUM: "SUM", RedOpType.PRODUCT: "PROD",
    RedOpType.MIN: "MIN", RedOpType.MAX: "MAX",
}  # fmt: skip


def installed() -> bool:
    """Whether CuPy is there with NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))


def require() -> Any:
    """`cupy`; refuses where there is no GPU for NCCL."""
    if not installed():
        raise RuntimeError(
            "Distributed package doesn't have NCCL built in: it needs CuPy with NCCL and a GPU; use gloo"
        )
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    return cupy


class _Event:
    """A call on the stream, as a request."""

    def __init__(self, event: Any):
        self.event = event

    def Test(self) -> bool:
        return bool(self.event.done)


class Channel:
    """The calls of one group (see `_mpi.Channel`) over flat arrays on this process's GPU."""

    on_device = True

    def __init__(self, store: Store, rank: int, size: int):
        self.xp = require()
        self.nccl = self.xp.cuda.nccl
        if rank == 0:
            made = self.nccl.get_unique_id()  # bytes; before CuPy 14 a tuple of signed ones
            store.set("nccl", json.dumps([type(made).__name__, *made]))
        kind, *number = json.loads(store.get("nccl"))
        self.comm = self.nccl.NcclCommunicator(size, bytes(number) if kind == "bytes" else tuple(number), rank)
        self.rank, self.size = rank, size
        self.stream = self.xp.cuda.Stream(non_blocking=True)

    def close(self) -> None:
        """Ends the group."""
        self.comm.destroy()

    def _kind(self, x: Any) -> int:
        name = _KINDS.get(x.dtype.name)
        if name is None or not hasattr(self.nccl, "NCCL_" + name):
            raise RuntimeError(f"Input tensor data type is not supported for NCCL process group: {x.dtype.name}")
        return int(getattr(self.nccl, "NCCL_" + name))

    def _operation(self, op: RedOpType) -> int:
        if op not in _OPERATIONS:
            raise ValueError(f"Cannot use ReduceOp.{op.name} with NCCL")
        return int(getattr(self.nccl, "NCCL_" + _OPERATIONS[op]))

    def _run(self, *calls: Any) -> _Event:
        """Runs calls as one, after what the current stream has to do."""
        before = self.xp.cuda.get_current_stream().record()
        self.stream.wait_event(before)
        self.nccl.groupStart()
        try:
            for name, *arguments in calls:
                getattr(self.comm, name)(*arguments, self.stream.ptr)
        finally:
            self.nccl.groupEnd()
        return _Event(self.stream.record())

    def all_reduce(self, x: Any, op: RedOpType) -> Any:
        return self._run(("allReduce", x.data.ptr, x.data.ptr, x.size, self._kind(x), self._operation(op)))

    def broadcast(self, x: Any, root: int) -> Any:
        return self._run(("broadcast", x.data.ptr, x.data.ptr, x.nbytes, self.nccl.NCCL_UINT8, root))

    def reduce(self, x: Any, root: int, op: RedOpType) -> Any:
        return self._run(("reduce", x.data.ptr, x.data.ptr, x.size, self._kind(x), self._operation(op), root))

    def barrier(self) -> Any:
        event = self.all_reduce(self.xp.zeros(1, "float32"), RedOpType.SUM)
        event.event.synchronize()
        return event

    def all_gather(self, out: Any, x: Any) -> Any:
        return self._run(("allGather", x.data.ptr, out.data.ptr, x.nbytes, self.nccl.NCCL_UINT8))

    def reduce_scatter(self, out: Any, x: Any, counts: list[int], op: RedOpType) -> Any:
        kind, how = self._kind(x), self._operation(op)
        if len(set(counts)) == 1:
            return self._run(("reduceScatter", x.data.ptr, out.data.ptr, counts[0], kind, how))
        starts = [sum(counts[:r]) * x.itemsize for r in range(self.size)]
        return self._run(
            *[
                (
                    "reduce",
                    x.data.ptr + starts[r],
                    out.data.ptr if r == self.rank else x.data.ptr + starts[r],
                    counts[r],
                    kind,
                    how,
                    r,
                )
                for r in range(self.size)
            ]
        )

    def gather(self, out: Any, x: Any, root: int) -> Any:
        calls = [self._to(x, 0, x.nbytes, root)]
        if self.rank == root:
            calls += [self._from(out, r * x.nbytes, x.nbytes, r) for r in range(self.size)]
        return self._run(*calls)

    def scatter(self, out: Any, x: Any, root: int) -> Any:
        calls = [self._from(out, 0, out.nbytes, root)]
        if self.rank == root:
            calls += [self._to(x, r * out.nbytes, out.nbytes, r) for r in range(self.size)]
        return self._run(*calls)

    def all_to_all(self, out: Any, out_counts: list[int], x: Any, counts: list[int]) -> Any:
        size, calls = x.itemsize, []
        for r in range(self.size):
            calls.append(self._to(x, sum(counts[:r]) * size, counts[r] * size, r))
            calls.append(self._from(out, sum(out_counts[:r]) * size, out_counts[r] * size, r))
        return self._run(*calls)

    def _to(self, x: Any, start: int, nbytes: int, peer: int) -> tuple[Any, ...]:
        return "send", x.data.ptr + start, nbytes, self.nccl.NCCL_UINT8, peer

    def _from(self, x: Any, start: int, nbytes: int, peer: int) -> tuple[Any, ...]:
        return "recv", x.data.ptr + start, nbytes, self.nccl.NCCL_UINT8, peer

    def send(self, x: Any, peer: int, tag: int) -> Any:
        return self._run(self._to(x, 0, x.nbytes, peer))

    def recv(self, x: Any, peer: int | None, tag: int) -> Any:
        if peer is None:
            raise RuntimeError("recv: NCCL needs to know the source: give src")
        request = self._run(self._from(x, 0, x.nbytes, peer))
        request.source = peer
        return request

    # -- waiting --

    def test(self, work: Work) -> bool:
        """Whether a call is done."""
        return bool(work.request.Test())

    def wait(self, work: Work, timeout: float) -> None:
        """Lets the current stream go on after the call."""
        self.xp.cuda.get_current_stream().wait_event(work.request.event)

    def look(self, works: Any) -> None:
        """Nothing to do: the GPU works by itself."""

    def late(self, work: Work, timeout: float) -> DistBackendError:
        """Ends a call whose time is up, and with it the group."""
        self.comm.abort()
        return DistBackendError(f"{work.name}: Timed out after {timeout:g} seconds; NCCL's communicator was aborted")

    def forget(self, work: Work) -> None:
        """A call that is given up goes on by itself."""
