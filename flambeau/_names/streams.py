"""`torch.Stream` and `torch.Event`: queues of work on any device. Work on the CPU is done when the call returns."""

from __future__ import annotations

import time
from typing import Any

from .. import cuda
from .._core.devices import device as _device


def _of(device: Any) -> _device:
    if device is None:
        return _device("cuda", cuda.current_device()) if cuda.is_available() else _device("cpu")
    return _device("cuda", device) if isinstance(device, int) else _device(device)


class _Work:
    _inner: Any  # what it is on a GPU

    def query(self) -> bool:
        """Whether all work is done that it stands for."""
        return True if self._inner is None else self._inner.query()

    def synchronize(self) -> None:
        """Waits for that work."""
        if self._inner is not None:
            self._inner.synchronize()


class Stream(_Work):
    """A queue of work on a device.

    >>> from flambeau._names.streams import Stream
    >>> Stream("cpu").query()
    True
    """

    def __init__(self, device: Any = None, *, priority: int = 0):
        self.device = _of(device)
        self._inner = cuda.Stream(self.device, priority) if self.device.type == "cuda" else None
        self.device_index = -1 if self.device.index is None else self.device.index
        self.stream_id = 0 if self._inner is None else id(self._inner)
        self._context: Any = None

    def wait_stream(self, stream: Stream) -> None:
        """Work that comes later waits for the work of another stream."""
        if self._inner is not None and stream._inner is not None:
            self._inner.wait_stream(stream._inner)

    def wait_event(self, event: Event) -> None:
        """Work that comes later waits for an event."""
        if self._inner is not None and event._inner is not None:
            self._inner.wait_event(event._inner)

    def record_event(self, event: Event | None = None) -> Event:
        """An event after the work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        if self._inner is not None:
            self._context = cuda.stream(self._inner)
            self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._context is not None:
            self._context.__exit__(*error)

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"
        )


class Event(_Work):
    """A mark in a queue of work."""

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ):
        self.device = _of(device)
        self._inner = cuda.Event(enable_timing=enable_timing, blocking=blocking) if self.device.type == "cuda" else None
        self._time = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Puts the mark behind the work so far."""
        self._time = time.perf_counter()
        if self._inner is not None:
            self._inner.record(None if stream is None else stream._inner)

    def wait(self, stream: Stream | None = None) -> None:
        """Work of a stream that comes later waits for the mark."""
        if self._inner is not None:
            self._inner.wait(None if stream is None else stream._inner)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two marks."""
        if self._inner is not None and end_event._inner is not None:
            return self._inner.elapsed_time(end_event._inner)
        return (end_event._time - self._time) * 1000

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return f"torch.Event device_type={self.device.type}, device_index={index}, event_flag=0, event_id=0"
