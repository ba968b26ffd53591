"""Turns a recording into a graph of `torch.fx` over operators of `torch.ops.aten`, with the signature of its inputs and outputs."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from .._core.devices import CPU
from .._core.expressions import symbol
from .._core.symbolic import SymBool, SymFloat, SymInt
from .._library.namespaces import ops
from .._subclasses.fake_tensor import FakeTensorMode, _without_memory
from .._tensor import Tensor
from ..fx import Graph
from ..fx import Node as FxNode
from ..fx._recorded import add_call
from ..jit._tracer import ARITHMETIC, Call, Node, Value
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_flatten_with_path
from ._found import Found
from ._known import shown
from ._operators import overload_of
from ._recording import COMPARISONS, Recorder
from .exported_program import ModuleCallSignature
from .graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)


def leaf_names(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for every leaf of the arguments: that of the argument, with the keys that lead to the leaf."""
    found = []
    for name, value in zip(names, (*args, *kwargs.values())):
        for path, _ in tree_flatten_with_path(value)[0]:
            keys = [getattr(k, "key", getattr(k, "idx", getattr(k, "name", ""))) for k in path]
            found.append("_".join([name, *map(str, keys)]))
    return found


class Sizes:
    """What is known of sizes that change; none do."""

    found: Mapping[str, Found] = MappingProxyType({})  # numbers that elements decide, by their symbols

    def number(self, value: Value) -> Any:
        """The expression of a number that changes; None for one that is always as in the example."""
        return None

    def origin(self, expression: Any) -> tuple[int, int] | None:
        """(input, dimension) whose size an expression is."""
        return None

    def known(self) -> list[Any]:
        """The expressions of sizes of arguments."""
        return []

    def shown(self, value: Value, fake: Any) -> Any:
        """A fake tensor that has the sizes of a value."""
        return fake


