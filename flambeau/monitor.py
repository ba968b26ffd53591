"""Events and statistics of a running program: whoever registers a handler is called with what is logged."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "STAT_EVENT", "Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "log_event", "register_event_handler",
    "unregister_event_handler",
]  # fmt: skip

STAT_EVENT = "torch.monitor.Stat"

_lock = threading.RLock()
_handlers: dict[EventHandlerHandle, Callable[[Event], Any]] = {}


class Event:
    """Something that happened: a name that all of its kind share, when it was, and what there is to say about it.

    >>> from datetime import datetime
    >>> import flambeau as torch
    >>> torch.monitor.Event("epoch", datetime.now(), {"loss": 0.5}).data
    {'loss': 0.5}
    """

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, float | int | bool | str]):
        if not isinstance(name, str) or not isinstance(timestamp, datetime) or not isinstance(data, Mapping):
            raise TypeError(f"Event(): expected a str, a datetime and a dict, got {name!r}, {timestamp!r}, {data!r}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, int, float)):
                raise TypeError(f"Event(): data must have numbers and texts under names, got {key!r}: {value!r}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` gives to unregister the handler by."""


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """From now on calls a function with each event that is logged.

    >>> import flambeau as torch
    >>> seen = []
    >>> handle = torch.monitor.register_event_handler(lambda event: seen.append(event.name))
    >>> stat = torch.monitor.Stat("loss", [torch.monitor.Aggregation.MEAN], timedelta(seconds=60), max_samples=2)
    >>> stat.add(0.5), stat.add(0.25)
    (None, None)
    >>> torch.monitor.unregister_event_handler(handle)
    >>> seen
    ['torch.monitor.Stat']
    """
    handle = EventHandlerHandle()
    with _lock:
        _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """The function behind the handle is called no more."""
    with _lock:
        _handlers.pop(handler, None)


def log_event(event: Event) -> None:
    """Calls all registered handlers with an event."""
    with _lock:
        handlers = list(_handlers.values())
    for handler in handlers:
        handler(event)


class Aggregation(enum.Enum):
    """What a `Stat` makes of the numbers of a window."""

    VALUE, MEAN, COUNT, SUM, MAX, MIN = 0, 2, 3, 4, 5, 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation

_AGGREGATE: dict[Aggregation, Callable[[list[float]], float]] = {
    VALUE: lambda values: values[-1],
    MEAN: lambda values: sum(values) / len(values),
    COUNT: lambda values: float(len(values)),
    SUM: sum,
    MAX: max,
    MIN: min,
}


class Stat:
    """Numbers of a window of time, which are logged together as one event when the window is over.

    Once there are `max_samples` numbers they are logged, and further ones of the window do not count. What is left when the object is
    deleted is logged, too.
    """

    def __init__(
        self, name: str, aggregations: Iterable[Aggregation], window_size: timedelta, max_samples: int | None = None
    ):
        self.name, self._aggregations = name, list(dict.fromkeys(aggregations))
        self._window, self._most = window_size.total_seconds(), max_samples
        self._values: list[float] = []
        self._began, self._full = time.monotonic(), False
        self._lock = threading.RLock()

    @property
    def count(self) -> int:
        """How many numbers the window has so far."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Adds a number to the window; one that is over is logged first."""
        with self._lock:
            now = time.monotonic()
            if now - self._began >= self._window:
                self._log()
                self._began, self._full = now, False
            if not self._full:
                self._values.append(float(v))
            if self._most is not None and len(self._values) >= self._most:
                self._log()
                self._full = True

    def get(self) -> dict[Aggregation, float]:
        """The aggregations of the window as it stands; zeros if it is empty."""
        with self._lock:
            return {a: _AGGREGATE[a](self._values) if self._values else 0.0 for a in self._aggregations}

    def _log(self) -> None:
        if self._values:
            data = {f"{self.name}.{a.name.lower()}": value for a, value in self.get().items()}
            self._values = []
            log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self._log()


class TensorboardEventHandler:
    """A handler that writes the events of `Stat` to a `SummaryWriter` as scalars."""

    def __init__(self, writer: Any):
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
