"""Reading the zip container of TorchScript archives, whose texts may be compressed."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

from .._serialization.archive import ArchiveError

__all__ = ["ScriptReader"]

_LARGEST_TEXT = 1 << 26  # bytes that a compressed record may unpack to


class ScriptReader:
    """The records of an archive by their names inside of its one folder."""

    def __init__(self, file: Any):
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise ArchiveError(f"failed finding central directory: the file is no zip archive ({error})") from None
        self._found: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename.partition("/")[2]
            if name in self._found:
                raise ArchiveError(f"record {name!r:.100} is there twice")
            self._found[name] = info

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def names(self) -> list[str]:
        return list(self._found)

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self._found.get(name)
        if info is None:
            raise ArchiveError(f"file not found: {name!r:.100}")
        if info.flag_bits & 1:
            raise ArchiveError(f"record {name!r:.100} is encrypted")
        if info.compress_type != zipfile.ZIP_STORED and info.file_size > _LARGEST_TEXT:
            raise ArchiveError(f"record {name!r:.100} unpacks to more than is sensible")
        return info

    def size(self, name: str) -> int:
        return self._info(name).file_size

    def read(self, name: str) -> bytes:
        """The bytes of a record, checked."""
        info = self._info(name)
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, ValueError, OSError, EOFError) as error:
            raise ArchiveError(f"record {name!r:.100} is damaged: {error}") from None

    def read_into(self, name: str, memory: Any) -> None:
        """Fills a writable buffer of the record's size."""
        memory[:] = self.read(name)
