"""Checkpoints that several processes write together, in PyTorch's own layout: a folder with `.metadata` and a file for each
process. They can be read by any number of processes, and by PyTorch. Planners (`planner.py`) decide what is written and read
under which names, storages (`storage.py`) where it lies; `save` and `load` go through both, whether they are ours or a program's."""

from __future__ import annotations

from . import metadata as metadata
from ._together import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter, QuantizedHuggingFaceStorageReader
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .optimizer import load_sharded_optimizer_state_dict
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner",
    "FileSystemReader", "FileSystemWriter", "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "LoadPlan", "LoadPlanner",
    "Metadata", "QuantizedHuggingFaceStorageReader", "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter",
    "TensorStorageMetadata", "WriteItem", "async_save", "load", "load_sharded_optimizer_state_dict", "load_state_dict", "save",
    "save_state_dict",
]  # fmt: skip
