"""Samples put together by a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Batches of samples for which a function gives the same key.

    A group is complete with `group_size` samples. If `buffer_size` samples wait, the largest group is given as it is; one
    that is smaller than `guaranteed_group_size` is dropped (`drop_remaining`) or an error. `keep_key` gives pairs.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(lambda name: name[0]))
    [['a1', 'a2'], ['b1']]
    """

    def __init__(
        self, datapipe: Any, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False, buffer_size: int = 10000,
        group_size: int | None = None, guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        if buffer_size <= 0:
            raise ValueError(f"groupby: the buffer_size must be positive, but is {buffer_size}")
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise ValueError(f"groupby: the group_size must be between 1 and the buffer_size, but is {group_size}")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise ValueError("groupby: guaranteed_group_size must be between 1 and a group_size that is given")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        waiting = 0
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = groups.setdefault(key, [])
            group.append(sample)
            waiting += 1
            if len(group) == self.group_size:
                yield self._made(key, groups.pop(key))
                waiting -= len(group)
            elif waiting == self.max_buffer_size:
                key = max(groups, key=lambda k: len(groups[k]))
                group = groups.pop(key)
                waiting -= len(group)
                if len(group) >= (self.guaranteed_group_size or 0):
                    yield self._made(key, group)
                elif not self.drop_remaining:
                    raise RuntimeError(
                        f"Failed to group items: the buffer is full, and the largest group has only {len(group)} of "
                        f"{self.guaranteed_group_size} samples ({group!r:.100}); give a larger buffer_size"
                    )
        for key, group in groups.items():
            yield self._made(key, group)

    def _made(self, key: Any, group: list[Any]) -> Any:
        batch: Any = DataChunk(group)
        return (key, batch) if self.keep_key else batch
