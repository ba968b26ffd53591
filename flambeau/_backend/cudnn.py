"""cuDNN, where it is installed: with the system, or as NVIDIA's package for Python.

The words and numbers are those of its graph interface. Operations over tensors are described by descriptors and form a graph; heuristics
name engines that can carry it out, best first; of the first that suits a plan is made, which is kept. To carry that out costs
some microseconds, where cuDNN's older interface takes a hundred to find the same out at each call.
"""

from __future__ import annotations

import array
import ctypes
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.config import config
from .._core.once import found_once
from .._kernel.loops.dialect import compile_function
from .cuda_driver import address_of
from .cuda_handles import Handles
from .cuda_watch import watching

TYPES = {"f32": 0, "f64": 1, "f16": 2, "i32": 4, "bf16": 9, "b1": 11}  # what cuDNN calls the types of elements
OPERANDS = 14  # that a graph has at most
NOT_DETERMINISTIC = 4  # what is noted of engines
# Kinds of attributes.
OF_HANDLE, OF_TYPE, OF_FLAGS, OF_INTEGERS, OF_FLOATS, OF_DOUBLES, OF_ADDRESSES, OF_MODE, OF_HEURISTIC = range(9)
OF_NOTES, OF_POINTWISE, OF_DESCRIPTORS, OF_REDUCTION = 11, 14, 15, 18
# Kinds of descriptors.
_ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN, _GRAPH, _PACK, _TENSOR = 2, 3, 4, 5, 15, 16, 17
_LIBRARIES = ("libcudnn.so.9", "libcudnn.so.8")
_MOST_MEMORY = 1 << 30  # bytes that an engine may work in
_MOST_KEPT = 1024  # graphs that are kept ready
_ENGINES, _TRIED = 32, 8  # that are asked for, and of which the fastest is looked for
_ALIGNMENT = 16  # bytes that addresses of operands are multiples of
_USUAL, _FALLBACK = 3, 2  # kinds of heuristics
_FUNCTIONS = ("CreateDescriptor", "SetAttribute", "Finalize", "Execute", "DestroyDescriptor")
_WORDS = ["functions", "handle", "plan", "numbers", "count", "work", *[f"p{i}" for i in range(OPERANDS)]]
_Execution = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(_WORDS))


def _store(m: Any, place: Any, words: Sequence[Any]) -> Any:
    """Writes words one after the other; gives the bits that any of them has."""
    bits = m.number(0)
    for i, word in enumerate(words):
        m.put(place, 8 * i, word)
        bits = bits | word
    return bits


def _execute(
    m, functions, handle, plan, numbers, count, work, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13
):  # fmt: skip
    """Carries out a plan over operands at addresses; not 0 if cuDNN refuses, or if one is not aligned."""
    at = m.fields(functions, _FUNCTIONS)
    own, operands = m.space(2), m.space(OPERANDS)
    bits = _store(m, operands, (p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13))
    if (bits & (_ALIGNMENT - 1)) != 0:
        return 1
    status = m.short(at.CreateDescriptor, _PACK, own)
    if status != 0:
        return status
    pack = m.word(own, 0)
    m.put(own, 8, work)
    status = m.short(at.SetAttribute, pack, 1000, OF_INTEGERS, count, numbers)
    status = status | m.short(at.SetAttribute, pack, 1001, OF_ADDRESSES, count, operands)
    status = status | m.short(at.SetAttribute, pack, 1003, OF_ADDRESSES, 1, own + 8)
    status = status | m.short(at.Finalize, pack)
    if status == 0:
        status = m.short(at.Execute, handle, plan, pack)
    m.run(at.DestroyDescriptor, pack)
    return status


