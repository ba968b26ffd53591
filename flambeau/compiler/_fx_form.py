"""A recorded graph as an `fx.GraphModule` of aten operators, for backends that users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import fx
from .._backend.meta import empty_meta
from .._compile.graph import Graph, Node, Value, replaced
from .._compile.whole import Whole
from .._compile.writes import WRITES, whole_of, write_data
from .._core.devices import CPU, device
from .._core.state import CUDA, GRAD, META, modes
from .._library.namespaces import ops
from .._ops.places.positions import part_at
from .._ops.records.pointwise_op import Pointwise
from .._ops.records.primitive import Primitive
from .._subclasses.fake_tensor import FakeTensorMode
from .._tensor import Tensor, wrap
from .._tensor.memory import read_data
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode


def graph_module(graph: Graph) -> fx.GraphModule:
    """The graph; its inputs are those of the graph, then its constants; it gives a tuple.

    It is run without elements, and what is seen of that is what `make_fx` shows. Steps that are no records are called as they are.
    """
    before = modes.overrides
    with FakeTensorMode() as mode:
        made = _Replay(mode).run(graph)
    modes.overrides |= before  # fake tensors of others have left their mark there
    return made


class _Replay:
    """Runs a graph on fake tensors, which stand for its values."""

    def __init__(self, mode: FakeTensorMode):
        self.graph, self.mode = fx.Graph(), mode
        self.recorder = ProxyTorchDispatchMode(self.graph, fake=mode)
        self.tensors: dict[Value, Tensor] = {}

    def run(self, graph: Graph) -> fx.GraphModule:
        for i, v in enumerate((*graph.inputs, *graph.constants)):
            t, node = self.fake(v), self.graph.placeholder(f"arg{i}_1")
            node.meta["val"] = self.tensors[v] = t
            self.recorder.bind(t, node)
        for step in graph.nodes:
            self.recorder.meta = {"line": step.line}
            if step.op in WRITES:
                self.write(step, graph.constants.get(whole_of(step.writes[0])))
            elif step.op is Tensor.detach:
                self.tensors[step.outs[0]] = self.detached(self.tensors[step.args[0]], step.outs[0])
            elif step.op is part_at:
                self.part(step.outs[0], *step.args)
            elif isinstance(step.op, (Pointwise, Primitive)) and not step.opaque:
                self.record(step)
            else:
                self.call(step)
        self.graph.output(tuple(self.recorder.node_of(self.tensors[v]) for v in graph.outputs))
        return fx.GraphModule(self.recorder.attributes, self.graph)

    def fake(self, v: Value) -> Tensor:
        array = empty_meta(v.shape, v.dtype, tuple([n // v.dtype.itemsize for n in v.strides]))
        return self.mode.fake(wrap(array, v.dtype, META), device("cuda", 0) if v.k & CUDA else CPU)

    def detached(self, t: Tensor, v: Value) -> Tensor:
        other = self.fake(v)  # with an array of its own, so that what uses one does not get the other
        self.recorder.add(ops.aten.detach.default, (self.recorder.node_of(t),), {}, other)
        return other

    def write(self, step: Node, buffer: Tensor | None) -> None:
        """Buffers do not get the history of what is written to them."""
        target, source = step.args
        t = self.tensors[target]
        if step.op is write_data:
            whole, t = t, self.fake(target)
            self.recorder.add(read_data, (self.recorder.node_of(whole),), {}, t)
        if isinstance(source, Value):
            given = self.tensors[source]
            if buffer is not None and not buffer.requires_grad:
                given = self.detached(given, source)
            with self.recorder:
                t.copy_(given)
        else:
            with self.recorder:
                t.fill_(source.item() if isinstance(source, np.ndarray) else source)

    def part(self, out: Value, x: Value, at: Value, dim: int, length: int | None, _: Any) -> None:
        """A part at a position that a tensor holds: its number is read, as in PyTorch's graphs."""
        aten, t = ops.aten, self.fake(out)
        self.recorder.add(aten._local_scalar_dense.default, (self.recorder.node_of(self.tensors[at]),), {}, None)
        number = next(iter(reversed(self.graph.nodes)))
        given = (self.recorder.node_of(self.tensors[x]), dim, number)
        if length is None:
            self.recorder.add(aten.select.int, given, {}, t)
        else:
            self.recorder.add(aten.narrow.default, (*given, length), {}, t)
        self.tensors[out] = t

    def record(self, step: Node) -> None:
        with self.recorder:
            out = step.op(*replaced(tuple(step.args), Value, self.tensors.__getitem__))
        had = any([v.k & GRAD for v in step.operands()])
        for v, t in zip(step.outs, out if step.several else [out]):
            if v is not None:
                lost = had and not v.k & GRAD and t.is_floating_point()
                self.tensors[v] = self.detached(t, v) if lost else t

    def call(self, step: Node) -> None:
        """A step that Python takes, as a function of its tensors."""
        operands = list(dict.fromkeys(step.operands()))
        outs = [None if v is None else self.tensors.get(v) or self.fake(v) for v in step.outs]
        self.tensors.update((v, t) for v, t in zip(step.outs, outs) if v is not None)
        given = [self.recorder.node_of(self.tensors[v]) for v in operands]
        self.recorder.add(_called(step, operands), given, {}, outs if step.several else outs[0] if outs else None)


def _called(step: Node, operands: list[Value]) -> Callable[..., Any]:
    op = step.op.with_history if isinstance(step.op, Whole) else step.op

    def call(*tensors: Tensor) -> Any:
        known = dict(zip(operands, tensors))
        args, named = replaced((tuple(step.args), step.named), Value, known.__getitem__)
        return op(*args, **named)

    call.__name__, call._is_impure = step.name, True  # type: ignore[attr-defined]
    return call
