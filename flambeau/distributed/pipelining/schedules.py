"""Schedules: how the stages of a process go through the parts of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._ops.registry import ops
from . import _orders
from ._mail import Mail
from .microbatch import merge_chunks, split_args_kwargs_into_chunks
from .stage import _PipelineStageBase

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
    "get_schedule_class",
]  # fmt: skip


class _PipelineSchedule:
    """The stages of this process, and the order of their passes."""

    def __init__(
        self,
        stages: list[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ):
        self._stages, self._n_microbatches, self._loss_fn = stages, n_microbatches, loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._num_stages, self.pp_group_size = stages[0].num_stages, stages[0].group_size
        self._mail = Mail(stages[0].group, self._num_stages)
        self._by_index = {stage.stage_index: stage for stage in stages}

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say in which order passes run: use one of its subclasses"
        )

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One batch, forward and (with a `loss_fn`) backward. The process of the first stage gives the arguments, that of the
        last one the `target`, and gets the results and a loss for each part; all may give keyword arguments, for their own stages."""
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, self._loss_fn is not None)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """`step` without a backward pass."""
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, False)

    def _run(
        self, args: Any, kwargs: Any, target: Any, losses: Any, wanted: bool, loss_kwargs: dict[str, Any], back: bool
    ) -> Any:
        parts = self._n_microbatches
        args_split, kwargs_split = self._split(args, kwargs)
        last = self._by_index.get(self._num_stages - 1)
        with_loss = last is not None and self._loss_fn is not None
        if with_loss and target is None:
            raise ValueError("step: the process of the last stage must give a target, as the schedule has a loss_fn")
        targets = list(ops.tensor_split(target, parts)) if with_loss else []
        if with_loss and len(target) < parts:
            raise AssertionError(f"Tensor size {len(target)} is smaller than num_chunks")
        outputs, found = dict[int, Any](), dict[int, Any]()
        for stage in self._stages:
            stage.has_backward = back
            stage.clear()
        order = [action for action in self.order() if back or action[1] == "F"]
        final = {action[0]: i for i, action in enumerate(order) if action[1] in "BW"}  # the last pass of each stage
        try:
            for i, (index, what, m) in enumerate(order):
                stage = self._by_index[index]
                if what == "F":
                    out = stage.forward_one_chunk(self._mail, m, args_split[m], kwargs_split[m])
                    if stage is last:
                        outputs[m] = out
                        if with_loss:
                            found[m] = stage.runs[m].loss = self._loss_fn(out, targets[m], **loss_kwargs)  # type: ignore[misc]
                elif what == "B":
                    stage.backward_one_chunk(self._mail, m, final[index] == i)
                elif what == "I":
                    stage.backward_input_one_chunk(self._mail, m)
                else:
                    stage.backward_weight_one_chunk(m, final[index] == i)
            self._mail.finish()
        finally:
            for stage in self._stages:
                stage.clear()
        if back:
            for stage in self._stages:
                stage.end(parts, self.scale_grads)
        if losses is not None and with_loss:
            losses[:] = [found[m] for m in range(parts)]
        if last is None or not wanted:
            return None
        return merge_chunks([outputs[m] for m in range(parts)], self._output_merge_spec)

    def _split(self, args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
        parts = self._n_microbatches
        if not args and not kwargs:
            return [()] * parts, [{}] * parts
        split = split_args_kwargs_into_chunks(
            args, kwargs, parts, self._args_chunk_spec or None, self._kwargs_chunk_spec
        )
        for name, found in zip(("arg_mbs", "kwarg_mbs"), split):
            if len(found) != parts:
                raise ValueError(
                    f"Expecting {parts} {name} but got {len(found)}: the batch has fewer rows than the schedule has parts"
                )
        return split


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule of one stage for each process."""

    def __init__(
        self,
        stage: _PipelineStageBase,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ):
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        if self.pp_group_size != self._num_stages:
            raise ValueError(
                f"{type(self).__name__} has one stage for each process: {self._num_stages} stages on {self.pp_group_size} processes"
                " need a schedule of several, such as ScheduleInterleaved1F1B"
            )
        self._stage, self._stage_index = stage, stage.stage_index


class ScheduleGPipe(PipelineScheduleSingle):
    """All parts forward, then all backward."""

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        return _orders.all_forward_first([self._stage_index], self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """A backward pass after each forward pass as soon as possible: memory for as many parts as there are later stages."""

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        return _orders.one_by_one(self._stage_index, self._num_stages, self._n_microbatches)


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forward passes only."""

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        return [(self._stage_index, "F", m) for m in range(self._n_microbatches)]


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule of several stages for each process: process r has the stages r, r + processes, …"""

    def __init__(
        self,
        stages: list[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ):
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        homes, rank = self._homes(), stages[0].group_rank
        expected = [s for s, home in enumerate(homes) if home == rank]
        if sorted(self._by_index) != expected:
            raise ValueError(
                f"{type(self).__name__}: process {rank} of {self.pp_group_size} has the stages {expected}, got {sorted(self._by_index)}"
            )
        for stage in stages:
            stage.stage_index_to_group_rank = dict(enumerate(homes))

    def _homes(self) -> list[int]:
        """The process of each stage."""
        return [stage % self.pp_group_size for stage in range(self._num_stages)]

    def _indices(self) -> list[int]:
        return sorted(self._by_index)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All parts through one stage after the other, then back."""

    def __init__(
        self,
        stages: list[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ):
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            None,
            None,
            output_merge_spec,
            scale_grads,
            backward_requires_autograd,
            defer_pp_recv,
        )

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        return _orders.all_forward_first(self._indices(), self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages for each process, which are idle for less time."""

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        rank = self._stages[0].group_rank
        return _orders.interleaved(self._indices(), rank, self.pp_group_size, self._n_microbatches)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Backward passes in two steps: gradients of inputs at once, those of weights when there is nothing else to do.

    The second step walks the graph of the part again, so it pays where processes would be idle otherwise.
    """

    def order(self) -> list[_orders.Action]:
        """The passes of this process."""
        return _orders.without_bubbles(self._homes(), self._n_microbatches)[self._stages[0].group_rank]


class ScheduleZBVZeroBubble(ScheduleInterleavedZeroBubble):
    """Zero bubbles with two stages for each process, placed as a V: the first process has the first and the last one."""

    def _homes(self) -> list[int]:
        if self._num_stages != 2 * self.pp_group_size:
            raise ValueError(f"{type(self).__name__} has two stages for each process, got {self._num_stages} stages")
        return [min(s, self._num_stages - 1 - s) for s in range(self._num_stages)]


class ScheduleDualPipeV(ScheduleZBVZeroBubble):
    """Not available."""

    def _homes(self) -> list[int]:
        raise NotImplementedError(
            "ScheduleDualPipeV hides the communication of experts behind pairs of passes on a GPU; use ScheduleZBVZeroBubble, which has "
            "the same stages"
        )


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """A schedule by its name: "1F1B", "GPipe", "Interleaved1F1B", …"""
    known: dict[str, type[_PipelineSchedule]] = {
        "1F1B": Schedule1F1B,
        "Interleaved1F1B": ScheduleInterleaved1F1B,
        "GPipe": ScheduleGPipe,
        "LoopedBFS": ScheduleLoopedBFS,
        "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
        "PipelineScheduleSingle": PipelineScheduleSingle,
        "PipelineScheduleMulti": PipelineScheduleMulti,
        "ZBVZeroBubble": ScheduleZBVZeroBubble,
        "DualPipeV": ScheduleDualPipeV,
    }
    for name, found in known.items():
        if name.lower() == schedule_name.lower():
            return found
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}")
