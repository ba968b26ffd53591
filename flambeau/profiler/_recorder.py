"""Records what runs while a profiler is on: a span for each operation, labelled block, module and backward step.

The dispatcher, the engine and public functions call the thread's recorder (`local.profiler`) only while there is one.
"""

from __future__ import annotations

import sys
import threading
from time import perf_counter_ns, time_ns
from typing import Any

from .._core.state import CUDA, PROFILE, local, modes
from .._errors.frames import is_ours
from .._ops.making.conversion import CASTS
from .._ops.records.facts import aten_name, fact
from .._ops.registry import ops
from .._tensor import Tensor
from ..autograd.profiler_util import FunctionEvent
from ._flops import flops_of

FUNCTION, BACKWARD, USER = 0, 1, 7  # PyTorch's numbers of scopes

# Questions about tensors and ways out of them, which PyTorch does not count as operations.


class Span:
    """One event while it runs; times in nanoseconds."""

    __slots__ = (
        "bytes", "device_bytes", "end", "flops", "function", "kernels", "label", "name", "parent", "scope", "sequence",
        "shapes", "stack", "start",
    )  # fmt: skip

    def __init__(self, name: str, parent: Span | None, scope: int):
        self.name, self.parent, self.scope = name, parent, scope
        self.function: Any = None
        self.label = False
        self.shapes: Any = None
        self.stack: Any = None
        self.kernels: Any = None
        self.bytes = self.device_bytes = self.flops = self.end = 0
        self.sequence = -1
        self.start = perf_counter_ns()


class Watcher:
    """Sees what one thread runs between `start` and `stop`, inside any watcher that was there before."""

    outer: Any = None

    def start(self) -> None:
        """Begins to watch this thread."""
        self.outer, local.profiler = local.profiler, self
        modes.enter(PROFILE)

    def stop(self) -> None:
        """Ends it, also if others that began later still watch."""
        modes.leave(PROFILE)
        if local.profiler is self:
            local.profiler = self.outer
            return
        inner = local.profiler
        while inner is not None and inner.outer is not self:
            inner = inner.outer
        if inner is not None:
            inner.outer = self.outer

    def open(self, name: str, args: Any = (), scope: int = FUNCTION, label: bool = False) -> Any:
        """Begins a span."""
        return None if self.outer is None else self.outer.open(name, args, scope, label)

    def close(self, span: Any) -> None:
        """Ends a span."""
        if self.outer is not None:
            self.outer.close(span)

    def labelled(self, name: str, function: Any, *args: Any) -> Any:
        """Calls a function inside a span with a label."""
        span = self.open(name, label=True)
        try:
            return function(*args)
        finally:
            self.close(span)

    def compute(self, op: Any, args: tuple[Any, ...], k: int) -> Any:
        """Runs a record on its operands: the dispatcher's way in."""
        outer = self.outer
        return op.compute(args, k) if outer is None else outer.compute(op, args, k)

    def call(self, function: Any, args: Any, named: Any) -> Any:
        """Runs a public function that is not a record itself; NotImplemented if it may go on by itself."""
        return NotImplemented if self.outer is None else self.outer.call(function, args, named)

    def backward(self, node: Any, g: Any, create_graph: bool) -> Any:
        """Runs the derivative of one node: the engine's way in."""
        return (node.op if self.outer is None else self.outer).backward(node, g, create_graph)

    def accumulate(self, function: Any, leaf: Any, g: Any, *rest: Any) -> None:
        """Adds a gradient to a leaf: the engine's way in."""
        if self.outer is None:
            function(leaf, g, *rest)
        else:
            self.outer.accumulate(function, leaf, g, *rest)


