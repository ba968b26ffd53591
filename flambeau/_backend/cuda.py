"""CUDA GPUs: CuPy arrays, kernels that NVRTC compiles from the generator's text, launched with few steps of Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.allocation import not_planned
from .._core.config import when_changed
from .._core.dtypes import BY_NUMPY
from .._core.once import found_once
from .._core.state import CUDA, local
from .._kernel.cuda.count import count
from .._kernel.cuda.join import join
from .._kernel.cuda.random import SAMPLERS, render_random
from .._kernel.cuda.render import render_dense, render_kernel, render_pointwise
from .._kernel.native.site import choose, open_device
from .._kernel.render.value import COMPUTE, PART, is_integer
from .cuda_attention import Attention
from .cuda_driver import addresses
from .cuda_graphs import Graphs
from .cuda_launches import Launches
from .cuda_layout import NUMPY, THREADS, Operand, Plan, blocks, memory_order, plan
from .cuda_lent import Lent
from .cuda_orders import Orders
from .cuda_products import Products
from .cuda_rows import RowKernels
from .cuda_scans import Scans
from .cuda_watch import Shadow, watching
from .cudnn import Cudnn, settings
from .cudnn_convolutions import Convolutions
from .placement import gpu_count

_PLANS = 4096  # layouts remembered by one kernel
_COUNTING = 264  # blocks that count: each adds its counts to those of all
_CHOICE = 58  # the first bit of a word in which switches stand, beside the address of a stream
_CONSTANTS, _LARGEST_CONSTANT = 1024, 1 << 16  # tables that are kept on a GPU, and bytes of one
_BRIEF = 1 << 20  # bytes that are copied sooner than a launch is made
_ANSWERS = 4  # words for each thread
_OPTIONS = ("--fmad=false", "--std=c++17")  # bodies say where a product and a sum are one operation


class Function:
    """A compiled kernel: `function(grid, block, arguments)` launches it, or tells who watches that it would be."""

    __slots__ = ("kernel", "ptr")

    def __init__(self, kernel: Any):
        self.kernel, self.ptr = kernel, getattr(kernel, "ptr", None)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any]) -> None:
        if 0 in grid:  # of what has no rows; CuPy would start a block nevertheless
            return
        watch = watching()
        if watch is None:
            self.kernel(grid, block, args)
        else:
            watch.launch(self, grid, block, args)


class Pointwise:
    """A pointwise body on the GPU: compiled for each rank and for which operands are numbers."""

    def __init__(self, backend: Cuda, name: str, body: Any, inputs: Any, outputs: Any, compute: Any):
        self.backend, self.name, self.body = backend, name, body
        self.inputs, self.outputs, self.compute = inputs, outputs, compute
        self.results = [NUMPY[t] for t in outputs]
        self.sizes = [NUMPY[t].itemsize for t in (*inputs, *outputs)]
        self.memory = {
            backend.xp.ndarray,
            Shadow,
        }  # what is nothing else goes by value: never a number where a pointer is read
        self.plans: dict[Any, Any] = {}

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """The result(s) for CuPy arrays; 0-d NumPy arrays and NumPy's scalars count as numbers."""
        count = len(self.inputs)
        if len(arrays) > count:
            arrays, out = arrays[:count], arrays[count:]
        outs = () if out is None else out if out.__class__ is tuple or out.__class__ is list else (out,)
        memory = self.memory
        key: Any = [(a.shape, a.strides) if a.__class__ in memory else None for a in arrays]
        key = (*key, *[(o.shape, o.strides) for o in outs])
        found = self.plans.get(key)
        if found is None:
            found = self._prepare(key)
        p, kernel, numbers = found
        made = outs or [self._empty(p, d) for d in self.results]
        if p.blocks:
            if numbers:
                kernel((p.blocks,), (THREADS,), (*self._by_value(arrays, numbers, made), *p.geometry))
            else:
                kernel((p.blocks,), (THREADS,), (*arrays, *made, *p.geometry))
            watch = watching()
            if watch is not None:
                watch.pointwise(self, (*arrays, *made))
        if out is not None:
            return out
        return made[0] if len(made) == 1 else tuple(made)

    def _prepare(self, key: Any) -> Any:
        count = len(self.inputs)
        numbers = frozenset(k for k, operand in enumerate(key[:count]) if operand is None)
        memory = [k for k in range(len(self.sizes)) if k not in numbers]
        p = plan([key[k] for k in memory if k < count], [self.sizes[k] for k in memory], key[count:])
        name, what = f"{self.name}_{p.rank}", (self.body, self.inputs, self.outputs, self.compute)
        if p.rank:
            text = render_pointwise(name, *what, p.rank, numbers, p.index)
        else:
            text = render_dense(name, *what, numbers, frozenset(memory[position] for position in p.single))
        if len(self.plans) >= _PLANS:
            self.plans.clear()
        found = self.plans[key] = (p, self.backend.compiled(name, text), numbers)
        return found

    def _empty(self, p: Plan, d: Any) -> Any:
        made = self.backend.empty(p.shape, d)
        if p.strides is None:
            return made
        return made.__class__(p.shape, d, made.data, tuple([s * d.itemsize for s in p.strides]))

    def _by_value(self, arrays: Sequence[Any], numbers: frozenset[int], made: Any) -> list[Any]:
        """The kernel's arguments: arrays, results, then numbers in the types that the body computes in."""
        given = [a for k, a in enumerate(arrays) if k not in numbers]
        given += made
        for k in sorted(numbers):
            value = arrays[k][()] if self.inputs[k] == self.compute[k] else arrays[k].astype(NUMPY[self.compute[k]])[()]
            given += [value.real, value.imag] if value.dtype.kind == "c" else [value]
        return given


