"""Collections of samples: what a `DataLoader` reads from, and ways to join, pair and divide them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..._errors.frames import warn_user
from ..._ops.making.generator import Generator, default_generator
from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples found by a key. Subclasses define `__getitem__` and, for most samplers, `__len__`.

    `__getitems__`, where defined, takes a list of keys and gives the list of their samples at once.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples that come one after the other. Subclasses define `__iter__`.

    Each worker of a `DataLoader` has a copy: `get_worker_info` tells a copy which part of the data is its own.
    """

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples from the rows of tensors.

    >>> import flambeau as torch
    >>> from flambeau.utils.data import TensorDataset
    >>> TensorDataset(torch.eye(2), torch.tensor([5, 6]))[1]
    (tensor([0., 1.]), tensor(6))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [t.size(0) for t in tensors]
        if any(n != lengths[0] for n in lengths):
            raise AssertionError(f"Size mismatch between tensors: their first dimensions are {lengths}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Samples from several datasets side by side: tuples, or dicts where the datasets are given by name.

    >>> from flambeau.utils.data import StackDataset
    >>> StackDataset(x=[1, 2], y=["a", "b"])[1]
    {'x': 2, 'y': 'b'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Dataset[_T_co], **kwargs: Dataset[_T_co]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either positional datasets (then samples are tuples) or named ones (then dictionaries), but both were given"
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        given = list(args or kwargs.values())
        self._length = len(given[0])  # type: ignore[arg-type]
        if any(self._length != len(each) for each in given):  # type: ignore[arg-type]
            raise ValueError(f"Size mismatch between datasets: {[len(each) for each in given]}")  # type: ignore[arg-type]
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            rows: list[Any] = [{} for _ in indices]
            for name, each in self.datasets.items():
                for row, sample in zip(rows, _samples(each, indices)):
                    row[name] = sample
            return rows
        return list(zip(*[_samples(each, indices) for each in self.datasets]))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: list[Any]) -> list[Any]:
    """Several samples at once if the dataset can, else one by one."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)} from {type(dataset).__name__}"
        )
    return items


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other.

    >>> from flambeau.utils.data import ConcatDataset
    >>> ConcatDataset(["ab", "cd"])[2]
    'c'
    """

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        return list(itertools.accumulate(len(each) for each in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: at least one dataset is needed")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError(
                "ConcatDataset does not support IterableDataset, which has no keys; join them with ChainDataset"
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> _T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(f"ConcatDataset: index {index} is before the first of {len(self)} samples")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - self.cumulative_sizes[which - 1] if which else index]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of `cumulative_sizes`."""
        warn_user("cummulative_sizes is now spelled cumulative_sizes", FutureWarning)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for each in self.datasets:
            _check_iterable(each)
            yield from each  # type: ignore[misc]

    def __len__(self) -> int:
        total = 0
        for each in self.datasets:
            _check_iterable(each)
            total += len(each)  # type: ignore[arg-type]
        return total


def _check_iterable(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError(f"ChainDataset only supports IterableDataset, but got {type(dataset).__name__}")


class Subset(Dataset[_T_co]):
    """Some samples of a dataset, by their keys.

    >>> from flambeau.utils.data import Subset
    >>> [sample for sample in Subset("abcde", [3, 1])]
    ['d', 'b']
    """

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> _T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        keys = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(keys) if callable(many) else [self.dataset[key] for key in keys]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T], lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[_T]]:
    """Divides a dataset at random into parts of the given lengths, or fractions that sum to 1.

    >>> import flambeau as torch
    >>> from flambeau.utils.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.7, 0.3], torch.Generator().manual_seed(0))]
    [7, 3]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _from_fractions(len(dataset), lengths)  # type: ignore[arg-type]
    if sum(lengths) != len(dataset):  # type: ignore[arg-type]
        raise ValueError(f"random_split: lengths {list(lengths)} do not sum to {len(dataset)}, the dataset's length")  # type: ignore[arg-type]
    order = ops.randperm(sum(lengths), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]


def _from_fractions(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"random_split: fraction {i} is {fraction}, not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):  # what rounding left over goes to the parts in turn
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warn_user(f"random_split: part {i} is empty")
    return lengths