class Recorder(Watcher):
    """Keeps a span for everything that runs."""

    def __init__(
        self,
        shapes: bool = False,
        memory: bool = False,
        stack: bool = False,
        flops: bool = False,
        modules: bool = False,
        device: Any = None,
    ):
        self.shapes, self.memory, self.stack, self.flops = shapes, memory, stack, flops
        self.watch_modules, self.device = modules or stack, device
        self.spans: list[Span] = []
        self.top: Span | None = None
        self.paused = False
        self.thread = threading.get_ident()
        self.modules: dict[str, Any] = {}
        self.handles: list[Any] = []
        self.began = self.ended = 0
        self.clock = 0

    # -- on and off ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to record this thread's operations."""
        super().start()
        self._hook()
        self.began = perf_counter_ns()
        self.clock = time_ns() - self.began

    def stop(self) -> None:
        """Ends the recording; spans that are still open end here."""
        self.ended = perf_counter_ns()
        while self.top is not None:
            self.close(self.top)
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        super().stop()

    def _hook(self) -> None:
        from ..nn.modules import module  # they need the package first
        from ..optim import optimizer

        opened: list[Span] = []

        def before_step(chosen: Any, args: Any, kwargs: Any) -> None:
            kind = type(chosen).__name__
            opened.append(self.open(f"Optimizer.step#{kind}.step", label=True))

        def after_step(chosen: Any, args: Any, kwargs: Any) -> None:
            if opened:
                self.close(opened.pop())

        self.handles = [
            optimizer.register_optimizer_step_pre_hook(before_step),
            optimizer.register_optimizer_step_post_hook(after_step),
        ]
        if self.watch_modules:
            self.handles += [
                module.register_module_forward_pre_hook(lambda m, args: self._enter_module(m)),
                module.register_module_forward_hook(lambda m, args, out: self._leave_module(), always_call=True),
            ]

    def _enter_module(self, module: Any) -> None:
        kind = type(module).__name__
        known = self.modules.setdefault(kind, {})
        number = known.setdefault(id(module), len(known))
        span = self.open(f"nn.Module: {kind}_{number}")
        span.function = _MODULE

    def _leave_module(self) -> None:
        span = self.top
        while span is not None and span.function is not _MODULE:
            span = span.parent
        if span is not None:
            self.close(span)

    # -- spans -----------------------------------------------------------------------------------------------------

    def open(self, name: str, args: Any = (), scope: int = FUNCTION, label: bool = False) -> Span:
        """Begins a span inside the one that is open."""
        span = self.top = Span(name, self.top, USER if label else scope)
        span.label = label
        self.spans.append(span)
        if self.shapes:
            span.shapes = [_shape_of(a) for a in args]
        if self.stack:
            span.stack = _frames()
        return span

    def close(self, span: Span) -> None:
        """Ends a span, and any inside it that an error left open."""
        now = perf_counter_ns()
        top = self.top
        while top is not None and top is not span:
            top.end = top.end or now
            top = top.parent
        if top is None:
            return  # closed already
        span.end = now
        self.top = span.parent

    def compute(self, op: Any, args: tuple[Any, ...], k: int) -> Any:
        """Runs a record on its operands: the dispatcher's way in."""
        if self.paused:
            return super().compute(op, args, k)
        top, name = self.top, op.name
        shown = "aten::" + ("mm" if name == "linear" and args[1] is None else aten_name(name))
        shared = top is not None and top.function is not None and (top.name == shown or name == "random")
        span: Any = top if shared else self.open(shown, args)  # shared with the public function of the operation
        timed = self.device is not None and k & CUDA and not _timed_above(span)
        if timed:
            begin = self.device.mark()
            span.kernels = []
        try:
            out = super().compute(op, args, k)
        finally:
            if timed:
                span.kernels.append((name, begin, self.device.mark()))
            if not shared:
                self.close(span)
        if self.memory and not getattr(op, "view", False):
            _count(span, out)
        if self.flops:
            span.flops += flops_of(name, args, out)
        return out

    def call(self, function: Any, args: Any, named: Any) -> Any:
        """Runs a public function that is not a record itself; NotImplemented if it may go on by itself."""
        top, name = self.top, function_name(function)
        if self.paused or fact(name, "silent") is not None:
            return NotImplemented
        packet = getattr(function, "overloadpacket", None)  # of an operator that a library defines
        full = "aten::" + name if packet is None else packet._qualified_op_name
        if top is not None and top.function is not None and top.name == full:
            return super().call(function, args, named)  # it is open already
        span = self.open(full, (*args, *named.values()) if named else args)
        span.function = function
        first = len(self.spans)
        try:
            out = function(*args, **named)
        finally:
            self.close(span)
        if self.memory and isinstance(out, Tensor) and not any(s.bytes or s.device_bytes for s in self.spans[first:]):
            if not span.bytes and not span.device_bytes and _is_fresh(out, args):
                _count(span, out)
        return out

    def backward(self, node: Any, g: Any, create_graph: bool) -> Any:
        """Runs the derivative of one node: the engine's way in."""
        name = node.name()
        outer = self.open(f"autograd::engine::evaluate_function: {name}")
        inner = self.open(name, (g,) if node.outputs is None else g, scope=BACKWARD)
        outer.sequence = inner.sequence = node._sequence_nr()
        try:
            return super().backward(node, g, create_graph)
        finally:
            self.close(outer)

    def accumulate(self, function: Any, leaf: Any, g: Any, *rest: Any) -> None:
        """Adds a gradient to a leaf: the engine's way in."""
        outer = self.open("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")
        self.open("torch::autograd::AccumulateGrad", (g,), scope=BACKWARD)
        try:
            super().accumulate(function, leaf, g, *rest)
        finally:
            self.close(outer)

    # -- results ---------------------------------------------------------------------------------------------------

    def events(self) -> list[FunctionEvent]:
        """What was recorded, in the order of beginnings; times in microseconds since the start."""
        made: dict[Span, FunctionEvent] = {}
        kind = None if self.device is None else "cuda"
        for number, span in enumerate(self.spans, 1):
            event = made[span] = FunctionEvent(
                number, span.name, self.thread, (span.start - self.began) / 1000, (span.end - self.began) / 1000,
                input_shapes=span.shapes or [], stack=span.stack or [], scope=span.scope, sequence_nr=span.sequence,
                flops=span.flops, is_user_annotation=span.label, cpu_memory_usage=span.bytes,
                device_memory_usage=span.device_bytes, use_device=kind, trace_name=span.name, overload_name="",
            )  # fmt: skip
            if span.label and span.name.startswith("ProfilerStep#"):
                event.name = "ProfilerStep*"  # one row for all steps
            for name, begin, end in span.kernels or ():
                event.append_kernel(name, 0, self.device.between(begin, end))
            if span.parent is not None and span.parent in made:
                made[span.parent].append_cpu_child(event)
        events = list(made.values())
        for event in reversed(events):  # inner ones before those they are in
            if event.cpu_parent is not None:
                event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
                event.cpu_parent.device_memory_usage += event.device_memory_usage
        return events


