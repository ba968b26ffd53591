"""What batching and joining have in common for streams and for samples with keys: their arguments and lengths."""

from __future__ import annotations

from typing import Any

from .datapipe import DataChunk


def length_of(pipe: Any, source: Any) -> int:
    """The length of what a pipe reads from; TypeError if it has none, so that the pipe has none either."""
    try:
        return len(source)
    except TypeError as error:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length") from error


class Batching:
    """So many samples of a pipe together."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(f"batch: the batch_size must be positive, but is {batch_size}")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __len__(self) -> int:
        whole, left = divmod(length_of(self, self.datapipe), self.batch_size)
        return whole if self.drop_last or not left else whole + 1


class Concatenating:
    """One pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("concat: Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe in self.datapipes)
