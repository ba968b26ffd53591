"""What a profile found: events, their averages by name, and the table and trace they are shown as."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel", "MemRecordsAcc"]

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class DeviceType(IntEnum):
    """Kinds of devices that an event ran on."""

    CPU = 0
    CUDA = 1
    MPS = 13
    Meta = 14

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"


class Interval:
    """A time from `start` to `end`, in microseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float):
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Work on a device that an event started; `duration` is in microseconds."""

    name: str
    device: int
    duration: float


def _format_time(time_us: float) -> str:
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def _format_time_share(time_us: float, total_us: float) -> str:
    return f"{time_us * 100 / total_us:.2f}%" if total_us else "NaN"


def _format_memory(nbytes: float) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _text_of(name: str) -> property:
    return property(lambda self: _format_time(getattr(self, name)))


class _Times:
    """Averages, and every time as text."""

    count: int
    cpu_time_total: Any
    device_time_total: Any
    self_cpu_time_total: Any
    self_device_time_total: Any
    self_device_memory_usage: Any
    device_memory_usage: Any

    @property
    def cpu_time(self) -> float:
        """The average time of one call on the CPU, what it called included, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The average time of one call on the device."""
        return self.device_time_total / self.count if self.count else 0.0

    cpu_time_str, cpu_time_total_str = _text_of("cpu_time"), _text_of("cpu_time_total")
    device_time_str, device_time_total_str = _text_of("device_time"), _text_of("device_time_total")
    self_cpu_time_total_str = _text_of("self_cpu_time_total")
    self_device_time_total_str = _text_of("self_device_time_total")
    # the names from the time when the device was always CUDA
    cuda_time = property(lambda self: self.device_time)
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    cuda_memory_usage = property(lambda self: self.device_memory_usage)
    self_cuda_memory_usage = property(lambda self: self.self_device_memory_usage)


class FunctionEvent(_Times):
    """One call of an operation or one labelled block.

    Memory is what the results of the call occupy (`self_…` without those of calls inside): temporary memory and
    memory that was freed are not counted. `flops` is given for products, convolutions, sums and products.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: list[Any] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "start_us", "end_us", "extra_meta")}
        self.__dict__.update(given)  # an event is a record of what it was given
        self.event_metadata = extra_meta
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.kernels: list[Kernel] = []

    @property
    def key(self) -> str:
        """What calls are grouped by: the name."""
        return self.name

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Adds work on a device, `duration` in microseconds."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Makes an event one that happened inside this one."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Says inside which event this one happened."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        return self._own("cpu_time_total")

    @property
    def self_cpu_memory_usage(self) -> int:
        return self._own("cpu_memory_usage")

    @property
    def self_device_memory_usage(self) -> int:
        return self._own("device_memory_usage")

    def _own(self, name: str) -> Any:
        """A sum without what calls inside add to it; nothing where calls inside are not known to be inside."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return getattr(self, name) - sum(getattr(child, name) for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        if self.device_type != DeviceType.CPU:
            return self.device_time_total
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} {self.use_device}_time={self.device_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage} seq_nr={self.sequence_nr}>"
        )


_SUMS = (
    "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "count", "flops",
)  # fmt: skip


class FunctionEventAvg(_Times):
    """The sums over events of one name (and shapes, and place in the program, where asked)."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.node_id, self.is_async, self.is_remote, self.is_legacy, self.overload_name = -1, False, False, False, ""
        for name in _SUMS:
            setattr(self, name, 0)
        self.input_shapes: Any = None
        self.stack: list[str] = []
        self.scope: int | None = None
        self.use_device: str | None = None
        self.device_type = DeviceType.CPU
        self.is_user_annotation = False
        self.cpu_children: list[Any] = []
        self.cpu_parent: Any = None

    def add(self, other: Any) -> FunctionEventAvg:
        """Adds an event or a sum of events."""
        if self.key is None:
            self.key, self.input_shapes, self.stack, self.scope = (
                other.key,
                other.input_shapes,
                other.stack,
                other.scope,
            )
            self.use_device, self.device_type = other.use_device, other.device_type
            self.is_user_annotation, self.cpu_parent = other.is_user_annotation, other.cpu_parent
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + (getattr(other, name) or 0))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_{device}_time={self.self_device_time_total_str} {device}_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


