"""How the C library keeps freed memory: large results are reused instead of being returned to the system each time."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_FROM_HEAP = 32 << 20  # the most that glibc allows
_KEPT_FREE = 256 << 20


def keep_freed_memory() -> None:
    """Lets glibc's heap serve blocks up to 32 MiB and keep up to 256 MiB that is free at its end.

    By default it hands such blocks back at once, and every new result pays a page fault for each 4 KiB of it.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
