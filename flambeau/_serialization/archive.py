"""The zip archives that checkpoints are: records stored as they are, each beginning at a multiple of 64 bytes.

Only what checkpoints use is read and written: no compression and no encryption. The reader takes nothing in a file for
granted: records must lie inside of it, must not overlap, and must have the checksum that they were written with.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from .crc import crc32

ALIGNMENT = 64
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_FLAGS = 0x0808  # names are UTF-8; sizes and checksum come after the data
_MOST = 0xFFFFFFFF  # stands for "see the 64-bit field"
_SMALL = 1 << 16  # bytes up to which a record is read in one piece with its header
_DAMAGED = "the file is damaged or was cut short while it was written or copied"


class ArchiveError(RuntimeError):
    """A file that is not a whole and sound archive."""


class Writer:
    """Writes records one after the other through `write`, which takes bytes-like objects."""

    def __init__(self, write: Any, name: str, crc: bool = True, alignment: int = ALIGNMENT):
        self._write, self._name, self._crc, self._alignment = write, name, crc, alignment
        self._position = 0
        self._held: list[Any] = []  # small pieces that wait for company
        self._waiting = 0
        self._central: list[bytes] = []

    def _put(self, piece: Any, size: int) -> None:
        self._position += size
        self._held.append(piece)
        self._waiting += size
        if self._waiting >= 1 << 20:
            self.flush()

    def flush(self) -> None:
        """Hands over what was held back; large pieces go as they are, without a copy."""
        small: list[Any] = []
        for piece in self._held:
            if len(piece) < _SMALL:
                small.append(piece)
                continue
            if small:
                self._write(b"".join(small))
                small = []
            self._write(piece)
        if small:
            self._write(b"".join(small))
        self._held, self._waiting = [], 0

    def record(self, name: str, data: Any, checked: bool = True) -> None:
        """Adds a record of bytes, with their checksum unless that is not wanted."""
        path = f"{self._name}/{name}".encode()
        size, start = len(data), self._position
        wide = size >= _MOST
        extra = struct.pack("<2H2Q", 1, 16, size, size) if wide else b""
        header_end = start + _LOCAL.size + len(path) + len(extra) + 4
        padding = -header_end % self._alignment
        extra += b"FB" + struct.pack("<H", padding) + b"Z" * padding
        self._put(
            _LOCAL.pack(b"PK\3\4", 0, _FLAGS, 0, 0, 0, 0, 0, 0, len(path), len(extra)) + path + extra,
            _LOCAL.size + len(path) + len(extra),
        )
        self._put(data, size)
        crc = crc32(data) if self._crc and checked else 0
        after = struct.pack("<4sI2Q" if wide else "<4s3I", b"PK\7\10", crc, size, size)
        self._put(after, len(after))
        self._central.append(_central_entry(path, crc, size, start))

    def hole(self, name: str, size: int) -> None:
        """Adds a record of zeros in place of data that is not there."""
        self.record(name, np.zeros(size, np.uint8).data, False)  # the system gives such memory when it is read

    def finish(self) -> None:
        """Adds what readers expect at the end, and the table of contents."""
        self.record("version", b"3\n")
        contents = b"".join(self._central)
        names = int.from_bytes(hashlib.sha256(self._name.encode()).digest()[:8], "little")
        values = int.from_bytes(hashlib.sha256(contents).digest()[:8], "little")
        self.record(".data/serialization_id", f"{names:020d}{values:020d}".encode())
        table = b"".join(self._central)
        count, start, size = len(self._central), self._position, len(table)
        end64 = _END64.pack(b"PK\6\6", _END64.size - 12, 0x031E, 45, 0, 0, count, count, size, start)
        locator = _LOCATOR64.pack(b"PK\6\7", 0, start + size, 1)
        few = min(count, 0xFFFF)
        end = _END.pack(b"PK\5\6", 0, 0, few, few, min(size, _MOST), min(start, _MOST), 0)
        self._put(table + end64 + locator + end, size + len(end64) + len(locator) + len(end))
        self.flush()


def _central_entry(path: bytes, crc: int, size: int, start: int) -> bytes:
    wide = [n for n in (size, size, start) if n >= _MOST]
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    size, start = min(size, _MOST), min(start, _MOST)
    head = _CENTRAL.pack(b"PK\1\2", 0, 0, _FLAGS, 0, 0, 0, crc, size, size, len(path), len(extra), 0, 0, 0, 0, start)
    return head + path + extra


class Record:
    """Where a record lies: its header begins at `start`, and the next one at `limit`."""

    __slots__ = ("crc", "limit", "path", "size", "start")

    def __init__(self, path: bytes, start: int, size: int, crc: int):
        self.path, self.start, self.size, self.crc, self.limit = path, start, size, crc, 0


class Reader:
    """The records of an archive in a source (see `files`), which may hold more before and after it."""

    def __init__(self, source: Any, start: int = 0):
        self._source = source
        self._records = self._contents(start)

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def names(self) -> list[str]:
        return list(self._records)

    def _contents(self, start: int) -> dict[str, Record]:
        """The table of contents of the archive that begins at `start`.

        Archives may lie one after the other: the last one is found first, and what lies before it is looked at in turn.
        """
        end = self._source.size
        while True:
            count, table_at, table_size, finish, base = self._find_end(end)
            if base == start or base <= 0:
                break
            end = base
        if base != start:
            raise ArchiveError(f"the table of contents does not fit the beginning of the archive: {_DAMAGED}")
        self.end = finish
        table = self._source.read(table_at, table_size)
        if count > len(table) // _CENTRAL.size:
            raise ArchiveError(f"the table of contents is too short for {count} records: {_DAMAGED}")
        records = _parse_table(table, count, base)
        ordered = sorted(records, key=lambda record: record.start)
        for record, after in zip(ordered, [r.start for r in ordered[1:]] + [table_at]):
            record.limit = after
            if record.start < start or record.start + _LOCAL.size + record.size > after:
                raise ArchiveError(f"record {_shown(record.path)} does not lie where it should: {_DAMAGED}")
        return _by_name(records)

    def _find_end(self, end: int) -> tuple[int, int, int, int, int]:
        """(records, table's place, its size, archive's end, archive's beginning) of the last archive before `end`."""
        tail_at = max(0, end - _END.size - 0xFFFF)
        tail = self._source.read(tail_at, end - tail_at)
        at = tail.rfind(b"PK\5\6", 0, len(tail) - _END.size + 4)
        if at < 0:
            raise ArchiveError(f"failed finding central directory of the zip archive: {_DAMAGED}")
        _, _, _, _, count, size, offset, comment = _END.unpack_from(tail, at)
        place = tail_at + at
        finish = place + _END.size + comment
        if place >= _LOCATOR64.size:
            mark, *_ = _LOCATOR64.unpack(self._source.read(place - _LOCATOR64.size, _LOCATOR64.size))
            if mark == b"PK\6\7" and place >= _LOCATOR64.size + _END64.size:
                place -= _LOCATOR64.size + _END64.size
                fields = _END64.unpack(self._source.read(place, _END64.size))
                if fields[0] != b"PK\6\6":
                    raise ArchiveError(f"the end of the archive is not where it should be: {_DAMAGED}")
                count, size, offset = fields[7], fields[8], fields[9]
        if size > place or offset > place - size or finish > end:
            raise ArchiveError(f"the table of contents lies outside of the file: {_DAMAGED}")
        return count, place - size, size, finish, place - size - offset

    def _find(self, name: str) -> Record:
        record = self._records.get(name)
        if record is None:
            raise ArchiveError(f"the archive has no record {name!r}: {_DAMAGED}")
        return record

    def size(self, name: str) -> int:
        return self._find(name).size

    def place(self, name: str) -> int:
        """Where the data of a record begins in the source."""
        record = self._find(name)
        return self._data_at(record, self._source.read(record.start, _LOCAL.size))

    def _data_at(self, record: Record, header: Any) -> int:
        fields = _LOCAL.unpack_from(header)
        start = record.start + _LOCAL.size + fields[9] + fields[10]
        if fields[0] != b"PK\3\4" or fields[9] != len(record.path) or start + record.size > record.limit:
            raise ArchiveError(f"record {_shown(record.path)} has a false header: {_DAMAGED}")
        return start

    def read(self, name: str) -> bytes:
        """The bytes of a record, checked."""
        record = self._find(name)
        data = self._source.read(self._data_at(record, self._source.read(record.start, _LOCAL.size)), record.size)
        _check(record, data)
        return data

    def read_into(self, name: str, memory: Any) -> None:
        """Fills a writable buffer of the record's size with its bytes, checked."""
        record = self._find(name)
        if record.limit - record.start <= _SMALL:
            whole = self._source.read(record.start, record.limit - record.start)
            at = self._data_at(record, whole) - record.start
            memory[:] = whole[at : at + record.size]
        else:
            at = self._data_at(record, self._source.read(record.start, _LOCAL.size))
            self._source.read_into(at, memory)
        _check(record, memory)


def _check(record: Record, data: Any) -> None:
    """Raises if data is not what was written. PyTorch can leave checksums out: then they are 0."""
    if record.crc and record.crc != crc32(data):
        raise ArchiveError(f"record {_shown(record.path)} does not have its checksum: {_DAMAGED}")


def _parse_table(table: bytes, count: int, base: int) -> list[Record]:
    records, at = [], 0
    for _ in range(count):
        if at + _CENTRAL.size > len(table):
            raise ArchiveError(f"the table of contents ends too early: {_DAMAGED}")
        fields = _CENTRAL.unpack_from(table, at)
        mark, _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, *_, start = fields
        at += _CENTRAL.size
        path = table[at : at + name_size]
        extra = table[at + name_size : at + name_size + extra_size]
        at += name_size + extra_size + comment_size
        if mark != b"PK\1\2" or at > len(table):
            raise ArchiveError(f"the table of contents is not in order: {_DAMAGED}")
        if _MOST in (size, packed, start):
            size, packed, start = _wide(extra, size, packed, start)
        if method or flags & 1 or packed != size:
            raise ArchiveError(f"record {_shown(path)} is compressed or encrypted; checkpoints are stored as they are")
        records.append(Record(path, base + start, size, crc))
    return records


def _wide(extra: bytes, *values: int) -> list[int]:
    """Sizes and place from the 64-bit field of a record."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1 and at + 4 + length <= len(extra) and length >= 8 * values.count(_MOST):
            numbers = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            return [next(numbers) if value == _MOST else value for value in values]
        at += 4 + length
    return list(values)


def _by_name(records: list[Record]) -> dict[str, Record]:
    """Records by their names inside of the archive's one folder."""
    found = {}
    for record in records:
        try:
            name = record.path.decode().partition("/")[2]
        except UnicodeDecodeError:
            raise ArchiveError(f"a record's name is not text: {_DAMAGED}") from None
        if name in found:
            raise ArchiveError(f"record {_shown(record.path)} is there twice: {_DAMAGED}")
        found[name] = record
    return found


def _shown(path: bytes) -> str:
    return repr(path[:100].decode("utf-8", "replace"))
