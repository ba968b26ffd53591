"""`run_decompositions`: composite operators in parts, and writes to buffers and arguments as outputs of the graph."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

from .._core.layouts import contiguous_format
from .._higher_order_ops.auto_functionalize import auto_functionalized_v2, numbered
from .._library.namespaces import OpOverload, ops
from .._library.schema_texts import gives_view, schemas_of
from .._tensor import Tensor
from ..fx import Graph, Node, map_arg
from ..fx._recorded import part_of
from ..fx.experimental.proxy_tensor import make_fx
from ._conversion import drop_unused, written_by
from ._scatter import scattered
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument

aten = ops.aten


class Rule:
    """How an operator is taken apart: a function of a builder and the operator's arguments; NotImplemented leaves it whole."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise TypeError("this entry of the table is a rule for graphs; run_decompositions applies it")


TABLE: dict[OpOverload, Any] = {}


def _rule(*overloads: OpOverload) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        TABLE.update((overload, Rule(function)) for overload in overloads)
        return function

    return add


# -- rules: `b(operator, …)` adds a node -----------------------------------------------------------------------------------


def _val(node: Node) -> Any:
    return node.meta["val"]


def _changing(*nodes: Any) -> bool:
    """Whether a node has sizes that change."""
    return any("_sizes" in getattr(_val(n), "__dict__", {}) for n in nodes if isinstance(n, Node))


@_rule(aten.linear.default)
def _linear(b: Any, x: Node, weight: Node, bias: Any = None) -> Any:
    if _val(x).dim() != 2 or _val(weight).dim() != 2:
        return NotImplemented
    turned = b(aten.permute.default, weight, [1, 0])
    return b(aten.mm.default, x, turned) if bias is None else b(aten.addmm.default, bias, x, turned)


