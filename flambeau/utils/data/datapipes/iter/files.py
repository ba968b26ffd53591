"""Streams of files: their paths, the files opened, and what is read from them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[Any]):
    """Paths of the files in folders whose names fit one of the `masks`; in the order of names."""

    def __init__(
        self, root: Any = ".", masks: Any = "", *, recursive: bool = False, abspath: bool = False,
        non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.datapipe = [root] if isinstance(root, str) else root
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath, self.non_deterministic, self.length = (
            recursive,
            abspath,
            non_deterministic,
            length,
        )

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            yield from self._files(os.path.abspath(root) if self.abspath else root)

    def _files(self, folder: str) -> Iterator[str]:
        if os.path.isfile(folder):
            yield folder
            return
        folders = []
        with os.scandir(folder) as found:
            entries = list(found) if self.non_deterministic else sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir():
                folders.append(entry.path)
            elif self.masks in ([], [""]) or any(fnmatch.fnmatch(entry.name, mask) for mask in self.masks):
                yield entry.path
        if self.recursive:
            for path in folders:
                yield from self._files(path)

    def __len__(self) -> int:
        return _told(self)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[Any]):
    """Pairs of a path and the file there, opened for reading as text (`mode` "r", "t", "rt") or bytes ("b", "rb")."""

    def __init__(self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(
                f"Invalid mode {mode}: files are opened for reading, as text ('r', 't', 'rt') or bytes ('b', 'rb')"
            )
        if "b" in mode and encoding is not None:
            raise ValueError("open_files: files of bytes have no encoding")
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = mode if "r" in mode else "r" + mode

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path in self.datapipe:
            if not isinstance(path, (str, os.PathLike)):
                raise TypeError(f"open_files: expected paths, but got {type(path).__name__}")
            file = open(path, self.mode, encoding=self.encoding)  # noqa: SIM115 - closed with the wrapper
            yield str(path), StreamWrapper(file, name=str(path))

    def __len__(self) -> int:
        return _told(self)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """Pairs of a path and what its open file holds: all of it, or pieces of `chunk` characters or bytes."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            while True:
                piece = stream.read(self.chunk)
                if not piece:
                    stream.close()
                    break
                yield path, piece


def _told(pipe: Any) -> int:
    if pipe.length == -1:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length: give it as length=")
    return pipe.length
