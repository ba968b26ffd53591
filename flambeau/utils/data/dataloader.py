"""`DataLoader`: batches of a dataset, in any order, with any number of worker processes."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..._errors.frames import warn_user
from ._iterators import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter  # fmt: skip
from ._utils.collate import default_collate, default_convert
from ._utils.errors import ExceptionWrapper  # noqa: F401 (programs take it from here)
from ._utils.fetch import _DatasetKind
from ._utils.worker import get_worker_info
from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .dataset import Dataset, IterableDataset
from .graph_settings import apply_shuffle_settings
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_T = TypeVar("_T")
_collate_fn_t = Callable[[list[_T]], Any]

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class _InfiniteConstantSampler(Sampler[Any]):
    """The keys of an iterable dataset, which has none."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Gives the samples of a dataset in batches.

    With `num_workers`, so many processes read ahead, `prefetch_factor` batches each; the batches come back through
    shared memory, in order unless `in_order=False`. `persistent_workers` keeps them for the next epoch.

    >>> import flambeau as torch
    >>> from flambeau.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(torch.arange(5)), batch_size=2)
    >>> [batch for batch, in loader]
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    dataset: Any  # programs ask it for its length, which not every dataset has
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler[Any] | Iterable[Any]
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    _initialized = False

    def __init__(
        self, dataset: Dataset[_T_co] | Sequence[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None, num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        prefetch_factor = _checked_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, (IterDataPipe, MapDataPipe)):
            dataset = apply_shuffle_settings(dataset, shuffle)
            shuffle = None if isinstance(dataset, IterDataPipe) else shuffle
        self.dataset, self.num_workers, self.prefetch_factor = dataset, num_workers, prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context, self.in_order = (
            worker_init_fn, multiprocessing_context, in_order,
        )  # fmt: skip
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            shuffle = self._checked_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError(
                "DataLoader: sampler option is mutually exclusive with shuffle: it has an order of its own"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self._initialized = True
        self.check_worker_number_rationality()

    def _checked_iterable(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> bool | None:
        """An iterable dataset has its own order."""
        given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"DataLoader: an iterable dataset has its own order; got {name}={value!r}")
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(f"{name} of a {type(self).__name__} cannot be changed after it was made")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context of `multiprocessing`, or None for the default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        if value is not None:
            if not self.num_workers > 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            if isinstance(value, str):
                if value not in multiprocessing.get_all_start_methods():
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {multiprocessing.get_all_start_methods()!r}, but got multiprocessing_context={value!r}"
                    )
                value = multiprocessing.get_context(value)
            elif not isinstance(value, multiprocessing.context.BaseContext):
                raise TypeError(f"multiprocessing_context must be a context or a name, but got {value!r}")
        self._multiprocessing_context = value

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None or self._iterator._shutdown:  # type: ignore[attr-defined]
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)  # type: ignore[attr-defined]
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than cores to run them."""
        if not self.num_workers:
            return
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if cores is not None and self.num_workers > cores:
            warn_user(
                f"DataLoader: {self.num_workers} workers would share {cores} cores: excessive worker creation might get DataLoader running slow or even freeze"
            )


_MOST_WORKERS = 8192


def _checked_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> int | None:
    """The number of batches that each worker reads ahead."""
    if num_workers < 0:
        raise ValueError(f"num_workers option should be non-negative, but is {num_workers}; 0 loads in this process")
    if num_workers > _MOST_WORKERS:
        raise ValueError(
            f"num_workers is {num_workers}: no machine can run so many processes; at most {_MOST_WORKERS} are started"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, but is {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing: set num_workers above 0")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"prefetch_factor option should be non-negative, but is {prefetch_factor}")
    return 2 if num_workers and prefetch_factor is None else prefetch_factor
