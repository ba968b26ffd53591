"""A GPU that is none: arrays laid out as CuPy's are, over the CPU's memory, whose kernels the CPU runs."""

import array
import contextlib
import ctypes
import types

import numpy as np

import flambeau as torch
from flambeau._core.dtypes import bfloat16, from_numpy_dtype
from flambeau._core.state import CUDA, GRAD
from flambeau._tensor import wrap

from .emulated import Kernel

_alive = {}  # what objects point to, by their addresses


class Pointer(bytes):
    """Memory: its address stands in the object itself, where machine code reads it."""

    __slots__ = ()

    def __new__(cls, memory):
        self = super().__new__(cls, memory.ctypes.data.to_bytes(8, "little"))
        _alive[id(self)] = self, memory
        return self

    @property
    def ptr(self):
        return int.from_bytes(self, "little")

    @property
    def mem(self):
        memory = _alive[id(self)][1]
        return memory if memory.base is None else memory.base

    def __add__(self, offset):
        memory = _alive[id(self)][1]
        assert memory.size or memory.base is not None or not offset  # CuPy's pool gives nothing for no bytes
        return Pointer(memory[offset:])


class Array(bytes):
    """Shape and strides as vectors (begin, end), then dtype and memory."""

    __slots__ = ()
    made = 0

    def __new__(cls, shape, dtype, memory=None, strides=None):
        shape, dtype = tuple(shape), np.dtype(dtype)
        if strides is None:
            strides = np.empty(shape, dtype).strides
        if memory is None:
            memory = Pointer(np.full(int(np.prod(shape)) * dtype.itemsize, 0xFF, np.uint8))
        vectors = [array.array("q", [*numbers, 0]) for numbers in (shape, strides)]
        words = [
            a + 8 * i for v, n in zip(vectors, (shape, strides)) for a in [v.buffer_info()[0]] for i in (0, len(n))
        ]
        self = super().__new__(cls, array.array("q", [*words, id(dtype), id(memory)]).tobytes())
        _alive[id(self)] = self, vectors, dtype, memory, shape, tuple(strides)
        Array.made += 1
        return self

    shape = property(lambda self: _alive[id(self)][4])
    strides = property(lambda self: _alive[id(self)][5])
    dtype = property(lambda self: _alive[id(self)][2])
    data = property(lambda self: _alive[id(self)][3])
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)
    itemsize = property(lambda self: self.dtype.itemsize)
    flags = property(lambda self: self.numpy().flags)
    T = property(lambda self: self.transpose())
    base = None
    device = types.SimpleNamespace(id=0)

    def numpy(self):
        place = types.SimpleNamespace(
            __array_interface__={"data": (self.data.ptr, False), "shape": self.shape, "strides": self.strides, "typestr": f"|V{self.dtype.itemsize}", "version": 3}
        )  # fmt: skip
        return np.asarray(place).view(self.dtype)

    def like(self, lies):
        offset = lies.__array_interface__["data"][0] - self.data.ptr
        return Array(lies.shape, lies.dtype, self.data + offset if offset and lies.size else self.data, lies.strides)

    def transpose(self, *axes):
        return self.like(self.numpy().transpose(*axes))

    def swapaxes(self, one, other):
        return self.like(self.numpy().swapaxes(one, other))

    def squeeze(self, axis=None):
        return self.like(self.numpy().squeeze(axis))

    def view(self, dtype):
        return self.like(self.numpy().view(dtype))

    def reshape(self, *shape):
        lies = self.numpy()
        made = lies.reshape(*shape)
        return self.like(made) if np.shares_memory(made, lies) or not made.size else Array.of(made)

    def __getitem__(self, key):
        return self.like(self.numpy()[key])

    def __iter__(self):
        return (self[i] for i in range(self.shape[0]))

    def __setitem__(self, key, value):
        value = value.numpy() if isinstance(value, Array) else value
        self.numpy()[key] = 0 if np.ndim(value) == 0 and value == 0 else value  # CuPy clears memory then

    def copy(self, order="C"):
        return Array.of(self.numpy().copy(order))

    def tobytes(self):
        return self.numpy().tobytes()

    def fill(self, value):
        self.numpy()[...] = value if value != 0 else 0  # CuPy clears memory then

    @classmethod
    def of(cls, values):
        order = sorted(range(values.ndim), key=lambda d: -values.strides[d])
        dense = values.size and values.transpose(order).flags.c_contiguous
        made = cls(values.shape, values.dtype, strides=values.strides if dense else None)
        made.numpy()[...] = values
        return made


@ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 11)
def launch(kernel, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
    if failing:
        return 700
    found = Kernel.by_number[kernel]
    Kernel.natively += 1
    streams[:] = [stream]
    addresses = (ctypes.c_int64 * len(found.kinds)).from_address(parameters)
    if stream in recording:  # what is given is copied, as the driver does
        kept = [ctypes.c_int64.from_buffer_copy(ctypes.string_at(a, 8)) for a in addresses]
        recording[stream].append(lambda: found.run((gx, gy), (bx,), [ctypes.addressof(k) for k in kept]))
    else:
        found.run((gx, gy), (bx,), addresses)
    return 0


failing = []  # while something is in it, launches fail
streams = []  # where the last launch went
current = [77]  # streams that work goes to, the last one first
recording = {}  # what is recorded in streams


@ctypes.CFUNCTYPE(ctypes.c_int64)
def stream():
    return current[-1]


class Graph:
    """Work that was recorded."""

    launched = 0

    def __init__(self, work):
        self.work = work

    def launch(self, stream):
        Graph.launched += 1
        for one in self.work:
            one()


class Stream:
    """The usual stream, or the one beside it: work of both is done at once."""

    def __init__(self, ptr=78, non_blocking=True):
        self.ptr = ptr

    def __enter__(self):
        current.append(self.ptr)

    def __exit__(self, *error):
        current.pop()

    def begin_capture(self):
        recording[self.ptr] = []

    def end_capture(self):
        work = recording.pop(self.ptr)
        if refused in work:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return Graph(work)

    def synchronize(self):
        assert self.ptr not in recording

    def wait_event(self, event):
        assert self.ptr not in recording


refused = object()  # recorded where something cannot be


_KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 4: np.complex64, 5: np.complex128, 14: bfloat16.numpy}


def _matrices(address, kind, turned, rows, columns, line, batches=1, between=0):
    """Matrices as cuBLAS finds them: lines are columns, unless they are turned."""
    d = np.dtype(_KINDS[kind])
    strides = (between * d.itemsize, d.itemsize, line * d.itemsize)
    if turned:
        rows, columns = columns, rows
    place = types.SimpleNamespace(
        __array_interface__={"data": (address, False), "shape": (batches, rows, columns), "strides": strides, "typestr": f"|V{d.itemsize}", "version": 3}
    )  # fmt: skip
    made = np.asarray(place).view(d)
    return made.swapaxes(1, 2) if turned else made


def _multiply(m, n, k, alpha, a, b, beta, c, compute):
    kind = {68: np.float32, 70: np.float64}[compute]
    if current[-1] in recording:
        again = lambda: _multiply(m, n, k, alpha, a, b, beta, c, compute)
        recording[current[-1]].append(again if library_records[0] else refused)
        return 0
    number = lambda address, d: np.asarray(np.frombuffer((ctypes.c_char * 16).from_address(address), d, 1)[0])
    wide = np.promote_types(kind, c.dtype) if c.dtype.kind == "c" else kind
    one, other = number(alpha, wide), number(beta, wide)
    total = one * (a.astype(wide) @ b.astype(wide))
    c[...] = total if other == 0 else total + other * c.astype(wide)
    products.append((m, n, k))
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 24)
def gemm(handle, ta, tb, m, n, k, alpha, a, a_kind, a_line, b, b_kind, b_line, beta, c, c_kind, c_line, compute, *rest):
    a, b = _matrices(a, a_kind, ta, m, k, a_line), _matrices(b, b_kind, tb, k, n, b_line)
    return _multiply(m, n, k, alpha, a, b, beta, _matrices(c, c_kind, 0, m, n, c_line), compute)


@ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 24)
def batched_gemm(
    handle, ta, tb, m, n, k, alpha, a, a_kind, a_line, a_far, b, b_kind, b_line, b_far, beta, c, c_kind, c_line, c_far, count, compute, *rest
):  # fmt: skip
    a, b = _matrices(a, a_kind, ta, m, k, a_line, count, a_far), _matrices(b, b_kind, tb, k, n, b_line, count, b_far)
    return _multiply(m, n, k, alpha, a, b, beta, _matrices(c, c_kind, 0, m, n, c_line, count, c_far), compute)


products = []  # that were computed, by their sizes
library_records = [True]  # whether products can be recorded


def multiplications():
    """cuBLAS' functions, as `Products` wants them."""
    return tuple((ctypes.cast(f, ctypes.c_void_p).value, f) for f in (gemm, batched_gemm))


def addresses():
    return {"launch": ctypes.cast(launch, ctypes.c_void_p).value, "stream": ctypes.cast(stream, ctypes.c_void_p).value}


class _Pinned(ctypes.Structure):
    """Memory of the CPU that kernels see: a buffer with an address."""

    _fields_ = [("words", ctypes.c_int64 * 8)]

    @property
    def ptr(self):
        return ctypes.addressof(self)


def _copy(values):
    """CuPy fills an array of one number."""
    made = Array.of(values)
    if not values.ndim:
        made.fill(values)
    return made


xp = types.SimpleNamespace(
    ndarray=Array,
    asarray=Array.of,
    array=lambda values, **_: _copy(np.asarray(values)),
    asnumpy=lambda a: a.numpy().copy(),
    zeros=lambda shape, dtype: Array.of(np.zeros(shape, dtype)),
    cuda=types.SimpleNamespace(
        get_current_stream=lambda: Stream(current[-1]),
        Stream=Stream,
        Event=lambda disable_timing: types.SimpleNamespace(record=lambda stream: None),
        Device=lambda index: contextlib.nullcontext(),
        alloc_pinned_memory=lambda size: _Pinned(),
        runtime=types.SimpleNamespace(getDevice=lambda: 0),
    ),
)


def on_gpu(values, requires_grad=False):
    """A tensor there; numbers are float32."""
    array = values._array if isinstance(values, torch.Tensor) else np.asarray(values, np.float32)
    return wrap(Array.of(array), from_numpy_dtype(array.dtype), CUDA | (GRAD if requires_grad else 0))


def back(t):
    """The tensor in the CPU's memory."""
    return wrap(t._array.numpy().copy(), t.dtype)
