"""The graph of a model for TensorBoard: its operations in one run, by the modules that call them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..._autograd.modes import no_grad
from ..._compile.graph import Value, values_in
from ..._tensor import Tensor
from ...jit._trace_code import prune
from ...jit._tracer import Call
from ...jit._tracing import record_call
from ._protos import proto

_KINDS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10,
    "bfloat16": 14, "complex128": 18, "float16": 19,
}  # fmt: skip


class _Nodes:
    """The nodes of a graph; `made` says which one gives a value."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.made: dict[Value, str] = {}
        self.counts: dict[str, int] = {}

    def add(self, name: str, kind: str, outs: Sequence[Any] = (), inputs: Iterable[Any] = ()) -> None:
        count = self.counts[name] = self.counts.get(name, -1) + 1
        name = name if count == 0 else f"{name}_{count}"
        attributes = {}
        tensors = [v.example for v in outs if isinstance(v.example, Tensor)]
        if tensors:
            shapes = [proto("TensorShapeProto")(dim=[{"size": n} for n in t.shape]) for t in tensors]
            attributes["_output_shapes"] = proto("AttrValue")(list={"shape": shapes})
            attributes["T"] = proto("AttrValue")(type=_KINDS.get(tensors[0].dtype.name, 0))
        given = [self.made[v] for v in inputs if v in self.made]
        self.all.append(proto("NodeDef")(name=name, op=kind, input=given, attr=attributes))
        self.made.update(dict.fromkeys(outs, name))

    def add_call(self, call: Call, path: str) -> None:
        """The operators of a module's call, those of inner modules below their names."""
        for item in call.items:
            if isinstance(item, Call):
                self.add_call(item, f"{path}/{_label(item.module, item.path)}")
            else:
                self.add(f"{path}/{item.op.strip('_')}", f"aten::{item.op}", item.outs, item.operands())


def _label(module: Any, path: str) -> str:
    return f"{type(module).__name__}[{path.rpartition('.')[2]}]" if path else type(module).__name__


def graph(model: Any, args: Any) -> Any:
    """A GraphDef of one run of a model on example arguments."""
    with no_grad():
        tracer, parameters, out = record_call(model, tuple(args) if isinstance(args, (tuple, list)) else (args,), {})
    prune(tracer.top, set(values_in(out)))
    nodes = _Nodes()
    for i, v in enumerate(values_in([v for _, v in parameters])):
        nodes.add(f"input/input.{i + 1}", "IO Node", [v])
    for v in tracer.attributes:
        path, _, key = v.attribute.rpartition(".")
        nodes.add(f"parameters/{_label(model.get_submodule(path), path)}/{key}", "prim::GetAttr", [v])
    nodes.add_call(tracer.top, _label(model, ""))
    for i, v in enumerate(values_in(out)):
        nodes.add(f"output/output.{i + 1}", "IO Node", inputs=[v])
    return proto("GraphDef")(node=nodes.all, versions=proto("VersionDef")(producer=22))
