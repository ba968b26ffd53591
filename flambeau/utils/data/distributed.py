"""`DistributedSampler`: each process of a group reads its own part of a dataset."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from ..._ops.making.generator import Generator
from ..._ops.registry import ops
from .dataset import Dataset
from .sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def _process_group() -> Any:
    try:
        return importlib.import_module("flambeau.distributed")
    except ImportError:
        raise RuntimeError("DistributedSampler: give num_replicas and rank; there is no distributed package") from None


class DistributedSampler(Sampler[_T_co]):
    """Every `num_replicas`-th key, beginning with number `rank`, of one order that all processes agree on.

    Call `set_epoch` before each epoch, to have another order. Without `drop_last` some keys come twice, so that all
    processes get equally many.

    >>> from flambeau.utils.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), num_replicas=2, rank=r, shuffle=False)) for r in range(2)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self, dataset: Dataset[Any], num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None:
            num_replicas = _process_group().get_world_size()
        if rank is None:
            rank = _process_group().get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        count = len(dataset)  # type: ignore[arg-type]
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def _orders(self) -> Iterator[Any]:
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.shuffle:
            order = ops.randperm(count, generator=Generator().manual_seed(self.seed + self.epoch))._array
        else:
            order = np.arange(count)
        if len(order) != self.total_size:
            order = np.resize(order, self.total_size)  # repeats from the beginning, or drops from the end
        yield order[self.rank : self.total_size : self.num_replicas]

    def __iter__(self) -> Iterator[_T_co]:
        for order in self._orders():
            yield from order.tolist()

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order that belongs to an epoch."""
        self.epoch = epoch
