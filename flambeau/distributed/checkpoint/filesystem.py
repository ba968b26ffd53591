"""Checkpoints in a folder: `.metadata`, and files of each process in which items lie one after the other."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import io
import os
import pathlib
import uuid
from enum import Enum
from typing import Any

from ... import serialization
from ..._autograd.modes import no_grad
from ..._serialization.files import replacing
from ..._tensor import Tensor
from ...futures import Future
from . import _pickles
from ._storage_info import _StorageInfo as _StorageInfo
from .default_planner import narrowed
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_FILES_OF_RANK = "__{}_"


class SerializationFormat(Enum):
    """How tensors are written: as `torch.save` does, or (by `HuggingFaceStorageWriter`) as safetensors files."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def done(result: Any) -> Future:
    """A future that has its result."""
    future = Future()
    future.set_result(result)
    return future


class _Folder:
    """A storage in a folder."""

    def __init__(self, path: Any):
        self.path = pathlib.Path(path)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Says that another checkpoint begins, perhaps in another folder."""
        if checkpoint_id:
            self.path = pathlib.Path(checkpoint_id)

    @property
    def checkpoint_id(self) -> Any:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this is the name of a folder that is there or can be made."""
        if "://" in str(checkpoint_id):
            return False
        path = pathlib.Path(checkpoint_id).absolute()
        return any(parent.exists() and os.access(parent, os.W_OK) for parent in (path, *path.parents))


class FileSystemReader(_Folder, StorageReader):
    """Reads a folder that several processes wrote."""

    def __init__(self, path: Any, _extension_registry: Any = None) -> None:
        super().__init__(path)
        self.load_id = str(uuid.uuid4())
        self.storage_data: dict[MetadataIndex, Any] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        super().reset(checkpoint_id)
        self.storage_data, self.load_id = {}, str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""
        return _pickles.read((self.path / ".metadata").read_bytes())

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        wanted: dict[MetadataIndex, list[ReadItem]] = {}
        for item in plan.items:  # a part that several items need is read once
            wanted.setdefault(item.storage_index, []).append(item)
        with no_grad():
            for index, items in wanted.items():
                self._hand_over(index, items, planner)
        return done(None)

    def _hand_over(self, index: MetadataIndex, items: list[ReadItem], planner: LoadPlanner) -> None:
        """Gives a planner all that it needs of one stored thing."""
        data = self.bytes_of(self.storage_data[index])
        if items[0].type is LoadItemType.BYTE_IO:
            for item in items:
                planner.load_bytes(item, io.BytesIO(data))
            return
        fill(planner, items, serialization.load(io.BytesIO(data), map_location="cpu", weights_only=True))

    def bytes_of(self, info: Any) -> bytes:
        """The bytes of a stored item."""
        name = str(info.relative_path)
        if name != os.path.basename(name) or name in ("", ".", ".."):
            raise ValueError(f"the checkpoint's .metadata names a file outside of its folder: {name!r}")
        if getattr(info, "transform_descriptors", None):
            raise NotImplementedError(f"parts of the checkpoint are transformed by {info.transform_descriptors}")
        with open(self.path / name, "rb") as file:
            file.seek(int(info.offset))
            data = file.read(int(info.length))
        if len(data) != info.length:
            raise ValueError(f"{name} is shorter than the checkpoint's .metadata says")
        return data


def fill(planner: LoadPlanner, items: list[ReadItem], stored: Any) -> None:
    """Copies what items need of a stored tensor to where the planner wants it."""
    for item in items:
        target, part = planner.resolve_tensor(item).detach(), narrowed(stored, item.storage_offsets, item.lengths)
        if target.shape != part.shape:
            raise AssertionError(
                f"req {item.storage_index} mismatch sizes {tuple(target.shape)} vs {tuple(part.shape)}"
            )
        target.copy_(part)
        planner.commit_tensor(item, target)


class FileSystemWriter(_Folder, StorageWriter):
    """Writes a folder together with other processes: each writes one file, or with `single_file_per_rank=False` one for each item.

    `thread_count` threads write side by side, each a file of its own. Files are given to the disk at once unless
    `sync_files` is False. `per_thread_copy_ahead` and `cache_staged_state_dict` are about copies from a GPU; nothing is gained
    by them here.
    """

    def __init__(
        self,
        path: Any,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        if serialization_format is not SerializationFormat.TORCH_SAVE or _extensions:
            raise NotImplementedError(
                "FileSystemWriter writes tensors as torch.save does; HuggingFaceStorageWriter writes safetensors files"
            )
        super().__init__(path)
        self.single_file_per_rank, self.sync_files, self.thread_count = single_file_per_rank, sync_files, thread_count
        self.per_thread_copy_ahead, self.cache_staged_state_dict = per_thread_copy_ahead, cache_staged_state_dict
        self.overwrite, self.serialization_format = overwrite, serialization_format
        self.save_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: Any = None) -> None:
        super().reset(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(str(self.path), self.save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / ".metadata").exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite=False: {self.path}")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(p, storage_data=_FILES_OF_RANK.format(rank)) for rank, p in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        items = sorted(plan.items, key=lambda item: item.type is not WriteItemType.BYTE_IO)  # small things first
        if self.single_file_per_rank:
            shares = [items[first :: self.thread_count] for first in range(self.thread_count)]
        else:
            shares = [[item] for item in items]
        jobs = [(f"{plan.storage_data}{n}.distcp", share) for n, share in enumerate(shares) if share]
        if self.thread_count == 1 or len(jobs) < 2:
            return done([result for job in jobs for result in self._write_file(*job, planner)])
        with concurrent.futures.ThreadPoolExecutor(self.thread_count) as threads:
            found = [threads.submit(self._write_file, *job, planner) for job in jobs]
            return done([result for future in found for result in future.result()])

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        """Writes items one after the other; the file is not there before it is complete."""
        results, begin = [], 0
        with replacing(self.path / name) as write:
            for item in items:
                data = serialized(planner.resolve_data(item))
                write(data)
                results.append(WriteResult(item.index, len(data), _StorageInfo(name, begin, len(data))))
                begin += len(data)
        self._sync(name)
        return results

    def _sync(self, name: str) -> None:
        if self.sync_files:
            with open(self.path / name, "rb") as file:
                os.fsync(file.fileno())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for one in results for result in one}
        metadata.storage_meta = self.storage_meta()
        metadata.version = "1.0.0"
        with replacing(self.path / ".metadata") as write:
            write(_pickles.pack(metadata))
        self._sync(".metadata")


def serialized(data: Any) -> memoryview:
    """The bytes of what a planner gave for an item: its own, or those of a tensor without what else its memory holds."""
    if not isinstance(data, io.BytesIO):
        tensor, data = data, io.BytesIO()
        kept = tensor.detach().cpu()
        alone = kept.untyped_storage().nbytes() == kept.numel() * kept.element_size()
        serialization.save(kept if alone and type(kept) is Tensor else kept.clone(), data)
    return data.getbuffer()
