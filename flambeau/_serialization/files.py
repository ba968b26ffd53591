"""Where checkpoints are read from and written to: paths, file objects, mapped files, and files replaced as a whole."""

from __future__ import annotations

import errno
import io
import mmap
import os
import shutil
import stat
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

# What says that a file beside the old one cannot be made, though the old one may perhaps be written.
_NO_NEIGHBOUR = (errno.EACCES, errno.EPERM, errno.EROFS)

_LARGE = 1 << 20  # bytes of a file from which it matters how long its removal takes


def is_path(f: Any) -> bool:
    return isinstance(f, (str, os.PathLike))


# -- reading -----------------------------------------------------------------------------------------------------


class FileSource:
    """Any part of a seekable file, read on demand."""

    def __init__(self, file: Any, size: int | None = None):
        self.file = file
        self.size = file.seek(0, os.SEEK_END) if size is None else size
        if self.size is None:  # some file objects only tell
            self.size = file.tell()

    def read(self, start: int, count: int) -> bytes:
        """So many bytes; EOFError if there are fewer. Never asks for more than there can be."""
        if start < 0 or count < 0 or start + count > self.size:
            raise EOFError(f"the file ends before byte {start + count}: it was cut short")
        self.file.seek(start)
        data = self.file.read(count)
        while len(data) < count:
            more = self.file.read(count - len(data))
            if not more:
                raise EOFError(f"the file ends before byte {start + count}: it was cut short")
            data += more
        return data  # type: ignore[no-any-return]

    def read_into(self, start: int, memory: Any) -> None:
        """Fills a writable buffer."""
        self.file.seek(start)
        read_into = getattr(self.file, "readinto", None)
        done, count = 0, len(memory)
        while done < count:
            if read_into is not None:
                got = read_into(memory[done:])
            else:
                data = self.file.read(count - done)
                got = len(data)
                memory[done : done + got] = data
            if not got:
                raise EOFError(f"the file ends before byte {start + count}: it was cut short")
            done += got


class MappedSource:
    """A file as memory: parts are read by the system when they are first looked at."""

    def __init__(self, path: Any, flags: int | None = None):
        shared = flags is not None and flags == getattr(mmap, "MAP_SHARED", None)
        with open(path, "r+b" if shared else "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            self.map = mmap.mmap(file.fileno(), 0, access=access) if self.size else b""

    def read(self, start: int, count: int) -> bytes:
        if start < 0 or count < 0 or start + count > self.size:
            raise EOFError(f"the file ends before byte {start + count}: it was cut short")
        return self.map[start : start + count]

    def array(self, start: int, count: int) -> Any:
        """A part of the file as an array, without a copy; its owner keeps the map open."""
        return np.frombuffer(self.map, np.uint8, count, start)


@contextmanager
def opened(f: Any) -> Iterator[Any]:
    """A file to read from: a path is opened unbuffered, a file object is used as it is."""
    if is_path(f):
        with open(f, "rb", buffering=0) as file:
            yield file
        return
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{name}': load needs a path or a seekable file of bytes; "
                "read the data into an io.BytesIO first"
            )
    try:
        f.seek(f.tell())
    except (AttributeError, io.UnsupportedOperation) as error:
        raise AttributeError(f"{error}: load needs a seekable file; read the data into an io.BytesIO first") from None
    yield f


# -- writing -----------------------------------------------------------------------------------------------------


def writer_of(f: Any) -> Callable[[Any], None]:
    """A function that writes all of a buffer to a file object."""
    if not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    takes_buffers = isinstance(f, (io.RawIOBase, io.BufferedIOBase))
    partial = isinstance(f, io.RawIOBase)

    def write(data: Any) -> None:
        if not takes_buffers:  # one that may keep what it gets
            f.write(data if isinstance(data, bytes) else bytes(data))
            return
        rest = memoryview(data)
        done = f.write(rest)
        while partial and done is not None and done < len(rest):
            rest = rest[done:]
            done = f.write(rest)

    return write