class MemRecordsAcc:
    """Memory records by time, to sum those inside an interval."""

    def __init__(self, mem_records: list[Any]):
        self.records = sorted(mem_records, key=lambda record: record[0].start_ns())

    def in_interval(self, start_us: float, end_us: float) -> Iterable[Any]:
        """The records between two times."""
        return (r for r in self.records if start_us <= r[0].start_ns() / 1000 <= end_us)


class EventList(list[Any]):
    """Events, or sums of events, that print as a table."""

    def __init__(
        self, *args: Any, use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False
    ):
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops

    def __str__(self) -> str:
        return self.table()

    def _populate_cpu_children(self) -> None:
        """Tells events of one thread which of them began and ended inside of which; where two only overlap, the later
        one takes over."""
        threads: dict[Any, list[Any]] = {}
        for event in self:
            if event.device_type == DeviceType.CPU and not event.is_async:
                threads.setdefault((event.thread, event.node_id), []).append(event)
        for events in threads.values():
            open_events: list[Any] = []
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while open_events:
                    parent = open_events[-1]
                    if event.time_range.start < parent.time_range.end and event.time_range.end <= parent.time_range.end:
                        parent.append_cpu_child(event)
                        event.set_cpu_parent(parent)
                        break
                    open_events.pop()
                open_events.append(event)

    def _alike(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without what it called, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, a row each, sorted by one of the columns' attributes such as "cpu_time_total"."""
        events = self
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events = self._alike(sorted(self, key=lambda event: getattr(event, name), reverse=True))
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        return _Table(self, events, time_unit, widths).text(row_limit, header, top_level_events_only)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Sums of the events that have the same name (and the same shapes, and the same n innermost places)."""
        groups: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key = (event.key, event.device_type, event.is_user_annotation)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n:
                key += tuple(event.stack[:group_by_stack_n])
            groups[key].add(event)
        for group in groups.values():
            group.stack = group.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                group.input_shapes = ""
        return self._alike(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as JSON that chrome://tracing and Perfetto open."""
        with open(path, "w") as file:
            json.dump(trace_of(self), file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can weigh stacks by."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Writes one line for each event with a stack: its frames, outermost first, and the metric."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        name = metric.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        clean = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                if event.stack and int(getattr(event, name)) > 0:
                    frames = ";".join(entry.translate(clean) for entry in reversed(event.stack))
                    file.write(f"{frames} {int(getattr(event, name))}\n")


def trace_of(events: Iterable[FunctionEvent], process: int = 0, more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Events in the Trace Event format: the object that becomes the JSON file."""
    entries: list[dict[str, Any]] = list(more)
    threads: dict[Any, None] = {}
    for index, event in enumerate(events):
        threads[event.thread] = None
        arguments: dict[str, Any] = {"External id": event.id, "Ev Idx": index}
        if event.input_shapes:
            arguments["Input Dims"] = event.input_shapes
        if event.sequence_nr >= 0:
            arguments["Sequence number"] = event.sequence_nr
        if event.stack:
            arguments["Call stack"] = ";".join(event.stack)
        if event.self_cpu_memory_usage or event.self_device_memory_usage:
            arguments["Bytes"] = event.self_cpu_memory_usage + event.self_device_memory_usage
        entry = {
            "ph": "X",
            "name": event.trace_name,
            "pid": process,
            "ts": event.time_range.start,
            "dur": event.cpu_time_total,
        }
        category = "user_annotation" if event.is_user_annotation else "cpu_op"
        entries.append({**entry, "cat": category, "tid": event.thread, "args": arguments})
        for kernel in event.kernels:
            stream = f"{event.use_device} {kernel.device}"
            entries.append({**entry, "cat": "kernel", "tid": stream, "name": kernel.name, "dur": kernel.duration})
    names = [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": t, "ts": 0, "args": {"name": f"thread {t}"}}
        for t in threads
    ]
    return {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", "traceEvents": names + entries}


class _Table:
    """Lays out the rows of `EventList.table`."""

    def __init__(self, all_events: EventList, events: EventList, unit: str | None, widths: tuple[int, int, int]):
        self.events, self.unit, self.widths = events, unit, widths
        self.device = (all_events._use_device or "").upper()
        self.memory, self.flops = all_events._profile_memory, all_events._with_flops
        self.cpu_total = sum(e.self_cpu_time_total for e in all_events if e.device_type is DeviceType.CPU)
        self.device_total = sum(e.self_device_time_total for e in all_events)
        self.shapes = any(e.input_shapes for e in events)
        self.stacks = any(e.stack for e in events)
        self.columns: list[tuple[str, int]] = []
        self._choose_columns()

    def time(self, us: float) -> str:
        return _format_time(us) if self.unit is None else f"{us / _UNITS[self.unit]:.3f}{self.unit}"

    def _width(self, texts: Iterable[str], largest: int) -> int:
        longest = max((len(text) for text in texts), default=0) + 4
        return min(longest, largest) if largest > 0 else longest

    def _choose_columns(self) -> None:
        names = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        d = self.device
        if d:
            names += [f"Self {d}", f"Self {d} %", f"{d} total", f"{d} time avg"]
        if self.memory:
            names += ["CPU Mem", "Self CPU Mem"] + ([f"{d} Mem", f"Self {d} Mem"] if d else [])
        names.append("# of Calls")
        self.name_width = self._width((e.key for e in self.events), self.widths[0])
        self.columns = [("Name", self.name_width), *((name, max(12, len(name))) for name in names)]
        if self.shapes:
            self.shapes_width = self._width((str(e.input_shapes) for e in self.events), self.widths[1])
            self.columns.append(("Input Shapes", max(12, self.shapes_width)))
        if self.stacks:
            width = self._width((entry for e in self.events for entry in e.stack), self.widths[2])
            self.columns.append(("Source Location", max(15, width)))
        found = [e.flops for e in self.events if e.flops > 0] if self.flops else []
        if found:
            step = max(0, min(int(math.log10(min(found)) / 3), 5))
            self.scale = 10.0 ** (3 * step)
            unit = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[step]
            self.columns.append((f"Total {unit}", max(12, len(unit) + 6)))
        else:
            self.flops = False

    def _row(self, event: Any) -> list[str]:
        cells = [
            _short(event.key, self.name_width),
            _format_time_share(event.self_cpu_time_total, self.cpu_total),
            self.time(event.self_cpu_time_total),
            _format_time_share(event.cpu_time_total, self.cpu_total) if not event.is_async else "0",
            self.time(event.cpu_time_total),
            self.time(event.cpu_time),
        ]
        if self.device:
            cells += [
                self.time(event.self_device_time_total),
                _format_time_share(event.self_device_time_total, self.device_total),
                self.time(event.device_time_total),
                self.time(event.device_time),
            ]
        if self.memory:
            cells += [_format_memory(event.cpu_memory_usage), _format_memory(event.self_cpu_memory_usage)]
            if self.device:
                cells += [_format_memory(event.device_memory_usage), _format_memory(event.self_device_memory_usage)]
        cells.append(str(event.count))
        if self.shapes:
            cells.append(_short(str(event.input_shapes), self.shapes_width))
        if self.stacks:
            cells.append(_tail(event.stack[0], self.columns[len(cells)][1]) if event.stack else "")
        if self.flops:
            cells.append(f"{event.flops / self.scale:.3f}" if event.flops > 0 else "--")
        return cells

    def text(self, limit: int, header: str | None, top_level: bool) -> str:
        rule = "".join("-" * width + "  " for _, width in self.columns)
        lines: list[str] = []
        if header is not None:
            lines += ["=" * len(rule), header]
        if top_level:
            lines += ["=" * len(rule), "This report only display top-level ops statistics"]
        lines += [rule, self._line([name for name, _ in self.columns]), rule]
        shown = 0
        for event in self.events:
            if shown == limit:
                break
            if top_level and event.cpu_parent is not None:
                continue
            shown += 1
            lines.append(self._line(self._row(event)))
            place = next((i for i, (name, _) in enumerate(self.columns) if name == "Source Location"), 0)
            for entry in event.stack[1:] if self.stacks else ():
                cells = [""] * len(self.columns)
                cells[place] = _tail(entry, self.columns[place][1])
                lines.append(self._line(cells))
        lines += [rule, f"Self CPU time total: {self.time(self.cpu_total)}"]
        if self.device:
            lines.append(f"Self {self.device} time total: {self.time(self.device_total)}")
        return "\n".join(lines) + "\n"

    def _line(self, cells: list[str]) -> str:
        return "".join(f"{cell:>{width}}  " for cell, (_, width) in zip(cells, self.columns, strict=True))


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _tail(text: str, width: int) -> str:
    """A place in the program, whose end says most."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]
