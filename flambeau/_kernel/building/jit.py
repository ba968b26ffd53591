"""Gives the machine code of LLVM assembly: compiled once for this CPU, kept in memory and on disk.

Where it is kept, comes with flambeau or with a package that was loaded, LLVM has nothing to do and is not loaded.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core.once import found_once
from ..._core.state import COMPILING, held_over_forks, unobserved
from . import archives, cpus, elf, llvm
from .cache import Cache
from .compiling import Compiling, Notice
from .modules import DIGITS, Part, split
from .target import Host, Target, interpreter

_compiling = Compiling()
_lock = threading.RLock()  # finalizers and signal handlers that run in the midst may need kernels, too
held_over_forks(_compiling, COMPILING)
held_over_forks(_lock, COMPILING)
_notice = Notice()


class _Waits(threading.local):
    """Whether a thread had to wait for the compiler."""

    waited = False


waits = _Waits()
_addresses: dict[str, int] = {}  # of the functions of parts, by symbol
_words: dict[str, Any] = {}  # that kernels read, by name
_BEGAN = time.time_ns()


class Shelf:
    """Object code that somebody brought, by digests: a package's, made for a target. `index` has the symbols of kernels by their names
    and keys; it holds for the same files of ours (`sources`) and for vectors of the same width."""

    def __init__(self, target: Target, objects: Mapping[str, bytes], index: Mapping[str, str], sources: str):
        self.target, self.objects, self._index, self.sources = target, objects, index, sources
        self.vectors = cpus.vectors(target.abilities())

    def read(self, digest: str) -> bytes | None:
        return self.objects.get(digest)

    def symbols(self, key: str) -> str:
        """The parts of a kernel by its name and key, if it is known and our files are those that it was made by."""
        return self._index.get(key, "") if self.sources == archives.contents() else ""


class _Setting:
    """What kernels are made for in this process, and where they are found."""

    def __init__(self, target: Target | None = None):
        self.cache = Cache.open()
        self._host = Host(self.cache, llvm.host)
        self.shelves: list[Shelf | archives.Archive] = []
        self.gathered: Gathered | None = None
        self.brought = 0  # parts that were taken from a shelf
        self.made: dict[str, bytes] = {}  # object code that is kept nowhere else
        self.features = target.abilities() if target else cpus.features() or self.target.abilities()
        self.vectors = cpus.vectors(self.features)
        self.rendered = f"{interpreter()} {sorted(self.features.items())}"  # what texts depend on besides files

    @found_once
    def known(self) -> Target | None:
        """What kernels are compiled for, if that is known without LLVM."""
        return self._host.kept()

    @found_once
    def target(self) -> Target:
        """What kernels are compiled for."""
        return self.known or self._host.asked()

    def kept(self, digest: str) -> bytes | None:
        """The object code of a part on disk. Where nobody has asked yet what this machine is, there is none."""
        if digest in self.made:
            return self.made[digest]
        target = vars(self).get("target") or self.known
        return None if self.cache is None or target is None else self.cache.read(_digest(target.key, digest))

    def read(self, digest: str) -> bytes | None:
        """The object code of a part, wherever it is."""
        found = next((data for shelf in self.shelves if (data := shelf.read(digest)) is not None), None)
        self.brought += found is not None
        return self.kept(digest) if found is None else found


class Gathered:
    """The kernels that a process asks for, to be compiled for a target, and by which keys they are known."""

    def __init__(self, target: Target, native: Callable[[str], str] | None):
        self.target, self.native = target, native
        self.parts: dict[str, Part] = {}
        self.index: dict[str, str] = {}

    def objects(self) -> dict[str, bytes]:
        """Their object code, by digests."""
        with _lock:
            setting = _setting()
            same = setting.target == self.target
            kept = {digest: data for digest in self.parts if same and (data := setting.kept(digest)) is not None}
            return {**kept, **llvm.objects_of(self.target, [p for d, p in self.parts.items() if d not in kept])}


_settings: list[_Setting] = []


def _setting() -> _Setting:
    """Found out at the first kernel."""
    if not _settings:
        _settings.append(_Setting())
        _settings[0].shelves.extend(archives.usable())
    return _settings[0]


def bring(shelf: Shelf) -> None:
    """Adds object code that kernels are looked for in. If this process has none yet, it renders its own for the same target."""
    with _lock:
        if not _settings:
            _settings.append(_Setting(shelf.target))
        _settings[0].shelves.append(shelf)


def gather(target: Target | None = None, native: Callable[[str], str] | None = None) -> Gathered:
    """Collects all kernels from now on, rendered for this CPU or for another target. This process runs the same texts, or those that
    `native` makes of them, for machines of another kind; these are compiled in a hurry, as it is only to see what comes next."""
    with _lock:
        if _settings:
            raise RuntimeError("kernels were made already in this process")
        _settings.append(setting := _Setting(target))
        setting.gathered = found = Gathered(target or setting.target, native)
        if native is not None:
            setting.target = setting.target._replace(hurry=True)
        return found


def gathers() -> bool:
    """Whether this process collects its kernels."""
    with _lock:
        return _setting().gathered is not None


def in_use() -> bool:
    """Whether this process has asked for kernels."""
    return bool(_settings)


def target() -> Target:
    """What kernels are compiled for."""
    with _lock:
        return _setting().target


def cache_directory() -> str | None:
    """Where compiled kernels are kept on disk."""
    with _lock:
        cache = _setting().cache
        return None if cache is None else cache.path


def counts() -> tuple[int, int]:
    """How many pieces of object code this process has found ready-made, and how many kernels it had to compile."""
    with _lock:
        return _setting().brought, _notice.count


def cpu_features() -> Mapping[str, bool]:
    """What the CPU that kernels are rendered for can do: names of LLVM's to True; others are missing or False."""
    with _lock:
        return _setting().features