@contextmanager
def replacing(path: Any) -> Iterator[Callable[[Any], None]]:
    """Gives a function that writes the new contents of a file, which takes its place at the end, all at once.

    Until then, and if anything fails, the old file stays as it was. The new one gets its mode (and owner, if allowed);
    links keep pointing to it. Devices and pipes are written directly, and so are files in a folder where no other file
    can be made. Nothing waits for the disk: after a loss of power the file is as the file system left it.
    """
    target = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.fsdecode(folder)} does not exist.")
    old = _status(target)
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise RuntimeError(f"cannot save to {os.fsdecode(target)}: it is a directory")
    fresh = None
    if old is None or stat.S_ISREG(old.st_mode):
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(target))
        fresh = _Fresh.beside(target, old)
    if fresh is None:
        with open(target, "wb", buffering=0) as file:
            yield writer_of(file)
        return
    try:
        with open(fresh.number, "wb", buffering=0) as file:
            yield writer_of(file)
            fresh.name_it()
        with _released_later(target, old):
            os.replace(fresh.path, target)
    except BaseException:
        fresh.forget()
        raise


@contextmanager
def _released_later(path: Any, old: os.stat_result | None) -> Iterator[None]:
    """Lets another thread give back the space of a large file that is replaced: the disk may still be busy with it."""
    number = None
    if old is not None and old.st_size >= _LARGE and os.name == "posix":
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY)
    try:
        yield
    finally:
        if number is not None:
            try:
                threading.Thread(target=os.close, args=(number,), daemon=True).start()
            except RuntimeError:  # the interpreter is about to end
                os.close(number)


def _status(path: Any) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


class _Fresh:
    """A new file in the folder of the one that it shall replace.

    Linux can make it without a name, so that nothing is left behind even if the process is killed.
    """

    def __init__(self, path: Any, number: int, named: bool):
        self.path, self.number, self.named = path, number, named

    @classmethod
    def beside(cls, target: Any, old: os.stat_result | None) -> _Fresh | None:
        """The file, open; None if there cannot be one but the old file can be written."""
        folder, name = os.path.split(os.fsdecode(target))
        path = os.path.join(folder, f".{name[:100]}.{uuid.uuid4().hex[:16]}.tmp")
        try:
            made = cls._nameless(folder, path) or cls(
                path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666), True
            )
        except OSError as error:
            if old is not None and error.errno in _NO_NEIGHBOUR:
                return None
            raise
        if old is not None:
            made._resemble(old)
        return made

    @classmethod
    def _nameless(cls, folder: str, path: str) -> _Fresh | None:
        if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
            return None
        try:
            return cls(path, os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o666), False)
        except OSError as error:
            if error.errno in _NO_NEIGHBOUR:
                raise
            return None  # a file system that cannot do it

    def _resemble(self, old: os.stat_result) -> None:
        """Gives the file the mode and, where that is allowed, the owner of the old one."""
        if not hasattr(os, "fchmod"):
            return
        new = os.fstat(self.number)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with suppress(OSError):  # only few may give files away
                os.fchown(self.number, old.st_uid, old.st_gid)
        os.fchmod(self.number, stat.S_IMODE(old.st_mode))

    def name_it(self) -> None:
        """Lets the file appear in its folder."""
        if self.named:
            return
        try:  # the number of a folder, though not needed, makes Python follow the link in /proc
            os.link(f"/proc/self/fd/{self.number}", self.path, src_dir_fd=0, follow_symlinks=True)
            self.named = True
        except OSError:  # a file system that makes such files but gives them no name
            with open(self.path, "xb") as copy:
                self.named = True
                os.lseek(self.number, 0, os.SEEK_SET)
                shutil.copyfileobj(os.fdopen(self.number, "rb", closefd=False), copy)
                shutil.copymode(f"/proc/self/fd/{self.number}", self.path)

    def forget(self) -> None:
        if self.named:
            with suppress(FileNotFoundError):
                os.unlink(self.path)


_BINARY = getattr(os, "O_BINARY", 0)
