"""Gives the machine code of LLVM assembly: compiled once for this CPU, kept in memory and on disk.

Where it is kept, or part of a package that was loaded, LLVM has nothing to do and is not loaded.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._core.state import COMPILING, held_over_forks, unobserved
from . import elf, llvm
from .cache import Cache
from .modules import DIGITS, Part, split
from .target import Target, host

_lock = threading.RLock()  # finalizers and signal handlers that run in the midst may need kernels, too
held_over_forks(_lock, COMPILING)
_addresses: dict[str, int] = {}  # of the functions of parts, by symbol
_BEGAN = time.time_ns()


class _Setting:
    """What kernels are made for in this process, and where they are found."""

    def __init__(self, target: Target | None = None, shelves: Sequence[Shelf] = ()):
        self.cache = Cache.open()
        self.target = host(self.cache, llvm.host) if target is None else target
        self.key, self.features = self.target.key, self.target.abilities()
        self.shelves = list(shelves)
        self.made: dict[str, bytes] | None = None  # where all object code is gathered, for a package

    def read(self, digest: str) -> bytes | None:
        return None if self.cache is None else self.cache.read(digest)


class Shelf:
    """Object code that somebody brought: a package's, by digests, made for a target."""

    def __init__(self, target: Target, objects: Mapping[str, bytes]):
        self.target, self.key, self.objects = target, target.key, objects

    def read(self, digest: str) -> bytes | None:
        return self.objects.get(digest)


_settings: list[_Setting] = []


def _setting() -> _Setting:
    """Found out at the first kernel."""
    if not _settings:
        _settings.append(_Setting())
    return _settings[0]


def bring(shelf: Shelf) -> None:
    """Adds object code that kernels are looked for in. If this process has none yet, it makes its own for the same target."""
    with _lock:
        if _settings:
            _settings[0].shelves.append(shelf)
        else:
            _settings.append(_Setting(shelf.target, [shelf]))


def gather(target: Target | None = None) -> dict[str, bytes]:
    """Collects the object code of all kernels from now on, made for this CPU or for another target; before any kernel is made."""
    with _lock:
        if _settings:
            raise RuntimeError("kernels were made already in this process")
        _settings.append(_Setting(target))
        _settings[0].made = made = dict[str, bytes]()
        return made


def in_use() -> bool:
    """Whether this process has asked for kernels."""
    return bool(_settings)


def target() -> Target:
    """What kernels are made for."""
    with _lock:
        return _setting().target


def cache_directory() -> str | None:
    """Where compiled kernels are kept on disk."""
    with _lock:
        cache = _setting().cache
        return None if cache is None else cache.path


def cpu_features() -> Mapping[str, bool]:
    """What the CPU can do: names of LLVM's to True or False."""
    with _lock:
        return _setting().features


