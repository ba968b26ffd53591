"""Convolutions on a GPU by cuDNN, where that is installed: with the system, or as NVIDIA's package for Python.

The words and numbers are those of its graph interface. A convolution is described by descriptors of its operands; heuristics name engines
that can do it, best first; of the first that suits a plan is made, which is kept. To carry it out costs some microseconds, where
cuDNN's older interface takes a hundred to find the same out at each call.
"""

from __future__ import annotations

import array
import ctypes
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.config import config
from .._core.dtypes import BY_NUMPY
from .._core.once import found_once
from .._kernel.loops.dialect import compile_function
from .cuda_driver import address_of
from .cuda_handles import Handles
from .cuda_watch import watching

_LIBRARIES = ("libcudnn.so.9", "libcudnn.so.8")
_MOST_MEMORY = 1 << 30  # bytes that an engine may work in
_MOST_KEPT = 1024  # convolutions that are kept ready
_ENGINES, _TRIED = 32, 8  # that are asked for, and of which the fastest is looked for
_ALIGNMENT = 16  # bytes that addresses of operands are multiples of
_TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}  # what cuDNN calls the types of elements, by our codes
_CROSS_CORRELATION = 1
_USUAL, _FALLBACK = 3, 2  # kinds of heuristics
_TENSOR_CORES, _ROUNDED_FACTORS, _NOT_DETERMINISTIC = 0, 1, 4  # what is noted of engines
# Kinds of descriptors.
_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
# Kinds of their attributes.
_OF_HANDLE, _OF_TYPE, _OF_INTEGERS, _OF_FLOATS, _OF_DOUBLES, _OF_ADDRESSES, _OF_MODE, _OF_HEURISTIC = (
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    8,
)
_OF_NOTES, _OF_DESCRIPTORS = 11, 15
# Each role's operation, its first attribute (factor, factor of what was there, convolution follow each other), and those of its operands:
# two that are given, one that is made.
_ROLES = {
    "products": (10, 700, (704, 703, 705)),
    "adjoint": (12, 706, (709, 711, 710)),
    "sums": (11, 712, (716, 717, 715)),
}
_FUNCTIONS = ("CreateDescriptor", "SetAttribute", "Finalize", "Execute", "DestroyDescriptor")
_Execution = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 8)


def _execute(m, functions, handle, plan, numbers, first, second, made, work):
    """Carries out a plan over operands at addresses; not 0 if cuDNN refuses, or if one is not aligned."""
    at = m.fields(functions, _FUNCTIONS)
    if ((first | second | made) & (_ALIGNMENT - 1)) != 0:
        return 1
    own, operands = m.space(2), m.space(3)
    status = m.short(at.CreateDescriptor, _PACK, own)
    if status != 0:
        return status
    pack = m.word(own, 0)
    m.put(own, 8, work)
    m.put(operands, 0, first)
    m.put(operands, 8, second)
    m.put(operands, 16, made)
    status = m.short(at.SetAttribute, pack, 1000, _OF_INTEGERS, 3, numbers)
    status = status | m.short(at.SetAttribute, pack, 1001, _OF_ADDRESSES, 3, operands)
    status = status | m.short(at.SetAttribute, pack, 1003, _OF_ADDRESSES, 1, own + 8)
    status = status | m.short(at.Finalize, pack)
    if status == 0:
        status = m.short(at.Execute, handle, plan, pack)
    m.run(at.DestroyDescriptor, pack)
    return status


class Settings:
    """What `torch.backends.cudnn` has switched on."""

    enabled = True
    benchmark = False  # algorithms are tried for each convolution, and the fastest is taken
    deterministic = False
    allow_tf32 = True

    def switches(self) -> tuple[bool, bool, bool]:
        """Those that the choice of an algorithm depends on."""
        return self.deterministic or config.deterministic, self.benchmark, self.allow_tf32

    def number(self) -> int:
        """Another one for each way in which all switches can stand."""
        return sum([on << i for i, on in enumerate((self.enabled, *self.switches()))])


settings = Settings()


class Refused(RuntimeError):
    """cuDNN cannot do what a descriptor says."""


class _Descriptor:
    """One of cuDNN's descriptions, which goes with this object."""

    def __init__(self, library: Any, kind: int):
        self.library, self.kind, self.place, self.keep = library, kind, ctypes.c_void_p(), list[Any]()
        self._check(library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.place)))

    def set(self, name: int, kind: int, values: Any) -> None:
        """Sets an attribute to an array of ctypes, or to descriptors."""
        if kind == _OF_DESCRIPTORS:
            self.keep += values
            values = (ctypes.c_void_p * len(values))(*[d.place for d in values])
        self._check(self.library.cudnnBackendSetAttribute(self.place, name, kind, ctypes.c_int64(len(values)), values))

    def get(self, name: int, kind: int, values: Any) -> int:
        """Reads an attribute into an array of ctypes; how many values it has."""
        count = ctypes.c_int64()
        self._check(
            self.library.cudnnBackendGetAttribute(
                self.place, name, kind, ctypes.c_int64(len(values)), ctypes.byref(count), values
            )
        )
        return min(count.value, len(values))

    def finished(self) -> _Descriptor:
        self._check(self.library.cudnnBackendFinalize(self.place))
        return self

    def _check(self, status: int) -> None:
        if status:
            raise Refused(f"cuDNN refuses a descriptor of kind {self.kind}: status {status}")

    def __del__(self) -> None:
        self.library.cudnnBackendDestroyDescriptor(self.place)


