"""Recorded GPU work, which is launched again as one: the same kernels over the same memory."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.functions import Function
from .._autograd.modes import enable_grad, no_grad
from .._core.state import CUDA
from .._dispatch import backend_of
from .._ops.making.generator import default_of, next_key
from .._ops.registry import ops
from .._tensor import Tensor
from ..amp.autocast_mode import is_autocast_cache_enabled, is_autocast_enabled
from ..autograd import grad
from ..nn import Module
from ..utils._pytree import tree_flatten, tree_unflatten

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_MODES = ("global", "thread_local", "relaxed")
_numbers = itertools.count(1)


def _cupy() -> Any:
    from . import _cupy as cupy

    return cupy()


class _Handle(tuple[int, int]):
    """The name of memory that graphs may share, which it keeps alive."""

    memory: Any


def graph_pool_handle() -> Any:
    """Memory that several graphs share: one that is replayed may overwrite what others left there."""
    handle = _Handle((0, next(_numbers)))
    handle.memory = _cupy().cuda.MemoryPool()
    return handle


def is_current_stream_capturing() -> bool:
    """Whether work is being recorded instead of done."""
    from . import is_available

    return (
        is_available() and bool(backend_of(CUDA).capturing) and bool(_cupy().cuda.get_current_stream().is_capturing())
    )


class CUDAGraph:
    """A record of GPU work, to be replayed. What is made meanwhile lies in memory that belongs to the record."""

    def __init__(self, keep_graph: bool = False):
        from . import is_available

        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class CUDAGraph: there is no GPU")
        self._graph: Any = None
        self._begun: Any = None
        self._pool: _Handle | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Starts recording what goes to the current stream."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Unknown capture error mode: {capture_error_mode!r} is none of {', '.join(_MODES)}")
        if self._graph is not None or self._begun is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph: reset() it, or record into another one"
            )
        if pool is not None and not isinstance(pool, _Handle):
            raise TypeError(
                "capture_begin(): pool must be what graph_pool_handle() or the pool() of another graph gave"
            )
        cupy, backend = _cupy(), backend_of(CUDA)
        stream = cupy.cuda.get_current_stream()
        if stream.ptr in (0, cupy.cuda.Stream.ptds.ptr):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream: record within torch.cuda.stream(torch.cuda.Stream()). Any stream may "
                "replay them"
            )
        backend.product.handle()  # libraries make what they need for a stream before, as that is no work to be recorded
        self._pool = pool or self._pool or graph_pool_handle()
        self._begun = stream, cupy.cuda.using_allocator(self._pool.memory.malloc), default_of(CUDA).get_state()
        self._begun[1].__enter__()
        backend.capturing += 1
        try:
            stream.begin_capture()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> Any:
        stream, allocator, drawn = self._begun
        self._begun = None
        backend_of(CUDA).capturing -= 1
        allocator.__exit__(None, None, None)
        return stream, drawn

    def capture_end(self) -> None:
        """Ends recording; from now on the work can be replayed."""
        if self._begun is None:
            raise RuntimeError("capture_end(): capture_begin() was not called before")
        stream, drawn = self._leave()
        self._graph = stream.end_capture()
        self._draws = not default_of(CUDA).get_state().equal(drawn)
        self._tables = list(backend_of(CUDA).constants.values())

    def replay(self) -> None:
        """Does the recorded work in the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        stream = _cupy().cuda.get_current_stream()
        if not self._draws:
            self._graph.launch(stream)
            return
        shift = backend_of(CUDA).shift  # recorded keys would give the same random numbers again
        shift.fill(next_key(default_of(CUDA)._engine))
        self._graph.launch(stream)
        shift.fill(0)

    def reset(self) -> None:
        """Forgets what was recorded and gives its memory back."""
        self._graph = self._pool = None
        self._tables: list[Any] = []

    def pool(self) -> Any:
        """The memory of this graph, which others may share."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Nothing to keep: a graph is not printed."""

    def debug_dump(self, debug_path: str) -> None:
        raise NotImplementedError(
            "debug_dump: a recorded graph is not printed; torch.profiler shows what a replay launches"
        )


class graph:
    """Records the GPU work of a `with` block.

    Tensors that are used must stay where they are: write new values into them with `copy_`, then `replay()`. Nothing may wait for the GPU
    inside the block (`item()`, masks as indices, copies from the CPU).
    """

    default_capture_stream: Any = None

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ):
        from . import Stream

        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(f"graph(): expected a torch.cuda.CUDAGraph, not {type(cuda_graph).__name__}")
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream or graph.default_capture_stream

    def __enter__(self) -> None:
        from . import empty_cache, synchronize

        synchronize()
        gc.collect()
        empty_cache()
        self.capture_stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException as error:
            self.capture_stream.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except Exception:
            if error is None:
                raise
        finally:
            self.capture_stream.__exit__(kind, error, trace)
            if error is not None:
                self.cuda_graph.reset()


