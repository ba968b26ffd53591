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

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

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
        return data

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


_NOT_SEEKABLE = (
    "You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try to "
    "load from it instead."
)


@contextmanager
def opened(f: Any) -> Iterator[Any]:
    """A file to read from: a path is opened unbuffered, a file object is used as it is."""
    if is_path(f):
        with open(f, "rb", buffering=0) as file:
            yield file
        return
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(f"'{type(f).__name__}' object has no attribute '{name}'. {_NOT_SEEKABLE}")
    try:
        f.seek(f.tell())
    except (AttributeError, io.UnsupportedOperation) as error:
        raise AttributeError(f"{error}. {_NOT_SEEKABLE}") from None
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
        with fresh.file:
            yield writer_of(fresh.file)
            fresh.name_it()
            with _released_later(target, old):
                os.replace(fresh.path, target)
    except BaseException:
        fresh.forget()
        raise


@contextmanager
def _released_later(path: Any, old: os.stat_result | None) -> Iterator[None]:
    """Lets another thread give back the space of a large file that is replaced: the disk may still be busy with it."""
    held = None
    if old is not None and old.st_size >= _LARGE and os.name == "posix":
        with suppress(OSError):
            held = _file(path, os.O_RDONLY, "rb")
    try:
        yield
    finally:
        if held is not None:
            try:
                threading.Thread(target=held.close, daemon=True).start()
            except RuntimeError:  # the interpreter is about to end
                held.close()
            except BaseException:  # a thread that an interrupt kept from starting is remembered for ever, with its file
                held.close()
                raise


def _status(path: Any) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _file(path: Any, flags: int, mode: str) -> io.FileIO:
    """An open file. No interrupt can come between its opening and the object that will close it: `map` runs no bytecode."""
    return next(map(io.FileIO, map(os.open, (path,), (flags | _BINARY,), (0o666,)), (mode,)))


class _Fresh:
    """A new file in the folder of the one that it shall replace.

    Linux can make it without a name, so that nothing is left behind if the process is killed. It gets a name for the
    moment of the replacement (and keeps it all the time where files need one). It is locked while its process lives: who
    finds one that is not locked, left by a process that was killed, removes it.
    """

    def __init__(self, target: Any):
        folder, name = os.path.split(os.fsdecode(target))
        self._folder, self._name = folder, name[:100]
        self.path = os.path.join(folder, f".{self._name}.flambeau.tmp")
        self.named = False
        self.file = self._nameless() or self._with_name()

    @classmethod
    def beside(cls, target: Any, old: os.stat_result | None) -> _Fresh | None:
        """The file, open; None if there cannot be one but the old file can be written."""
        try:
            made = cls(target)
        except OSError as error:
            if old is not None and error.errno in _NO_NEIGHBOUR:
                return None
            raise
        if old is not None:
            made._resemble(old)
        return made

    def _nameless(self) -> io.FileIO | None:
        if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
            return None
        try:
            file = _file(self._folder, os.O_RDWR | os.O_TMPFILE, "wb")
        except OSError as error:
            if error.errno in _NO_NEIGHBOUR:
                raise
            return None  # a file system that cannot do it
        _lock(file, wait=False)
        return file

    def _with_name(self) -> io.FileIO:
        """A file that has its name from the beginning."""
        while True:
            self._choose_path()
            try:
                file = _file(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, "wb")
            except FileExistsError:
                continue
            self.named = True
            _lock(file, wait=True)
            if os.fstat(file.fileno()).st_nlink:  # nobody took it for an abandoned one before it was locked
                return file
            file.close()

    def _choose_path(self) -> None:
        """A name that is free: always the same one, so that what was left there is found, unless somebody uses it now."""
        if os.path.lexists(self.path) and not _removed(self.path):
            self.path = os.path.join(self._folder, f".{self._name}.{uuid.uuid4().hex[:16]}.flambeau.tmp")

    def _resemble(self, old: os.stat_result) -> None:
        """Gives the file the mode and, where that is allowed, the owner of the old one."""
        if not hasattr(os, "fchmod"):
            return
        number = self.file.fileno()
        new = os.fstat(number)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with suppress(OSError):  # only few may give files away
                os.fchown(number, old.st_uid, old.st_gid)
        os.fchmod(number, stat.S_IMODE(old.st_mode))

    def name_it(self) -> None:
        """Lets the file appear in its folder."""
        while not self.named:
            self._choose_path()
            number = self.file.fileno()
            try:  # the number of a folder, though not needed, makes Python follow the link in /proc
                os.link(f"/proc/self/fd/{number}", self.path, src_dir_fd=0, follow_symlinks=True)
                self.named = True
            except FileExistsError:
                continue
            except OSError:  # a file system that makes such files but gives them no name
                nameless, self.file = self.file, self._with_name()
                with nameless:
                    os.lseek(number, 0, os.SEEK_SET)
                    with open(number, "rb", closefd=False) as content:
                        shutil.copyfileobj(content, self.file)
                    shutil.copymode(f"/proc/self/fd/{number}", self.path)
                self.file.close()

    def forget(self) -> None:
        self.file.close()
        if self.named:
            with suppress(FileNotFoundError):
                os.unlink(self.path)


def _lock(file: io.FileIO, wait: bool) -> bool:
    """Marks a file as in use by this process; False if it is by another. Where there are no locks, all files are in use."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _removed(path: str) -> bool:
    """Removes a file that a killed process left; False if its process lives."""
    try:
        with _file(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), "wb") as file:
            if not _lock(file, wait=False):
                return False
            here, there = os.fstat(file.fileno()), os.lstat(path)
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
                os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


_BINARY = getattr(os, "O_BINARY", 0)
