"""Machine code kept on disk between processes. It is executed as it is, so nothing is taken that somebody else could have
written, or that is not whole: a file says how long it is and holds a checksum over its name and contents."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
import warnings
from typing import Any

_MARK = b"flambeau kernel 1\n"
_SUM = 32  # bytes of the checksum
MOST = 512_000_000  # bytes that are kept; a kernel has about fifteen thousand
_DAY = 86400.0  # seconds: how exactly is known when a kernel was last used
_STALE = 3600.0  # seconds after which one looks again, and a file that was never finished belongs to a process that was killed


def chosen_root() -> str | None:
    """The folder that the environment names: absolute paths only, as the XDG rules have it."""
    named = os.environ.get("FLAMBEAU_CACHE_DIR")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "flambeau") if os.path.isabs(base) else None


def _private_group(group: int) -> bool:
    """Whether a group is the user's own, as many systems make one for each user."""
    try:
        import grp
        import pwd

        found, user = grp.getgrgid(group), pwd.getpwuid(os.getuid())
    except (ImportError, KeyError):
        return False
    return group == user.pw_gid and found.gr_name == user.pw_name and not set(found.gr_mem) - {user.pw_name}


def writers(info: os.stat_result, above: bool = False) -> str | None:
    """Who else could change a file or folder; None if nobody could.

    A folder `above` may belong to the system, and may be open to all if they cannot rename what is not theirs (/tmp).
    """
    if not hasattr(os, "getuid"):
        return None
    if info.st_uid != os.getuid() and not (above and info.st_uid == 0):
        return f"it belongs to user {info.st_uid}"
    if above and info.st_mode & stat.S_ISVTX:
        return None
    if info.st_mode & 0o002:
        return "everybody may write to it"
    if info.st_mode & 0o020 and not (info.st_uid == 0 and info.st_gid == 0) and not _private_group(info.st_gid):
        return f"group {info.st_gid} may write to it"
    return None


class Cache:
    """A folder of compiled kernels by their digests."""

    def __init__(self, path: str):
        self.path = path
        self._told = self._cleaned = False

    @classmethod
    def open(cls) -> Cache | None:
        """The cache that the environment names; None if no private place can be had."""
        root = chosen_root()
        if root is None:
            return None
        path = os.path.join(root, "kernels")
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            path = os.path.realpath(path)
            place, above = path, False
            while True:
                reason = writers(os.stat(place), above)
                if reason is not None:
                    warnings.warn(
                        f"compiled kernels are not kept in {path}: {place} is not private, {reason}; set "
                        "FLAMBEAU_CACHE_DIR to a folder that only you can write to",
                        stacklevel=2,
                    )
                    return None
                place, below, above = os.path.dirname(place), place, True
                if place == below:
                    return cls(path)
        except OSError:
            return None

    def _file(self, digest: str) -> str:
        return os.path.join(self.path, f"{digest}.kernel")

    def read(self, digest: str) -> bytes | None:
        """The object file kept for a digest; None if there is none that can be trusted."""
        try:
            number = os.open(self._file(digest), os.O_RDONLY | _NO_LINKS)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.tell(digest, str(error))
            return None
        with open(number, "rb", buffering=0) as file:
            info = os.fstat(number)
            reason = "it is no file" if not stat.S_ISREG(info.st_mode) else writers(info)
            content = b"" if reason else file.read()
        data = memoryview(content)[len(_MARK) + _SUM :]
        if reason is None and content != _wrapped(digest, data):
            reason = "its checksum is false"
        if reason is not None:
            self.tell(digest, reason)
            return None
        if time.time() - max(info.st_atime, info.st_mtime) > _DAY:  # many systems do not note when a file is read
            with contextlib.suppress(OSError):
                os.utime(self._file(digest))
        return bytes(data)

    def tell(self, digest: str, reason: str) -> None:
        """Says, once in a process, that kernels on disk are damaged."""
        if not self._told:
            self._told = True
            warnings.warn(
                f"the kept kernel {self._file(digest)} is not used: {reason}. It is compiled again, and so are others like it",
                stacklevel=2,
            )

    def write(self, digest: str, data: bytes) -> None:
        """Keeps an object file; a full or read-only disk costs only the next start."""
        self._clean()
        temporary = os.path.join(self.path, f"{digest}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            with open(temporary, "xb", opener=_private) as file:
                file.write(_wrapped(digest, data))
            os.replace(temporary, self._file(digest))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def kept(self) -> list[tuple[float, int, str]]:
        """When each kernel was last used, its bytes and its file; the oldest first."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(".kernel"):
                    info = entry.stat(follow_symlinks=False)
                    found.append((max(info.st_atime, info.st_mtime), info.st_size, entry.path))
        return sorted(found)

    def bound(self, most: int) -> int:
        """Removes the kernels that were not used for longest until at most so many bytes are left; how many were removed."""
        files = self.kept()
        size, removed = sum([n for _, n, _ in files]), 0
        for _, n, path in files:
            if size <= most:
                break
            try:
                os.unlink(path)
            except FileNotFoundError:  # another process was faster
                pass
            except OSError:
                continue
            size, removed = size - n, removed + 1
        return removed

    def _clean(self) -> None:
        """Removes what processes that were killed have left, and what was not used for longest if there is too much. A process does
        so before it first writes, if none has within an hour: to look through a full folder takes a second."""
        if self._cleaned:
            return
        self._cleaned = True
        looked, old = f"{self.path}.looked", time.time() - _STALE
        with contextlib.suppress(OSError):
            if os.stat(looked).st_mtime > old:
                return
        with contextlib.suppress(OSError), open(looked, "wb", opener=_private):
            os.utime(looked)
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(".tmp") and entry.stat(follow_symlinks=False).st_mtime < old:
                    os.unlink(entry.path)
        self.bound(MOST)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _wrapped(digest: str, data: Any) -> bytes:
    """The contents of a file: mark, checksum, object. The checksum covers the length and the name too."""
    checksum = hashlib.sha256(f"{digest} {len(data)}\n".encode())
    checksum.update(data)
    return _MARK + checksum.digest() + data


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
