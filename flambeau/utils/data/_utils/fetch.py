"""Fetchers: from keys to a batch, in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._tensor import Tensor, wrap
from ..dataset import Subset, TensorDataset
from .collate import default_collate
from .memory import shared_empty


class _BaseDatasetFetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = (
            dataset, auto_collation, collate_fn, drop_last,
        )  # fmt: skip

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes as many samples as there are keys; the keys themselves mean nothing."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Looks samples up by their keys."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[possibly_batched_index])
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([dataset[index] for index in possibly_batched_index])

    def fetch_rows(self, rows: Any) -> Any:
        """The batch for an array of numbers: plain tensors give it without going through single samples."""
        if self.collate_fn is default_collate:
            batch = _gather(self.dataset, rows)
            if batch is not None:
                return batch
        return self.fetch(rows.tolist())


def _gather(dataset: Any, rows: Any) -> list[Tensor] | None:
    """What collating these samples would give, if the dataset is known to read rows of plain tensors."""
    kind = type(dataset)
    if kind is Subset:
        inner = dataset.dataset
        if type(inner) is not TensorDataset and type(inner) is not Subset:
            return None
        keys = dataset.indices
        rows = keys[rows] if type(keys) is np.ndarray else np.array([keys[i] for i in rows.tolist()])
        return _gather(inner, rows) if rows.dtype.kind == "i" and rows.ndim == 1 else None
    if kind is not TensorDataset:
        return None
    for t in dataset.tensors:
        if type(t) is not Tensor or t._k or not t._array.flags.c_contiguous:
            return None
    return [wrap(_rows_of(t._array, rows), t.dtype) for t in dataset.tensors]


def _rows_of(array: Any, rows: Any) -> Any:
    out = shared_empty((len(rows), *array.shape[1:]), array.dtype)
    if out is None:
        return array.take(rows, 0)
    if rows.min() < 0 or rows.max() >= len(array):
        raise IndexError(f"an index is out of range for a dataset of {len(array)} samples")
    return array.take(rows, 0, out, "clip")  # the mode that writes straight into the memory


class _DatasetKind:
    """Whether samples are found by a key, or come one after the other."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool) -> Any:
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)
