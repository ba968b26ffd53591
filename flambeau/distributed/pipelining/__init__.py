"""Stages of a model in different processes, which are not implemented."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "SplitPoint", "pipe_split", "pipeline",
]  # fmt: skip

_WHY = (
    "torch.distributed.pipelining is not implemented: divide the layers' weights instead (fully_shard, parallelize_module), or "
    "send activations between processes with torch.distributed.send and recv"
)


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Not available."""
    raise NotImplementedError(_WHY)


Pipe = PipelineStage = Schedule1F1B = ScheduleGPipe = ScheduleInterleaved1F1B = pipe_split = pipeline = _refuse


class SplitPoint:
    """Not available: where a model is cut."""

    BEGINNING, END = 1, 2
