"""Checkpoints as folders of safetensors files with an index, as models are published."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

from ..._core.dtypes import dtype, float32
from ..._core.sizes import Size
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...futures import Future
from ...utils.safetensors import _DTYPES, safe_open, save_file
from ._storage_info import _HFStorageInfo
from .default_planner import narrowed
from .filesystem import FileSystemReader, FileSystemWriter, done
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter", "QuantizedHuggingFaceStorageReader"]

_INDEX = "model.safetensors.index.json"
_OFFSETS = "DCP_SHARDING_INFO"  # in a file's metadata: where in their tensors its parts begin


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors to `model-00001-of-0000N.safetensors` and an index; `fqn_to_index_mapping` says which file takes which tensor.

    Where several processes hold parts, `save_distributed` has each write files of its own parts (`shard-…`), and
    `enable_consolidation` then joins them into files of whole tensors, the parts staying in the folder `sharded`.

    >>> import tempfile, os, flambeau as torch
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"w": torch.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder))
    ...     sorted(os.listdir(folder))
    ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        self.whole = pathlib.Path(path)
        self.enable_consolidation = enable_consolidation
        super().__init__(self._place(path), thread_count=thread_count)
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.thread_count_consolidation = thread_count_consolidation

    def _place(self, path: Any) -> pathlib.Path:
        return pathlib.Path(path) / "sharded" if self.enable_consolidation else pathlib.Path(path)

    def reset(self, checkpoint_id: Any = None) -> None:
        super().reset(self._place(checkpoint_id) if checkpoint_id else None)
        if checkpoint_id:
            self.whole = pathlib.Path(checkpoint_id)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        if not self.save_distributed and any(plan.items for plan in plans[1:]):
            raise ValueError("several processes hold parts of the state: pass save_distributed=True")
        return [dataclasses.replace(plan, storage_data=rank) for rank, plan in enumerate(plans, 1)]

    def _file_of(self, name: str, shard: int | None) -> str:
        """The file of a tensor, or of a process's part of it."""
        places = self.fqn_to_index_mapping or {}
        made = f"model-{places.get(name, 1):05}-of-{max(places.values(), default=1):05}.safetensors"
        return made if shard is None else f"shard-{shard:05}-{made}"

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        files: dict[str, list[WriteItem]] = {}
        for item in plan.items:
            if item.tensor_data is None:
                raise ValueError(f"{item.index.fqn} is no tensor; safetensors files hold nothing else")
            name = self._file_of(item.index.fqn, plan.storage_data if self.save_distributed else None)
            files.setdefault(name, []).append(item)
        results = []
        for name, items in files.items():
            tensors: dict[str, Tensor] = {}
            offsets = {}
            for item in items:
                data: Any = planner.resolve_data(item)
                tensors[item.index.fqn] = data.detach().cpu().clone().contiguous()
                offsets[item.index.fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}  # type: ignore[union-attr]
                size = data.numel() * data.element_size()
                results.append(WriteResult(item.index, size, _HFStorageInfo(name, Size(data.shape), data.dtype)))
            save_file(tensors, self.path / name, {"format": "pt", "DCP_VERSION": "1.0", _OFFSETS: json.dumps(offsets)})
            self._sync(name)
        return done(results)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for one in results for result in one}
        if self.save_distributed and not self.enable_consolidation:
            return
        if self.enable_consolidation:
            self._consolidate(metadata)
        sizes = [result.size_in_bytes for one in results for result in one]
        found = {"metadata": {"total_size": sum(sizes)}, "weight_map": {}}
        found["weight_map"] = {name: self._file_of(name, None) for name in metadata.state_dict_metadata}
        (self.whole / _INDEX).write_text(json.dumps(found, indent=2))

    def _consolidate(self, metadata: Metadata) -> None:
        """Joins the parts that all processes wrote into files of whole tensors, one file at a time."""
        files: dict[str, list[str]] = {}
        for name in metadata.state_dict_metadata:
            files.setdefault(self._file_of(name, None), []).append(name)
        for file, names in files.items():
            wholes = {}
            for name in names:
                about = metadata.state_dict_metadata[name]
                wholes[name] = ops.empty(tuple(about.size), dtype=about.properties.dtype)
                for index, info in metadata.storage_data.items():
                    if index.fqn == name:
                        with safe_open(self.path / info.relative_path) as stored:
                            narrowed(wholes[name], index.offset, info.shape).copy_(stored.get_tensor(name))
            save_file(wholes, self.whole / file)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads a folder of safetensors files, whoever wrote them: each process only the stretches that it needs."""

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        about: dict[str, Any] = {}
        places: dict[MetadataIndex, _HFStorageInfo] = {}
        for file in sorted(self.path.glob("*.safetensors")):
            with safe_open(file) as stored:
                offsets = json.loads((stored.metadata() or {}).get(_OFFSETS, "{}"))
                for name in stored.offset_keys():
                    part = stored.get_slice(name)
                    shape, kind = Size(part.get_shape()), _DTYPES[part.get_dtype()]
                    begin = Size(offsets.get(name, {}).get("saved_offsets", [0] * len(shape)))
                    places[MetadataIndex(name, begin)] = _HFStorageInfo(file.name, shape, kind)
                    ends = [o + n for o, n in zip(begin, shape)]
                    held = about.setdefault(name, TensorStorageMetadata(TensorProperties(kind), Size(ends), []))
                    held.size = Size([max(a, b) for a, b in zip(held.size, ends)])
                    held.chunks.append(ChunkStorageMetadata(begin, shape))
        return Metadata(about, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def _hand_over(self, index: MetadataIndex, items: list[ReadItem], planner: LoadPlanner) -> None:
        if any(item.type is LoadItemType.BYTE_IO for item in items):
            raise ValueError(f"{index.fqn}: safetensors files hold tensors only")
        with safe_open(self.path / os.path.basename(self.storage_data[index].relative_path)) as stored:
            for item in items:
                stretch = tuple(slice(o, o + n) for o, n in zip(item.storage_offsets, item.lengths))
                target = planner.resolve_tensor(item).detach()
                target.copy_(self._stretch(stored, index, stretch).reshape(target.shape))
                planner.commit_tensor(item, target)

    def _stretch(self, stored: Any, index: MetadataIndex, stretch: tuple[slice, ...]) -> Any:
        """A stretch of a stored part."""
        return stored.get_slice(index.fqn)[stretch] if stretch else stored.get_tensor(index.fqn)


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads weights that were rounded by blocks of `block_size` × `block_size`: `name` in few bits, and the blocks' factors under
    `name_scale_inv`. The state gets their products as `target_dtype`."""

    def __init__(self, path: str, thread_count: int = 1, target_dtype: dtype = float32, block_size: int = 128) -> None:
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size = target_dtype, block_size
        self._factors: dict[str, str] = {}  # the file that the factors of a weight lie in

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        found = super().read_metadata()
        end = "_scale_inv"
        for index, info in list(found.storage_data.items()):
            name = index.fqn.removesuffix(end)
            if index.fqn.endswith(end) and name in found.state_dict_metadata:
                self._factors[name] = info.relative_path
                found.state_dict_metadata[name].properties.dtype = self.target_dtype
                del found.state_dict_metadata[index.fqn], found.storage_data[index]
        return found

    def _stretch(self, stored: Any, index: MetadataIndex, stretch: tuple[slice, ...]) -> Any:
        codes = super()._stretch(stored, index, stretch)
        if index.fqn not in self._factors:
            return codes
        if codes.dim() != 2:
            raise NotImplementedError(f"{index.fqn}: factors of blocks are read for matrices only")
        with safe_open(self.path / self._factors[index.fqn]) as other:
            factors = other.get_tensor(index.fqn + "_scale_inv").to(float32)
        begins = [o + s.start for o, s in zip(index.offset or (0, 0), stretch)]  # in the whole matrix
        rows, columns = (
            ops.arange(begin, begin + n).div(self.block_size, rounding_mode="floor")
            for begin, n in zip(begins, codes.shape)
        )
        return (codes.to(float32) * factors[rows][:, columns]).to(self.target_dtype)
