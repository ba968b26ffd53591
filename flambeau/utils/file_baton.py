"""A lock by a file that only one of several processes can make."""

from __future__ import annotations

import os
import time

from .._errors.frames import warn_user

__all__ = ["FileBaton"]


class FileBaton:
    """One process holds the baton while its file is there; the others wait until it is gone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, two = FileBaton(folder + "/lock"), FileBaton(folder + "/lock")
    ...     one.try_acquire(), two.try_acquire(), one.release(), two.try_acquire(), two.release()
    (True, False, None, True, None)
    """

    def __init__(self, lock_file_path: str, wait_seconds: float = 0.1, warn_after_seconds: float | None = None):
        self.lock_file_path, self.wait_seconds, self.warn_after_seconds = (
            lock_file_path,
            wait_seconds,
            warn_after_seconds,
        )
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Takes the baton if nobody holds it."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Returns when nobody holds the baton."""
        start, warned = time.monotonic(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not warned and time.monotonic() - start > self.warn_after_seconds:  # type: ignore[operator]
                warn_user(
                    f"FileBaton: waited {self.warn_after_seconds} seconds for {self.lock_file_path} to be released"
                )
                warned = True

    def release(self) -> None:
        """Gives the baton back."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
