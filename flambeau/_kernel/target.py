"""The machine that kernels are made for. LLVM tells its name and abilities once; after that they are read from disk, so that a process
whose kernels are all there never loads LLVM."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .cache import Cache

# Lines of /proc/cpuinfo on which LLVM's answer depends; others change from minute to minute.
_TELLING = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU implementer", "CPU architecture",
    "CPU variant", "CPU part", "CPU revision",
)  # fmt: skip


class Target(NamedTuple):
    """A kind of CPU in LLVM's words: features are "+avx2,-sve,…"."""

    llvm: str
    cpu: str
    features: str

    @property
    def key(self) -> str:
        """What object code depends on besides its source: free-threaded interpreters have other objects."""
        return f"{self.llvm}|{self.cpu}|{self.features}|{(sys.version_info[:2], object.__basicsize__)}"

    def abilities(self) -> dict[str, bool]:
        """Names of features to whether the CPU has them."""
        return {name[1:]: name[0] == "+" for name in self.features.split(",") if name}


def host(cache: Cache | None, ask: Callable[[], Target]) -> Target:
    """This machine: as it was told when a process last asked on the same CPU with the same LLVM."""
    facts = None if cache is None else _facts()
    if cache is None or facts is None:
        return ask()
    own = hashlib.sha256(f"host {facts}".encode()).hexdigest()[:40]
    kept = cache.read(own)
    if kept is not None:
        try:
            return Target(*map(str, json.loads(kept)))
        except (ValueError, TypeError):  # of another form than ours: ask again
            pass
    found = ask()
    cache.write(own, json.dumps(found).encode())
    return found


def _facts() -> list[str] | None:
    """What tells this CPU and this LLVM from others, without loading it; None if that is not known."""
    try:
        spec = importlib.util.find_spec("llvmlite")
        with open("/proc/cpuinfo") as file:
            lines = {line.strip() for line in file if line.partition(":")[0].strip() in _TELLING}
    except (OSError, ValueError):
        return None
    if spec is None or spec.origin is None or not lines:
        return None
    folder = Path(spec.origin).parent / "binding"
    files = [(f.name, (info := f.stat()).st_mtime_ns, info.st_size) for f in folder.glob("*llvmlite*")]
    return [platform.machine(), platform.release(), str(folder), str(sorted(files)), *sorted(lines)] if files else None
