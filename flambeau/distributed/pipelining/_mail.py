"""Tensors from stage to stage. Each travels with a few words that describe it, so that the receiver need not know its shape."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import ALL, int64
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._groups import ProcessGroup, current
from .._kinds import DistBackendError
from .._point_to_point import irecv, isend
from .._work import Work

_MOST = 8  # dimensions
_RESULTS = 64  # of a stage


class Mail:
    """What the stages of this process send and get. Sending never waits; what is sent stays until it has arrived."""

    def __init__(self, group: Any, stages: int):
        self.group: ProcessGroup = current(group)
        self._stages = stages
        self._sent: list[tuple[Work | None, Tensor]] = []
        self._here: dict[int, tuple[Tensor | None, bool]] = {}  # between stages of this process

    def _tag(self, source: int, target: int, result: int, microbatch: int, back: bool) -> int:
        if result >= _RESULTS:
            raise ValueError(f"pipelining: a stage may give at most {_RESULTS} tensors to others, got {result + 1}")
        way = ((microbatch * self._stages + source) * self._stages + target) * 2 + back
        return 2 * (way * _RESULTS + result)

    def send(
        self, rank: int, way: tuple[int, int, int, int, bool], tensor: Tensor | None, gradient: bool = False
    ) -> None:
        """Sends a tensor (or that there is none) to a rank of the group; `gradient`: whether one is wanted for it."""
        tag = self._tag(*way)
        if rank == self.group.rank():
            self._here[tag] = (tensor, gradient)
            return
        words = [-1] if tensor is None else [ALL.index(tensor.dtype), int(gradient), tensor.dim(), *tensor.shape]
        if len(words) > 3 + _MOST:
            raise ValueError(f"pipelining: tensors between stages have at most {_MOST} dimensions, got {tensor.shape}")  # type: ignore[union-attr]
        self._post(rank, tag, ops.tensor(words + [0] * (3 + _MOST - len(words))))
        if tensor is not None and tensor.numel():
            self._post(rank, tag + 1, tensor.detach().contiguous().cpu())

    def _post(self, rank: int, tag: int, tensor: Tensor) -> None:
        self._sent.append((isend(tensor, group=self.group, tag=tag, group_dst=rank), tensor))

    def receive(self, rank: int, way: tuple[int, int, int, int, bool], device: Any) -> tuple[Tensor | None, bool]:
        """The tensor that was sent, and whether a gradient is wanted for it."""
        tag = self._tag(*way)
        if rank == self.group.rank():
            return self._here.pop(tag)
        self._sent = [(work, tensor) for work, tensor in self._sent if work is not None and not work.poll()]
        found = self._take(rank, tag, ops.zeros(3 + _MOST, dtype=int64)).tolist()
        if found[0] < 0:
            return None, False
        tensor = ops.empty(found[3 : 3 + found[2]], dtype=ALL[found[0]])
        if tensor.numel():
            self._take(rank, tag + 1, tensor)
        return tensor.to(device), bool(found[1])

    def _take(self, rank: int, tag: int, tensor: Tensor) -> Tensor:
        work = irecv(tensor, group=self.group, tag=tag, group_src=rank)
        if work is None:
            raise DistBackendError("pipelining: this process is not in the group of its stage")
        work.wait()
        return tensor

    def finish(self) -> None:
        """Waits until everything that was sent has arrived."""
        for work, _ in self._sent:
            if work is not None:
                work.wait()
        self._sent = []
