"""Kernels that come with flambeau: archives of object code, one for each of a few CPUs, which `tools/ship_kernels.py` writes into the
folder `_kernel/shipped` before a wheel is built. Where there is none, and for what is not in it, kernels are compiled.

Code is found by the text that it was compiled from, so that an archive which older files of ours have left behind holds nothing that
is asked for. An archive says what a CPU must be able to do, and holds checksums. One that is damaged, or that others than the owner of
these files may write to, is not used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from . import cpus
from .cache import writers
from .target import interpreter

_KERNEL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(_KERNEL, "shipped")
FOLDERS = ("_backend", "_compile", "_core", "_kernel", "_ops")
# whose kernels are known by their names
MODULES = tuple([f"{__package__.partition('.')[0]}.{folder}." for folder in FOLDERS])
_MARK = b"flambeau kernels 1\n"
_HEAD = struct.Struct("<19s32sQ")  # mark, checksum and bytes of the table, which comes next
_SUM = 16  # bytes of the checksum before each object
_LARGEST = 1 << 26  # bytes of a table or an object


@functools.cache
def files() -> list[str]:
    """All files that the text of a kernel may depend on, if it is known by its name and its key."""
    places = [place for folder in FOLDERS for place in os.walk(os.path.join(os.path.dirname(_KERNEL), folder))]
    return sorted([os.path.join(where, name) for where, _, names in places for name in names if name.endswith(".py")])


@functools.cache
def contents() -> str:
    """The digest of all these files, the same wherever they are installed."""
    digest = hashlib.sha256()
    for file in files():
        with open(file, "rb") as opened:
            digest.update(f"{os.path.basename(file)} ".encode() + opened.read())
    return digest.hexdigest()


def _table(path: str) -> tuple[int, dict[str, Any]]:
    """Where an archive's objects begin, and what it says of itself and them."""
    import json

    with _open(path) as number:
        if not private(os.fstat(number)) or not private(os.stat(os.path.dirname(path))):
            raise ValueError("others may write to the archive")
        mark, checksum, size = _HEAD.unpack(os.pread(number, _HEAD.size, 0))
        packed = os.pread(number, size, _HEAD.size) if mark == _MARK and size < _LARGEST else b""
    if hashlib.sha256(packed).digest() != checksum:
        raise ValueError("the archive's table is damaged")
    return _HEAD.size + size, json.loads(zlib.decompress(packed))


def made_here(path: str) -> bool:
    """Whether an archive, or the list of families, was made by the files as they are."""
    if path.endswith(".kernels"):
        return bool(_table(path)[1]["sources"] == contents())
    with open(path) as file:
        return file.read().startswith(contents())


class Archive:
    """Object code by digests, in a file. `symbols` finds the parts of a kernel whose text need not be rendered."""

    def __init__(self, path: str):
        self._start, about = _table(path)
        if about["machine"] != platform.machine().lower() or not cpus.words().issuperset(about["words"]):
            raise ValueError("the archive is for another machine")
        self.cpu, self._path, self._sources = about["cpu"], path, about["sources"]
        self.vectors = cpus.vectors(cpus.named(self.cpu).target(about["llvm"]).abilities())
        self._places: dict[str, list[int]] = about["objects"]
        self._index: dict[str, str] = about["indexes"].get(interpreter(), {})

    def __len__(self) -> int:
        return len(self._places)

    def read(self, digest: str) -> bytes | None:
        """The object code for a digest; None if there is none that is whole."""
        place = self._places.get(digest)
        if place is None:
            return None
        try:
            with _open(self._path) as number:
                data = os.pread(number, place[1], self._start + place[0])
            unpacked = zlib.decompress(data[_SUM:])
        except (OSError, zlib.error):
            return None
        return unpacked if data[:_SUM] == _checksum(digest, unpacked) else None

    def symbols(self, key: str) -> str:
        """The parts of a kernel by its name and key, if it is known and our files are those that it was made by."""
        return self._index.get(key, "") if self._sources == contents() else ""


@contextlib.contextmanager
def _open(path: str) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield number
    finally:
        os.close(number)


def private(info: os.stat_result) -> bool:
    """Whether nobody may write to a file or folder but the user, the system and who installed the package."""
    if not hasattr(os, "getuid"):
        return True
    if info.st_uid == os.stat(__file__).st_uid != os.getuid():
        return not info.st_mode & 0o022
    return writers(info, above=True) is None


def _checksum(digest: str, data: bytes) -> bytes:
    return hashlib.sha256(f"{digest} {len(data)}\n".encode() + data).digest()[:_SUM]


def in_use() -> bool:
    """Whether something comes with these files and is wanted."""
    return os.environ.get("FLAMBEAU_SHIPPED") != "0" and os.path.isdir(FOLDER)


def usable() -> list[Archive]:
    """What kernels are looked for in: the archive of the ablest CPU whose code this one runs, if there is one that can be used."""
    for cpu in cpus.able() if in_use() else ():
        try:
            return [Archive(os.path.join(FOLDER, f"{cpu.name}.kernels"))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, zlib.error):
            continue
    return []


def write(
    path: str, cpu: cpus.Cpu, machine: str, llvm: str, objects: Mapping[str, bytes], indexes: Mapping[str, Mapping[str, str]]
) -> None:  # fmt: skip
    """Makes an archive of object code for a CPU, with what is known of kernels by the interpreter that asked for them."""
    import json

    places, blobs, at = {}, [], 0
    for digest, data in sorted(objects.items()):
        blobs.append(_checksum(digest, data) + zlib.compress(data, 9))
        places[digest], at = (at, len(blobs[-1])), at + len(blobs[-1])
    about = {
        "machine": machine, "cpu": cpu.name, "words": sorted(cpu.words), "llvm": llvm, "sources": contents(), "indexes": indexes,
        "objects": places,
    }  # fmt: skip
    packed = zlib.compress(json.dumps(about, sort_keys=True).encode(), 9)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.writelines([_HEAD.pack(_MARK, hashlib.sha256(packed).digest(), len(packed)), packed, *blobs])
    os.replace(temporary, path)