class Kernel:
    """A `lang.Kernel` on the GPU, with the calling convention of a generalized ufunc. What stands for an array may be
    (array or address, how it is read)."""

    def __init__(self, backend: Cuda, kernel: Any, types: tuple[str, ...], options: dict[str, Any]):
        self.backend, self.kernel, self.types, self.options = backend, kernel, types, options
        self.functions: dict[Any, Function] = {}
        self.plans: dict[Any, tuple[Plan, Function]] = {}  # by how operands lie where the kernel loops over them

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        kernel = self.kernel
        operands = [*kernel.inputs, *kernel.outputs]
        count = len(kernel.inputs)
        outs = list(arrays[count:]) or ([] if out is None else list(out) if isinstance(out, (tuple, list)) else [out])
        about = [a[1] if isinstance(a, tuple) else a for a in (*arrays[:count], *outs)]
        sizes = {}
        for array, dims in zip(about, operands):
            for d, n in zip(dims, array.shape[len(array.shape) - len(dims) :]):
                if sizes.setdefault(d, n) != n:
                    raise ValueError(f"{kernel.function.__name__}: sizes {sizes[d]} and {n} of dimension {d} differ")
        if not outs:
            lead = np.broadcast_shapes(*[a.shape[: len(a.shape) - len(dims)] for a, dims in zip(about, kernel.inputs)])
            outs = [
                self.backend.empty((*lead, *(sizes[d] for d in dims)), NUMPY[t])
                for dims, t in zip(kernel.outputs, self.types[count:])
            ]
            about += outs
        ends = [len(a.shape) - len(dims) for a, dims in zip(about, operands)]
        loops = tuple([(a.shape[:end], a.strides[:end]) for a, end in zip(about, ends)])
        p, function = self.plans.get(loops) or self._prepare(loops)
        cores = [sizes[d] for d in kernel.dims]
        steps = [s for a, end in zip(about, ends) for s in a.strides[end:]]
        if p.blocks:
            given = [a[0] if isinstance(a, tuple) else a for a in (*arrays[:count], *outs)]
            grid = blocks(p.geometry[0] * sizes[kernel.along]) if kernel.along else p.blocks
            if grid:
                function((grid,), (THREADS,), (*given, *p.geometry, *cores, *steps))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _prepare(self, loops: Any) -> tuple[Plan, Function]:
        count = len(self.kernel.inputs)
        p = plan(loops[:count], (), loops[count:], dense=False)
        still = frozenset([i for i, s in enumerate(p.geometry[p.rank :]) if not s])
        function = self.functions.get((p.rank, p.index, still))
        if function is None:
            name = f"{self.kernel.function.__name__}_{p.rank}"
            text = render_kernel(name, self.kernel, self.types, self.options, p.rank, p.index, still)
            function = self.functions[p.rank, p.index, still] = self.backend.compiled(name, text)
        if len(self.plans) >= _PLANS:
            self.plans.clear()
        found = self.plans[loops] = p, function
        return found


_WRONG = {
    "class": IndexError("Target is out of bounds: class numbers of a loss on the GPU, in a call before this one, were not among the classes"),
    "index": IndexError("index out of range: a call on the GPU before this one was given an index beyond the size of its dimension"),
    "chance": RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false: bernoulli's probabilities in a call on the GPU before this one"),
}  # fmt: skip


