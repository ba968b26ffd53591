"""LLVM's part: from assembly to object files, by all cores. It is loaded when the first kernel is compiled that is not kept."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..._core.collector import uncollected
from .modules import Part
from .target import Target

# The attribute of functions whose module needs few passes: those that are written in vectors need none that look for some, and those that
# have a few words to do with, whose loops go round once or twice, neither vectors nor copies of loops.
AS_WRITTEN = '"as-written"'


class NoCompiler(ImportError):
    """A kernel would have to be compiled, and LLVM is not there."""


@functools.cache
def loaded() -> Any:
    """llvmlite's binding, ready for use."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise NoCompiler(
            "flambeau needs llvmlite to compile a kernel that neither came with it, nor is kept on disk, nor is part of a loaded package "
            f"(which holds what its program needs for sizes like those of the example arguments): pip install llvmlite. {error}"
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # kernels hold a few instructions that LLVM has no name for
    return llvm


def host() -> Target:
    """This machine, as LLVM knows it."""
    llvm = loaded()
    return Target(str(llvm.llvm_version_info), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def _machine(target: Target) -> Any:
    kinds = loaded().Target
    if target.triple:  # of another kind of machine: its instructions are intrinsics, as their names are not parsed here
        loaded().initialize_all_targets()
        loaded().initialize_all_asmprinters()
    found = kinds.from_triple(target.triple) if target.triple else kinds.from_default_triple()
    return found.create_target_machine(
        cpu=target.cpu, features=target.features, opt=0 if target.hurry else 3, reloc="pic", codemodel="default"
    )


def improved(target: Target, text: str, context: Any, machine: Any) -> Any:
    """A module with LLVM's passes done."""
    llvm = loaded()
    module = llvm.parse_assembly(text, context)
    module.verify()
    if target.hurry:
        return module
    # the third level unrolls more, which takes half as long again and made no kernel faster
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = True
    options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_module_pass_manager() if AS_WRITTEN in text else builder.getModulePassManager()
    if AS_WRITTEN in text:
        # slots become registers, and loops ask at their end: this takes a fifth of the time, and tiles and calls are as fast
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_loop_rotate_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


# In use: an error or an interrupt leaves module and context to the garbage collector, which would free them in any order, and a module
# after its context is a crash. So such a context stays.
_contexts: dict[int, Any] = {}

_machines: dict[
    Target, list[Any]
] = {}  # that no thread has at the moment: one knows the instructions it has chosen from before


def optimised(target: Target, text: str) -> bytes:
    """The object file of a module. Nothing of LLVM's is in use twice, so that threads may do this side by side."""
    idle = _machines.setdefault(target, [])
    context, machine = loaded().create_context(), idle.pop() if idle else _machine(target)
    _contexts[id(context)] = context
    module = improved(target, text, context, machine)
    made = bytes(machine.emit_object(module))
    module.close()  # before its context
    del _contexts[id(context)]
    idle.append(machine)
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


_passables: dict[
    int, _Passable
] = {}  # one for each lock, whichever thread comes first: who has passed one must not release another


def _passable() -> _Passable | None:
    """llvmlite's lock, made so that threads can pass it; None where it has another."""
    from llvmlite.binding import ffi

    holder = getattr(ffi.lib, "_lock", None)
    found = getattr(holder, "_lock", None)
    if isinstance(found, _Passable):
        return found
    if holder is None or not isinstance(found, type(threading.RLock())):
        return None
    holder._lock = made = _passables.setdefault(id(holder), _Passable(found))
    return made


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def objects_of(target: Target, parts: Sequence[Part]) -> dict[str, bytes]:
    """The object files of parts, by digest, made by all cores."""
    loaded()
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
                    made[part.digest] = optimised(target, part.text)
                except BaseException as error:
                    made[part.digest] = error
        except IndexError:  # another took the last
            pass
        finally:
            if entered:
                passing.discard(me)

    lock = _passable()  # others may compile at the same time
    threads = [threading.Thread(target=work, args=(lock,)) for _ in range(min(len(parts), cores()) - 1)] if lock else []
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


@functools.cache
def _linker(target: Target) -> Any:
    return loaded().create_lljit_compiler(_machine(target), use_jit_link=True, suppress_errors=True)


_libraries: list[Any] = []  # they are unloaded when they are forgotten


def linked(target: Target, symbol: str, objects: Sequence[bytes], words: Mapping[str, int]) -> int:
    """The address of a function in object files, by LLVM's own linker: for systems whose files are not known to ours. `words` are the
    addresses of numbers that they read."""
    builder = loaded().JITLibraryBuilder()
    for name, address in words.items():
        builder.import_symbol(name, address)
    for data in objects:
        builder.add_object_img(data)
    builder.export_symbol(symbol).add_current_process()
    library = builder.link(_linker(target), f"{symbol}_{len(_libraries)}")
    _libraries.append(library)
    return library[symbol]
