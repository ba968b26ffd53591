"""A sampler that goes on in the middle of an epoch, possibly with another number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....._ops.registry import ops
from .....random import Generator
from .....utils.data.distributed import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler[Any]):
    """`DistributedSampler` that leaves the first `start_index` keys of the dataset out: those that were used before.

    >>> from flambeau.distributed.elastic.utils.data import ElasticDistributedSampler
    >>> len(ElasticDistributedSampler(range(10), 2, 0, start_index=4))
    3
    """

    def __init__(self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0):
        super().__init__(dataset, num_replicas, rank)
        if not 0 <= start_index < len(dataset):
            raise ValueError(f"Start index {start_index} should be less than dataset size {len(dataset)}")
        self.start_index = start_index
        self.num_samples = -(-(len(dataset) - start_index) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def _orders(self) -> Iterator[Any]:
        left = len(self.dataset) - self.start_index  # type: ignore[arg-type]
        order = ops.randperm(left, generator=Generator().manual_seed(self.epoch))._array + self.start_index
        yield np.resize(order, self.total_size)[self.rank : self.total_size : self.num_replicas]