class Errors:
    """Words in the CPU's memory that kernels write to where an operand is wrong. Whoever waits for the GPU looks at them afterwards."""

    def __init__(self, backend: Cuda):
        self.backend = backend
        self.words: Any = None

    def word(self, what: str = "class") -> tuple[Any, Any]:
        """What a program adds the number of wrong elements to, as an operand and as a result."""
        operand = self.place(what)
        return operand, operand

    def row(self, array: Any, size: int) -> tuple[Any, Operand]:
        """What stands for a row of so many elements, none of which is read."""
        return array, Operand((size,), (0,), array.dtype)

    def place(self, what: str, shape: tuple[int, ...] = ()) -> tuple[int, Operand]:
        """What a kernel writes to where an element of a shape is wrong."""
        if self.words is None:
            self.memory = self.backend.xp.cuda.alloc_pinned_memory(8 * len(_WRONG))
            self.words = np.frombuffer(self.memory, np.int64, len(_WRONG))
            self.words[:] = 0
        place = 8 * list(_WRONG).index(what)
        return int(self.memory.ptr) + place, Operand(shape, (0,) * len(shape), self.words.dtype)

    def found(self, word: Any) -> bool:
        """Whether something was wrong: nobody waits to know that."""
        return False

    def check(self) -> None:
        """Raises for what went wrong since the last time."""
        if self.words is not None and self.words.any():
            wrong = next(error for error, word in zip(_WRONG.values(), self.words) if word)
            self.words[:] = 0
            raise type(wrong)(*wrong.args)


