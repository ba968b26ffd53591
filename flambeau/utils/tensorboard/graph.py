"""The graph of a model for TensorBoard: its operations in one run, by the modules that call them."""

from __future__ import annotations

from typing import Any

from ..._autograd.modes import no_grad
from ..._interception.overrides import TorchFunctionMode
from ..._tensor import Tensor
from .._pytree import tree_leaves
from ._protos import proto

_KINDS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10,
    "bfloat16": 14, "complex128": 18, "float16": 19,
}  # fmt: skip


class _Recorder(TorchFunctionMode):
    """Notes the functions that run, with the path of modules that is open and where their tensors come from."""

    def __init__(self) -> None:
        super().__init__()
        self.path: list[str] = []
        self.nodes: list[Any] = []
        self.made: dict[int, str] = {}
        self.kept: list[Tensor] = []  # so that no number of an object comes twice
        self.counts: dict[str, int] = {}

    def node(self, name: str, kind: str, outs: Any, inputs: Any = ()) -> None:
        count = self.counts[name] = self.counts.get(name, -1) + 1
        name = name if count == 0 else f"{name}_{count}"
        attributes = {}
        if outs:
            shapes = [proto("TensorShapeProto")(dim=[{"size": n} for n in t.shape]) for t in outs]
            attributes["_output_shapes"] = proto("AttrValue")(list={"shape": shapes})
            attributes["T"] = proto("AttrValue")(type=_KINDS.get(outs[0].dtype.name, 0))
        given = [self.made[id(t)] for t in inputs if id(t) in self.made]
        self.nodes.append(proto("NodeDef")(name=name, op=kind, input=given, attr=attributes))
        for t in outs:
            self.made[id(t)] = name
            self.kept.append(t)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        outs = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        name = getattr(func, "__name__", "operation").strip("_")
        if outs and name != "get":
            inputs = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)]
            self.node("/".join([*self.path, name]), f"aten::{name}", outs, inputs)
        return result


def graph(model: Any, args: Any) -> Any:
    """A GraphDef of one run of a model on example arguments."""
    recorder = _Recorder()
    given = args if isinstance(args, (tuple, list)) else (args,)
    for i, t in enumerate(t for t in tree_leaves(given) if isinstance(t, Tensor)):
        recorder.node(f"input/input.{i + 1}", "IO Node", [t])
    names = {module: path.rpartition(".")[2] for path, module in model.named_modules()}
    hooks = []
    for module, name in names.items():
        label = f"{type(module).__name__}[{name}]" if name else type(module).__name__
        for key, p in module.named_parameters(recurse=False):
            recorder.node(f"parameters/{label}/{key}", "prim::GetAttr", [p])
        hooks.append(module.register_forward_pre_hook(lambda *_, label=label: recorder.path.append(label)))
        hooks.append(module.register_forward_hook(lambda *_: recorder.path.pop() and None))
    try:
        with no_grad(), recorder:
            result = model(*given)
    finally:
        for hook in hooks:
            hook.remove()
    for i, t in enumerate(t for t in tree_leaves(result) if isinstance(t, Tensor)):
        recorder.node(f"output/output.{i + 1}", "IO Node", [], [t])
    return proto("GraphDef")(node=recorder.nodes, versions=proto("VersionDef")(producer=22))