class _Ready(NamedTuple):
    """A convolution made ready: its plan, and bytes that this works in."""

    plan: _Descriptor
    memory: int


class Convolutions:
    """cuDNN's convolutions for one backend."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.lock = threading.RLock()  # a handle works for one call at a time
        self.handle = Handles(backend, lambda: self.library, "cudnnCreate", "cudnnSetStream")
        self.ready: dict[Any, _Ready | None] = {}
        self.numbers = array.array("q", range(1, 4))  # what operands are called

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
        names = ["functions", "handle", "plan", "numbers", "first", "second", "made", "work"]
        address = compile_function("cudnn_execute", _execute, names)
        return address, _Execution(address)

    def version(self) -> int | None:
        return None if self.library is None else int(self.library.cudnnGetVersion())

    def takes(self, dtype: Any) -> bool:
        """Whether it is there, switched on, and computes with such elements."""
        found = BY_NUMPY.get(dtype)
        return settings.enabled and found is not None and found.code in _TYPES and self.library is not None

    def __call__(
        self, role: str, first: Any, second: Any, made: Any, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int, last: bool,
    ) -> bool:  # fmt: skip
        """Makes the last operand from the others, all dense, with channels first or last in memory; False if cuDNN cannot."""
        operands, watch = (first, second, made), watching()
        if watch is None:
            operands = tuple([self._aligned(a) for a in operands])
        device = self.backend.xp.cuda.runtime.getDevice()
        about = tuple(stride), tuple(padding), tuple(dilation)
        shapes = tuple([a.shape for a in operands])
        key = device, role, BY_NUMPY[made.dtype].code, shapes, last, about, settings.switches()
        with self.lock:
            handle = self.handle()
            if key not in self.ready:
                if len(self.ready) >= _MOST_KEPT:
                    self.ready.clear()
                self.ready[key] = self._make_ready(handle, operands if watch is None else None, *key[1:])
            ready = self.ready[key]
            if ready is None:
                return False
            address, call = self.execution
            args = self._arguments(handle, ready, operands)
            if watch is not None:
                watch.keep.append(ready)
                watch.call(address, args)
                return True
            if call(*[a if isinstance(a, int) else a.data.ptr for a in args]):
                return False
        if operands[2] is not made:
            made[...] = operands[2]
        return True

    def _aligned(self, a: Any) -> Any:
        """An operand, or a copy of one that begins where plans do not take it."""
        if not a.data.ptr % _ALIGNMENT:
            return a
        made = self.backend.xp.ndarray(a.shape, a.dtype, None, a.strides)
        made[...] = a
        return made

    def _arguments(self, handle: int, ready: _Ready, operands: Sequence[Any]) -> list[Any]:
        work = self.backend.empty((ready.memory,), np.dtype(np.uint8))
        functions, numbers = self.functions.buffer_info()[0], self.numbers.buffer_info()[0]
        return [functions, handle, ready.plan.place.value, numbers, *operands, work]

    def _make_ready(
        self, handle: int, operands: Any, role: str, code: str, shapes: Any, last: bool, about: Any,
        switches: tuple[bool, bool, bool],
    ) -> _Ready | None:  # fmt: skip
        """The plan of the first engine that may be used, or of the fastest; None if there is none."""
        deterministic, benchmark, rounding = switches
        unwanted = {_NOT_DETERMINISTIC} if deterministic else set()
        if code == "f32" and not rounding:
            unwanted |= {_TENSOR_CORES, _ROUNDED_FACTORS}
        try:
            graph = self._described(handle, role, code, shapes, last, about)
            found = self._plans(handle, graph, unwanted)
            if not benchmark or operands is None:
                return next(found, None)
            tried = [ready for ready, _ in zip(found, range(_TRIED))]
            return min(tried, key=lambda ready: self._seconds(handle, ready, operands), default=None)
        except Refused:
            return None

    def _described(self, handle: int, role: str, code: str, shapes: Any, last: bool, about: Any) -> _Descriptor:
        """The graph of one convolution."""
        kind, attribute, places = _ROLES[role]
        stride, padding, dilation = [
            _integers((fill, *numbers) if len(numbers) == 1 else numbers) for numbers, fill in zip(about, (1, 0, 1))
        ]
        wide = "f64" if code == "f64" else "f32"
        convolution = self._new(_CONVOLUTION)
        convolution.set(100, _OF_TYPE, (ctypes.c_int * 1)(_TYPES[wide]))
        convolution.set(101, _OF_MODE, (ctypes.c_int * 1)(_CROSS_CORRELATION))
        for name, values in ((102, dilation), (103, stride), (104, padding), (105, padding)):
            convolution.set(name, _OF_INTEGERS, values)
        convolution.set(106, _OF_INTEGERS, _integers([len(stride)]))
        operation = self._new(kind)
        factor, of_factor = (ctypes.c_double, _OF_DOUBLES) if wide == "f64" else (ctypes.c_float, _OF_FLOATS)
        operation.set(attribute, of_factor, (factor * 1)(1))
        operation.set(attribute + 1, of_factor, (factor * 1)(0))
        operation.set(attribute + 2, _OF_DESCRIPTORS, [convolution.finished()])
        for number, (place, shape) in enumerate(zip(places, shapes), 1):
            operation.set(place, _OF_DESCRIPTORS, [self._operand(code, shape, last, number)])
        graph = self._new(_GRAPH)
        graph.set(800, _OF_HANDLE, (ctypes.c_void_p * 1)(handle))
        graph.set(801, _OF_DESCRIPTORS, [operation.finished()])
        return graph.finished()

    def _operand(self, code: str, shape: tuple[int, ...], last: bool, number: int) -> _Descriptor:
        """A tensor; signals count as images with one row."""
        if len(shape) == 3:
            shape = (*shape[:2], 1, shape[2])
        order = (0, *range(2, len(shape)), 1) if last else range(len(shape))
        steps, step = [0] * len(shape), 1
        for d in reversed(order):
            steps[d], step = step, step * shape[d]
        made = self._new(_TENSOR)
        made.set(901, _OF_TYPE, (ctypes.c_int * 1)(_TYPES[code]))
        for name, values in ((900, [_ALIGNMENT]), (902, shape), (903, steps), (906, [number])):
            made.set(name, _OF_INTEGERS, _integers(values))
        return made.finished()

    def _plans(self, handle: int, graph: _Descriptor, unwanted: set[int]) -> Iterator[_Ready]:
        """Plans that may be used, as far as heuristics can tell best first."""
        for mode in (_USUAL, _FALLBACK):
            for configuration in self._configurations(graph, mode):
                if unwanted and not unwanted.isdisjoint(self._notes(configuration)):
                    continue
                plan, memory = self._new(_PLAN), _integers([0])
                try:
                    plan.set(400, _OF_HANDLE, (ctypes.c_void_p * 1)(handle))
                    plan.set(401, _OF_DESCRIPTORS, [configuration])
                    plan.finished().get(402, _OF_INTEGERS, memory)
                except Refused:
                    continue
                if memory[0] <= _MOST_MEMORY:
                    yield _Ready(plan, memory[0])

    def _configurations(self, graph: _Descriptor, mode: int) -> list[_Descriptor]:
        heuristics = self._new(_HEURISTICS)
        heuristics.set(201, _OF_DESCRIPTORS, [graph])
        heuristics.set(200, _OF_HEURISTIC, (ctypes.c_int * 1)(mode))
        found = [self._new(_CONFIGURATION) for _ in range(_ENGINES)]
        places = (ctypes.c_void_p * _ENGINES)(*[d.place for d in found])
        try:
            found = found[: heuristics.finished().get(202, _OF_DESCRIPTORS, places)]
        except Refused:
            return []
        for configuration in found:
            configuration.keep.append(graph)
        return found

    def _notes(self, configuration: _Descriptor) -> list[int]:
        """What is noted of the engine that a configuration is of."""
        engine, notes = self._new(_ENGINE), (ctypes.c_int * 16)()
        configuration.get(300, _OF_DESCRIPTORS, (ctypes.c_void_p * 1)(engine.place))
        return notes[: engine.get(1303, _OF_NOTES, notes)]

    def _seconds(self, handle: int, ready: _Ready, operands: Sequence[Any]) -> float:
        """How long a plan takes, about."""
        events, (_, call) = self.backend.xp.cuda, self.execution
        args = [a if isinstance(a, int) else a.data.ptr for a in self._arguments(handle, ready, operands)]
        begin, end = events.Event(), events.Event()
        for event in (None, begin, None, end):
            if event is not None:
                event.record()
            elif call(*args):
                return float("inf")
        end.synchronize()
        return float(events.get_elapsed_time(begin, end))

    def _new(self, kind: int) -> _Descriptor:
        return _Descriptor(self.library, kind)


def _integers(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _places() -> Iterator[str]:
    """Where the library may be."""
    try:
        package = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:
        package = None
    for folder in package.submodule_search_locations or () if package is not None else ():
        yield from (str(Path(folder, "lib", name)) for name in _LIBRARIES)
    yield from _LIBRARIES
