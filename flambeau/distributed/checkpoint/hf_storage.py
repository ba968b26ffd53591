"""Folders of safetensors files that several processes write, which are not implemented."""

from . import FileSystemReader, FileSystemWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageReader(FileSystemReader):
    """Not available."""


class HuggingFaceStorageWriter(FileSystemWriter):
    """Not available."""
