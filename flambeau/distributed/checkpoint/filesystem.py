"""Checkpoints as folders: `.metadata`, and one file of parts for each process."""

from __future__ import annotations

import io
import os
import pathlib
from typing import Any

from ... import serialization
from ..._serialization.files import replacing
from . import _pickles
from ._storage_info import _StorageInfo as _StorageInfo
from .metadata import Metadata

__all__ = ["FileSystemReader", "FileSystemWriter"]


class FileSystemReader:
    """Reads a folder that several processes wrote."""

    def __init__(self, path: Any, *args: Any, **options: Any):
        self.path = pathlib.Path(path)
        self._files: dict[str, Any] = {}

    @property
    def checkpoint_id(self) -> Any:
        """The folder."""
        return self.path

    def read_metadata(self) -> Metadata:
        """What the checkpoint holds."""
        return _pickles.read((self.path / ".metadata").read_bytes())

    def read(self, info: Any) -> Any:
        """A tensor or object of the checkpoint."""
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
        return serialization.load(io.BytesIO(data), map_location="cpu", weights_only=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this is the name of a folder that exists."""
        return pathlib.Path(checkpoint_id).is_dir()


class FileSystemWriter(FileSystemReader):
    """Writes a folder together with other processes."""

    def __init__(
        self, path: Any, single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True,
        **options: Any,
    ):  # fmt: skip
        super().__init__(path)
        self.overwrite = overwrite

    def check(self) -> None:
        """Makes the folder; raises if there is a checkpoint that must stay."""
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / ".metadata").exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite=False: {self.path}")

    def write(self, name: str, data: bytes) -> None:
        """Writes a file as a whole: it is not there before it is complete."""
        with replacing(self.path / name) as write:
            write(data)
