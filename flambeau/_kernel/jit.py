"""Turns LLVM assembly into machine code: compiled once for this CPU, kept in memory and on disk."""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._core.state import COMPILING, held_over_forks
from .cache import Cache

_lock = threading.Lock()
held_over_forks(_lock, COMPILING)
_state: dict[str, Any] = {}
_addresses: dict[str, int] = {}
_libraries: list[Any] = []
_count = itertools.count()


def _target() -> dict[str, Any]:
    """llvmlite and the host's target machine, loaded at the first kernel."""
    if not _state:
        import llvmlite.binding as llvm  # loads LLVM: only now, to keep the import of flambeau light

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # kernels hold a few instructions that LLVM has no name for
        cpu, host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
        features = host.flatten()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default")
        key = f"{llvm.llvm_version_info}|{cpu}|{features}|{sys.version_info[:2]}"
        linker = llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
        _state.update(llvm=llvm, machine=machine, key=key, linker=linker, cache=Cache.open(), features=host)
    return _state


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


def _optimise(llvm: Any, machine: Any, text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _link(state: dict[str, Any], symbol: str, data: bytes) -> int:
    """Loads an object file; gives the address of its function."""
    builder = state["llvm"].JITLibraryBuilder().add_object_img(data).export_symbol(symbol).add_current_process()
    library = builder.link(state["linker"], f"{symbol}_{next(_count)}")
    _libraries.append(library)  # unloaded when forgotten
    return library[symbol]


def _digest(text: str) -> str:
    return hashlib.sha256(f"{_target()['key']}\n{text}".encode()).hexdigest()[:40]


@functools.cache
def _sources() -> list[tuple[str, int, int]]:
    """What changes with any file that a module's text may depend on."""
    package = Path(__file__).parent.parent
    files = [f for folder in ("_core", "_kernel", "_backend", "_ops") for f in (package / folder).glob("*.py")]
    return sorted([(str(f), (info := f.stat()).st_mtime_ns, info.st_size) for f in files])


def compile_rendered(name: str, key: Any, render: Callable[[], str]) -> int:
    """The same for a module whose text takes long to make: it is not made if one is known on this machine by its `key`, which
    says, together with the files of the package, all that the text depends on."""
    with _lock:
        cache, own = _target()["cache"], _digest(f"{name} {key} {_sources()}")
        known = None if cache is None else cache.read(own)
        if known is not None:
            digest = known.decode("ascii", "replace")
            address = _addresses.get(digest) or _from_disk(_state, f"{name}_{digest}", digest)
            if address is not None:
                _addresses[digest] = address
                return address
    text = render()
    address = compile(name, text)
    if cache is not None:
        with _lock:
            cache.write(own, _digest(text).encode())
    return address


def compile(name: str, text: str) -> int:
    """The address of function `name` of a module; the module is compiled at most once on this machine."""
    with _lock:
        state = _target()
        digest = _digest(text)
        address = _addresses.get(digest)
        if address is None:
            symbol = f"{name}_{digest}"
            cache = state["cache"]
            address = _from_disk(state, symbol, digest)
            if address is None:
                data = _optimise(state["llvm"], state["machine"], text.replace(f"@{name}(", f"@{symbol}("))
                address = _link(state, symbol, data)
                if cache is not None:
                    cache.write(digest, data)
            _addresses[digest] = address
        return address


def _from_disk(state: dict[str, Any], symbol: str, digest: str) -> int | None:
    """The address of a kernel kept on disk; None if there is none, or if the file is damaged."""
    cache = state["cache"]
    data = None if cache is None else cache.read(digest)
    if data is None:
        return None
    try:
        return _link(state, symbol, data)
    except RuntimeError as error:
        cache.tell(digest, str(error))
        return None