class Settings:
    """What `torch.backends.cudnn` has switched on, and whether attention may be cuDNN's."""

    enabled = True
    benchmark = False  # algorithms are tried for each convolution, and the fastest is taken
    deterministic = False
    allow_tf32 = True
    attention = True

    def switches(self) -> tuple[bool, bool, bool]:
        """Those that the choice of an algorithm depends on."""
        return self.deterministic or config.deterministic, self.benchmark, self.allow_tf32

    def number(self) -> int:
        """Another one for each way in which all switches can stand."""
        return sum([on << i for i, on in enumerate((self.enabled, self.attention, *self.switches()))])


settings = Settings()


class Refused(RuntimeError):
    """cuDNN cannot do what a descriptor says."""


class Descriptor:
    """One of cuDNN's descriptions, which goes with this object."""

    def __init__(self, library: Any, kind: int):
        self.library, self.kind, self.place, self.keep = library, kind, ctypes.c_void_p(), list[Any]()
        self._check(library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.place)))

    def set(self, name: int, kind: int, values: Any) -> None:
        """Sets an attribute to an array of ctypes, or to descriptors."""
        if kind == OF_DESCRIPTORS:
            self.keep += values
            values = (ctypes.c_void_p * len(values))(*[d.place for d in values])
        self._check(self.library.cudnnBackendSetAttribute(self.place, name, kind, ctypes.c_int64(len(values)), values))

    def choose(self, name: int, kind: int, value: int) -> None:
        """Sets an attribute that is one of an enumeration."""
        self.set(name, kind, (ctypes.c_int * 1)(value))

    def count(self, name: int, values: Sequence[int]) -> None:
        """Sets an attribute of integers."""
        self.set(name, OF_INTEGERS, integers(values))

    def get(self, name: int, kind: int, values: Any) -> int:
        """Reads an attribute into an array of ctypes; how many values it has."""
        count = ctypes.c_int64()
        self._check(
            self.library.cudnnBackendGetAttribute(
                self.place, name, kind, ctypes.c_int64(len(values)), ctypes.byref(count), values
            )
        )
        return min(count.value, len(values))

    def finished(self) -> Descriptor:
        self._check(self.library.cudnnBackendFinalize(self.place))
        return self

    def _check(self, status: int) -> None:
        if status:
            raise Refused(f"cuDNN refuses a descriptor of kind {self.kind}: status {status}")

    def __del__(self) -> None:
        self.library.cudnnBackendDestroyDescriptor(self.place)


class Ready(NamedTuple):
    """A graph made ready: its plan, bytes that this works in, and numbers that come after its operands."""

    plan: Descriptor
    memory: int
    constants: Any


class Graph:
    """Operations over tensors: those of the operands, which are numbered from 1 on, then constants, then what nobody else sees."""

    def __init__(self, library: Any):
        self.library, self.operations, self.hidden = library, list[Descriptor](), OPERANDS
        self.constants: dict[float, Descriptor] = {}  # those that the graph names, in order

    def new(self, kind: int) -> Descriptor:
        return Descriptor(self.library, kind)

    def tensor(
        self,
        code: str,
        shape: Sequence[int],
        steps: Sequence[int],
        number: int,
        hidden: bool = False,
        value: bool = False,
    ) -> Descriptor:
        """One that lies in memory with so many elements from one place to the next."""
        made = self.new(_TENSOR)
        made.choose(901, OF_TYPE, TYPES[code])
        for name, values in ((900, [_ALIGNMENT]), (902, shape), (903, steps), (906, [number])):
            made.count(name, values)
        for name, is_so in ((907, hidden), (908, value)):
            if is_so:
                made.set(name, OF_FLAGS, (ctypes.c_bool * 1)(True))
        return made.finished()

    def between(self, code: str, shape: Sequence[int], steps: Sequence[int] | None = None) -> Descriptor:
        """What one operation makes for another, and nobody else sees; row-major, if it is not said how it lies."""
        self.hidden += 1
        return self.tensor(code, shape, steps or row_major(shape), self.hidden, hidden=True)

    def constant(self, number: float, rank: int, operands: int) -> Descriptor:
        """A number of 32 bits; `operands` is how many of them there are before the constants."""
        if number not in self.constants:
            place = operands + len(self.constants) + 1
            self.constants[number] = self.tensor("f32", [1] * rank, [1] * rank, place, value=True)
        return self.constants[number]

    def add(self, operation: Descriptor) -> None:
        self.operations.append(operation.finished())

    def finished(self, handle: int) -> Descriptor:
        made = self.new(_GRAPH)
        made.set(800, OF_HANDLE, (ctypes.c_void_p * 1)(handle))
        made.set(801, OF_DESCRIPTORS, self.operations)
        return made.finished()


