"""Timing of small pieces of code: `Timer`, `Measurement`, `Compare`."""

from .utils.callgrind import CallgrindStats, CopyIfCallgrind, FunctionCount, FunctionCounts
from .utils.common import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from .utils.compare import Colorize, Compare
from .utils.fuzzer import FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, ParameterAlias
from .utils.timer import Language, Timer, timer

__all__ = [
    "CallgrindStats", "Colorize", "Compare", "CopyIfCallgrind", "FunctionCount", "FunctionCounts", "FuzzedParameter",
    "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "Language", "Measurement", "ParameterAlias",
    "TaskSpec", "Timer", "ordered_unique", "select_unit", "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
