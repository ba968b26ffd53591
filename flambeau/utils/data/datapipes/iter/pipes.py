"""The steps for streams: mapping, filtering, batching, joining and shuffling."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ....._errors.frames import warn_user
from ..._utils.collate import default_collate
from ...sampler import SequentialSampler, draw_seed
from .._decorator import functional_datapipe
from .._joining import Batching, Concatenating, length_of
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import validate_input_col


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """Any iterable as a pipe; copied for each pass, so that the original stays as it is."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(self.iterable)
            except TypeError:
                warn_user("the iterable cannot be copied: passes over it are not independent")
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


def check_streams(step: str, datapipes: tuple[Any, ...]) -> None:
    """TypeError if one of them is no stream."""
    for pipe in datapipes:
        if not isinstance(pipe, IterDataPipe):
            raise TypeError(f"{step}: Expected all inputs to be `IterDataPipe`, but got {type(pipe).__name__}")


def _picked(sample: Any, columns: Any) -> tuple[Any, ...]:
    if columns is None:
        return (sample,)
    return tuple(sample[c] for c in columns) if isinstance(columns, (list, tuple)) else (sample[columns],)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """Applies a function to every sample, or to columns of it (`input_col`), into a column (`output_col`)."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("map: `output_col` must be None when `input_col` is None")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("map: `output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply(self, sample: Any) -> Any:
        value = self.fn(*_picked(sample, self.input_col))
        if self.input_col is None:
            return value
        changed = list(sample) if isinstance(sample, tuple) else copy.copy(sample)
        if self.output_col == -1:
            changed.append(value)
        elif self.output_col is not None:
            changed[self.output_col] = value
        else:  # in place of the first column; the others are used up
            first, *others = self.input_col if isinstance(self.input_col, (list, tuple)) else (self.input_col,)
            changed[first] = value
            for column in sorted(others, reverse=True):
                del changed[column]
        return tuple(changed) if isinstance(sample, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self._apply(sample)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Joins the samples of each batch."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Callable[..., Any] | None = None) -> None:
        super().__init__(datapipe, fn=collate_fn or conversion or default_collate)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """Lets pass the samples (or columns of them) for which a function is true."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            passes = self.filter_fn(*_picked(sample, self.input_col))
            if not isinstance(passes, (bool, np.bool_)):
                raise ValueError(f"Boolean output is required for `filter_fn`, got {type(passes).__name__}")
            if passes:
                yield sample


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, IterDataPipe[Any]):
    """Puts so many samples together."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """Takes batches apart, so many levels deep; -1 for all."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield from self._parts(sample, self.unbatch_level)

    def _parts(self, sample: Any, level: int) -> Iterator[Any]:
        if level < -1:
            raise ValueError(f"unbatch: unbatch_level must be -1 or more, but is {level}")
        if level == 0 or (level == -1 and not isinstance(sample, (list, DataChunk))):
            yield sample
        elif isinstance(sample, (list, DataChunk)):
            for part in sample:
                yield from self._parts(part, level if level == -1 else level - 1)
        else:
            raise IndexError(f"unbatch: there are fewer than {self.unbatch_level} levels of batches")


@functional_datapipe("concat")
class ConcaterIterDataPipe(Concatenating, IterDataPipe[Any]):
    """Streams one after the other."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__(*datapipes)
        check_streams("concat", datapipes)

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[Any]):
    """Tuples of one sample from each stream, until one ends."""

    def __init__(self, *datapipes: Any) -> None:
        check_streams("zip", datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes)

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """A sample from each stream in turn, until one ends."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes):
            yield from samples

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes) * len(self.datapipes)


class SamplerIterDataPipe(IterDataPipe[Any]):
    """The order of a sampler over a pipe."""

    def __init__(self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: Any = None,
                 sampler_kwargs: Any = None) -> None:  # fmt: skip
        if not hasattr(datapipe, "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        options = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.datapipe, self.sampler = datapipe, sampler(*(sampler_args or ()), **options)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe[Any]):
    """Random order, as far as a buffer of samples allows."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError(f"buffer_size should be larger than 0, but is {buffer_size}")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size, self._enabled, self._seed, self._rng = buffer_size, True, None, random.Random()

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Turns the shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Chooses the order of the next pass."""
        self._seed = seed  # type: ignore[assignment]
        return self

    def reset(self) -> None:
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
            else:
                place = self._rng.randint(0, len(buffer) - 1)
                value, buffer[place] = buffer[place], sample
                yield value
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
