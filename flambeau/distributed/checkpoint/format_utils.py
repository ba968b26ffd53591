"""From folders of parts to single files of `torch.save`, and back; and readers of such files into divided states."""

from __future__ import annotations

import os
from typing import Any

from ... import serialization
from ..._core.sizes import Size
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...futures import Future
from .._collectives import broadcast
from .._groups import current, get_rank, is_initialized
from ._flat import flatten
from .default_planner import DefaultLoadPlanner
from .filesystem import done, fill
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from .planner_helpers import described
from .state_dict_loader import load_all
from .state_dict_saver import save
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Writes the whole state of a checkpoint's folder to one file."""
    serialization.save(load_all(dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Writes the state in one file as a checkpoint's folder."""
    state = serialization.load(torch_save_path, map_location="cpu", weights_only=True)
    save(state, checkpoint_id=dcp_checkpoint_dir, no_dist=True)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `torch.save` in one process, which sends every tensor to the others; they keep their parts.

    Such a file does not say what it holds before it is read, so that it needs a `DynamicMetaLoadPlanner`:
    `load(state, storage_reader=BroadcastingTorchSaveReader(), planner=DynamicMetaLoadPlanner(), checkpoint_id=path)`.
    """

    def __init__(self, checkpoint_id: Any = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id is not None:
            self.checkpoint_id = checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return Metadata({})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator = is_coordinator
        if is_initialized() and is_coordinator != (get_rank() == self.coordinator_rank):
            raise AssertionError(f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {get_rank()}")
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id is None: give the path of the file to load()")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        held: dict[str, Any] = {}
        if self.is_coordinator:
            held = flatten(serialization.load(self.checkpoint_id, map_location="cpu", weights_only=True))[0]
        wanted: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise RuntimeError(
                    f"Non-tensor value identified at {item.storage_index.fqn}. At this time {type(self).__name__} only "
                    "supports loading Tensors."
                )
            wanted.setdefault(item.storage_index.fqn, []).append(item)
        for name, about in planner.metadata.state_dict_metadata.items():  # type: ignore[attr-defined]
            if isinstance(about, TensorStorageMetadata):  # all of them in all processes, whatever these need
                fill(planner, wanted.get(name, []), self._sent(held, name, about))
        return done(None)

    def _sent(self, held: dict[str, Any], name: str, about: TensorStorageMetadata) -> Any:
        """A tensor of the file, in all processes."""
        found = held.get(name)
        if self.is_coordinator and (not isinstance(found, Tensor) or tuple(found.shape) != tuple(about.size)):
            raise RuntimeError(f"the file has no tensor {name} of the sizes {tuple(about.size)}")
        if not is_initialized() or current().size() == 1:
            return found
        whole = ops.empty(tuple(about.size), dtype=about.properties.dtype)
        if found is not None:
            whole.copy_(found.detach())
        broadcast(whole, self.coordinator_rank)
        return whole

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this is a file."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes what there is from the state to be filled, for storages that cannot say it."""

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        about: dict[str, Any] = {}
        for name, value in self.state_dict.items():
            if isinstance(value, Tensor):
                whole = ChunkStorageMetadata(Size([0] * value.dim()), Size(value.shape))
                about[name] = TensorStorageMetadata(described(value), Size(value.shape), [whole])
            else:
                about[name] = BytesStorageMetadata()
        self.metadata = Metadata(about)
