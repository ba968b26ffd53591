"""`PyTorchFileReader` and `PyTorchFileWriter`: the records of a checkpoint file one by one, for programs that look inside."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._core.dtypes import dtype, uint8
from .._tensor import Tensor, wrap
from .archive import Reader, Writer
from .files import FileSource, is_path, writer_of
from .options import get_crc32_options


class PyTorchFileReader:
    """Reads the records of an archive, given as a path or a seekable file."""

    def __init__(self, name_or_buffer: Any):
        try:
            self._file = open(name_or_buffer, "rb") if is_path(name_or_buffer) else name_or_buffer  # noqa: SIM115
        except OSError as error:
            raise RuntimeError(f"PyTorchFileReader: {error}") from None
        try:
            self._archive = Reader(FileSource(self._file))
        except EOFError as error:
            raise RuntimeError(f"PyTorchFileReader: no ZIP archive: {error}") from None

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return self._archive.names()

    def has_record(self, name: str) -> bool:
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._archive.read(name)

    def get_record_size(self, name: str) -> int:
        return self._archive.size(name)

    def get_record_offset(self, name: str) -> int:
        """Where the data of a record begins in the file."""
        return self._archive.place(name)

    def get_storage_from_record(self, name: str, numel: int, dtype_or_class: Any) -> Tensor:
        """An empty tensor whose storage holds a record; a storage class counts in bytes."""
        kind = dtype_or_class if isinstance(dtype_or_class, dtype) else uint8
        memory = np.empty(self._archive.size(name), np.uint8)
        self._archive.read_into(name, memory.data)
        return wrap(memory[: numel * kind.itemsize].view(kind.numpy), kind)[:0]

    def serialization_id(self) -> str:
        """What tells this file from others; empty in files of old versions."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if name in self._archive else ""


class PyTorchFileWriter:
    """Writes the records of an archive to a path or a file."""

    def __init__(self, name_or_buffer: Any, compute_crc32: bool | None = None, storage_alignment: int = 64):
        named = is_path(name_or_buffer)
        self._name = os.path.splitext(os.path.basename(os.fspath(name_or_buffer)))[0] if named else "archive"
        self._file = open(name_or_buffer, "wb") if named else name_or_buffer  # noqa: SIM115
        self._owned = named
        crc = get_crc32_options() if compute_crc32 is None else compute_crc32
        self._archive: Writer = Writer(writer_of(self._file), self._name, crc, storage_alignment)
        self._written: list[str] = []

    def archive_name(self) -> str:
        return self._name

    def write_record(self, name: str, data: Any, size: int) -> None:
        """Adds a record: bytes, or a storage, of which `size` bytes count."""
        if hasattr(data, "_raw"):
            data = data._raw()
        self._archive.record(name, memoryview(data).cast("B")[:size])
        self._written.append(name)

    def get_all_written_records(self) -> list[str]:
        return list(self._written)

    def write_end_of_file(self) -> None:
        """Adds the table of contents; without it the file cannot be read."""
        self._archive.finish()
        if self._owned:
            self._file.close()
