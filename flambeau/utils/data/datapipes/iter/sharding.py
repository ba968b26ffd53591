"""Streams of which each process or worker reads its own part."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from .._decorator import functional_datapipe
from .._joining import length_of
from ..datapipe import IterDataPipe

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Who shares a stream: everybody together, or processes first and the workers of each of them after that."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[Any]):
    """Every n-th sample, where a loader has n workers: each worker reads its own part."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def is_shardable(self) -> bool:
        return True

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
    ) -> None:
        """Makes this copy number `instance_id` of so many, among those of a group."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(f"sharding_filter: instance_id {instance_id} should be smaller than {num_of_instances}")
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError("sharding_filter: ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group, (count, place) in sorted(self.groups.items()):
            if self.sharding_group_filter in (None, group):
                self.instance_id += self.num_of_instances * place
                self.num_of_instances *= count

    def __iter__(self) -> Iterator[Any]:
        for i, sample in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        whole, left = divmod(length_of(self, self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < left)
