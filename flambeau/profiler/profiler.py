"""`profile`: records operations over the steps that a schedule chooses, and hands the results to a callback."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any

from .._backend.placement import cuda_problem
from ..autograd.profiler import profile as _Profile
from ..autograd.profiler import record_function
from ..autograd.profiler_util import EventList

__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(IntEnum):
    """Where time is measured: on the CPU, on the GPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5

    def __str__(self) -> str:
        return f"ProfilerActivity.{self.name}"


class ProfilerAction(Enum):
    """What the profiler does during one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities() -> set[ProfilerActivity]:
    """What can be measured on this machine.

    >>> from flambeau.profiler import ProfilerActivity, supported_activities
    >>> ProfilerActivity.CPU in supported_activities()
    True
    """
    found = {ProfilerActivity.CPU}
    if cuda_problem() is None:
        found.add(ProfilerActivity.CUDA)
    return found


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of steps: `wait` without profiling, `warmup` with results thrown away, `active` recorded.

    Cycles repeat `repeat` times (0: always), after `skip_first` steps; `skip_first_wait` leaves out the first wait.

    >>> from flambeau.profiler import schedule
    >>> steps = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [steps(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule: wait={wait}, warmup={warmup}, repeat={repeat} and skip_first={skip_first} must "
            f"not be negative, active={active} must be positive"
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """A callback for `on_trace_ready` that writes each trace into a folder, as TensorBoard's profiler plugin reads it."""

    def handle(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class _KinetoProfile:
    """A profile that is started and stopped by hand: what `profile` adds a schedule to."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        given = set()
        for activity in activities if activities is not None else supported_activities():
            given.update(activity if isinstance(activity, dict) else (activity,))
        if not given:
            raise AssertionError("No valid profiler activities found")
        self.activities = given
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops or False, with_modules
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.profiler: _Profile | None = None
        self.use_device = (
            "cuda" if ProfilerActivity.CUDA in given and ProfilerActivity.CUDA in supported_activities() else None
        )
        self._metadata: dict[str, Any] = {}
        self._earlier: list[Any] = []

    def start(self) -> None:
        """Begins to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Ends the recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Gets ready; what ran before is forgotten, unless `acc_events` keeps it."""
        if self.acc_events and self.profiler is not None and self.profiler.function_events is not None:
            self._earlier += self.profiler.function_events
        self.profiler = _Profile(
            use_device=self.use_device, record_shapes=self.record_shapes, with_flops=self.with_flops,
            profile_memory=self.profile_memory, with_stack=self.with_stack, with_modules=self.with_modules,
            use_cpu=ProfilerActivity.CPU in self.activities,
        )  # fmt: skip

    def _opened(self, purpose: str) -> _Profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self.profiler

    def start_trace(self) -> None:
        """Begins to record, once prepared."""
        self._opened("starting trace").__enter__()

    def stop_trace(self) -> None:
        """Ends the recording."""
        self._opened("stopping trace").__exit__(None, None, None)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Stops or goes on with the recording in the middle of a profile."""
        if self.profiler is not None and ProfilerActivity.CPU in set(activities):
            self.profiler.toggle_collection_dynamic(enable, activities)

    def events(self) -> EventList:
        """All events of the last recorded steps, in the order in which they began."""
        found = self._opened("accessing events")._ensure_events()
        return found._alike([*self._earlier, *found]) if self._earlier else found

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Sums of the events by name; with `group_by_input_shape` by name and shapes. Print them with `.table()`."""
        self._opened("getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the trace as JSON (compressed if the name ends in .gz) for chrome://tracing or Perfetto."""
        profiler = self._opened("exporting chrome trace")
        if not path.endswith(".gz"):
            profiler.export_chrome_trace(path, self._metadata)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(plain, self._metadata)
            with open(plain, "rb") as source, gzip.open(path, "wb") as target:
                shutil.copyfileobj(source, target)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the places in the program and their times, for a flame graph; needs `with_stack`."""
        self._opened("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Not available: memory is counted by results, not followed over time."""
        raise NotImplementedError(
            "export_memory_timeline: only the memory of results is counted; use key_averages().table() with profile_memory"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Puts a text into the trace file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Puts a value, given as JSON, into the trace file."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> str | None:
        """The name of the trace, once it began."""
        return None if self.profiler is None else self.profiler.trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Chooses how traces are named."""
        self.custom_trace_id_callback = callback


class profile(_KinetoProfile):
    """Records operations inside a `with` block, or over the steps that `schedule` chooses.

    With a schedule, call `step()` after each step; `on_trace_ready(profile)` is called whenever a cycle is recorded.
    `profile_memory` counts the bytes of operations' results; `with_stack` notes the places in the program.

    >>> import flambeau as torch
    >>> from flambeau.profiler import ProfilerActivity, profile
    >>> with profile(activities=[ProfilerActivity.CPU]) as prof:
    ...     x = torch.ones(2, 2) @ torch.ones(2, 2)
    >>> print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=5))
    ---...
    ...Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
    ...aten::...
    Self CPU time total: ...
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn("use_cuda is deprecated, use the activities argument instead", FutureWarning, stacklevel=2)
            chosen = set(activities if activities is not None else supported_activities())
            activities = chosen | {ProfilerActivity.CUDA} if use_cuda else chosen - {ProfilerActivity.CUDA}
        super().__init__(
            activities=activities, record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack,
            with_flops=with_flops, with_modules=with_modules, experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer, acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback, post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip
        self.record_steps = schedule is not None
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: Any = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with the first step's action."""
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Ends the profile; what was recorded last goes to `on_trace_ready`."""
        self._end_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """Tells that the next step begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _change(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Goes from one step's action to the next one's; None is the end of the profile."""
        none, warmup, record, save = list(ProfilerAction)[:4]
        recording, records = before in (record, save), after in (record, save)
        if recording and (before is save or not records):
            if before is record and after is not None:
                warnings.warn(f"Incorrect schedule: RECORD followed by {after.name}", stacklevel=3)
            self.stop_trace()
            if before is save or after is None:
                self._trace_ready()
            recording = False
        elif before is warmup and after is none:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=3)
            self.profiler = None
        elif before is warmup and after is None:  # the profile ends here, without events of this cycle
            self.start_trace()
            self.stop_trace()
        if recording or after is None or after is none:
            return
        if before is not warmup or self.profiler is None:
            self.prepare_trace()
        if records:
            self.start_trace()


class ExecutionTraceObserver:
    """Takes PyTorch's place of an observer of executed operations; nothing is written here."""

    def __init__(self) -> None:
        self._file: str | None = None
        self.id = uuid.uuid4().hex

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Not available."""
        raise NotImplementedError("execution traces are not written; use profile(...).export_chrome_trace(path)")