def cache_size(level: int) -> int:
    """Bytes of a core's cache; 0 if the system does not say."""
    try:
        with open(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size") as file:
            return int(file.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 0


def word(name: str, value: int) -> Any:
    """Lets kernels read a number, as `@name = external global i64`, that differs between machines which share their object code."""
    return _words.setdefault(name, ctypes.c_int64(value))


def _resolve(name: str) -> int:
    held = _words.get(name)
    return _addresses.get(name) or (elf.process_symbol(name) if held is None else ctypes.addressof(held))


def _linked(setting: _Setting, symbol: str, objects: Sequence[bytes]) -> int:
    """The address of a function by LLVM's own linker."""
    words = {name: ctypes.addressof(held) for name, held in _words.items()}
    _addresses[symbol] = address = llvm.linked(setting.target, symbol, objects, words)
    return address


def _link(setting: _Setting, parts: Sequence[Part], objects: Sequence[bytes | None]) -> int:
    """Loads object files, each of which may call those before it; gives the address of the last part's function. None stands for what
    is loaded already."""
    if not elf.machine():
        return _linked(setting, parts[-1].symbol, [data for data in objects if data is not None])
    for part, data in zip(parts, objects):
        if part.symbol not in _addresses:
            found = elf.load(data or b"", _resolve)
            if part.symbol not in found:
                raise elf.Unloadable(f"the object file has no function {part.symbol}")
            _addresses[part.symbol] = found[part.symbol]
    return _addresses[parts[-1].symbol]


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:DIGITS]


@functools.cache
def _sources() -> str | None:
    """What changes with any file that a module's text may depend on; None if one was written since the program began."""
    found = [(f, (info := os.stat(f)).st_mtime_ns, info.st_size) for f in archives.files()]
    return None if max([changed for _, changed, _ in found]) > _BEGAN else str(found)


def compile_rendered(name: str, key: Any, render: Callable[[], str]) -> int:
    """The same for a module whose text takes long to make: it is not made if one is known by its `key`, which says, together with
    the files of the package, all that the text depends on."""
    address = kept_rendered(name, key)
    if address is not None:
        return address
    with unobserved():
        text = render()
    address, parts = _compiled(name, text)
    sources, symbols = _sources(), " ".join([part.symbol for part in parts])
    with _lock:
        setting = _setting()
        if setting.gathered is not None:
            setting.gathered.index[f"{name} {key}"] = symbols
        elif setting.cache is not None and sources is not None:
            setting.cache.write(_digest(f"{name} {key}", sources, setting.rendered), symbols.encode())
    return address


def rendered(render: Callable[..., str]) -> Callable[..., int]:
    """Makes a function that gives the text of a kernel one that gives its address: its name and arguments are the key."""

    @functools.cache
    @functools.wraps(render)
    def address(*facts: Any) -> int:
        return compile_rendered("kernel", (render.__module__, render.__qualname__, *facts), lambda: render(*facts))

    return address


def kept_rendered(name: str, key: Any) -> int | None:
    """The same if it is known by its key and need not be compiled."""
    sources, known = _sources(), f"{name} {key}"
    with _lock, unobserved():
        setting = _setting()
        if sources is None or setting.gathered is not None:
            return None
        for shelf in setting.shelves:
            if shelf.vectors != setting.vectors:
                continue  # tiles have other sizes there, and who calls them counts on ours
            address = _named(setting, shelf.symbols(known))
            if address is not None:
                return address
        if setting.cache is None:
            return None
        kept = setting.cache.read(_digest(known, sources, setting.rendered))
        return None if kept is None else _named(setting, kept.decode("ascii", "replace"))


def compile(name: str, text: str) -> int:
    """The address of function `name` of a module; what it consists of is compiled at most once on this machine."""
    return _compiled(name, text)[0]


def _compiled(name: str, text: str) -> tuple[int, list[Part]]:
    """The address, and the parts that are known by it."""
    with unobserved():
        with _lock:
            setting = _setting()
            wanted = parts = split(name, text)
            if setting.gathered is not None:
                setting.gathered.parts.update({part.digest: part for part in parts})
                if setting.gathered.native is not None:
                    parts = split(name, setting.gathered.native(text))
        return _from_source(setting, parts), wanted


def _named(setting: _Setting, symbols: str) -> int | None:
    """The address of the last of several functions, if all of them are kept and whole."""
    parts = [Part(symbol, symbol[-DIGITS:], "") for symbol in symbols.split()]
    return _kept(setting, parts) if parts else None


def _kept(setting: _Setting, parts: Sequence[Part]) -> int | None:
    """The address of the last part's function, if all of them are kept and whole."""
    if parts[-1].symbol in _addresses:
        return _addresses[parts[-1].symbol]
    alone = not elf.machine()  # LLVM's linker wants all parts each time
    objects: list[bytes | None] = []
    for part in reversed(parts):  # the last is the one that is most often missing
        loaded = part.symbol in _addresses and not alone
        objects.append(None if loaded else setting.read(part.digest))
        if objects[-1] is None and not loaded:
            return None
    try:
        return _link(setting, parts, objects[::-1])
    except RuntimeError as error:
        if setting.cache is not None:
            setting.cache.tell(parts[-1].digest, str(error))
        return None


def _from_source(setting: _Setting, parts: Sequence[Part]) -> int:
    """The same, for which the parts that are neither loaded nor kept are compiled; all, if those on disk do not fit."""
    with _lock:
        address = _kept(setting, parts)
        if address is not None:
            return address
        if elf.machine():
            parts = [part for part in parts if part.symbol not in _addresses]
        found = {part.digest: setting.read(part.digest) for part in parts}
        missing = [part for part in parts if found[part.digest] is None] or list(parts)
    waits.waited = waits.waited or bool(missing)
    while missing:
        mine = _compiling.begin(missing)
        try:
            made = _made(setting, mine) if mine else {}
        finally:
            _compiling.end(mine)
        _compiling.wait(missing)
        with _lock:
            found |= {p.digest: made.get(p.digest) or setting.read(p.digest) for p in missing}
            missing = [p for p in missing if found[p.digest] is None and p.symbol not in _addresses]
    objects = [found[part.digest] for part in parts]
    with _lock:
        try:
            return _link(setting, parts, objects)
        except elf.Unloadable:  # something that only LLVM's linker knows
            return _linked(setting, parts[-1].symbol, [data or b"" for data in objects])


def _made(setting: _Setting, parts: Sequence[Part]) -> dict[str, bytes]:
    """The object code of parts that this thread compiles, kept for others."""
    with _notice:
        made = llvm.objects_of(setting.target, parts)
    with _lock:
        for digest, data in made.items():
            if setting.cache is None:
                setting.made[digest] = data
            else:
                setting.cache.write(_digest(setting.target.key, digest), data)
    return made
