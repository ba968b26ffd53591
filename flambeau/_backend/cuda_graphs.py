"""CUDA graphs of work that is told to the GPU by machine code: recorded in a stream beside the usual one, done again by one launch."""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any


class Beside:
    """A block whose work goes to another stream: after what the usual one was told before, and before what it will be told."""

    def __init__(self, cuda: Any, usual: Any):
        self.usual, self.stream = usual, cuda.Stream(non_blocking=True)
        self.begins, self.ends = [cuda.Event(disable_timing=True) for _ in range(2)]

    def __enter__(self) -> None:
        self.begins.record(self.usual)
        self.stream.wait_event(self.begins)
        self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.stream.__exit__(*error)
        self.ends.record(self.stream)
        self.usual.wait_event(self.ends)


class Graphs:
    """The streams in which a GPU's graphs are recorded: one for each that uses them, as memory that graphs share is used by one at a time."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.beside: dict[int, Beside] = {}

    def __call__(self) -> Beside:
        """A block in the stream beside the current one."""
        stream = self.backend.xp.cuda.get_current_stream()
        found = self.beside.get(stream.ptr)
        if found is None:
            found = self.beside[stream.ptr] = Beside(self.backend.xp.cuda, stream)
        return found

    def recorded(self, work: Callable[[], int]) -> Any:
        """The graph of what machine code tells the current stream; None if that cannot be recorded. `work()` gives 0 if it succeeds."""
        stream = self.backend.xp.cuda.get_current_stream()
        stream.begin_capture()
        left, graph = -1, None
        try:
            left = work()
        finally:
            try:
                graph = stream.end_capture()
            except Exception:  # CuPy's own class: something in it cannot be recorded
                left = -1
        return None if left else graph


def holders(array: Any) -> tuple[int, int, int]:
    """How many have an array on the GPU, the place where it begins, and the memory there."""
    place = array.data
    return getrefcount(array), getrefcount(place), getrefcount(place.mem)
