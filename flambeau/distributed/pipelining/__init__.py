"""A model as stages in different processes: a batch goes through them in parts, so that all stages work at once."""

from __future__ import annotations

from ._pipe import Pipe, SplitPoint, pipe_split, pipeline
from .schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from .stage import PipelineStage, build_stage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage", "pipe_split",
    "pipeline",
]  # fmt: skip
