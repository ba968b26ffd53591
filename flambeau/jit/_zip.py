"""Reading the zip container of TorchScript archives, whose texts may be compressed."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

from .._serialization.archive import ArchiveError

_LARGEST = 1 << 26  # bytes that a compressed record may unpack to
# What compressed texts and pickles may unpack to: so many bytes, and so many times what they take in the file. Reading them
# takes far more memory than they have bytes, so a small file must not hold large ones.
_FREE, _TEXT_RATIO, _PICKLE_RATIO = 1 << 18, 40, 10


class ScriptReader:
    """The records of an archive by their names inside of its one folder."""

    def __init__(self, file: Any):
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise ArchiveError(f"failed finding central directory: the file is no zip archive ({error})") from None
        self._found: dict[str, zipfile.ZipInfo] = {}
        self._check_room(file)
        for info in self._zip.infolist():
            name = info.filename.partition("/")[2]
            if name in self._found:
                raise ArchiveError(f"record {name!r:.100} is there twice")
            self._found[name] = info

    def _check_room(self, file: Any) -> None:
        """Records must not share their bytes, and must not unpack to far more than the file holds."""
        packed = {".py": 0, ".pkl": 0}
        size = {".py": 0, ".pkl": 0}
        total = 0
        for info in self._zip.infolist():
            total += info.compress_size
            kind = ".py" if info.filename.endswith(".py") else ".pkl"
            if info.compress_type != zipfile.ZIP_STORED and ("/data/" not in info.filename or kind == ".py"):
                packed[kind] += info.compress_size
                size[kind] += info.file_size
        if total > file.seek(0, 2):
            raise ArchiveError("the records of the archive overlap")
        for kind, ratio in ((".py", _TEXT_RATIO), (".pkl", _PICKLE_RATIO)):
            if size[kind] > 4 * _FREE + ratio * packed[kind]:
                raise ArchiveError(f"the compressed {kind} records of the archive unpack to more than is sensible")

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
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArchiveError(f"record {name!r:.100} is compressed in a way that archives do not use")
        if info.compress_type != zipfile.ZIP_STORED and info.file_size > _LARGEST:
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
