"""Plans of what is written and read, and the interface of those who make them."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..._core.sizes import Size
from ..._tensor import Tensor
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "TensorWriteData",
    "WriteItem", "WriteItemType",
]  # fmt: skip


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, or another object as bytes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: (a part of) a tensor, or another object as bytes."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How long an object is."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which part of a tensor of which size is written."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """Something that one process writes."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the whole tensor; None for another object."""
        data = self.tensor_data
        return None if data is None else math.prod(data.size) * data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A stretch of something stored, and where it goes: `lengths` elements, from `storage_offsets` to `dest_offsets`."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What one process writes; `storage_data` and `planner_data` belong to those who add them."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Decides what of a state is written, by which process and under which names.

    `save` calls the methods in this order: `set_up_planner` and `create_local_plan` in every process, `create_global_plan` in
    the coordinator, then `finish_plan` in every process, and `resolve_data` for every item that the storage writes.
    """

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Takes the state to be saved."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process would write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What every process writes, in the order of ranks, and what the checkpoint holds."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This process's plan, as the coordinator made it, with what else it needs."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor or the bytes of an item. May be called from several threads."""


class LoadPlanner:
    """Decides what is read into a state, and from which names.

    `load` calls `set_up_planner` and `create_local_plan` in every process, `create_global_plan` in the coordinator,
    `finish_plan` in every process, and for every item `load_bytes`, or `resolve_tensor` and `commit_tensor`.
    """

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Takes the state to be filled and what the checkpoint holds."""
        raise _missing(self, "set_up_planner")

    def create_local_plan(self) -> LoadPlan:
        """What this process reads."""
        raise _missing(self, "create_local_plan")

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What every process reads, in the order of ranks."""
        raise _missing(self, "create_global_plan")

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """This process's plan, as the coordinator made it."""
        raise _missing(self, "finish_plan")

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes the bytes of an object."""
        raise _missing(self, "load_bytes")

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Memory for the bytes of an object, for storages that fill it themselves."""
        raise _missing(self, "resolve_bytes")

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The tensor that an item is copied to, of the item's size."""
        raise _missing(self, "resolve_tensor")

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Says that the tensor from `resolve_tensor` is filled."""
        raise _missing(self, "commit_tensor")


def _missing(planner: LoadPlanner, name: str) -> NotImplementedError:
    return NotImplementedError(f"{type(planner).__name__} does not define {name}; start from DefaultLoadPlanner")
