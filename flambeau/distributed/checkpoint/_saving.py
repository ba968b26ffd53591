"""Writing a checkpoint: each process writes its parts, rank 0 writes what there is and where."""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ... import serialization
from ..._core.sizes import Size
from ..._tensor import Tensor
from .._groups import current, is_initialized
from .._objects import all_gather_object
from ..tensor._dtensor import DTensor
from ..tensor._utils import compute_local_shape_and_global_offset
from ..tensor.placement_types import Partial, Shard
from . import _pickles
from ._flat import flatten
from ._storage_info import _StorageInfo
from .filesystem import FileSystemWriter
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

_LONGEST = 3600.0  # seconds that a background save waits for the files of others
Item = tuple[str, Any, Any, int, int]  # name, description or None, chunk or None, where, length


class CheckpointException(RuntimeError):
    """What went wrong in the processes of a checkpoint, by rank."""

    def __init__(self, message: str, failures: dict[int, Any]):
        super().__init__(
            f"{message} ranks:{list(failures)}\n" + "\n".join(f"rank {r}: {e}" for r, e in failures.items())
        )
        self.failures = failures


def everyone(function: Callable[[], Any], group: Any, what: str) -> list[Any]:
    """The results of a function in all processes; if it fails in one, all raise."""
    try:
        own = function(), None
    except Exception as error:
        own = None, f"{type(error).__name__}: {error}"  # type: ignore[assignment]
        failed: Any = error
    if group is None:
        if own[1] is not None:
            raise CheckpointException(f"CheckpointException {what}", {0: own[1]}) from failed
        return [own[0]]
    found: list[Any] = [None] * group.size()
    all_gather_object(found, own, group=group)
    wrong = {rank: text for rank, (_, text) in enumerate(found) if text is not None}
    if wrong:
        raise CheckpointException(f"CheckpointException {what}", wrong)
    return [value for value, _ in found]


def group_of(process_group: Any, no_dist: bool) -> Any:
    return current(process_group) if is_initialized() and not no_dist else None


def stated(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with objects that have one replaced by theirs."""
    return {key: value.state_dict() if _stateful(value) else value for key, value in state.items()}


def _stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _part(value: DTensor) -> tuple[Tensor, ChunkStorageMetadata] | None:
    """The part of a tensor that this process writes: of equal ones, the first process does."""
    for dim, placement in enumerate(value.placements):
        if isinstance(placement, Partial):
            raise ValueError("a DTensor of summands (Partial) cannot be saved; redistribute it first")
        if not isinstance(placement, Shard) and value.device_mesh.get_local_rank(dim):
            return None
    shape, offset = compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
    part = value.detach().to_local()
    return (part, ChunkStorageMetadata(Size(offset), Size(shape))) if part.numel() else None


def collect(state: dict[str, Any], first: bool) -> tuple[bytes, list[Item]]:
    """The bytes of this process's file, and what lies where in it."""
    out, items = io.BytesIO(), []
    for name, value in flatten(state)[0].items():
        about: Any = BytesStorageMetadata()
        chunk: Any = None
        kept: Any = value if first else None
        if isinstance(value, DTensor):
            found = _part(value)
            kept, chunk = found if found is not None else (None, None)
            about = TensorStorageMetadata(
                TensorProperties(value.dtype, requires_grad=value.requires_grad), value.shape, []
            )
        elif isinstance(value, Tensor):
            chunk = ChunkStorageMetadata(Size([0] * value.dim()), value.shape)
            about = TensorStorageMetadata(
                TensorProperties(value.dtype, requires_grad=value.requires_grad), value.shape, []
            )
        begin = out.tell()
        if kept is not None or (first and value is None):
            if isinstance(kept, Tensor):  # without what else its memory holds
                kept = kept.detach().clone() if not isinstance(kept, DTensor) else kept
            serialization.save(kept, out)
            items.append((name, about, chunk, begin, out.tell() - begin))
    return out.getvalue(), items


def combined(state: dict[str, Any], every: list[list[Item]], path: Any) -> Metadata:
    """What all processes wrote."""
    about: dict[str, Any] = {}
    places: dict[MetadataIndex, _StorageInfo] = {}
    for rank, items in enumerate(every):
        for name, kind, chunk, begin, length in items:
            held = about.setdefault(name, kind)
            index = MetadataIndex(name)
            if chunk is not None:
                index = MetadataIndex(name, chunk.offsets, len(held.chunks))
                held.chunks.append(chunk)
            places[index] = _StorageInfo(f"__{rank}_0.distcp", begin, length)
    meta = StorageMeta(str(path), str(uuid.uuid4()))
    return Metadata(about, flatten(state)[1], places, meta, "1.0.0")


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Writes a checkpoint together with all processes of a group; DTensors by parts, everything else by rank 0.

    >>> import tempfile, flambeau as torch
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"w": torch.arange(3.0), "step": 4}, checkpoint_id=folder)
    ...     state = {"w": torch.zeros(3), "step": 0}
    ...     dcp.load(state, checkpoint_id=folder)
    ...     state
    {'w': tensor([0., 1., 2.]), 'step': 4}
    """
    found, finish = _begin(state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist)
    finish()
    group = group_of(process_group, no_dist)
    everyone(lambda: None, group, "write")
    return found


def _begin(
    state_dict: dict[str, Any], checkpoint_id: Any, storage_writer: Any, planner: Any, process_group: Any, no_dist: bool
) -> tuple[Metadata, Callable[[], None]]:
    """What the checkpoint holds, and a function that writes this process's file of it."""
    if planner is not None:
        raise NotImplementedError("save: planners of one's own are not implemented; leave planner=None")
    if checkpoint_id is None and storage_writer is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
    writer = storage_writer or FileSystemWriter(checkpoint_id)
    group = group_of(process_group, no_dist)
    rank = 0 if group is None else group.rank()
    state = stated(state_dict)
    held: list[bytes] = []

    def prepare() -> list[Item]:
        writer.check()
        data, items = collect(state, rank == 0)
        held.append(data)
        return items

    every = everyone(prepare, group, "save")
    found = combined(state, every, writer.path)

    def finish() -> None:
        if held[0]:
            writer.write(f"__{rank}_0.distcp", held[0])
        if rank == 0:
            _wait(writer, found)
            writer.write(".metadata", _pickles.write(found))

    return found, finish


def _wait(writer: Any, found: Metadata) -> None:
    """Waits until the files of all processes are there: what says so must not come before them."""
    sizes: dict[str, int] = {}
    for info in found.storage_data.values():
        sizes[info.relative_path] = max(sizes.get(info.relative_path, 0), info.offset + info.length)
    end = time.monotonic() + _LONGEST
    for name, size in sizes.items():
        path = writer.path / name
        while not path.exists() or path.stat().st_size != size:
            if time.monotonic() > end:
                raise RuntimeError(f"{path} was not written by its process")
            time.sleep(0.005)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    **options: Any,
) -> Future[Metadata]:
    """Like `save`, but files are written in the background: tensors may change when it returns, the future tells the end."""
    found, finish = _begin(state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist)
    future: Future[Metadata] = Future()

    def run() -> None:
        try:
            finish()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)

    threading.Thread(target=run, name="flambeau-checkpoint").start()
    return future