class converted:
    """The graph of a recording, in `graph` and `signature`."""

    def __init__(
        self,
        recorder: Recorder,
        root: Module,
        names: list[str],
        inputs: list[Any],
        results: list[Any],
        sizes: Sizes | None = None,
    ):
        self.graph, self.recorder, self.root, self.sizes = Graph(), recorder, root, sizes or Sizes()
        self.mode = FakeTensorMode()
        self.nodes: dict[int, Any] = {}  # id of a value -> its node
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}
        self.inputs: list[InputSpec] = []
        self.leaves: list[FxNode] = []
        self._sizes: dict[Any, FxNode] = {}
        self._calls: dict[str, int] = {}  # how often a module was called
        self._stack: dict[str, tuple[str, str]] = {}  # the modules that run where the graph is written
        self.calls: dict[str, ModuleCallSignature] = {}  # of modules whose calls keep their structure
        self._placeholders(names, inputs)
        self._last = next(iter(reversed(self.graph.nodes)), None)
        self._walk(recorder.top, {"L__self__": ("", _class_name(root))})
        self._finish(results)

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _placeholder(
        self, name: str, kind: InputKind, value: Any, target: str | None, persistent: bool | None = None
    ) -> FxNode:
        node = self.graph.create_node("placeholder", name, name=name)
        if node.name == f"{name}_1" and name in vars(builtins):  # an argument may be called `input`
            node.name = name
        node.target = node.name
        if isinstance(value, Value) and value.kind != "Tensor" and self.sizes.number(value) is None:
            value = value.example
        if isinstance(value, Value):
            self.nodes[id(value)] = node
            node.meta["val"] = self._described(value, kind is not InputKind.CONSTANT_TENSOR)
            arg: ArgumentSpec = TensorArgument(node.name) if value.kind == "Tensor" else SymIntArgument(node.name)
        else:
            node.meta["val"] = value
            arg = ConstantArgument(node.name, value)
        self.inputs.append(InputSpec(kind, arg, target, persistent))
        return node

    def _placeholders(self, names: list[str], inputs: list[Any]) -> None:
        stored = set(self.root.state_dict(keep_vars=True))
        parameters = {id(p) for p in self.root.parameters()}
        for wanted in (True, False):
            for path, (t, value) in self.recorder.state.items():
                if (id(t) in parameters) is not wanted:
                    continue
                if wanted:
                    self._placeholder(_flat("p_" + path), InputKind.PARAMETER, value, path)
                    self.state[path] = t
                    continue
                persistent = path in stored
                self._placeholder(_flat("b_" + path), InputKind.BUFFER, value, path, persistent)
                (self.state if persistent else self.constants)[path] = t
        self._constants_at = len(self.inputs)
        for name, value in zip(names, inputs):
            self.leaves.append(self._placeholder(_flat(name), InputKind.USER_INPUT, value, None))

    def _constant(self, value: Value) -> FxNode:
        """The placeholder of a constant; it stands before those of the arguments."""
        path = value.name.removeprefix("CONSTANTS.")
        specs, self.inputs = self.inputs, []
        before = self.leaves[0] if self.leaves else self._first_call()
        with self.graph.inserting_before(before) if before is not None else self.graph.inserting_after(None):
            node = self._placeholder(_flat("c_" + path), InputKind.CONSTANT_TENSOR, value, path)
        specs.insert(self._constants_at, self.inputs[0])
        self._constants_at += 1
        self.inputs = specs
        self.constants[path] = self.recorder.literals[path]
        return node

    def _first_call(self) -> FxNode | None:
        return next((n for n in self.graph.nodes if n.op != "placeholder"), None)

    # -- values ----------------------------------------------------------------------------------------------------------

    def _described(self, value: Value, history: bool = False) -> Any:
        """What is known of a value besides its elements."""
        t = value.example
        if not isinstance(t, Tensor):
            e = self.sizes.number(value)
            if e is None:
                return t
            if isinstance(t, bool) and value.node is not None:
                op, (left, right) = value.node.op, [self._side(a) for a in value.node.args]
                return SymBool(shown(op, left, right), t)
            return SymInt(e, t) if isinstance(t, int) else SymFloat(e, t)
        if history:
            return self.sizes.shown(value, self.mode.from_tensor(t))
        return self.sizes.shown(value, self.mode.fake(_without_memory(t.detach()), t.device))

    def _node(self, value: Value) -> Any:
        """The node of a value, or the number that it always is."""
        if value.kind != "Tensor":
            e = self.sizes.number(value)
            if e is None:
                return value.example
            origin = self.sizes.origin(e)
            if origin is not None:
                return self._input_size(e, *origin)
        found = self.nodes.get(id(value))
        if found is None and value.kind != "Tensor":
            return self._computed(self.sizes.number(value))
        if found is None:
            if not value.name.startswith("CONSTANTS."):
                raise RuntimeError("torch.export: the graph uses a value that was not recorded")
            found = self._constant(value)
        return found

    def _side(self, a: Any) -> Any:
        found = self.sizes.number(a) if isinstance(a, Value) else a
        return a.example if found is None else found

    def _found_number(self, e: Any) -> FxNode:
        """The node of a number that elements decide."""
        found = self.sizes.found[str(e)]
        if found.dim is None:
            return self.nodes[id(found.value)]
        node = self._sizes.get(e)
        if node is None:
            source = self.nodes[id(found.value)]
            node = self.graph.create_node(
                "call_function", ops.aten.sym_size.int, (source, found.dim), name="sym_size_int"
            )
            node.meta.update(val=SymInt(e, int(found.number)), nn_module_stack=self._stack)
            self._sizes[e] = node
        return node

    def _input_size(self, e: Any, number: int, dim: int) -> FxNode:
        if dim < 0:  # the argument itself is the number
            return self.leaves[number]
        node = self._sizes.get(e)
        if node is None:
            before = self._first_call()
            with self.graph.inserting_before(before) if before is not None else self.graph.inserting_after(self._last):
                leaf = self.leaves[number]
                node = self.graph.create_node("call_function", ops.aten.sym_size.int, (leaf, dim), name="sym_size_int")
            node.meta["val"] = SymInt(e, leaf.meta["val"]._array.shape[dim])
            node.meta["nn_module_stack"] = {}
            self._sizes[e] = node
        return node

    def _computed(self, e: Any) -> Any:
        """A number computed from the sizes of arguments, for one that the program did not compute in the graph."""
        if self.sizes.origin(e) is not None:
            return self._input_size(e, *self.sizes.origin(e))  # type: ignore[misc]
        linear = [self.sizes.origin(x) for x in self.sizes.known()]
        known: dict[str, Any] = {
            str(x): self._input_size(x, *o) for x, o in zip(self.sizes.known(), linear) if o is not None and x.is_symbol
        }
        known.update((name, self._found_number(symbol(name))) for name in e.symbols & self.sizes.found.keys())

        def call(function: Any, *args: Any) -> Any:
            if not any(isinstance(a, FxNode) for a in args):
                return function(*args)
            made = self.graph.create_node("call_function", function, args)
            plain = [a.meta["val"] if isinstance(a, FxNode) else a for a in args]
            made.meta.update(val=function(*plain), nn_module_stack=self._stack)
            return made

        return e.computed(known, call)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, Value):
            return self._node(a)
        return [self._argument(b) for b in a] if isinstance(a, (list, tuple)) else a

    # -- operators ---------------------------------------------------------------------------------------------------------

    def _walk(self, call: Call, stack: dict[str, tuple[str, str]]) -> None:
        for item in call.items:
            self._stack = stack
            if isinstance(item, Call):
                count = self._calls.get(item.path, 0)
                self._calls[item.path] = count + 1
                path = f"{item.path}@{count}" if count else item.path
                key = "L__self__" + path.replace(".", "_")
                self._walk(item, {**stack, key: (path, _class_name(item.module))})
            else:
                self._operator(item, stack)

    def _operator(self, node: Node, stack: dict[str, tuple[str, str]]) -> None:
        first = node.outs[0] if node.outs else None
        if first is not None and first.kind != "Tensor":
            self._number(node, first, stack)
            return
        if node.op == "_assert_scalar":
            self._statement(node, stack)
            return
        overload, args, named = overload_of(node.op, node.args, node.named)
        options = list(overload._schema.kwarg_only)
        if "pin_memory" in options and overload._opname != "to":  # what makes tensors says where
            if "Tensor" not in overload._schema.arguments[0].declared:
                named.setdefault("device", CPU if first is None else first.example.device)
            named = dict(sorted({**named, "pin_memory": False}.items(), key=lambda item: options.index(item[0])))
        described = [self._described(v) for v in node.outs]
        val = node.several(described) if node.several else described[0] if described else None
        made = self._call(
            overload, self._argument(args), {k: self._argument(v) for k, v in named.items()}, val, node, stack
        )
        self.nodes.update(zip(map(id, node.outs), made))

    def _statement(self, node: Node, stack: dict[str, tuple[str, str]]) -> None:
        """What the program states of numbers is checked where it does."""
        condition = self._argument(node.args[0])
        if isinstance(condition, FxNode):
            text = f"Runtime assertion failed for expression {condition.meta['val']} on node '{condition.name}'"
            self._call(
                ops.aten._assert_scalar.default, (condition, text), {}, None, node, stack, "_assert_scalar_default"
            )

    def _number(self, node: Node, value: Value, stack: dict[str, tuple[str, str]]) -> None:
        e = self.sizes.number(value)
        if e is None or self.sizes.origin(e) is not None:
            return
        args = [self._argument(a) for a in node.args]
        target, name = ARITHMETIC.get(node.op), None
        if node.op in COMPARISONS:
            target = getattr(operator, node.op)
        elif node.op == "item":
            target = ops.aten.item.default
        elif target is None:
            whole = node.op == "numel"
            target = ops.aten.sym_numel.default if whole else ops.aten.sym_size.int
            name = "sym_numel_default" if whole else "sym_size_int"
        (self.nodes[id(value)],) = self._call(target, args, {}, self._described(value), node, stack, name)

    def _call(
        self, target: Any, args: Any, named: Any, val: Any, node: Node, stack: Any, name: str | None = None
    ) -> list[Any]:
        meta = {"nn_module_stack": stack, "stack_trace": node.line, "part": node.part}
        return add_call(self.graph, target, args, named, val, {k: v for k, v in meta.items() if v}, name)

    # -- outputs -------------------------------------------------------------------------------------------------------------

    def _finish(self, results: list[Any]) -> None:
        outputs = [self._argument(r) for r in results]
        for path, calls in self.recorder.preserved.items():
            for i, call in enumerate(calls):
                self.calls[f"{path}@{i}" if i else path] = self._signature(*call)
        kept = {a.name for s in self.calls.values() for a in (*s.inputs, *s.outputs)}
        self.graph.output(tuple(outputs))
        drop_unused(self.graph, kept)
        specs = []
        for result, out in zip(results, outputs):
            if not isinstance(out, FxNode):
                arg: ArgumentSpec = ConstantArgument("", out)
            elif isinstance(result, Value) and result.kind != "Tensor":
                arg = SymIntArgument(out.name) if result.kind == "int" else SymFloatArgument(out.name)
            else:
                arg = TensorArgument(out.name)
            specs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
        self.signature = ExportGraphSignature(self.inputs, specs)

    def _signature(self, given: Any, result: Any, names: list[str]) -> ModuleCallSignature:
        """The arguments and results of a call of a module, as nodes of the graph."""

        def of(leaf: Any) -> ArgumentSpec:
            if not isinstance(leaf, Value):
                return ConstantArgument("", leaf)
            found = self._node(leaf)
            if leaf.kind == "Tensor":
                return TensorArgument(found.name)
            return SymIntArgument(found.name) if isinstance(found, FxNode) else ConstantArgument("", found)

        (ins, in_spec), (outs, out_spec) = tree_flatten(given), tree_flatten(result)
        return ModuleCallSignature([of(v) for v in ins], [of(v) for v in outs], in_spec, out_spec, names)


def written_by(node: FxNode) -> list[FxNode]:
    """The arguments that a node writes to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    written = [node.args[i] for i in schema.written if i < len(node.args)]
    return [n for n in written if isinstance(n, FxNode)]


def drop_unused(graph: Graph, kept: Collection[str] = ()) -> None:
    """Drops nodes whose results nobody uses and that do nothing else."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and node.name not in kept and not node.is_impure():
            graph.erase_node(node)


def _flat(path: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in path)


def _class_name(module: Any) -> str:
    home = type(module).__module__
    package = __name__.partition(".")[0]
    home = "torch" + home[len(package) :] if home.partition(".")[0] == package else home
    return f"{home}.{type(module).__qualname__}"