def cache_size(level: int) -> int:
    """Bytes of a core's cache; 0 if the system does not say."""
    try:
        with open(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size") as file:
            return int(file.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 0


def _link(setting: _Setting, parts: Sequence[Part], objects: Sequence[bytes | None]) -> int:
    """Loads object files, each of which may call those before it; gives the address of the last part's function. None stands for what
    is loaded already."""
    if setting.made is not None:
        setting.made.update({part.digest: data for part, data in zip(parts, objects) if data is not None})
    if not elf.machine():
        whole = [data for data in objects if data is not None]
        _addresses[parts[-1].symbol] = llvm.linked(setting.target, parts[-1].symbol, whole)
        return _addresses[parts[-1].symbol]
    for part, data in zip(parts, objects):
        if part.symbol not in _addresses:
            found = elf.load(data or b"", lambda name: _addresses.get(name) or elf.process_symbol(name))
            if part.symbol not in found:
                raise elf.Unloadable(f"the object file has no function {part.symbol}")
            _addresses[part.symbol] = found[part.symbol]
    return _addresses[parts[-1].symbol]


def _digest(text: str) -> str:
    return hashlib.sha256(f"{_setting().key}\n{text}".encode()).hexdigest()[:DIGITS]


@functools.cache
def _sources() -> list[tuple[str, int, int]] | None:
    """What changes with any file that a module's text may depend on; None if one was written since the program began."""
    package = Path(__file__).parent.parent
    files = [f for folder in ("_core", "_kernel", "_backend", "_ops") for f in (package / folder).rglob("*.py")]
    found = sorted([(str(f.relative_to(package)), (info := f.stat()).st_mtime_ns, info.st_size) for f in files])
    return None if max([changed for _, changed, _ in found]) > _BEGAN else found


def compile_rendered(name: str, key: Any, render: Callable[[], str]) -> int:
    """The same for a module whose text takes long to make: it is not made if one is known on this machine by its `key`, which
    says, together with the files of the package, all that the text depends on."""
    sources = _sources()
    if sources is None:
        return compile(name, render())
    with _lock, unobserved():
        setting = _setting()
        cache, own = setting.cache, _digest(f"{name} {key} {sources}")
        known = None if cache is None else cache.read(own)
        if known is not None:
            symbols = known.decode("ascii", "replace").split()
            address = _kept(setting, [Part(symbol, symbol[-DIGITS:], "") for symbol in symbols], setting.read)
            if address is not None:
                return address
    with unobserved():
        text = render()
    address = compile(name, text)
    if cache is not None:
        with _lock:
            cache.write(own, " ".join([part.symbol for part in split(name, text, setting.key)]).encode())
    return address


def compile(name: str, text: str) -> int:
    """The address of function `name` of a module; what it consists of is compiled at most once on this machine."""
    with _lock, unobserved():
        setting = _setting()
        parts = split(name, text, setting.key)
        address = _kept(setting, parts, setting.read)
        for shelf in setting.shelves:
            if address is None:
                brought = parts if shelf.key == setting.key else split(name, text, shelf.key)
                address = _kept(setting, brought, shelf.read)
        return _from_source(setting, parts) if address is None else address


def _kept(setting: _Setting, parts: Sequence[Part], read: Callable[[str], bytes | None]) -> int | None:
    """The address of the last part's function, if all of them are kept and whole."""
    if parts[-1].symbol in _addresses:
        return _addresses[parts[-1].symbol]
    alone = not elf.machine()  # LLVM's linker wants all parts each time
    objects = [read(part.digest) if alone or part.symbol not in _addresses else None for part in parts]
    if any([data is None and (alone or part.symbol not in _addresses) for part, data in zip(parts, objects)]):
        return None
    try:
        return _link(setting, parts, objects)
    except RuntimeError as error:
        if setting.cache is not None:
            setting.cache.tell(parts[-1].digest, str(error))
        return None


def _from_source(setting: _Setting, parts: Sequence[Part]) -> int:
    """The same, for which the parts that are not kept are compiled; all, if those on disk do not fit."""
    kept = {part.digest: setting.read(part.digest) for part in parts}
    missing = [part for part in parts if kept[part.digest] is None] or parts
    with _notice:
        made = llvm.objects_of(setting.target, missing)
    if setting.cache is not None:
        for digest, data in made.items():
            setting.cache.write(digest, data)
    return _link(setting, parts, [made.get(part.digest) or kept[part.digest] for part in parts])


class _Notice:
    """A line on a terminal while kernels are compiled, once that takes longer than a blink."""

    def __init__(self) -> None:
        self.count, self.spent, self.start, self.shown = 0, 0.0, 0.0, False

    def __enter__(self) -> None:
        self.count, self.start = self.count + 1, time.monotonic()
        self.shown = self.spent > 0.3 and sys.stderr is not None and sys.stderr.isatty()
        if self.shown:
            text = f"flambeau: compiling kernel {self.count} for this processor, kept for later runs"
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()

    def __exit__(self, *error: Any) -> None:
        self.spent += time.monotonic() - self.start
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


_notice = _Notice()
