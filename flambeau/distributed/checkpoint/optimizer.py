"""The state of an optimizer from a checkpoint, divided as the model's parameters are."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..tensor._dtensor import DTensor, made
from ..tensor._utils import compute_local_shape_and_global_offset
from ._flat import put
from .default_planner import DefaultLoadPlanner
from .metadata import TensorStorageMetadata
from .planner import LoadPlanner
from .state_dict_loader import load_state_dict
from .storage import StorageReader

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any],
    optimizer_key: str,
    storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> dict[str, Any]:
    """The state that was saved under a key, `{optimizer_key: …}`; what belongs to a parameter is divided as that is."""
    metadata, state = storage_reader.read_metadata(), {}
    for name, about in metadata.state_dict_metadata.items():
        path = tuple((metadata.planner_data or {}).get(name, (name,)))
        if path[0] != optimizer_key:
            continue
        if not isinstance(about, TensorStorageMetadata):
            put(state, path, None)
            continue
        owner = next((model_state_dict[key] for key in path if key in model_state_dict), None)
        if isinstance(owner, DTensor) and tuple(owner.shape) == tuple(about.size):
            part = compute_local_shape_and_global_offset(owner.shape, owner.device_mesh, owner.placements)[0]
            own = ops.empty(tuple(part), dtype=about.properties.dtype)
            put(state, path, made(own, owner.device_mesh, owner.placements, owner.shape))
        else:
            put(state, path, ops.empty(tuple(about.size), dtype=about.properties.dtype))
    load_state_dict(state, storage_reader, planner=planner or DefaultLoadPlanner())
    return state
