"""Texts of errors of datasets, samplers and loaders on which programs rely."""

import os
import warnings

import pytest

import flambeau as torch
from flambeau.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    RandomSampler,
    StackDataset,
    TensorDataset,
)
from flambeau.utils.data.distributed import DistributedSampler


class Short:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return i

    def __getitems__(self, keys):
        return keys[:-1]


class Endless(IterableDataset):
    def __iter__(self):
        return iter(int, 1)


def rows(n):
    return TensorDataset(torch.zeros(n))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: TensorDataset(torch.zeros(2), torch.zeros(3)), AssertionError, "Size mismatch between tensors"),
        (lambda: StackDataset(rows(2), rows(3)), ValueError, "Size mismatch between datasets"),
        (lambda: StackDataset(rows(2), a=rows(2)), ValueError, "Supported either"),
        (lambda: StackDataset(), ValueError, "At least one dataset should be passed"),
        (lambda: StackDataset(Short()).__getitems__([0, 1, 2]), ValueError, "output size mismatch. Expected 3, got 2"),
        (lambda: ConcatDataset([Endless()]), AssertionError, "does not support IterableDataset"),
        (lambda: list(ChainDataset([rows(2)])), AssertionError, "only supports IterableDataset"),
        (lambda: DistributedSampler(rows(4), 3, 3), ValueError, "Invalid rank 3"),
        (lambda: RandomSampler(rows(2), replacement=0), TypeError, "should be a boolean value, but got replacement=0"),
        (
            lambda: DataLoader(rows(2), num_workers=1, multiprocessing_context="bad"),
            ValueError,
            "should specify a valid start method in",
        ),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_too_many_workers():
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running slow"):
        DataLoader(rows(2), num_workers=1000)


@pytest.mark.parametrize(("workers", "warned"), [(3, False), (4, True), (2, False)])
def test_as_many_workers_as_cores_are_no_reason_to_warn(monkeypatch, workers, warned):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        DataLoader(rows(2), num_workers=workers)
    assert [f"{workers} workers would share 3 cores" in str(w.message) for w in seen] == [True] * warned
