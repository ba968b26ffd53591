"""Samplers: the order in which a dataset's samples are read, and how they are cut into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..._core.dtypes import float64, int64
from ..._ops.making.generator import Generator
from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip

_T_co = TypeVar("_T_co", covariant=True)
_CHUNK = 1 << 16  # keys made at once by a sampler that needs none of the others
_REPLACED = 32  # keys drawn at once with replacement, which the stream of random numbers shows


def draw_seed(generator: Any = None) -> int:
    """A number that seeds another stream."""
    return int(ops.empty((), dtype=int64).random_(generator=generator).item())


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value!r}")


class Sampler(Generic[_T_co]):
    """An order of keys: subclasses define `__iter__`, and `__len__` where it is known.

    A sampler of numbers may also define `_orders`, which yields the same keys as arrays.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """All keys from 0 upward."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def _orders(self) -> Iterator[Any]:
        count = len(self.data_source)
        for start in range(0, count, _CHUNK):
            yield np.arange(start, min(start + _CHUNK, count))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Keys in random order: each once, or drawn anew every time with `replacement`.

    >>> import flambeau as torch
    >>> from flambeau.utils.data import RandomSampler
    >>> sorted(RandomSampler("abc", generator=torch.Generator().manual_seed(0)))
    [0, 1, 2]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement!r}")
        _positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _orders(self) -> Iterator[Any]:
        count, wanted, generator = len(self.data_source), self.num_samples, self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            for _ in range(wanted // _REPLACED):
                yield ops.randint(count, (_REPLACED,), dtype=int64, generator=generator)._array
            yield ops.randint(count, (wanted % _REPLACED,), dtype=int64, generator=generator)._array
        else:
            for _ in range(wanted // count):
                yield ops.randperm(count, generator=generator)._array
            # drawn even if nothing is left, as those who share the generator expect
            yield ops.randperm(count, generator=generator)._array[: wanted % count]

    def __iter__(self) -> Iterator[int]:
        for order in self._orders():
            yield from order.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some keys in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Keys drawn with the given weights, which need not sum to 1."""

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement!r}")
        self.weights = ops.as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights must be one sequence of numbers, but have the shape {tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def _orders(self) -> Iterator[Any]:
        yield ops.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)._array

    def __iter__(self) -> Iterator[int]:
        for order in self._orders():
            yield from order.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` keys of another sampler; the last may be shorter, unless `drop_last`.

    >>> from flambeau.utils.data import BatchSampler
    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last must be a bool, but got {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        keys = iter(self.sampler)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def _rows(self) -> Iterator[Any] | None:
        """The batches as arrays of numbers, if the sampler below can give them and no subclass has its own way."""
        if type(self).__iter__ is not BatchSampler.__iter__:
            return None
        made_by = next((c for c in type(self.sampler).__mro__ if "__iter__" in vars(c)), None)
        if "_orders" not in vars(made_by or object):
            return None
        return self._cut(self.sampler._orders())  # type: ignore[union-attr]

    def _cut(self, orders: Iterator[Any]) -> Iterator[Any]:
        size, rest = self.batch_size, None
        for order in orders:
            if rest is not None and len(rest):
                order = np.concatenate((rest, order))
            whole = len(order) - len(order) % size
            for start in range(0, whole, size):
                yield order[start : start + size]
            rest = order[whole:]
        if rest is not None and len(rest) and not self.drop_last:
            yield rest

    def __len__(self) -> int:
        whole, left = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole if self.drop_last or not left else whole + 1
