"""The older interface of the profiler, and `record_function`, which labels a part of a program."""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Callable
from secrets import token_hex
from typing import Any

from .._core.state import local
from .profiler_util import DeviceType, EventList, FunctionEvent, FunctionEventAvg, Kernel, MemRecordsAcc, trace_of

__all__ = [
    "DeviceType", "EnforceUnique", "EventList", "FunctionEvent", "FunctionEventAvg", "Kernel", "KinetoStepTracker",
    "MemRecordsAcc", "emit_itt", "emit_nvtx", "kineto_available", "load_nvprof", "parse_nvprof_trace", "profile",
    "record_function",
]  # fmt: skip


def kineto_available() -> bool:
    """Whether traces can be recorded; always, here."""
    return True


class record_function:
    """Gives a block, or with `@` a function, a name in profiles; costs next to nothing when no profiler is on.

    >>> import flambeau as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("my block"):
    ...         x = torch.zeros(3) + 1
    >>> prof.events()[0].name
    'my block'
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self.recorder: Any = None
        self.span: Any = None

    def __enter__(self) -> record_function:
        recorder = self.recorder = local.profiler
        if recorder is not None:
            self.span = recorder.open(self.name, label=True)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.recorder is not None:
            self.recorder.close(self.span)
            self.recorder = self.span = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **named: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **named)

        return labelled


class profile:
    """Records the operations inside a `with` block; print it or call `table()` afterwards.

    >>> import flambeau as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.tensor([1.0]).exp()
    >>> [event.key for event in prof.key_averages()]
    ['aten::tensor', 'aten::exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ):
        self.enabled, self.use_cpu, self.record_shapes = enabled, use_cpu, record_shapes
        self.with_flops, self.profile_memory, self.with_stack = with_flops, profile_memory, with_stack
        self.with_modules = with_modules
        self.use_device = "cuda" if use_cuda else use_device
        self.function_events: EventList | None = None
        self.trace_id: str | None = None
        self.entered = False
        self._recorder: Any = None

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        from ..profiler._recorder import DeviceClock, Recorder  # the profiler package stands on this module

        self.entered, self.trace_id = True, token_hex(16).upper()
        self._recorder = Recorder(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.with_modules,
            DeviceClock() if self.use_device == "cuda" else None,
        )  # fmt: skip
        self._recorder.start()
        return self

    def __exit__(self, *error: Any) -> bool:
        if self._recorder is not None and self.function_events is None:
            self._recorder.stop()
            self.function_events = EventList(
                self._recorder.events(), use_device=self.use_device, profile_memory=self.profile_memory,
                with_flops=self.with_flops,
            )  # fmt: skip
        return False

    def _ensure_events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def toggle_collection_dynamic(self, enabled: bool, activities: Any = ()) -> None:
        """Stops or goes on with the recording in the middle of the block."""
        if self._recorder is not None:
            self._recorder.paused = not enabled

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self) -> str:
        return self.__repr__() if self.function_events is None else str(self.function_events)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The events as text; see `EventList.table`."""
        return self._ensure_events().table(sort_by, row_limit, **options)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Sums of the events by name."""
        return self._ensure_events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self._ensure_events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return self._ensure_events().self_cpu_time_total

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Writes the events as JSON for chrome://tracing."""
        recorder, process = self._recorder, os.getpid()
        events = self._ensure_events()
        span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
        more = [
            {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}},
            {**span, "ts": 0, "dur": (recorder.ended - recorder.began) / 1000, "args": {"Op count": len(events)}},
        ]
        trace = trace_of(events, process, more)
        trace |= {"trace_id": self.trace_id, "baseTimeNanoseconds": recorder.began + recorder.clock, "traceName": path}
        with open(path, "w") as file:
            json.dump(trace | (metadata or {}), file)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the places in the program with their times; needs `with_stack`."""
        events = self._ensure_events()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)


class emit_nvtx:
    """Not available: NVTX ranges are written by NVIDIA's tools, to which there is no connection here."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError(
                "emit_nvtx: there is no NVTX here; use torch.profiler.profile with ProfilerActivity.CUDA"
            )
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class emit_itt:
    """Not available: ITT ranges are read by Intel's tools, to which there is no connection here."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError("Can't use ITT profiler: there is no ITT here; use torch.profiler.profile")
        return self

    def __exit__(self, *error: Any) -> None:
        pass


def load_nvprof(path: str) -> EventList:
    """Not available: files of nvprof, which NVIDIA has given up, are not read."""
    raise NotImplementedError(f"load_nvprof: {path} is not read; use torch.profiler.profile and its traces")


def parse_nvprof_trace(path: str) -> list[FunctionEvent]:
    """Not available: files of nvprof, which NVIDIA has given up, are not read."""
    raise NotImplementedError(f"parse_nvprof_trace: {path} is not read; use torch.profiler.profile and its traces")


class EnforceUnique:
    """Raises if a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Notes a key."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps for all who report them (optimizers, the profiler): one step is over when anyone is ahead.

    >>> from flambeau.autograd.profiler import KinetoStepTracker
    >>> KinetoStepTracker.init_step_count("mine")
    >>> KinetoStepTracker.increment_step("mine") == KinetoStepTracker.current_step()
    True
    >>> KinetoStepTracker.erase_step_count("mine")
    True
    """

    _current_step = 0
    _step_dict: defaultdict[str, int] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Lets someone report steps, beginning now."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forgets someone; whether they were known."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Notes a step of someone; gives the number of the present step."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The number of the present step."""
        return cls._current_step
