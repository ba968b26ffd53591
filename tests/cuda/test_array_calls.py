"""What operations do on a GPU by calls of an array library, with NumPy in its place; kernels are the CPU's.

What the GPU's own kernels do along rows `test_rows` tests; samples that need them are left out here.
"""

import contextlib
import sys
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import cuda as cuda_module
from flambeau._backend import placement
from flambeau._backend.cpu import cpu
from flambeau._backend.cuda_layout import NUMPY, Operand
from flambeau._core.dtypes import BY_NUMPY
from flambeau._core.state import CUDA, GRAD
from flambeau._kernel.folds.reduce import fold_rows
from flambeau._ops.folds.cumulative import _extrema, scan_array
from flambeau._ops.folds.folding import extremum
from flambeau._ops.folds.sorting import sort_array
from flambeau._ops.records.pointwise_op import Pointwise
from flambeau._ops.registry import records
from flambeau._tensor import wrap

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import gpu_check
from samples import SAMPLES

F = torch.nn.functional


class Array(np.ndarray):
    """An array that says which GPU it is on."""

    device = types.SimpleNamespace(id=0)


class NotHere(Exception):
    """A GPU's own kernel is wanted."""


def _there(made):
    if isinstance(made, (tuple, list)):
        return tuple(map(_there, made))
    if isinstance(made, np.generic):
        made = np.asarray(made)
    return made.view(Array) if type(made) is np.ndarray else made


def _giving(function):
    return lambda *args, **named: _there(function(*args, **named))


def _laid(array, type):
    """What a kernel takes, of an array and how it is read."""
    if isinstance(array, Shared):
        return array
    array, about = array if isinstance(array, tuple) else (array, array)
    if type == "place":
        steps = [np.arange(n) * s for n, s in zip(about.shape, about.strides)]
        return sum(np.ix_(*steps), np.full(about.shape, array))
    if array.dtype.itemsize == NUMPY[type].itemsize:
        array = array.view(NUMPY[type])
    return (
        array
        if not isinstance(about, Operand)
        else np.lib.stride_tricks.as_strided(array, about.shape, about.strides, subok=True)
    )


class Along:
    """Folds and softmax along rows."""

    def fold(self, x, dims, fold, result, how):
        rest = [d for d in range(x.ndim) if d not in dims]
        rows = np.array(x).transpose(*rest, *dims).reshape(*[x.shape[d] for d in rest], -1)
        return _there(cpu.kernel(fold_rows, (BY_NUMPY[x.dtype].code, result), fold=fold, how=how)(rows))

    def map(self, name, rows, arrays, dim):
        x = [torch.from_numpy(np.array(a)) if a.dtype.kind == "f" else None for a in arrays]
        if None in x or name not in ("softmax", "log_softmax"):
            raise NotHere
        return _there(getattr(torch, name)(x[0], dim).numpy())

    def extremum(self, x, dim, sign):
        return _there(extremum(cpu, np.array(x), dim, sign))

    def extent(self, x):
        return x.min(), x.max()

    def extents(self, x, fold):
        return *self.extent(x), *self.extent(self.fold(x, (x.ndim - 1,), fold, BY_NUMPY[x.dtype].code, None))

    def run(self, name, rows, arrays, outs, dims, numbers=()):
        if any(isinstance(a, tuple) for a in (*arrays, *outs)):  # words of errors
            raise NotHere
        made = [np.empty(o.shape, o.dtype) for o in outs]
        cpu.along.run(name, rows, [np.array(a) for a in arrays], made, dims, numbers)
        for out, values in zip(outs, made):
            out[...] = values

    def moments(self, *args):
        raise NotHere

    sums_down = moments


class Scans:
    """Running folds, by the CPU's."""

    def run(self, fold, x, outs, dim):
        if fold in ("max", "min"):
            made = _extrema(cpu, np.array(x), dim, 1 if fold == "max" else -1)
        else:
            made = (scan_array(cpu, np.array(x), dim, fold, BY_NUMPY[outs[0].dtype]),)
        for out, values in zip(outs, made):
            out[...] = values


class Shared(NamedTuple):
    """Rows that many elements write to."""

    rows: Any
    count: int


def _one_by_one(kernel, call, args):
    """A kernel that writes to shared rows, for one element after the other; whether it is such a one."""
    shared = [a for a in args if isinstance(a, Shared)]
    for i in range(shared[0].count) if shared else ():
        part = lambda a, dims, i=i: a.rows if isinstance(a, Shared) else _one(a, i, len(dims))
        call(*map(part, args, [*kernel.inputs, *kernel.outputs]))
    return bool(shared)


def _one(a, i, core):
    """What an operand has for one element of the last dimension before its core."""
    at = a.ndim - core - 1
    return a if at < 0 else a[(..., i if a.shape[at] > 1 else 0, *[slice(None)] * core)]


class Orders:
    """Orders, by the CPU's."""

    def sort(self, x, dim, descending, length=None):
        return _there(sort_array(cpu, np.array(x), dim, descending, length))

    def top(self, x, dim, k, largest):
        return self.sort(x, dim, largest, k)

    def at(self, x, dim, k, nans=0):
        return None


class Errors(cuda_module.Errors):
    """Places of NumPy's that kernels write to."""

    def row(self, array, size):
        return np.broadcast_to(np.zeros((), array.dtype), (min(size, 1 << 40),))

    def place(self, what, shape=()):
        return np.zeros(shape, np.int64)