# -- functions whose work is recorded ----------------------------------------------------------------------------


class _Recorded:
    """The graphs of one callable: forward, and backward if something in it requires grad. The pool is shared, so calls are captured in the
    order in which they will run, and their backward graphs in the opposite order."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], unused: bool):
        self.function, self.unused = function, unused
        self.inputs, self.spec = tree_flatten(tuple(args))
        if not all([isinstance(t, Tensor) for t in self.inputs]):
            raise TypeError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
            )
        self.parameters = tuple(function.parameters()) if isinstance(function, Module) else ()
        self.surface = (*self.inputs, *self.parameters)
        self.wanted = [i for i, t in enumerate(self.surface) if t.requires_grad]

    def call(self) -> list[Any]:
        made, self.out_spec = tree_flatten(self.function(*tree_unflatten(self.inputs, self.spec)))
        return made

    def slopes(self, outs: Sequence[Tensor], given: Sequence[Any]) -> list[Any]:
        found: list[Any] = [None] * len(self.surface)
        wanted = [self.surface[i] for i in self.wanted]
        roots = [(o, g) for o, g in zip(outs, given) if g is not None]
        if wanted and roots:
            made = grad([o for o, _ in roots], wanted, [g for _, g in roots], allow_unused=self.unused)
            for i, g in zip(self.wanted, made):
                found[i] = g
        return found

    def warm(self, rounds: int) -> None:
        for _ in range(rounds):
            outs = self.call()
            self.slopes(outs, [ops.ones_like(o) if o.requires_grad else None for o in outs])

    def capture_forward(self, pool: Any) -> None:
        self.forward = CUDAGraph()
        with graph(self.forward, pool):
            self.outs = self.call()

    def capture_backward(self, pool: Any) -> None:
        self.given = [ops.empty_like(o) if o.requires_grad else None for o in self.outs]
        self.backward = CUDAGraph()
        with graph(self.backward, pool):
            self.gradients = self.slopes(self.outs, self.given)
        self.outs = [o.detach() for o in self.outs]

    def replaying(self) -> Callable[..., Any]:
        """A function like the recorded one."""
        recorded, count = self, len(self.inputs)

        class Replay(Function):
            @staticmethod
            def forward(ctx: Any, *surface: Tensor) -> Any:
                for own, given in zip(recorded.inputs, surface[:count]):
                    if own.data_ptr() != given.data_ptr():
                        own.copy_(given)
                recorded.forward.replay()
                return tuple([o.detach() for o in recorded.outs])

            @staticmethod
            def backward(ctx: Any, *slopes: Any) -> Any:
                for own, given in zip(recorded.given, slopes):
                    if own is not None and own.data_ptr() != given.data_ptr():
                        own.copy_(given)
                recorded.backward.replay()
                return tuple([None if g is None else g.detach() for g in recorded.gradients])

        def replayed(*args: Any) -> Any:
            given, spec = tree_flatten(tuple(args))
            if spec != recorded.spec:
                raise TypeError(
                    f"the recorded function was called with {len(recorded.inputs)} tensors in another order of arguments"
                )
            return tree_unflatten(list(Replay.apply(*given, *recorded.parameters)), recorded.out_spec)

        return replayed


def _in_module(module: Any, recorded: Callable[..., Any]) -> Any:
    """The module, which replays as long as it is in the mode in which it was recorded."""
    training, usual = module.training, module.forward

    def forward(*args: Any, **named: Any) -> Any:
        return recorded(*args, **named) if module.training == training else usual(*args, **named)

    module.forward = forward
    return module


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    """Modules or functions of tensors whose forward and backward work is recorded and replayed. Arguments of calls must be like the samples;
    results are overwritten by the next call."""
    from . import Stream, current_stream, stream

    if is_autocast_enabled("cuda") and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    one = not isinstance(callables, tuple)
    functions = (callables,) if one else callables
    samples = (sample_args,) if one else sample_args
    for f in functions:
        if isinstance(f, Module) and (f._backward_hooks or f._forward_hooks or f._forward_pre_hooks):
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed: register them afterwards."
            )
        if isinstance(f, Module) and any(b.requires_grad for b in f.buffers()):
            raise RuntimeError(
                "In any module passed to make_graphed_callables, only parameters may be trainable, not buffers."
            )
    recorded = [_Recorded(f, args, allow_unused_input) for f, args in zip(functions, samples)]
    side = Stream()
    side.wait_stream(current_stream())
    with enable_grad(), stream(side):
        for r in recorded:
            r.warm(num_warmup_iters)
    current_stream().wait_stream(side)
    pool = pool or graph_pool_handle()
    with enable_grad():
        for r in recorded:
            r.capture_forward(pool)
        for r in reversed(recorded):
            r.capture_backward(pool)
    made = []
    with no_grad():
        for f, r in zip(functions, recorded):
            replayed = r.replaying()
            made.append(_in_module(f, replayed) if isinstance(f, Module) else replayed)
    return made[0] if one else tuple(made)
