"""Turns LLVM assembly into machine code: compiled once for this CPU, kept in memory and on disk."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._core.state import COMPILING, held_over_forks, uncollected
from .cache import Cache
from .modules import DIGITS, Part, split

_lock = threading.RLock()  # finalizers and signal handlers that run in the midst may need kernels, too
held_over_forks(_lock, COMPILING)
_state: dict[str, Any] = {}
_addresses: dict[str, int] = {}
_libraries: list[Any] = []
_count = itertools.count()
_BEGAN = time.time_ns()


def _target() -> dict[str, Any]:
    """llvmlite and the host's target machine, loaded at the first kernel."""
    if not _state:
        import llvmlite.binding as llvm  # loads LLVM: only now, to keep the import of flambeau light

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # kernels hold a few instructions that LLVM has no name for
        cpu, host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
        features = host.flatten()
        machine = _machine(llvm, cpu, features)
        layout = sys.version_info[:2], object.__basicsize__  # free-threaded interpreters have other objects
        key = f"{llvm.llvm_version_info}|{cpu}|{features}|{layout}"
        linker = llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
        _state.update(llvm=llvm, key=key, linker=linker, cache=Cache.open(), features=host, cpu=cpu)
    return _state


def _machine(llvm: Any, cpu: str, features: str) -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default")


def cache_directory() -> str | None:
    """Where compiled kernels are kept on disk."""
    with _lock:
        cache = _target()["cache"]
        return None if cache is None else cache.path  # type: ignore[no-any-return]


def cpu_features() -> Any:
    """What this CPU can do: names of LLVM's to True or False. (LLVM is only ever used under the lock.)"""
    with _lock:
        return _target()["features"]


def cache_size(level: int) -> int:
    """Bytes of a core's cache; 0 if the system does not say."""
    try:
        with open(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size") as file:
            return int(file.read().strip().rstrip("K")) << 10
    except (OSError, ValueError):
        return 0


def _optimise(state: dict[str, Any], text: str) -> bytes:
    """The object file of a module. Nothing of LLVM's is shared, so that threads may do this side by side."""
    llvm, context = state["llvm"], state["llvm"].create_context()
    machine = _machine(llvm, state["cpu"], state["features"].flatten())
    module = llvm.parse_assembly(text, context)
    module.verify()
    # the third level unrolls more, which takes half as long again and made no kernel faster
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    made = bytes(machine.emit_object(module))
    module.close()  # before its context
    return made


class _Passable:
    """llvmlite's lock, which lets the threads in `passing` through: what they use belongs to them alone."""

    def __init__(self, inner: Any):
        self.inner = inner
        self.passing: set[int] = set()

    def acquire(self) -> Any:
        return threading.get_ident() in self.passing or self.inner.acquire()

    def release(self) -> None:
        if threading.get_ident() not in self.passing:
            self.inner.release()


def _passable() -> _Passable | None:
    """llvmlite's lock, made so that threads can pass it; None where it has another."""
    from llvmlite.binding import ffi

    holder = getattr(ffi.lib, "_lock", None)
    found = getattr(holder, "_lock", None)
    if isinstance(found, _Passable):
        return found
    if holder is None or not isinstance(found, type(threading.RLock())):
        return None
    holder._lock = _Passable(found)
    return holder._lock  # type: ignore[no-any-return]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _objects(state: dict[str, Any], parts: Sequence[Part]) -> dict[str, bytes]:
    """The object files of parts, by digest, made by all cores."""
    made: dict[str, Any] = {}
    waiting = sorted(parts, key=lambda part: len(part.text))  # the longest is taken first

    def work(lock: _Passable | None) -> None:
        me = threading.get_ident()
        passing = set() if lock is None else lock.passing
        entered = me not in passing
        if entered:
            passing.add(me)
        try:
            while waiting:
                part = waiting.pop()
                try:
                    made[part.digest] = _optimise(state, part.text)
                except BaseException as error:
                    made[part.digest] = error
        except IndexError:  # another took the last
            pass
        finally:
            if entered:
                passing.discard(me)

    lock = _passable() if len(parts) > 1 else None
    threads = (
        [threading.Thread(target=work, args=(lock,)) for _ in range(min(len(parts), _cores()) - 1)] if lock else []
    )
    with uncollected():  # a finalizer that waits in one of them for this lock would never get it
        for thread in threads:
            thread.start()
        work(lock)
        for thread in threads:
            thread.join()
    for result in made.values():
        if isinstance(result, BaseException):
            raise result
    return made


def _link(state: dict[str, Any], part: Part, objects: Sequence[Any]) -> int:
    """Loads object files; gives the address of the function of a part."""
    builder = state["llvm"].JITLibraryBuilder()
    for data in objects:
        builder.add_object_img(data)
    builder.export_symbol(part.symbol).add_current_process()
    library = builder.link(state["linker"], f"{part.symbol}_{next(_count)}")
    _libraries.append(library)  # unloaded when forgotten
    _addresses[part.digest] = address = library[part.symbol]
    return address  # type: ignore[no-any-return]


def _digest(text: str) -> str:
    return hashlib.sha256(f"{_target()['key']}\n{text}".encode()).hexdigest()[:40]


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
    with _lock:
        state = _target()
        cache, own = state["cache"], _digest(f"{name} {key} {sources}")
        known = None if cache is None else cache.read(own)
        if known is not None:
            symbols = known.decode("ascii", "replace").split()
            address = _from_disk(state, [Part(symbol, symbol[-DIGITS:], "") for symbol in symbols])
            if address is not None:
                return address
    text = render()
    address = compile(name, text)
    if cache is not None:
        with _lock:
            cache.write(own, " ".join([part.symbol for part in split(name, text, state["key"])]).encode())
    return address


def compile(name: str, text: str) -> int:
    """The address of function `name` of a module; what it consists of is compiled at most once on this machine."""
    with _lock:
        state = _target()
        parts = split(name, text, state["key"])
        address = _from_disk(state, parts)
        return _from_source(state, parts) if address is None else address


def _from_disk(state: dict[str, Any], parts: Sequence[Part]) -> int | None:
    """The address of the last part's function, if all of them are kept on disk and whole."""
    cache, last = state["cache"], parts[-1]
    if last.digest in _addresses:
        return _addresses[last.digest]
    objects = [None if cache is None else cache.read(part.digest) for part in parts]
    if any([data is None for data in objects]):
        return None
    try:
        return _link(state, last, objects)
    except RuntimeError as error:
        cache.tell(last.digest, str(error))
        return None


def _from_source(state: dict[str, Any], parts: Sequence[Part]) -> int:
    """The same, for which the parts that are not kept are compiled; all, if those on disk do not fit."""
    cache = state["cache"]
    kept = {part.digest: None if cache is None else cache.read(part.digest) for part in parts}
    missing = [part for part in parts if kept[part.digest] is None] or parts
    with _notice:
        made = _objects(state, missing)
    if cache is not None:
        for digest, data in made.items():
            cache.write(digest, data)
    return _link(state, parts[-1], [made.get(part.digest) or kept[part.digest] for part in parts])


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