class Answers:
    """A number that is there at once."""

    def place(self):
        self.word = np.zeros((), np.int64)
        return self.word, Operand((), (), self.word.dtype)

    def wait(self):
        return int(self.word)


class Backend(cuda_module.Cuda):
    def __init__(self):
        super().__init__()
        self.errors, self.answers = Errors(self), Answers()
        self.product, self.along, self.scans, self.orders = self.multiplied, Along(), Scans(), Orders()

    def multiplied(self, x, y, added=None, beta=1, alpha=1, dtype=None, out=None):
        made = np.matmul(x, y) * alpha
        made = _there((made if added is None or beta == 0 else made + beta * added).astype(dtype or x.dtype))
        if out is not None:
            out[...] = made
        return made

    def pointwise(self, *args):
        return _giving(cpu.pointwise(*args))

    def kernel(self, kernel, types, **options):
        made = _giving(cpu.kernel(kernel, tuple(["i64" if t == "place" else t for t in types]), **options))

        def call(*arrays, **named):
            arrays = [*map(_laid, arrays, types)]
            return _one_by_one(kernel, made, arrays) or made(*arrays, **named)

        return call

    def compiled(self, name, text):
        raise NotHere

    def shared(self, rows, count, core=1):
        return Shared(rows, count)

    def ready(self):
        return False

    def draw(self, *args):
        return None

    def from_numpy(self, array, index=None):
        return np.array(array, order="K").view(Array)

    def asnumpy(self, array):
        return np.array(array, order="K", subok=False)

    def empty(self, shape, dtype):
        return np.full(shape, np.array(77).astype(dtype)).view(Array)  # what nobody writes is seen

    def constant(self, array):
        return array

    def copy(self, source, out):
        out[...] = source

    def duplicate(self, x):
        return np.array(x, order="K").view(Array)


def _library():
    names = {n: getattr(np, n) for n in dir(np) if not n.startswith("__")}
    xp = types.ModuleType("cupy")
    for name, value in names.items():
        plain = callable(value) and not isinstance(value, (type, np.ufunc))
        setattr(xp, name, _giving(value) if plain else value)
    for part in ("linalg", "fft"):
        own = {n: v for n, v in vars(getattr(np, part)).items() if callable(v) and not n.startswith("_")}
        setattr(
            xp, part, types.SimpleNamespace(**{n: v if isinstance(v, type) else _giving(v) for n, v in own.items()})
        )
    runtime = types.SimpleNamespace(getDevice=lambda: 0, getDeviceCount=lambda: 1)
    stream = types.SimpleNamespace(ptr=0, synchronize=lambda: None)
    xp.cuda = types.SimpleNamespace(
        runtime=runtime, Device=lambda index: contextlib.nullcontext(), get_current_stream=lambda: stream
    )
    xp.ndarray, xp.asnumpy = Array, lambda a: np.array(a, subok=False)
    return xp


@pytest.fixture
def arrays(monkeypatch):
    """A GPU whose array library is NumPy."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    backend, xp = Backend(), _library()
    backend.__dict__["xp"] = xp
    monkeypatch.setitem(sys.modules, "cupy", xp)
    monkeypatch.setattr(cuda_module, "cuda", backend)
    for function in (placement.cuda_problem, placement.gpu_count):
        function.cache_clear()
    yield backend
    for function in (placement.cuda_problem, placement.gpu_count):
        function.cache_clear()
    own = [op for op in records.values() if isinstance(op, Pointwise)]
    derived = [d.kernel for op in own for d in op.grads if d is not None and d.kernel is not None]
    for op in (*own, *derived):
        op.fast_cuda.clear()  # what operations keep of GPUs is this one's
        op.variants.clear()


def on_gpu(t):
    return wrap(np.array(t.detach()._array, order="K").view(Array), t.dtype, CUDA | (t._k & GRAD))


@pytest.mark.slow
@pytest.mark.parametrize("family", SAMPLES)
def test_samples(arrays, family):
    wrong, right = [], 0
    for expression in SAMPLES[family]:
        name, run, inputs = gpu_check.sample_case(expression, "float32")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, outcome, why = gpu_check.both(name, run, inputs)
        # a view that is made over memory is no `Array` any more
        if outcome == "failed" and "NotHere" not in why and "'str' object has no attribute 'id'" not in why:
            wrong.append((name, why))
        right += outcome == "passed"
    assert not wrong
    assert right > len(SAMPLES[family]) // 2


def _agree(function, *tensors):
    there, here = function(*map(on_gpu, tensors)), function(*tensors)
    np.testing.assert_allclose(np.array(there._array, np.float64), here.double().detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_bytes(arrays, mode, antialias):
    x = torch.arange(70, dtype=torch.uint8).mul(3).view(1, 2, 5, 7)
    for size in ((3, 4), (8, 9), (5, 3)):
        _agree(lambda x: F.interpolate(x, size=size, mode=mode, antialias=antialias), x)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_images(arrays, mode):
    x = torch.arange(70.0).sin().view(1, 2, 5, 7)
    for size in ((3, 4), (8, 9), (5, 3)):
        try:
            _agree(lambda x: F.interpolate(x, size=size, mode=mode), x)
        except NotHere:  # an average along rows
            assert mode == "area"


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_no_rows(arrays, reduction):
    scores, target = torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)
    made = F.cross_entropy(on_gpu(scores), on_gpu(target), reduction=reduction)._array
    assert np.isnan(made) if reduction == "mean" else made == 0
