"""Convolutions on a GPU by cuDNN, where that is installed: with the system, or as NVIDIA's package for Python.

The words and numbers are those of its C interface: descriptors of tensors, filters and convolutions, an algorithm for each
convolution, and memory that it works in.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.config import config
from .._core.dtypes import BY_NUMPY
from .cuda_driver import address_of
from .cuda_handles import Handles
from .cuda_watch import watching

_TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}  # what cuDNN calls the types of elements, by our codes
_CROSS_CORRELATION = 1
_USUAL, _TENSOR_CORES, _EXACT = 0, 1, 3  # kinds of products: usually factors of float32 are rounded to ten bits
_LIBRARIES = ("libcudnn.so.9", "libcudnn.so.8")
_CHOICES = 8  # algorithms that are asked for
_MOST_MEMORY = 1 << 30  # that an algorithm may work in
_MOST_KEPT = 1024  # convolutions that are kept ready
# What each role is called, and which of its operands (two that are given, one that is made) is the weight.
_ROLES = {"products": ("Forward", 1), "adjoint": ("BackwardData", 0), "sums": ("BackwardFilter", 2)}


_Call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 13)


class Settings:
    """What `torch.backends.cudnn` has switched on."""

    enabled = True
    benchmark = False  # algorithms are tried for each convolution, and the fastest is taken
    deterministic = False
    allow_tf32 = True


settings = Settings()


class _Choice(ctypes.Structure):
    """cuDNN's answer about an algorithm."""

    _fields_ = [
        ("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
        ("deterministic", ctypes.c_int), ("products", ctypes.c_int), ("reserved", ctypes.c_int * 3),
    ]  # fmt: skip


class _Descriptor:
    """One of cuDNN's descriptions, which goes with this object."""

    def __init__(self, library: Any, kind: str):
        self.library, self.kind, self.place = library, kind, ctypes.c_void_p()
        checked(getattr(library, f"cudnnCreate{kind}Descriptor")(ctypes.byref(self.place)))

    def set(self, what: str, *numbers: Any) -> None:
        checked(getattr(self.library, f"cudnnSet{self.kind}{what}")(self.place, *numbers))

    def __del__(self) -> None:
        getattr(self.library, f"cudnnDestroy{self.kind}Descriptor")(self.place)


class _Ready(NamedTuple):
    """A convolution made ready: its operands, itself, the algorithm, bytes that this works in."""

    operands: list[_Descriptor]
    convolution: _Descriptor
    algorithm: int
    memory: int


class Convolutions:
    """cuDNN's convolutions for one backend."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.lock = threading.RLock()  # a handle works for one call at a time
        self.handle = Handles(backend, lambda: self.library, "cudnnCreate", "cudnnSetStream")
        self.ready: dict[Any, _Ready | None] = {}
        wide = {code: np.float64 if code == "f64" else np.float32 for code in _TYPES}
        self.numbers = {code: [np.full((), n, d) for n in (1, 0)] for code, d in wide.items()}
        self.factors = {code: [n.ctypes.data for n in pair] for code, pair in self.numbers.items()}

    @functools.cached_property
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
        arrays = first, second, made
        code = BY_NUMPY[made.dtype].code
        device = self.backend.xp.cuda.runtime.getDevice()
        deterministic = settings.deterministic or config.deterministic
        operands = tuple([(a.shape, last) for a in arrays])
        about = tuple(stride), tuple(padding), tuple(dilation), groups
        switches = deterministic, settings.benchmark, settings.allow_tf32
        key = device, role, code, operands, about, switches
        with self.lock:
            handle = self.handle()
            if key not in self.ready:
                if len(self.ready) >= _MOST_KEPT:
                    self.ready.clear()
                self.ready[key] = self._make_ready(handle, *key[1:])
            ready = self.ready[key]
            if ready is None:
                return False
            work = self.backend.empty((ready.memory,), np.dtype(np.uint8))
            one, zero = self.factors[code]
            x, y, out = (d.place.value for d in ready.operands)
            args = [
                handle, one, x, first, y, second, ready.convolution.place.value, ready.algorithm, work, ready.memory,
                zero, out, made,
            ]  # fmt: skip
            address, call = self._function(role)
            watch = watching()
            if watch is not None:
                watch.keep.append(ready)
                watch.call(address, args)
                return True
            return not call(*[a if isinstance(a, int) else a.data.ptr for a in args])

    @functools.cache  # noqa: B019  # there is one of these
    def _function(self, role: str) -> tuple[int, Any]:
        """The function of a role: its address, and a form that Python calls."""
        address = address_of(getattr(self.library, f"cudnnConvolution{_ROLES[role][0]}"))
        return address, _Call(address)

    def _make_ready(
        self, handle: int, role: str, code: str, operands: Any, about: Any, switches: tuple[bool, bool, bool]
    ) -> _Ready | None:
        """Descriptions, and the first algorithm that may be used; None if there is none."""
        (stride, padding, dilation, groups), (deterministic, benchmark, rounding) = about, switches
        name, weight = _ROLES[role]
        found = [self._described(code, *operand, n == weight) for n, operand in enumerate(operands)]
        steps = [
            _ints((fill, *numbers) if len(numbers) == 1 else numbers)
            for numbers, fill in ((padding, 0), (stride, 1), (dilation, 1))
        ]
        convolution = _Descriptor(self.library, "Convolution")
        sums_in = _TYPES["f64" if code == "f64" else "f32"]
        convolution.set("NdDescriptor", len(steps[0]), *steps, _CROSS_CORRELATION, sums_in)
        convolution.set("GroupCount", groups)
        short = code in ("f16", "bf16")
        products = _TENSOR_CORES if short else _USUAL if rounding else _EXACT
        convolution.set("MathType", products)
        choices, count = (_Choice * _CHOICES)(), ctypes.c_int()
        ask = f"cudnnFindConvolution{name}Algorithm" if benchmark else f"cudnnGetConvolution{name}Algorithm_v7"
        status = getattr(self.library, ask)(
            ctypes.c_void_p(handle),
            found[0].place,
            found[1].place,
            convolution.place,
            found[2].place,
            _CHOICES,
            ctypes.byref(count),
            choices,
        )
        for choice in choices[: 0 if status else count.value]:
            if choice.status or choice.memory > _MOST_MEMORY or (deterministic and not choice.deterministic):
                continue
            if rounding or short:
                convolution.set("MathType", choice.products)
            return _Ready(found, convolution, choice.algorithm, choice.memory)
        return None

    def _described(self, code: str, shape: tuple[int, ...], last: bool, is_weight: bool) -> _Descriptor:
        """An operand; signals count as images with one row."""
        if len(shape) == 3:
            shape = (*shape[:2], 1, shape[2])
        if is_weight:
            made = _Descriptor(self.library, "Filter")
            made.set("NdDescriptor", _TYPES[code], int(last), len(shape), _ints(shape))
            return made
        order = (0, *range(2, len(shape)), 1) if last else range(len(shape))
        steps, step = [0] * len(shape), 1
        for d in reversed(order):
            steps[d], step = step, step * shape[d]
        made = _Descriptor(self.library, "Tensor")
        made.set("NdDescriptor", _TYPES[code], len(shape), _ints(shape), _ints(steps))
        return made


def checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuDNN refuses: status {status}")


def _ints(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int * len(numbers))(*numbers)


def _places() -> Iterator[str]:
    """Where the library may be."""
    try:
        package = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:
        package = None
    for folder in package.submodule_search_locations or () if package is not None else ():
        yield from (str(Path(folder, "lib", name)) for name in _LIBRARIES)
    yield from _LIBRARIES
