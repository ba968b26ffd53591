"""`FileStore`: a store in a file that several processes share.

The file is a journal: after a mark, one record for every change of a key, each with its length and checksum. Records are
only added, so a process that is killed while it writes loses its own change at most; a record that is not whole is cut
off by the next writer. What the file holds is data: nothing in it is executed or unpickled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Callable
from typing import Any

from ._kinds import DistStoreError
from ._stores import Store

__all__ = ["FileStore"]

_MARK = b"flambeau store 1\n"
_HEAD = struct.Struct("<QI")  # length and checksum of what follows
_LENGTH = struct.Struct("<Q")
_GONE, _VALUE, _QUEUE = b"-", b"=", b"["


def _record(key: str, value: Any) -> bytes:
    """A key's new value: bytes, a list of bytes, or None if it is gone."""
    kind = _GONE if value is None else _QUEUE if isinstance(value, list) else _VALUE
    fields = [key.encode(), *([] if value is None else value if isinstance(value, list) else [value])]
    content = kind + b"".join([_LENGTH.pack(len(field)) + field for field in fields])
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _apply(content: bytes, table: dict[str, Any]) -> None:
    """Does to the table what a record says; ValueError if it says nothing sensible."""
    fields, at = [], 1
    while at < len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if length > len(content) - at:
            raise ValueError("a field is longer than its record")
        fields.append(content[at : at + length])
        at += length
    key, values = fields[0].decode(), fields[1:]
    kind = content[:1]
    if kind == _GONE and not values:
        table.pop(key, None)
    elif kind == _VALUE and len(values) == 1:
        table[key] = values[0]
    elif kind == _QUEUE:
        table[key] = values
    else:
        raise ValueError("an unknown kind of record")


def _leave(path: str, world_size: int) -> None:
    """A process needs the file no more; the last one removes it, so that the name can serve again."""
    with contextlib.suppress(OSError, DistStoreError):
        if os.path.exists(path) and FileStore(path).add("processes that ended", 1) >= world_size:
            os.unlink(path)


class FileStore(Store):
    """A store in a file that several processes share. With a `world_size` the last of so many to end removes the file.

    >>> import flambeau as torch, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "store")
    >>> torch.distributed.FileStore(path).set("a", "b")
    >>> torch.distributed.FileStore(path).get("a")
    b'b'
    """

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self._path = file_name
        self._lock = threading.Lock()
        self._table: dict[str, Any] = {}
        self._seen: tuple[int, int] | None = None  # the file that `_table` was read from
        self._at = 0  # and up to where
        if world_size > 0:
            weakref.finalize(self, _leave, file_name, world_size)

    @property
    def path(self) -> str:
        return self._path

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        with self._lock, open(self._path, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._read(file)
            before = {key: list(v) if isinstance(v, list) else v for key, v in self._table.items()}
            result = change(self._table)
            records = [_record(key, value) for key, value in self._table.items() if before.get(key) != value]
            records += [_record(key, None) for key in before if key not in self._table]
            if records:
                try:
                    self._write(file, records)
                except BaseException:
                    self._seen = None  # what is in the file is to be read again
                    raise
            return result

    def _read(self, file: Any) -> None:
        """Brings the table up to date with the records that others added."""
        status = os.fstat(file.fileno())
        which = status.st_dev, status.st_ino
        if which != self._seen or status.st_size < self._at:
            self._table, self._at, self._seen = {}, 0, which
        file.seek(self._at)
        data = file.read(status.st_size - self._at)
        at = 0
        if not self._at:
            if data[: len(_MARK)] != _MARK[: len(data)]:
                self._seen = None
                raise DistStoreError(f"{self._path} is no store: give FileStore a new or empty file")
            if len(data) < len(_MARK):
                return
            at = len(_MARK)
        while len(data) - at >= _HEAD.size:
            length, checksum = _HEAD.unpack_from(data, at)
            start = at + _HEAD.size
            if length > len(data) - start or zlib.crc32(data[start : start + length]) != checksum:
                break  # of a process that was killed: the file ends before it
            try:
                _apply(data[start : start + length], self._table)
            except (ValueError, IndexError, struct.error) as error:
                self._seen = None
                raise DistStoreError(f"{self._path} is no store, or is damaged: {error}") from None
            at = start + length
        self._at += at

    def _write(self, file: Any, records: list[bytes]) -> None:
        rest = memoryview(b"".join(records) if self._at else _MARK + b"".join(records))
        file.truncate(self._at)
        self._at += len(rest)
        while rest:
            rest = rest[file.write(rest) :]

    def clone(self) -> FileStore:
        """Another object for the same file."""
        return FileStore(self._path)