class Cudnn:
    """The library for one backend: graphs that are made ready once, and carried out."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.lock = threading.RLock()  # a handle works for one call at a time
        self.handle = Handles(backend, lambda: self.library, "cudnnCreate", "cudnnSetStream")
        self.ready: dict[Any, Ready | None] = {}
        self.numbers = array.array("q", range(1, OPERANDS + 1))  # what operands and constants are called

    @found_once
    def library(self) -> Any:
        """cuDNN; None where there is none, or none that suits the driver."""
        for name in _places():
            try:
                found, handle = ctypes.CDLL(name), ctypes.c_void_p()
            except OSError:
                continue
            if not found.cudnnCreate(ctypes.byref(handle)):
                found.cudnnDestroy(handle)
                return found
        return None

    @found_once
    def functions(self) -> array.array[int]:
        return array.array("q", [address_of(getattr(self.library, f"cudnnBackend{name}")) for name in _FUNCTIONS])

    @found_once
    def execution(self) -> tuple[int, Any]:
        """What carries out a plan: its address, and a form that Python calls."""
        address = compile_function("cudnn_execute", _execute, _WORDS)
        return address, _Execution(address)

    def version(self) -> int | None:
        return None if self.library is None else int(self.library.cudnnGetVersion())

    def run(
        self, key: tuple[Any, ...], describe: Callable[[Graph], None], operands: Sequence[Any], made: int,
        unwanted: Set[int] = frozenset(), tries: bool = False,
    ) -> bool:  # fmt: skip
        """Carries out a graph, described once for each key, that makes the last `made` operands; False if cuDNN cannot. Engines with notes
        that are unwanted are left out; the fastest of several is looked for if wished."""
        given, watch = operands, watching()
        if watch is None:
            operands = [self._aligned(a) for a in given]
        key = self.backend.xp.cuda.runtime.getDevice(), *key
        with self.lock:
            handle = self.handle()
            if key not in self.ready:
                if len(self.ready) >= _MOST_KEPT:
                    self.ready.clear()
                trial = operands if tries and watch is None else None
                self.ready[key] = self._make_ready(handle, describe, unwanted, trial)
            ready = self.ready[key]
            if ready is None:
                return False
            address, call = self.execution
            words = self._words(handle, ready, operands)
            if watch is not None:
                watch.keep.append(ready)
                watch.call(address, words)
                return True
            if call(*[w if isinstance(w, int) else w.data.ptr for w in words]):
                return False
        for a, b in zip(given[-made:], operands[-made:]):
            if a is not b:
                a[...] = b
        return True

    def _aligned(self, a: Any) -> Any:
        """An operand, or a copy of one that begins where plans do not take it."""
        if not a.data.ptr % _ALIGNMENT:
            return a
        made = self.backend.xp.ndarray(a.shape, a.dtype, None, a.strides)
        made[...] = a
        return made

    def _words(self, handle: int, ready: Ready, operands: Sequence[Any]) -> list[Any]:
        work = self.backend.empty((ready.memory,), np.dtype(np.uint8))
        functions, numbers = self.functions.buffer_info()[0], self.numbers.buffer_info()[0]
        places = [ready.constants.ctypes.data + i * _ALIGNMENT for i in range(len(ready.constants))]
        count = len(operands) + len(places)
        rest = [0] * (OPERANDS - count)
        return [functions, handle, ready.plan.place.value, numbers, count, work, *operands, *places, *rest]

    def _make_ready(
        self, handle: int, describe: Callable[[Graph], None], unwanted: Set[int], operands: Sequence[Any] | None
    ) -> Ready | None:
        """The plan of the first engine that may be used, or of the fastest for such operands; None if there is none."""
        try:
            graph = Graph(self.library)
            describe(graph)
            constants = np.zeros((len(graph.constants), _ALIGNMENT // 4), np.float32)
            constants[:, 0] = list(graph.constants)
            found = self._plans(handle, graph.finished(handle), unwanted, constants)
            if operands is None:
                return next(found, None)
            tried = [ready for ready, _ in zip(found, range(_TRIED))]
            return min(tried, key=lambda ready: self._seconds(handle, ready, operands), default=None)
        except Refused:
            return None

    def _plans(self, handle: int, graph: Descriptor, unwanted: Set[int], constants: Any) -> Iterator[Ready]:
        """Plans that may be used, as far as heuristics can tell best first."""
        for mode in (_USUAL, _FALLBACK):
            for configuration in self._configurations(graph, mode):
                if unwanted and not unwanted.isdisjoint(self._notes(configuration)):
                    continue
                plan, memory = self._new(_PLAN), integers([0])
                try:
                    plan.set(400, OF_HANDLE, (ctypes.c_void_p * 1)(handle))
                    plan.set(401, OF_DESCRIPTORS, [configuration])
                    plan.finished().get(402, OF_INTEGERS, memory)
                except Refused:
                    continue
                if memory[0] <= _MOST_MEMORY:
                    yield Ready(plan, memory[0], constants)

    def _configurations(self, graph: Descriptor, mode: int) -> list[Descriptor]:
        heuristics = self._new(_HEURISTICS)
        heuristics.set(201, OF_DESCRIPTORS, [graph])
        heuristics.choose(200, OF_HEURISTIC, mode)
        found = [self._new(_CONFIGURATION) for _ in range(_ENGINES)]
        places = (ctypes.c_void_p * _ENGINES)(*[d.place for d in found])
        try:
            found = found[: heuristics.finished().get(202, OF_DESCRIPTORS, places)]
        except Refused:
            return []
        for configuration in found:
            configuration.keep.append(graph)
        return found

    def _notes(self, configuration: Descriptor) -> list[int]:
        """What is noted of the engine that a configuration is of."""
        engine, notes = self._new(_ENGINE), (ctypes.c_int * 16)()
        configuration.get(300, OF_DESCRIPTORS, (ctypes.c_void_p * 1)(engine.place))
        return notes[: engine.get(1303, OF_NOTES, notes)]

    def _seconds(self, handle: int, ready: Ready, operands: Sequence[Any]) -> float:
        """How long a plan takes, about."""
        events, (_, call) = self.backend.xp.cuda, self.execution
        words = [w if isinstance(w, int) else w.data.ptr for w in self._words(handle, ready, operands)]
        begin, end = events.Event(), events.Event()
        for event in (None, begin, None, end):
            if event is not None:
                event.record()
            elif call(*words):
                return float("inf")
        end.synchronize()
        return float(events.get_elapsed_time(begin, end))

    def _new(self, kind: int) -> Descriptor:
        return Descriptor(self.library, kind)


def integers(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)


def row_major(shape: Sequence[int]) -> list[int]:
    """Steps of elements that lie side by side, those of the last dimension first."""
    steps = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        steps[d] = steps[d + 1] * shape[d + 1]
    return steps


def _places() -> Iterator[str]:
    """Where the library may be."""
    try:
        package = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:
        package = None
    for folder in package.submodule_search_locations or () if package is not None else ():
        yield from (str(Path(folder, "lib", name)) for name in _LIBRARIES)
    yield from _LIBRARIES
