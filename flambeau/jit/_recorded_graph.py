"""The graph of a recording, whose values know their sizes: what counters of operations read."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ._graph import Graph, GraphNode, GraphValue
from ._tracer import Node, Tracer, Value


class TensorKind:
    """The type of a tensor that stood in an example."""

    def __init__(self, example: Tensor):
        self._example = example

    def kind(self) -> str:
        return "TensorType"

    def sizes(self) -> list[int]:
        return list(self._example.shape)

    def strides(self) -> list[int]:
        return list(self._example.stride())

    def dim(self) -> int:
        return self._example.ndim

    def device(self) -> Any:
        return self._example.device

    def scalarType(self) -> str:
        return self._example.type().rpartition(".")[2].removesuffix("Tensor")

    def __str__(self) -> str:
        sizes, strides = ", ".join(map(str, self.sizes())), ", ".join(map(str, self.strides()))
        gradient = int(self._example.requires_grad)
        return f"{self.scalarType()}({sizes}, strides=[{strides}], requires_grad={gradient}, device={self.device()})"


class PlainKind:
    """The type of a value that is no tensor."""

    def __init__(self, example: Any):
        self._name = {type(None): "None", str: "str"}.get(type(example)) or (
            f"{type(example[0]).__name__ if example else 'int'}[]"
            if isinstance(example, list)
            else type(example).__name__
        )

    def kind(self) -> str:
        short = "List" if self._name.endswith("[]") else {"str": "String"}.get(self._name, self._name.capitalize())
        return f"{short}Type"

    def __str__(self) -> str:
        return self._name


class RecordedValue(GraphValue):
    """A value with what stood there in the example."""

    def __init__(self, name: str, example: Any, node: GraphNode | None = None):
        super().__init__(name, node)
        self._example = example

    def isCompleteTensor(self) -> bool:
        return isinstance(self._example, Tensor)

    def type(self) -> TensorKind | PlainKind:
        return TensorKind(self._example) if isinstance(self._example, Tensor) else PlainKind(self._example)

    def toIValue(self) -> Any:
        """The value of a constant; None if it is computed."""
        return self._example if self._node is not None and self._node.kind() == "prim::Constant" else None


class RecordedNode(GraphNode):
    """An operator, and the scope in which it ran."""

    def __init__(self, kind: str, inputs: list[Any], outputs: list[RecordedValue], scope: str):
        super().__init__(kind, inputs, [])
        self._outputs, self._scope = list(outputs), scope
        for value in outputs:
            value._node = self

    def scopeName(self) -> str:
        return self._scope

    def inputsSize(self) -> int:
        return len(self._inputs)

    def outputsSize(self) -> int:
        return len(self._outputs)


def recorded_graph(tracer: Tracer, results: list[Value]) -> Graph:
    """All operators of a recording in one graph; parameters and buffers are inputs after those of the function."""
    return _Reader(tracer).read(results)


class _Reader:
    def __init__(self, tracer: Tracer):
        self.tracer, self.graph = tracer, Graph([])
        self.values: dict[Value, RecordedValue] = {}
        self.scope = ""

    def read(self, results: list[Value]) -> Graph:
        graph = self.graph
        for value in (*self.tracer.inputs, *self.tracer.attributes):
            graph._inputs.append(self.value(value))
        for node in self.tracer.top.nodes():
            self.scope = node.scope
            op, args = _as_recorded_there(node)
            inputs = [self.argument(a) for a in args]
            kind = op if "::" in op else f"aten::{op}"
            self.add(kind, inputs, [self.value(v) for v in node.outs])
        graph._outputs = [self.value(v) for v in results]
        return graph

    def value(self, value: Value) -> RecordedValue:
        found = self.values.get(value)
        if found is None:
            name = value.attribute or value.name or str(len(self.values))
            found = self.values[value] = RecordedValue(name, value.example)
            if value.name.startswith("CONSTANTS."):
                self.add("prim::Constant", [], [found])
        return found

    def add(self, kind: str, inputs: list[Any], outputs: list[RecordedValue]) -> RecordedValue:
        self.graph._nodes.append(RecordedNode(kind, inputs, outputs, self.scope))
        return outputs[0]

    def argument(self, argument: Any) -> RecordedValue:
        if isinstance(argument, Value):
            return self.value(argument)
        made = RecordedValue(f"c{len(self.graph._nodes)}", argument)
        if isinstance(argument, (list, tuple)):
            return self.add("prim::ListConstruct", [self.argument(a) for a in argument], [made])
        return self.add("prim::Constant", [], [made])


_CHOICES = (False, False, True, True)  # of cuDNN: benchmark, deterministic, enabled, TF32


def _as_recorded_there(node: Node) -> tuple[str, list[Any]]:
    """An operator and all its arguments; convolutions as the one operator that traces of PyTorch have."""
    args = [*node.args, *node.named.values()]
    if node.op in ("conv1d", "conv2d", "conv3d"):
        x, weight, bias, stride, padding, dilation, groups = args
        return "_convolution", [x, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups, *_CHOICES]
    if node.op in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        x, weight, bias, stride, padding, output_padding, groups, dilation = args
        return "_convolution", [x, weight, bias, stride, padding, dilation, True, output_padding, groups, *_CHOICES]
    return node.op, args
