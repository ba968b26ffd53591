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
_PACKAGE = Path(__file__).parent.parent


class Shelf:
    """Object code that somebody brought: a package's, by digests, made for a target on a machine with such caches. `index` has the
    symbols of kernels by their names and keys; it holds for the same files of ours (`sources`)."""

    def __init__(
        self, target: Target, objects: Mapping[str, bytes], index: Mapping[str, str], sources: str, caches: Mapping[str, int]
    ):  # fmt: skip
        self.target, self.key, self.objects = target, target.key, objects
        self.index, self.sources, self.caches = index, sources, caches

    def read(self, digest: str) -> bytes | None:
        return self.objects.get(digest)


class _Setting:
    """What kernels are made for in this process, and where they are found."""

    def __init__(self, target: Target | None = None, caches: Mapping[str, int] | None = None):
        self.cache = Cache.open()
        self.target = host(self.cache, llvm.host) if target is None else target
        self.key, self.features = self.target.key, self.target.abilities()
        self.caches = caches  # sizes of the caches that kernels are made for; None: as they are here
        self.shelves: list[Shelf] = []
        self.gathered: Gathered | None = None

    def read(self, digest: str) -> bytes | None:
        return None if self.cache is None else self.cache.read(digest)


class Gathered:
    """The object code of all kernels of a process, for a package, and by which keys they are known. If this CPU cannot run what is made for
    the target, `here` says what the same kernels are made for to be run."""

    def __init__(self, here: Target | None):
        self.objects: dict[str, bytes] = {}
        self.index: dict[str, str] = {}
        self.here = here


_settings: list[_Setting] = []


def _setting() -> _Setting:
    """Found out at the first kernel."""
    if not _settings:
        _settings.append(_Setting())
    return _settings[0]


def bring(shelf: Shelf) -> None:
    """Adds object code that kernels are looked for in. If this process has none yet, it makes its own for the same target."""
    with _lock:
        if not _settings:
            _settings.append(_Setting(shelf.target, shelf.caches))
        _settings[0].shelves.append(shelf)


def gather(target: Target | None = None, runs: bool = True) -> Gathered:
    """Collects all kernels from now on, made for this CPU or for another target, which this one may not be able to run."""
    with _lock:
        if _settings:
            raise RuntimeError("kernels were made already in this process")
        _settings.append(_Setting(target))
        _settings[0].gathered = found = Gathered(None if runs else llvm.host())
        return found


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
    if _settings and _settings[0].caches is not None:
        return _settings[0].caches.get(str(level), 0)
    try:
        with open(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size") as file:
            return int(file.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 0


def _link(setting: _Setting, parts: Sequence[Part], objects: Sequence[bytes | None]) -> int:
    """Loads object files, each of which may call those before it; gives the address of the last part's function. None stands for what
    is loaded already."""
    if setting.gathered is not None:
        setting.gathered.objects.update({part.digest: data for part, data in zip(parts, objects) if data is not None})
        if setting.gathered.here is not None:
            made = llvm.objects_of(setting.gathered.here, parts)
            objects = [made[part.digest] for part in parts]
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


def _files() -> list[Path]:
    return sorted([f for folder in ("_core", "_kernel", "_backend", "_ops") for f in (_PACKAGE / folder).rglob("*.py")])


@functools.cache
def _sources() -> list[tuple[str, int, int]] | None:
    """What changes with any file that a module's text may depend on; None if one was written since the program began."""
    found = [(str(f.relative_to(_PACKAGE)), (info := f.stat()).st_mtime_ns, info.st_size) for f in _files()]
    return None if max([changed for _, changed, _ in found]) > _BEGAN else found


@functools.cache
def contents() -> str:
    """The digest of all files that a module's text may depend on, the same wherever they are installed."""
    digest = hashlib.sha256()
    for file in _files():
        digest.update(f"{file.name} ".encode() + file.read_bytes())
    return digest.hexdigest()


def compile_rendered(name: str, key: Any, render: Callable[[], str]) -> int:
    """The same for a module whose text takes long to make: it is not made if one is known on this machine by its `key`, which
    says, together with the files of the package, all that the text depends on."""
    sources = _sources()
    if sources is None:
        return compile(name, render())
    with _lock, unobserved():
        setting = _setting()
        cache, own = setting.cache, _digest(f"{name} {key} {sources}")
        known = None if cache is None or setting.gathered is not None else cache.read(own)
        ways = [] if known is None else [(known.decode("ascii", "replace"), setting.read)]
        ways += [
            (shelf.index.get(f"{name} {key}", ""), shelf.read)
            for shelf in setting.shelves
            if shelf.sources == contents()
        ]
        for symbols, read in ways:
            parts = [Part(symbol, symbol[-DIGITS:], "") for symbol in symbols.split()]
            address = _kept(setting, parts, read) if parts else None
            if address is not None:
                return address
    with unobserved():
        text = render()
    address = compile(name, text)
    with _lock:
        symbols = " ".join([part.symbol for part in split(name, text, setting.key)])
        if cache is not None:
            cache.write(own, symbols.encode())
        if setting.gathered is not None:
            setting.gathered.index[f"{name} {key}"] = symbols
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
    objects = [made.get(part.digest) or kept[part.digest] or b"" for part in parts]
    try:
        return _link(setting, parts, objects)
    except elf.Unloadable:  # something that only LLVM's linker knows
        _addresses[parts[-1].symbol] = address = llvm.linked(setting.target, parts[-1].symbol, objects)
        return address


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
