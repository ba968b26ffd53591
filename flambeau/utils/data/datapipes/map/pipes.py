"""The steps for samples with keys: mapping, batching, joining and shuffling."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....._errors.frames import warn_user
from ...sampler import draw_seed
from .._decorator import functional_datapipe
from .._joining import Batching, Concatenating
from ..datapipe import IterDataPipe, MapDataPipe


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """Any sequence or mapping as a pipe; copied, so that the original stays as it is."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warn_user("the sequence cannot be copied: the pipe reads the original")

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def as_it_is(sample: Any) -> Any:
    """The sample; a function with a name, so that pipes can be pickled."""
    return sample


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """Applies a function to every sample."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any] = as_it_is) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class BatcherMapDataPipe(Batching, MapDataPipe[Any]):
    """Puts so many samples together."""

    def __getitem__(self, index: int) -> Any:
        start = index * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))
        if not 0 <= index < len(self):
            raise IndexError(f"batch: index {index} is out of range for {len(self)} batches")
        return self.wrapper_class([self.datapipe[i] for i in range(start, stop)])


@functional_datapipe("concat")
class ConcaterMapDataPipe(Concatenating, MapDataPipe[Any]):
    """Pipes one after the other."""

    def __getitem__(self, index: int) -> Any:
        left = index
        for pipe in self.datapipes:
            if left < len(pipe):
                return pipe[left]
            left -= len(pipe)
        raise IndexError(f"concat: index {index} is out of range for {len(self)} samples")


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[Any]):
    """Tuples of one sample from each pipe."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("zip: Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> Any:
        if not index < len(self):
            raise IndexError(f"zip: index {index} is out of range for {len(self)} samples")
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


class ShufflerIterDataPipe(IterDataPipe[Any]):
    """The samples of a pipe with keys as a stream in random order."""

    def __init__(self, datapipe: Any, *, indices: Sequence[Any] | None = None) -> None:
        self.datapipe, self._enabled, self._seed, self._rng = datapipe, True, None, random.Random()
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Turns the shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Chooses the order of the next pass."""
        self._seed = seed  # type: ignore[assignment]
        return self

    def __iter__(self) -> Iterator[Any]:
        order = list(self.indices)
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None
            self._rng.shuffle(order)
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
