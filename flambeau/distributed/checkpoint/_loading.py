"""Reading a checkpoint into tensors that may lie otherwise than those that were written."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..._autograd.modes import no_grad
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..tensor._dtensor import DTensor
from ..tensor._utils import compute_local_shape_and_global_offset
from ._flat import flatten, put
from ._saving import _stateful, everyone, group_of, stated
from .filesystem import FileSystemReader
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills the tensors of a state in place, each process its parts; other objects are replaced."""
    if planner is not None and getattr(planner, "allow_partial_load", None) is None:
        raise NotImplementedError("load: planners of one's own are not implemented; leave planner=None")
    if checkpoint_id is None and storage_reader is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
    reader = storage_reader or FileSystemReader(checkpoint_id)
    state = stated(state_dict)
    lenient = bool(getattr(planner, "allow_partial_load", False))
    everyone(lambda: _fill(state, reader, lenient), group_of(process_group, no_dist), "load")
    for key, value in state_dict.items():
        if _stateful(value):
            value.load_state_dict(state[key])
        else:
            state_dict[key] = state[key]


def _fill(state: dict[str, Any], reader: FileSystemReader, lenient: bool) -> None:
    found = reader.read_metadata()
    values, paths = flatten(state)
    jobs: dict[Any, list[tuple[Tensor, Any, Any]]] = defaultdict(list)  # stored part -> what it is copied to
    for name, value in values.items():
        about = found.state_dict_metadata.get(name)
        if about is None:
            if lenient:
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
        if isinstance(value, Tensor) != isinstance(about, TensorStorageMetadata):
            raise ValueError(
                f"{name} is a tensor in one of the checkpoint and the state, and another object in the other"
            )
        if not isinstance(value, Tensor):
            put(state, paths[name], reader.read(found.storage_data[MetadataIndex(name)]))
            continue
        if tuple(value.shape) != tuple(about.size):
            raise ValueError(f"Size mismatch between saved {about.size} and current: {value.shape} for {name}")
        _plan(name, value, about, jobs)
    with no_grad():
        for index, targets in jobs.items():
            stored = reader.read(found.storage_data[index])
            for target, source, own in targets:
                part = stored
                for dim, (begin, length) in enumerate(source):
                    part = part.narrow(dim, begin, length)
                for dim, (begin, length) in enumerate(own):
                    target = target.narrow(dim, begin, length)
                target.copy_(part)


def _plan(name: str, value: Tensor, about: TensorStorageMetadata, jobs: Any) -> None:
    """Which stored parts the local part of a tensor needs, and what of them."""
    shape: Any = tuple(value.shape)
    offset: Any = (0,) * len(shape)
    local = value.detach()
    if isinstance(value, DTensor):
        shape, offset = compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
        local = value.detach().to_local()
    for chunk in about.chunks:
        source, own = [], []
        for here, count, there, stored in zip(offset, shape, chunk.offsets, chunk.sizes):
            begin, end = max(here, there), min(here + count, there + stored)
            source.append((begin - there, end - begin))
            own.append((begin - here, end - begin))
        if all(length > 0 for _, length in source):
            jobs[MetadataIndex(name, chunk.offsets)].append((local, source, own))


def load_all(reader: FileSystemReader) -> dict[str, Any]:
    """The whole state, by one process."""
    found: Metadata = reader.read_metadata()
    state: dict[str, Any] = {}
    for name, about in found.state_dict_metadata.items():
        path = (found.planner_data or {}).get(name, (name,))
        if isinstance(about, TensorStorageMetadata):
            put(state, path, ops.empty(tuple(about.size), dtype=about.properties.dtype))
        else:
            put(state, path, reader.read(found.storage_data[MetadataIndex(name)]))
    _fill(state, reader, True)
    return state