class Answers(threading.local):
    """Words in the CPU's memory for each thread, to which kernels write numbers that it waits for."""

    def __init__(self, backend: Cuda):
        self.backend = backend
        self.words: Any = None

    def place(self) -> int:
        """The address of the first."""
        if self.words is None:
            self.memory = self.backend.xp.cuda.alloc_pinned_memory(8 * _ANSWERS)
            self.words = np.frombuffer(self.memory, np.int64, _ANSWERS)
        return int(self.memory.ptr)

    def wait(self) -> int:
        """The first number, once the GPU has done what it was told before."""
        self.backend.xp.cuda.get_current_stream().synchronize()
        self.backend.errors.check()
        return int(self.words[0])

    def wait_for(self, count: int, d: Any) -> list[Any]:
        """The first numbers, which are of a dtype."""
        self.wait()
        found = self.words[:count].view(d)[:: 8 // d.itemsize]
        return (found if d.kind in "iu" else found.astype(np.float64)).tolist()  # type: ignore[no-any-return]


class Cuda:
    name, bits = "cuda", CUDA

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, str], Function] = {}
        self.made: dict[Any, Kernel] = {}
        self.casts: dict[tuple[str, str], Any] = {}
        self.samplers: dict[tuple[str, str], Any] = {}
        self.along = RowKernels(self)
        self.orders = Orders(self)
        self.scans = Scans(self)
        self.product = Products(self)  # x @ y for arrays of one dtype
        self.cudnn = Cudnn(self)
        self.convolutions = Convolutions(self.cudnn)
        self.attention = Attention(self)
        self.launches = Launches(self)
        self.lent = Lent()
        self.graphs = Graphs(self)
        self.convolves = self.convolutions.takes  # whether a library convolves arrays of a dtype
        self.additions: dict[str, Any] = {}
        self.constants: dict[Any, Any] = {}
        self.errors = Errors(self)
        self.answers = Answers(self)
        self.capturing = 0  # how many graphs are being recorded
        self.opened: bool | None = None
        self.addresses: dict[str, int] = {}  # of functions that machine code calls
        self.choice = settings.number() << _CHOICE  # how switches stand

    @found_once
    def xp(self) -> Any:
        import cupy  # loads the CUDA libraries: only when a GPU is used

        return cupy

    @found_once
    def shift(self) -> Any:
        """A word on the GPU that kernels add to the keys of random numbers: zero but while a recorded graph runs."""
        with self.aside():
            return self.xp.zeros((), NUMPY["u64"])

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block whose work and memory belong to no graph that is being recorded."""
        cuda = self.xp.cuda
        if not self.capturing:
            yield
            return
        with cuda.using_allocator(self.xp.get_default_memory_pool().malloc), cuda.Stream(non_blocking=True) as stream:
            yield
            stream.synchronize()

    def ready(self) -> bool:
        """Whether machine code carries out plans on this GPU; looked for once."""
        if self.opened is None:
            self.opened = gpu_count() == 1 and self._open()
        return self.opened

    def _open(self) -> bool:
        try:
            self.addresses = addresses()
        except (OSError, AttributeError, KeyError, ImportError, LookupError):  # another driver, another CuPy
            return False
        make = lambda: self.xp.ndarray((3, 5, 2), np.dtype(np.float32)).transpose(2, 0, 1)
        return open_device(make, {**self.addresses, "choice": self.choice})

    def stream(self) -> int:
        """The stream that this thread's launches go to."""
        return int(self.xp.cuda.get_current_stream().ptr)

    def form(self) -> int:
        """What plans and programs are made for: a stream, as handles of libraries belong to one, and what is chosen by switches."""
        return self.stream() + self.choice

    def switched(self) -> None:
        """A switch was set that libraries' algorithms depend on."""
        if local.captures:  # a program would not know which of its nodes run before that, and which after it
            local.captures[-1].stop("a switch is set that the choice of algorithms depends on")
        self.choice = settings.number() << _CHOICE
        choose(self.choice)

    def compiled(self, name: str, text: str) -> Function:
        """The kernel `name` of a text; CuPy keeps the machine code on disk."""
        found = self.kernels.get((name, text))
        if found is None:
            kernel = self.xp.RawKernel(text, name, options=_OPTIONS)
            # with several GPUs the launch must look for the GPU's own function
            found = self.kernels[name, text] = Function(kernel.kernel if gpu_count() == 1 else kernel)
        return found

    def pointwise(
        self, name: str, body: Any, inputs: tuple[str, ...], outputs: tuple[str, ...], compute: tuple[str, ...]
    ) -> Callable[..., Any]:
        return Pointwise(self, name, body, inputs, outputs, compute)

    def kernel(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        key = (kernel, types, *options.items())
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = Kernel(self, kernel, types, options)
        return found

    def sized(self, work: int, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        return self.kernel(kernel, types, **options)

    def shared(self, rows: Any, count: int, core: int = 1) -> tuple[Any, Operand]:
        """What stands for rows of which every one, of so many dimensions, is written to for so many elements."""
        shape, strides, at = rows.shape, rows.strides, rows.ndim - core
        return rows, Operand((*shape[:at], count, *shape[at:]), (*strides[:at], 0, *strides[at:]), rows.dtype)

    def into(self, call: Callable[..., Any], arrays: list[Any], out: Any) -> Any:
        return call(*arrays, out=out)

    def copy(self, source: Any, out: Any) -> None:
        """Writes an array, cast and broadcast, into another."""
        self._cast(BY_NUMPY[source.dtype].code, BY_NUMPY[out.dtype].code)(source, out=out)

    def join(self, parts: Sequence[tuple[Any, Any]], size: int) -> None:
        """Copies arrays into others of their dtype, of so many bytes together: few are one launch, unless programs join copies to what is beside."""
        watch = watching()
        if len(parts) < 2 or size > _BRIEF or (watch is not None and watch.fuses):
            for x, out in parts:
                self.copy(x, out)
            return
        plans = [plan([(x.shape, x.strides)], (), [(out.shape, out.strides)], dense=False) for x, out in parts]
        text = join("join", parts[0][0].itemsize, tuple([(p.rank, p.index) for p in plans]))
        given = [a for (x, out), p in zip(parts, plans) for a in (x, out, *p.geometry)]
        self.compiled("join", text)((max([p.blocks for p in plans]), len(plans)), (THREADS,), given)

    def add_along(self, x: Any, y: Any, dim: int) -> Any:
        """Adds to x, in place, an element of y for each place along a dimension."""
        code = BY_NUMPY[x.dtype].code
        add = self.additions.get(code)
        if add is None:
            inside = COMPUTE.get(code, code)
            add = self.additions[code] = self.pointwise(
                "add_along", lambda m, x, y: x + y, (code, code), (code,), (inside, inside)
            )
        add(x, y.reshape(-1, *[1] * (x.ndim - dim - 1)), out=x)
        return x

    def constant(self, array: Any) -> tuple[Any, Operand]:
        """What stands for a table of the CPU's in kernels: a copy on the GPU, which plans may point to."""
        key = (array.tobytes(), array.shape, array.dtype.str, self.xp.cuda.runtime.getDevice())
        made = self.constants.get(key)
        if made is None:
            with self.aside():
                made = self.xp.array(array, order="C", blocking=True)
            if len(self.constants) >= _CONSTANTS:
                self.constants.clear()
            if array.nbytes <= _LARGEST_CONSTANT:
                self.constants[key] = made
        watch, lies = watching(), Operand(made.shape, made.strides, made.dtype)
        if watch is None:
            return made, lies
        watch.keep.append(made)
        return int(made.data.ptr), lies

    def duplicate(self, x: Any) -> Any:
        """A copy whose dimensions lie in memory in the same order."""
        return self.cast(x, BY_NUMPY[x.dtype].code)

    def count(self, x: Any, length: int, even: Sequence[float] = (), weights: Any = None) -> Any:
        """How often each of so many integers from 0 on occurs in a vector, or which weights have it; or how many elements lie in bins of
        `even` width: low and high end, number of bins and width of all."""
        weight = None if weights is None else BY_NUMPY[weights.dtype].code
        out = self.empty((length,), NUMPY["i64" if weight is None else "f64"])
        out.fill(0)
        if x.size and length:
            kernel = self.compiled("count", count("count", BY_NUMPY[x.dtype].code, bool(even), weight))
            steps = x.strides[0], 0 if weights is None else weights.strides[0]
            given = x, 0 if weights is None else weights, out, x.size, *steps, length, *(even or (0.0,) * 4)
            kernel((min(blocks(x.size), _COUNTING),), (THREADS,), given)
        return out

    def cast(self, array: Any, code: str) -> Any:
        """A copy in a type whose dimensions lie in memory in the same order."""
        return self._cast(BY_NUMPY[array.dtype].code, code)(array)

    def _cast(self, source: str, code: str) -> Any:
        """What casts elements; floats become integers through int64, so that large ones wrap as they do in C."""
        call = self.casts.get((source, code))
        if call is None:
            if is_integer(code) and not is_integer(source) and source != "b1":
                body = lambda m, x: m.cast(x, "i64")
            elif source in PART and code not in PART and code != "b1":
                body = lambda m, x: m.real(x)
            else:
                body = lambda m, x: x
            call = self.casts[source, code] = self.pointwise(
                "cast", body, (source,), (code,), (COMPUTE.get(source, source),)
            )
        return call

    def draw(self, sampler: str, key: Any, shape: Any, code: str, numbers: Sequence[float], out: Any = None) -> Any:
        """An array of random numbers that depend on the key, `out` if that contiguous one is given; None if there is no such sampler on a
        GPU. What is written down has a key for each time."""
        if sampler not in SAMPLERS or code in PART:
            return None
        if not isinstance(key, Shadow):
            not_planned()
            key = np.uint64(key)
        chosen = SAMPLERS[sampler]
        numbers = (*numbers, *chosen.defaults[len(numbers) :])
        made = self.empty(shape, NUMPY[code]) if out is None else out
        if made.size:
            kernel = self.samplers.get((sampler, code))
            if kernel is None:
                name = f"draw_{sampler}"
                kernel = self.samplers[sampler, code] = self.compiled(
                    name, render_random(name, sampler, code, len(numbers))
                )
            convert = float if chosen.kind == "f64" else int
            given = made, made.size, key, int(self.shift.data.ptr), *[convert(n) for n in numbers]
            kernel((blocks(made.size),), (THREADS,), given)
        return made

    def empty(self, shape: Any, dtype: Any) -> Any:
        watch = watching()
        return self.xp.ndarray(shape, dtype) if watch is None else watch.empty(shape, dtype, device=True)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        made = self.empty(shape, dtype)
        made.fill(0)
        return made

    def number(self, array: Any) -> Any:
        """An array of NumPy's on the GPU; a launch brings one of a single number, for which nobody waits."""
        if array.ndim or not BY_NUMPY[array.dtype].code:
            return self.from_numpy(array)
        made = self.empty((), array.dtype)
        self.copy(array, made)
        return made

    def from_numpy(self, array: Any, index: int | None = None) -> Any:
        """A copy on the current or the given GPU of a NumPy array or of one on another GPU; dense strides are kept."""
        not_planned()
        xp = self.xp
        if index is None or index == xp.cuda.runtime.getDevice():
            if isinstance(array, np.ndarray) and not array.ndim and BY_NUMPY[array.dtype].code:
                return self.number(array)  # CuPy would clear the memory of a zero, sign and all
            return _in_order(array, lambda a: xp.array(a, order="C", blocking=True))
        with xp.cuda.Device(index):
            return _in_order(array, lambda a: xp.array(a, order="C", blocking=True))

    def asnumpy(self, array: Any) -> Any:
        """A copy in main memory; dense strides are kept."""
        if isinstance(array, np.ndarray):
            return array
        made = _in_order(array, self.xp.asnumpy)
        self.errors.check()
        return made


def _in_order(array: Any, copy: Callable[[Any], Any]) -> Any:
    """A copy made of an array whose dimensions are walked as they lie in memory."""
    order = None if array.flags.c_contiguous else memory_order(array.shape, [(array.shape, array.strides)])
    if order is None:
        return copy(array)
    return copy(array.transpose(order)).transpose(sorted(range(array.ndim), key=order.__getitem__))


cuda = Cuda()
when_changed.append(cuda.switched)