class DeviceClock:
    """Times of work on the GPU, by CUDA events."""

    def __init__(self) -> None:
        from .._backend.cuda import cuda  # loads CuPy

        self.cuda = cuda.xp.cuda

    def mark(self) -> Any:
        event = self.cuda.Event()
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        """Microseconds between two marks."""
        end.synchronize()
        return self.cuda.get_elapsed_time(begin, end) * 1000.0


_MODULE = object()


def _timed_above(span: Span | None) -> bool:
    while span is not None:
        if span.kernels is not None:
            return True
        span = span.parent
    return False


def _count(span: Span, out: Any) -> None:
    for t in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(t, Tensor):
            nbytes = getattr(t._array, "nbytes", 0)
            if t._k & CUDA:
                span.device_bytes += nbytes
            else:
                span.bytes += nbytes


def _is_fresh(out: Tensor, args: Any) -> bool:
    """Whether a result has memory of its own."""
    if out._view is not None:
        return False
    return not any(
        isinstance(a, Tensor)
        and (a is out or a._array is out._array or (a._storage is not None and a._storage is out._storage))
        for a in args
    )


def _shape_of(a: Any) -> Any:
    if isinstance(a, Tensor):
        return list(a._array.shape)
    if isinstance(a, (list, tuple)) and a and all(isinstance(b, Tensor) for b in a):
        return [list(b._array.shape) for b in a]
    return []


def _frames() -> list[str]:
    """The places in the program that led here, innermost first, without those inside this package."""
    found = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not is_ours(frame):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


_names: dict[Any, str] = {}
_SPOKEN = {"cross_entropy": "cross_entropy_loss"} | dict.fromkeys(CASTS, "to")


def function_name(function: Any) -> str:
    """The name of a public function, which may be a nameless form of another."""
    if not _names:
        for name, known in reversed(ops.__dict__.items()):
            _names[known] = _SPOKEN.get(name) or name.removeprefix("functional_")
    found = _names.get(function)
    if found is None:
        found = getattr(function, "__name__", str(function))
        found = _names[function] = _SPOKEN.get(found) or found.removeprefix("functional_")
    return found