@_rule(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _conv(
    b: Any, x: Node, w: Node, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    rank = _val(w).dim() - 2
    if _val(x).dim() != rank + 2:
        return NotImplemented
    spread = [list(v) if isinstance(v, (list, tuple)) else [v] * rank for v in (stride, padding, dilation)]
    return b(aten.convolution.default, x, w, bias, *spread, False, [0] * rank, groups)


@_rule(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _conv_transpose(
    b: Any, x: Node, w: Node, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
    dilation: Any = 1,
) -> Any:  # fmt: skip
    rank = _val(w).dim() - 2
    if _val(x).dim() != rank + 2:
        return NotImplemented
    around = [
        list(v) if isinstance(v, (list, tuple)) else [v] * rank for v in (stride, padding, dilation, output_padding)
    ]
    return b(aten.convolution.default, x, w, bias, *around[:3], True, around[3], groups)


@_rule(aten.batch_norm.default)
def _batch_norm(
    b: Any, x: Node, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, _: bool
) -> Any:
    if mean is None or var is None:
        return NotImplemented
    if not training:
        return b.first(aten._native_batch_norm_legit_no_training.default, x, weight, bias, mean, var, momentum, eps)
    parts = b(aten._native_batch_norm_legit_functional.default, x, weight, bias, mean, var, True, momentum, eps)
    out, new_mean, new_var = part_of(parts, 0), part_of(parts, 3), part_of(parts, 4)
    b.write(mean, new_mean)
    b.write(var, new_var)
    return out


@_rule(aten.dropout.default)
def _dropout(b: Any, x: Node, p: float, train: bool) -> Any:
    if not train or p == 0:
        return x
    return b.first(aten.native_dropout.default, x, p, True)


@_rule(aten.layer_norm.default)
def _layer_norm(
    b: Any, x: Node, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = True
) -> Any:
    return NotImplemented if _changing(x) else b.first(aten.native_layer_norm.default, x, shape, weight, bias, eps)


@_rule(aten.max_pool2d.default)
def _max_pool2d(b: Any, x: Node, *rest: Any) -> Any:
    return NotImplemented if _changing(x) else b.first(aten.max_pool2d_with_indices.default, x, *rest)


@_rule(aten.flatten.using_ints)
def _flatten(b: Any, x: Node, *rest: Any) -> Any:
    return (
        NotImplemented if _changing(x) or not _val(x).is_contiguous() else b(aten.view.default, x, list(b.result.shape))
    )


@_rule(aten.transpose.int)
def _transpose(b: Any, x: Node, one: int, two: int) -> Any:
    order = list(range(_val(x).dim()))
    order[one], order[two] = order[two], order[one]
    return b(aten.permute.default, x, order)


@_rule(aten.t.default)
def _t(b: Any, x: Node) -> Any:
    return b(aten.permute.default, x, [1, 0]) if _val(x).dim() == 2 else NotImplemented


@_rule(aten.contiguous.default)
def _contiguous(b: Any, x: Node, *, memory_format: Any = contiguous_format) -> Any:
    return b(aten.clone.default, x, memory_format=memory_format)


@_rule(aten.softmax.int)
def _softmax(b: Any, x: Node, dim: int, dtype: Any = None) -> Any:
    return NotImplemented if dtype is not None else b(aten._softmax.default, x, dim, False)


@_rule(aten.log_softmax.int)
def _log_softmax(b: Any, x: Node, dim: int, dtype: Any = None) -> Any:
    return NotImplemented if dtype is not None else b(aten._log_softmax.default, x, dim, False)


@_rule(aten.silu.default)
def _silu(b: Any, x: Node) -> Any:
    return b(aten.mul.Tensor, x, b(aten.sigmoid.default, x))


@_rule(aten.lift_fresh_copy.default)
def _copy(b: Any, x: Node) -> Any:
    return b(aten.clone.default, x)


@_rule(aten.to.dtype)
def _to(b: Any, x: Node, dtype: Any, *rest: Any) -> Any:
    if any(v not in (False, None) for v in rest):
        return NotImplemented
    return x if _val(x).dtype is dtype else b(aten._to_copy.default, x, dtype=dtype)


@_rule(aten.matmul.default)
def _matmul(b: Any, x: Node, y: Node) -> Any:
    return b(aten.mm.default, x, y) if _val(x).dim() == _val(y).dim() == 2 else NotImplemented


@_rule(aten.adaptive_avg_pool2d.default)
def _adaptive_avg_pool2d(b: Any, x: Node, size: Any) -> Any:
    if list(size) == [1, 1]:
        return b(aten.mean.dim, x, [-1, -2], True)
    return b(aten._adaptive_avg_pool2d.default, x, size)


@_rule(aten.mse_loss.default)
def _mse_loss(b: Any, x: Node, y: Node, reduction: int = 1) -> Any:
    squares = b(aten.pow.Tensor_Scalar, b(aten.sub.Tensor, x, y), 2)
    return squares if not reduction else b(aten.mean.default if reduction == 1 else aten.sum.default, squares)


def _called(plain: OpOverload) -> Callable[..., Any]:
    return lambda b, x, y: b(plain, x, y)


for _name, _plain in {"__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor"}.items():
    for _kind in ("Tensor", "Scalar"):
        _rule(getattr(getattr(aten, _name), _kind))(_called(getattr(getattr(aten, _plain), _kind)))


# -- the walk ------------------------------------------------------------------------------------------------------------------


class _Builder:
    """Writes the new graph, beginning with the inputs of the old one."""

    def __init__(self, ep: ExportedProgram, table: dict[Any, Any]):
        self.ep, self.table, self.graph = ep, table, Graph()
        self.made: dict[Node, Any] = {}
        self.same: dict[Node, Node] = {}  # nodes of the old graph that give what they have written to
        self.written: dict[Node, Node] = {}  # inputs -> their last values
        self.old: Any = None
        for node in ep.graph.nodes:
            if node.op == "placeholder":
                made = self.graph.node_copy(node)
                made.name = made.target = node.name
                self.made[node] = made
            elif node.op == "call_function":
                self.old, self.result = node, node.meta.get("val")
                self.made[node] = self._node(node)

    def __call__(self, overload: Any, *args: Any, **named: Any) -> Node:
        """Adds a node; what it gives is found by the rules of shapes."""
        node = self.graph.create_node("call_function", overload, args, named, name=getattr(overload, "_opname", None))
        found = overload(*map_arg(args, _val), **map_arg(named, _val))
        same = isinstance(found, Tensor) and isinstance(self.result, Tensor) and found.shape == self.result.shape
        node.meta.update(self.old.meta, val=self.result if same and found.dtype is self.result.dtype else found)
        return node

    def first(self, overload: Any, *args: Any) -> Node:
        """The first result of an operator that gives several."""
        made = part_of(self(overload, *args), 0)
        made.meta["val"] = self.result
        return made

    def write(self, target: Node, value: Node) -> None:
        """Says that an input of the new graph has another value from now on."""
        for old, new in list(self.made.items()):
            if new is target:
                self.made[old] = value
                root, _ = self._shown(old)
                if root.op == "placeholder":
                    self.written[root] = value

    def of(self, node: Node) -> Any:
        """What stands in the new graph for a node of the old one."""
        return self.made.get(node, node)

    def _node(self, node: Node) -> Any:
        args, named = map_arg((node.args, node.kwargs), self.of)
        if node.target is operator.getitem and not isinstance(args[0], Node):
            return args[0][args[1]]
        functional = self._written(node, args, named)
        if functional is not None:
            return functional
        rule = self.table.get(node.target)
        if isinstance(rule, Rule):
            found = rule.function(self, *args, **named)
            if found is not NotImplemented:
                return found
        elif rule is not None:
            return self._inlined(rule, args, named)
        made = self.graph.create_node("call_function", node.target, tuple(args), named, name=node.name)
        made.meta = dict(node.meta)
        return made

    def _written(self, node: Node, args: Any, named: Any) -> Any:
        """An operator that writes to its arguments as one that does not; None if it has to stay as it is."""
        targets = written_by(node)
        ours = not targets or node.target.namespace == "aten"
        if not targets or (ours and (len(targets) != 1 or node.target is aten.batch_norm.default)):
            return None
        made = self._functional(node, args, named) if ours else self._of_program(node, args, named)
        out, parts = (made, [made]) if ours else made
        shown = [self._shown(target) for target in targets]
        wholes = [None if part is None else self._whole(*way, part) for way, part in zip(shown, parts)]
        if None in wholes or len({id(root) for root, _ in shown}) < len(shown):
            if any(root.op == "placeholder" for root, _ in shown):
                raise NotImplementedError(
                    f"run_decompositions: {node.target} writes to an input and has no form that does not"
                )
            return None
        if ours:
            self.same[node] = targets[0]
        for (root, _), whole in zip(shown, wholes):
            self.made[root] = whole
            if root.op == "placeholder":
                self.written[root] = whole
            for view in [
                n for n in self.made if n is not root and (n in self.same or _is_view(n)) and self._shown(n)[0] is root
            ]:
                self.made[view] = self._again(view)
        return out

    def _shown(self, node: Node) -> tuple[Node, list[Node]]:
        """What a node of the old graph shows a part of, and the views that lead there."""
        views: list[Node] = []
        while node in self.same or _is_view(node):
            if node not in self.same:
                views.append(node)
            node = self.same.get(node) or node.args[0]  # type: ignore[assignment]
        return node, views[::-1]

    def _whole(self, root: Node, views: list[Node], part: Node) -> Node | None:
        """The new value of what views show a part of, of which the part is new."""
        values = [self.made[root], *[self.made[view] for view in views[:-1]]]
        for view, value in zip(reversed(views), reversed(values)):
            self.result = None
            found = scattered(self, view, value, part)
            if found is None:
                return None
            part = found
        return part

    def _again(self, view: Node) -> Any:
        """What a view shows now."""
        if view in self.same:
            return self.made[self.same[view]]
        now = self.old, self.result
        self.old, self.result = view, view.meta.get("val")
        try:
            return self._node(view)
        finally:
            self.old, self.result = now

    def _of_program(self, node: Node, args: Any, named: Any) -> tuple[Any, list[Node]]:
        """What an operator of the program gives, and what it would have written, each as a part of a function's result."""
        names = [a.name for a in node.target._schema.arguments]
        given = {**dict(zip(names, args)), **named}
        written = {
            names[i]: given.pop(names[i]) for i in node.target._schema.written if isinstance(given.get(names[i]), Node)
        }
        made = self(auto_functionalized_v2, node.target, **given, **numbered(written))
        results = len(_val(made)) - len(written)
        return (part_of(made, 0) if results == 1 else made), [part_of(made, results + i) for i in range(len(written))]

    def _functional(self, node: Node, args: Any, named: Any) -> Any:
        name = node.target._opname
        x, val = args[0], _val(node)
        if name == "copy_":
            source = args[1]
            if not isinstance(source, Node) or (_val(source).shape != val.shape and _changing(x, source)):
                return None
            if _val(source).dtype is not val.dtype:
                source = self(aten._to_copy.default, source, dtype=val.dtype)
            if _val(source).shape != val.shape:
                source = self(aten.expand.default, source, list(val.shape))
            return self(aten.clone.default, source)
        if name in ("fill_", "zero_"):
            number = 0 if name == "zero_" else args[1]
            return None if isinstance(number, Node) else self(aten.full_like.default, x, number)
        plain = name.removesuffix("_")
        if plain == name or node.target._overloadname.replace("default", "") not in schemas_of(plain):
            return None
        overload = getattr(getattr(aten, plain), node.target._overloadname)
        rule = self.table.get(overload)
        found = rule.function(self, *args, **named) if isinstance(rule, Rule) else NotImplemented
        return self(overload, *args, **named) if found is NotImplemented else found

    def _inlined(self, function: Any, args: Any, named: Any) -> Any:
        """What a function of tensors runs, in the place of an operator."""
        found: dict[Node, None] = {}
        map_arg((args, named), lambda n: found.setdefault(n))
        unique = list(found)

        def run(*tensors: Any) -> Any:
            given, options = map_arg((args, named), dict(zip(unique, tensors)).__getitem__)
            return function(*given, **options)

        traced = make_fx(run, tracing_mode="fake")(*[_val(n) for n in unique])
        values: dict[Node, Any] = dict(zip([n for n in traced.graph.nodes if n.op == "placeholder"], unique))
        for node in traced.graph.nodes:
            if node.op == "output":
                return map_arg(node.args[0], values.__getitem__)
            if node.op == "get_attr":
                raise NotImplementedError(
                    "run_decompositions: a function of the table makes tensors of its own; use operators"
                )
            if node.op == "call_function":
                made = values[node] = self.graph.node_copy(node, lambda n: values[n])
                made.meta.update({k: v for k, v in self.old.meta.items() if k != "val"})
        return None


def _is_view(node: Node) -> bool:
    """Whether what a node gives lies in the memory of its first argument."""
    name = getattr(node.target, "_opname", "")
    if node.target is operator.getitem:  # of several
        return isinstance(node.args[0], Node) and _is_view(node.args[0])
    if node.op != "call_function" or not gives_view(name):
        return False
    if name in ("reshape", "reshape_as", "flatten"):  # where that is possible
        try:
            _val(node.args[0]).view(_val(node).shape)
        except RuntimeError:
            return False
    return True


def decomposed(ep: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram:
    """A program in simpler operators, whose writes to inputs are outputs."""
    b = _Builder(ep, table)
    kinds = {s.arg.name: s for s in ep.graph_signature.input_specs}
    results = [map_arg(r, b.of) for r in ep.graph.output_node().args[0]]
    specs, outputs = [], []
    for old, new in ((node, b.written[node]) for node in ep.graph.nodes if node in b.written):
        spec = kinds[old.name]
        kind = {
            InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        }.get(spec.kind, OutputKind.USER_INPUT_MUTATION)  # fmt: skip
        target = old.name if kind is OutputKind.USER_INPUT_MUTATION else spec.target
        specs.append(OutputSpec(kind, TensorArgument(new.name), target))
        outputs.append(new)
    for spec, result in zip(ep.graph_signature.output_specs, results):
        arg = spec.arg if isinstance(spec.arg, ConstantArgument) else type(spec.arg)(result.name)  # type: ignore[call-arg]
        specs.append(OutputSpec(spec.kind, arg, spec.target))
        outputs.append(result)
    b.graph.output(tuple(outputs))
    calls = copy.deepcopy(ep.module_call_graph)
    nodes = {n.name: n for n in ep.graph.nodes}
    kept = set()
    for call in calls[1:]:
        for arg in (*call.signature.inputs, *call.signature.outputs) if call.signature else ():
            if not isinstance(arg, ConstantArgument):
                arg.name = b.of(nodes[arg.name]).name
                kept.add(arg.name)
    drop_unused(b.graph, kept)
    signature = ExportGraphSignature(list(ep.graph_signature.input_specs), specs)
    made = ExportedProgram(
        {}, b.graph, signature, ep.state_dict, dict(ep.range_constraints), calls, ep.example_inputs, ep.constants
    )
    writing = any(n.op == "call_function" and written_by(n) for n in b.graph.nodes)  # to values of the graph's own
    made._guards, made._dialect = ep._guards, "TRAINING" if writing else "ATEN"
    return made
