"""The interface of storages: where a checkpoint's parts are written to and read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """Where an item lies: `storage_data` is whatever the storage finds it by."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Writes a checkpoint.

    `save` calls `reset`; in every process `set_up_storage_writer` and `prepare_local_plan`; in the coordinator
    `prepare_global_plan`; in every process `write_data`; and in the coordinator `finish`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Says that a new checkpoint begins, perhaps in another place."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Makes the storage ready."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """This process's plan with what the storage adds."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All processes' plans with what the storage adds."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes the items of a plan, whose data `planner.resolve_data` gives; a future of a list of `WriteResult`s."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes what there is and where, so that the checkpoint counts; `results` are in the order of ranks."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether such a place can hold a checkpoint of this storage."""

    def storage_meta(self) -> StorageMeta | None:
        """What planners are told about the storage."""
        return None


class StorageReader(ABC):
    """Reads a checkpoint.

    `load` calls `reset`; in every process `read_metadata`, `set_up_storage_reader` and `prepare_local_plan`; in the coordinator
    `prepare_global_plan`; and in every process `read_data`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Says that another checkpoint is read, perhaps from another place."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""

    @abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Makes the storage ready."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """This process's plan with what the storage adds."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All processes' plans with what the storage adds."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads the items of a plan and hands them to the planner; a future that is done when all are there."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether such a place can hold a checkpoint of this storage."""
