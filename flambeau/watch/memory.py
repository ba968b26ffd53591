"""How much memory the process holds, in mebibytes."""

from __future__ import annotations

import os
import sys


def memory() -> dict[str, float]:
    """What is resident, and what tensors hold on a GPU if the program uses one."""
    found: dict[str, float] = {}
    try:
        with open("/proc/self/statm") as file:
            found["memory/resident"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except (OSError, IndexError, ValueError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found["memory/peak"] = peak / ((1 << 20) if sys.platform == "darwin" else (1 << 10))
    cuda = sys.modules.get(__name__.partition(".")[0] + ".cuda")
    if cuda is not None and "cupy" in sys.modules:
        found["memory/GPU"] = cuda.memory_allocated() / (1 << 20)
    return found
