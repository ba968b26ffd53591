"""The machine that kernels are made for. LLVM tells its name and abilities once; after that they are read from disk, so that a process
whose kernels are all there never loads LLVM."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
from collections.abc import Callable
from typing import NamedTuple

from .cache import Cache

# Lines of /proc/cpuinfo on which LLVM's answer depends; others change from minute to minute.
_TELLING = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU implementer", "CPU architecture",
    "CPU variant", "CPU part", "CPU revision",
)  # fmt: skip


class Target(NamedTuple):
    """A kind of CPU in LLVM's words: features are "+avx2,-sve,…"; a triple names machines of another kind than this. Code for one in
    a hurry is not optimised."""

    llvm: str
    cpu: str
    features: str
    triple: str = ""
    hurry: bool = False

    @property
    def key(self) -> str:
        """What object code depends on besides its source."""
        return f"{self.llvm}|{self.cpu}|{self.features}{'|hurry' if self.hurry else ''}"

    def abilities(self) -> dict[str, bool]:
        """Names of features to whether the CPU has them."""
        return {name[1:]: name[0] == "+" for name in self.features.split(",") if name}


def interpreter() -> str:
    """What a kernel's text depends on besides the package's files and its key: free-threaded interpreters have other objects. Versions
    of Python differ in nothing that a kernel reads but where slots lie, which is in the key."""
    return f"objects from {object.__basicsize__} bytes on"


class Host:
    """This machine, as LLVM told it when a process last asked on the same CPU with the same LLVM."""

    def __init__(self, cache: Cache | None, ask: Callable[[], Target]):
        self.cache, self.ask = cache, ask
        facts = None if cache is None else _facts()
        self.digest = None if facts is None else hashlib.sha256(f"host {facts}".encode()).hexdigest()[:40]

    def kept(self) -> Target | None:
        """What is on disk; LLVM is not asked."""
        if self.cache is not None and self.digest is not None and (kept := self.cache.read(self.digest)) is not None:
            try:
                llvm, cpu, features = kept.decode().split("\n")
                return Target(llvm, cpu, features)
            except ValueError:  # of another form than ours: ask again
                pass
        return None

    def asked(self) -> Target:
        """What LLVM says; it is kept."""
        found = self.ask()
        if self.cache is not None and self.digest is not None:
            self.cache.write(self.digest, "\n".join(found[:3]).encode())
        return found


def _facts() -> list[str] | None:
    """What tells this CPU and this LLVM from others, without loading it; None if that is not known."""
    try:
        spec = importlib.util.find_spec("llvmlite")
        with open("/proc/cpuinfo") as file:
            lines = {line.strip() for line in file if line.partition(":")[0].strip() in _TELLING}
        if spec is None or spec.origin is None or not lines:
            return None
        folder = os.path.join(os.path.dirname(spec.origin), "binding")
        found = [f for f in os.scandir(folder) if "llvmlite" in f.name]
        files = [(f.name, (info := f.stat()).st_mtime_ns, info.st_size) for f in found]
    except (OSError, ValueError):
        return None
    return [platform.machine(), platform.release(), folder, str(sorted(files)), *sorted(lines)] if files else None
