"""The planners that are used unless a program brings its own: everything under its own name, what several processes have once."""

from __future__ import annotations

import dataclasses
import io
import math
from typing import Any

from ... import serialization
from ..._ops.registry import ops
from ..._tensor import Tensor
from ._flat import Path, flatten, put
from .metadata import BytesStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import _create_read_items, _create_write_items, local_chunk

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan", "create_default_global_save_plan",
    "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Everything that this process has of a state."""
    return SavePlan([item for name, value in state_dict.items() for item in _create_write_items(name, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans, whose items know the places of their parts, and what the checkpoint holds."""
    about: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if data is None:
                if item.type is WriteItemType.BYTE_IO and name in about:
                    raise AssertionError(f"{name} is written twice")
                about[name] = BytesStorageMetadata()
            else:
                held = about.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    item = dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(held.chunks)))
                held.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(about)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What this process reads for a state; without `strict`, names that the checkpoint does not have are left out."""
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        about = metadata.state_dict_metadata.get(name)
        if about is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if isinstance(about, TensorStorageMetadata) and isinstance(value, Tensor):
            if tuple(value.shape) != tuple(about.size):
                raise ValueError(f"Size mismatch between saved {about.size} and current: {value.shape} for {name}")
        items += _create_read_items(name, about, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are."""
    return all_plans


def _once(all_plans: list[SavePlan], to_lowest_rank: bool) -> list[SavePlan]:
    """Plans in which nothing is written twice: a tensor by the process with the least to do, other objects by the first."""
    holders: dict[MetadataIndex, list[int]] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            holders.setdefault(item.index, []).append(rank)
    sizes = {item.index: _bytes(item) for plan in all_plans for item in plan.items}
    load = [sum(_bytes(i) for i in plan.items if len(holders[i.index]) == 1) for plan in all_plans]
    writer: dict[MetadataIndex, int] = {}
    for index, ranks in holders.items():
        lowest = to_lowest_rank or index.offset is None or len(ranks) == 1
        chosen = ranks[0] if lowest else min(ranks, key=lambda rank: (load[rank], rank))
        writer[index] = chosen
        load[chosen] += sizes[index] if len(ranks) > 1 else 0
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def _bytes(item: WriteItem) -> int:
    """What an item takes; objects hardly anything."""
    data = item.tensor_data
    return 0 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize


class DefaultSavePlanner(SavePlanner):
    """Plans of everything in a state, nested dictionaries by names with dots.

    A subclass changes what it needs to: here names, as they are written.

    >>> import tempfile, flambeau as torch
    >>> import flambeau.distributed.checkpoint as dcp
    >>> class Renamed(dcp.DefaultSavePlanner):
    ...     def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
    ...         super().set_up_planner({"old." + k: v for k, v in state_dict.items()}, storage_meta, is_coordinator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     list(dcp.save({"w": torch.ones(2)}, checkpoint_id=folder, planner=Renamed()).state_dict_metadata)
    ['old.w']
    """

    mappings: dict[str, Path]

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors  # there are no sharded tensors inside of others
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(_once(all_plans, self.dedup_save_to_lowest_rank))
        if self.flatten_state_dict:
            paths = {name: path for plan in all_plans for name, path in (plan.planner_data or {}).items()}
            metadata = dataclasses.replace(metadata, planner_data=paths)
        _check_parts(metadata)
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What the state has under a name: of a divided tensor, this process's part."""
        value = self.state_dict[index.fqn]
        return local_chunk(value)[0] if isinstance(value, Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of an object: tensors as they are, others as `torch.save` writes them."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        data = io.BytesIO()
        serialization.save(object, data)
        return data


def _check_parts(metadata: Metadata) -> None:
    """Refuses parts of a tensor that lie outside of it, overlap or leave something out."""
    for name, about in metadata.state_dict_metadata.items():
        if not isinstance(about, TensorStorageMetadata):
            continue
        parts = sorted(about.chunks, key=lambda chunk: tuple(chunk.offsets))
        for number, part in enumerate(parts):
            if any(o < 0 or o + n > whole for o, n, whole in zip(part.offsets, part.sizes, about.size)):
                raise ValueError(f"Failed to validate global plan: a part of {name} lies outside of it")
            for other in parts[number + 1 :] if part.sizes else ():
                if other.offsets[0] >= part.offsets[0] + part.sizes[0]:
                    break  # those that follow begin later still
                spans = zip(part.offsets, part.sizes, other.offsets, other.sizes)
                if all(a < c + d and c < a + b for a, b, c, d in spans):
                    raise ValueError(f"Failed to validate global plan: parts of {name} overlap")
        if sum(math.prod(part.sizes) for part in parts) != math.prod(about.size):
            raise ValueError(f"Failed to validate global plan: parts of {name} do not make up the whole")


class DefaultLoadPlanner(LoadPlanner):
    """Reads into every tensor of a state, and replaces its other objects.

    With `allow_partial_load` names that the checkpoint does not have stay as they are.
    """

    mappings: dict[str, Path]

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.mappings, self.original_state_dict = {}, {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise AssertionError("the storage has no metadata; DynamicMetaLoadPlanner of format_utils needs none")
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        found = serialization.load(value, map_location="cpu", weights_only=True)
        name = read_item.dest_index.fqn
        self.state_dict[name] = found
        if self.flatten_state_dict:
            put(self.original_state_dict, self.mappings[name], found)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        pass

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor of a name: of a divided one, this process's part."""
        return local_chunk(self.state_dict[index.fqn])[0]

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The stretch of a tensor that an item is copied to."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


def narrowed(tensor: Tensor, offsets: Any, lengths: Any) -> Any:
    """A stretch of a tensor in all dimensions."""
    part: Any = tensor
    for dim, (begin, length) in enumerate(zip(offsets, lengths)):
        if part.shape[dim] != length:
            part = part.narrow(dim, begin, length)
    return part


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state with all that a checkpoint holds, or with what is below certain names."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name: str, path: Path) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:count])) in self.keys for count in range(1, len(path)))

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        if state_dict:
            raise AssertionError("this planner fills an empty state")
        if metadata is None:
            raise AssertionError("this planner needs the checkpoint's metadata")
        for name, about in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if self._wanted(name, path):
                tensor = isinstance(about, TensorStorageMetadata)
                put(state_dict, path, ops.empty(tuple(about.size), dtype=about.properties.dtype) if tensor else None)
        super().set_up_planner(state_dict, metadata, is_coordinator)
