"""Folders of safetensors files that several processes write, which are not implemented."""

from __future__ import annotations

from typing import Any

from .filesystem import FileSystemReader, FileSystemWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_WHY = "folders of safetensors files are not implemented: use FileSystemReader and FileSystemWriter, which PyTorch reads too"


class HuggingFaceStorageReader(FileSystemReader):
    """Not available."""

    def __init__(self, *args: Any, **options: Any):
        raise NotImplementedError(_WHY)


class HuggingFaceStorageWriter(FileSystemWriter):
    """Not available."""

    def __init__(self, *args: Any, **options: Any):
        raise NotImplementedError(_WHY)
