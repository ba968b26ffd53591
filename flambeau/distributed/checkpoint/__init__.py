"""Checkpoints that several processes write together, in PyTorch's own layout: a folder with `.metadata` and a file for each
process. They can be read by any number of processes, and by PyTorch."""

from __future__ import annotations

from typing import Any

from . import metadata as metadata
from ._loading import load
from ._saving import CheckpointException, async_save, save
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "FileSystemReader",
    "FileSystemWriter", "Metadata", "TensorStorageMetadata", "async_save", "load", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip


class DefaultLoadPlanner:
    """Choices of `load`: with `allow_partial_load` names that the checkpoint does not have stay as they are."""

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ):
        self.allow_partial_load = allow_partial_load


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: Any, process_group: Any = None, **options: Any
) -> Metadata:
    """The older form of `save`."""
    return save(state_dict, storage_writer=storage_writer, process_group=process_group)


def load_state_dict(state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None, **options: Any) -> None:
    """The older form of `load`."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group)
