"""One stream as several: copies of it (`fork`), or its samples by kind (`demux`).

All parts read the source in one pass, whoever is first; what the others have not read yet waits in a buffer.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ....._errors.frames import warn_user
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe


class _Split(IterDataPipe[Any]):
    """What the parts share: the pass over the source, and what waits for each part."""

    name: str

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int) -> None:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if buffer_size == 0:
            raise ValueError(f"{self.name}: expected a buffer_size larger than 0, or -1 for any number, but got 0")
        if buffer_size < 0:
            warn_user(f"{self.name}: the buffer may grow without end (buffer_size={buffer_size})")
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        self.begin()

    def begin(self) -> None:
        """A new pass: iterators of the one before it end."""
        self.number = getattr(self, "number", 0) + 1
        self._source: Any = None
        self._waiting: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def __getstate__(self) -> Any:
        hook = type(self).getstate_hook
        state = {name: value for name, value in self.__dict__.items() if name not in ("_source", "_waiting")}
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.begin()

    def read(self, place: int, number: int) -> Iterator[Any]:
        """The samples of a part."""
        while True:
            if self.number != number:
                raise RuntimeError(
                    "This iterator has been invalidated, because a new iterator has been created from one of the parts of "
                    f"{self!r}: read all parts in one pass, or make a pipe for each"
                )
            if not self._waiting[place]:
                if self._source is None:
                    self._source = iter(self.main_datapipe)
                try:
                    sample = next(self._source)
                except StopIteration:
                    return
                self.hand_out(sample)
                self.check_room(place)
                continue
            yield self._waiting[place].popleft()

    def hand_out(self, sample: Any) -> None:
        """Puts a sample where it belongs."""
        raise NotImplementedError

    def check_room(self, place: int) -> None:
        """BufferError if too much waits for the parts that are not read."""
        if 0 <= self.buffer_size < self.others(place):
            raise BufferError(
                f"{self!r} buffer overflow, buffer size {self.buffer_size} is insufficient: "
                "read the parts by turns, or give a larger buffer_size"
            )

    def others(self, place: int) -> int:
        """How many samples wait while part `place` is read."""
        raise NotImplementedError


class _ChildDataPipe(IterDataPipe[Any]):
    """A part of a stream that was split."""

    def __init__(self, main_datapipe: _Split, instance_id: int) -> None:
        self.main_datapipe, self.instance_id, self._pass = main_datapipe, instance_id, 0

    def __iter__(self) -> Iterator[Any]:
        main = self.main_datapipe
        if self._pass == main.number:  # it has been read in this pass
            main.begin()
        self._pass = main.number
        return main.read(self.instance_id, main.number)

    def __len__(self) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]


class _Forker(_Split):
    name = "fork"

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int, copied: str | None) -> None:
        if copied not in (None, "shallow", "deep"):
            raise ValueError(f"fork: copy must be None, 'shallow' or 'deep', but is {copied!r}")
        super().__init__(datapipe, num_instances, buffer_size)
        self.copied = copied

    def hand_out(self, sample: Any) -> None:
        for part in self._waiting:
            part.append(
                sample
                if self.copied is None
                else copy.copy(sample)
                if self.copied == "shallow"
                else copy.deepcopy(sample)
            )

    def others(self, place: int) -> int:
        return max(map(len, self._waiting))

    def __len__(self) -> int:
        return len(self.main_datapipe)

    def __repr__(self) -> str:
        return "ForkerIterDataPipe"


class _Demultiplexer(_Split):
    name = "demux"

    def __init__(
        self, datapipe: Any, num_instances: int, classifier_fn: Callable[..., Any], drop_none: bool, buffer_size: int
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def hand_out(self, sample: Any) -> None:
        kind = self.classifier_fn(sample)
        if kind is None and self.drop_none:
            return
        if kind is None or not 0 <= kind < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {kind} is returned."
            )
        self._waiting[kind].append(sample)

    def others(self, place: int) -> int:
        return sum(map(len, self._waiting)) - len(self._waiting[place])

    def __repr__(self) -> str:
        return "DemultiplexerIterDataPipe"

    def __len__(self) -> int:
        raise TypeError("the parts of DemultiplexerIterDataPipe have no valid length: it depends on the samples")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """So many copies of a stream, which is read once: each sample waits for the slowest of them.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> first, second = IterableWrapper(range(3)).fork(2)
    >>> list(first), list(second)
    ([0, 1, 2], [0, 1, 2])
    """

    def __new__(cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        main = _Forker(datapipe, num_instances, buffer_size, copy)
        return datapipe if num_instances == 1 else [_ChildDataPipe(main, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """A stream for each kind of samples: `classifier_fn` gives the number of the stream that a sample goes to.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> even, odd = IterableWrapper(range(5)).demux(2, lambda n: n % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls, datapipe: Any, num_instances: int, classifier_fn: Callable[..., Any], drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:  # fmt: skip
        main = _Demultiplexer(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(main, i) for i in range(num_instances)]
