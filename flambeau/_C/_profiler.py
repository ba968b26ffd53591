"""`torch._C._profiler`, as far as programs name it: what is asked of PyTorch's own profiler beyond its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["_ExperimentalConfig"]


@dataclass
class _ExperimentalConfig:
    """Options of PyTorch's library for profiles, which `profile(experimental_config=…)` takes and keeps; nothing here reads them.

    >>> from flambeau._C._profiler import _ExperimentalConfig
    >>> _ExperimentalConfig(verbose=True).verbose
    True
    """

    profiler_metrics: Sequence[str] = ()
    profiler_measure_per_kernel: bool = False
    verbose: bool = False
    performance_events: Sequence[str] = ()
    enable_cuda_sync_events: bool = False
    adjust_profiler_step: bool = False
    disable_external_correlation: bool = False
    profile_all_threads: bool = False
    capture_overload_names: bool = False
    record_python_gc_info: bool = False
    expose_kineto_event_metadata: bool = False
    custom_profiler_config: str = ""
    adjust_timestamps: bool = False
    trace_only: bool = False
