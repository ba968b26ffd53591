"""An ONNX graph that is ready to run: its nodes in order, its constants, and what each value is needed for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .operators import OPERATORS, SIZES, Node
from .tensors import Tensors
from .wire import Message

_MOST_NODES = 20_000  # of functions, written out: those that call others twice would grow without end
_DEEPEST = 32
_SMALL = 64  # elements up to which a constant counts as sizes
_CONSTANT = "onnx::Constant"  # how exporters call numbers that were written in the program


class Constant:
    """A tensor of the file: where it is kept in the module, or an array if it is a size."""

    def __init__(self, name: str, array: np.ndarray[Any, Any], is_initializer: bool, fixed: bool):
        self.name, self.array, self.is_initializer = name, array, is_initializer
        small = array.size <= _SMALL and array.ndim <= 1
        self.is_size = small and array.dtype.kind in "iub" and array.dtype.itemsize in (1, 4, 8)
        self.known = array.tolist() if small and array.dtype.kind in "iufb" else None
        self.trained = (
            is_initializer and not fixed and array.ndim > 0 and not name.startswith(_CONSTANT)
            and (array.dtype.kind == "f" or array.dtype.name == "bfloat16")
        )  # fmt: skip
        self.owner: Any = None
        self.key = ""

    def value(self) -> Any:
        return self.array if self.is_size else getattr(self.owner, self.key)


class Loading:
    """What is known while a file is read: tensors, functions, versions, and what was found so far."""

    def __init__(self, model: Message, tensors: Tensors):
        self.tensors = tensors
        self.opsets = _versions(model.opset_import)
        self.functions = {(f.domain or "", f.name or ""): f for f in model.functions}
        self.constants: list[Constant] = []
        self.unknown: dict[str, int] = {}
        self.fixed: set[str] = set()
        self.nodes = self.depth = 0

    def count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            raise OnnxModelError(f"functions of the model have more than {_MOST_NODES} nodes when they are written out")


def _versions(opsets: list[Message]) -> dict[str, int]:
    found = {("" if o.domain == "ai.onnx" else o.domain or ""): int(o.version or 1) for o in opsets}
    return found or {"": 1}


class Program:
    """A graph that runs. Names that it does not define itself are those of the graph around it (`captures`)."""

    def __init__(self, loading: Loading, inputs: list[str], outputs: list[str], label: str):
        self.inputs, self.outputs, self.label = inputs, outputs, label
        self.constants: dict[str, Constant] = {}
        self.nodes: list[Node] = []
        self.captures: list[str] = []
        if len(set(inputs)) != len(inputs):
            raise OnnxModelError(f"{label} has two inputs of one name")

    # -- from the file -------------------------------------------------------------------------------------------------

    @staticmethod
    def of_graph(loading: Loading, graph: Message, label: str, outer: frozenset[str] | None) -> Program:
        """The program of a graph; `outer` are the names that graphs around it define."""
        if graph.sparse_initializer:
            raise OnnxModelError(f"{label} has sparse tensors, which are not supported")
        given = {t.name or "" for t in graph.initializer}
        inputs = [i.name or "" for i in graph.input]
        if outer is None:
            inputs = [name for name in inputs if name not in given]  # what has a value need not be given
        made = Program(loading, inputs, [o.name or "" for o in graph.output], label)
        made._fill(loading, graph.node, graph.initializer, outer or frozenset(), {})
        return made

    @staticmethod
    def of_function(loading: Loading, function: Message, node: Node) -> Program:
        """The program of a function of the model, as one node calls it."""
        loading.count(len(function.node))
        before, loading.opsets = loading.opsets, _versions(function.opset_import) or loading.opsets
        given: dict[str, Any] = {a.name: a for a in function.attribute_proto}
        given |= dict.fromkeys(function.attribute)
        given |= {k: v for k, v in node.attributes.items() if k in given}
        try:
            made = Program(loading, list(function.input), list(function.output), f"the function {node.kind}")
            made._fill(loading, function.node, [], frozenset(), given)
        finally:
            loading.opsets = before
        return made

    def _fill(
        self,
        loading: Loading,
        nodes: list[Message],
        tensors: list[Message],
        outer: frozenset[str],
        given: dict[str, Any],
    ) -> None:
        loading.depth += 1
        if loading.depth > _DEEPEST:
            raise OnnxModelError(f"{self.label} is nested more than {_DEEPEST} deep, or calls itself")
        loading.fixed.update(_fixed(nodes))
        for t in tensors:
            self._constant(loading, t.name or "", loading.tensors.array(t), True)
        known = {*self.inputs, *self.constants}
        taken: dict[str, None] = {}
        for proto in nodes:
            node = self._node(loading, proto, outer | known, given)
            missing = [n for n in _needs(node) if n not in known]
            for name in missing:
                if name not in outer:
                    raise OnnxModelError(
                        f"{node} of {self.label} uses {name!r}, which no earlier node gives: the file is damaged, "
                        "its nodes are not in order, or they form a circle"
                    )
            taken.update(dict.fromkeys(missing))
            for name in node.outputs:
                if name in known and name:
                    raise OnnxModelError(f"{node} of {self.label} gives {name!r}, which is there already")
            known.update(node.outputs)
            if not self._is_constant(loading, node):
                self.nodes.append(node)
        missing = [n for n in self.outputs if n not in known]
        if any(n not in outer for n in missing):
            raise OnnxModelError(f"no node of {self.label} gives its outputs {missing}")
        self.captures = list(taken | dict.fromkeys(missing))
        self._last_uses()
        loading.depth -= 1

    def _constant(self, loading: Loading, name: str, array: np.ndarray[Any, Any], initializer: bool) -> None:
        if name in self.constants or not name:
            raise OnnxModelError(f"{self.label} has two tensors called {name!r}")
        made = self.constants[name] = Constant(name, array, initializer, name in loading.fixed)
        loading.constants.append(made)

    def _is_constant(self, loading: Loading, node: Node) -> bool:
        """Whether a node only states a value, which is then kept as one."""
        if (node.domain, node.kind) != ("", "Constant"):
            return False
        if len(node.attributes) != 1 or len(node.outputs) != 1:
            raise OnnxModelError(f"{node} needs one value and one output")
        ((name, value),) = node.attributes.items()
        types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
        if name in types and not isinstance(value, str):
            value = np.asarray(value, types[name])
        if not isinstance(value, np.ndarray):
            raise OnnxModelError(f"{node} holds {name}, which is no tensor of numbers")
        self._constant(loading, node.outputs[0], value, False)
        return True

    def _node(self, loading: Loading, proto: Message, scope: frozenset[str], given: dict[str, Any]) -> Node:
        domain = "" if proto.domain == "ai.onnx" else proto.domain or ""
        node = Node(
            proto.op_type or "", domain, proto.name or "", loading.opsets.get(domain, 1),
            ["" if n is None else n for n in proto.input], list(proto.output),
        )  # fmt: skip
        for a in proto.attribute:
            self._attribute(loading, node, a, scope, given)
        function = loading.functions.get((domain, node.kind))
        if function is not None:
            node.attributes = {"body": Program.of_function(loading, function, node)}
            node.kind, node.domain = "Call", "flambeau"
        form = OPERATORS.get((node.domain, node.kind))
        if form is None:
            if node.domain or node.kind != "Constant":
                label = f"{domain}::{node.kind}" if domain else node.kind
                loading.unknown[label] = loading.unknown.get(label, 0) + 1
            return node
        least, most = _arity(form.run)
        if not least <= len(node.inputs) <= most:
            raise OnnxModelError(f"{node} has {len(node.inputs)} inputs, which {node.kind} does not take")
        return node

    def _attribute(
        self, loading: Loading, node: Node, a: Message, scope: frozenset[str], given: dict[str, Any]
    ) -> None:
        """Sets an attribute of a node. In a function it may stand for one of the call."""
        if a.ref_attr_name:
            found = given.get(a.ref_attr_name)
            if isinstance(found, Message):
                a, name = found, a.name or ""
            else:
                if found is not None:
                    node.attributes[a.name or ""] = found
                return
        else:
            name = a.name or ""
        value: Any
        if a.t is not None:
            value = loading.tensors.array(a.t)
        elif a.g is not None:
            value = Program.of_graph(loading, a.g, f"the graph {name!r} of {node}", scope)
        elif a.s is not None:
            value = bytes(a.s).decode("utf-8", "replace")
        elif a.type == 8 or a.strings:
            value = [bytes(s).decode("utf-8", "replace") for s in a.strings]
        elif a.type == 7 or a.ints:
            value = a.ints
        elif a.type == 6 or a.floats:
            value = a.floats
        elif a.type == 1 or a.f is not None:
            value = a.f or 0.0
        elif a.type == 2 or a.i is not None:
            value = a.i or 0
        elif a.type == 3:
            value = ""
        elif a.type in (13, 14):  # a type, which values here have by themselves
            return
        else:
            raise OnnxModelError(f"the attribute {name!r} of {node} has a type that is not supported")
        node.attributes[name] = value

    def _last_uses(self) -> None:
        """Values are given up after the last node that needs them."""
        kept = {*self.outputs, *self.constants, *self.captures}
        for node in reversed(self.nodes):
            for name in {*_needs(node), *node.outputs}:
                if name and name not in kept:
                    kept.add(name)
                    node.drops.append(name)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, inputs: Any, outer: dict[str, Any], device: Any) -> list[Any]:
        """The outputs for inputs; `outer` are the values around the graph."""
        values = {name: outer[name] for name in self.captures}
        for name, constant in self.constants.items():
            values[name] = constant.value()
        values.update(zip(self.inputs, inputs))
        for node in self.nodes:
            try:
                made = _computed(node, self.constants, values, device)
            except OnnxModelError as error:
                raise error if error.args[0].startswith("in ") else OnnxModelError(f"in {node}: {error}") from error
            except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                raise OnnxModelError(f"in {node}: {type(error).__name__}: {error}") from error
            values.update(zip(node.outputs, made))
            for name in node.drops:
                values.pop(name, None)
        return [values[name] for name in self.outputs]


@cache
def _arity(form: Any) -> tuple[int, float]:
    """How many inputs a form takes at least and at most, besides the node."""
    found = [p for p in inspect.signature(form).parameters.values() if p.kind is not p.VAR_KEYWORD][1:]
    found = [
        p for p in found if p.name not in ("values", "device")
    ]  # what forms that take sizes as they are get besides
    several = any(p.kind is p.VAR_POSITIONAL for p in found)
    plain = [p for p in found if p.kind is not p.VAR_POSITIONAL]
    return sum(p.default is p.empty for p in plain), float("inf") if several else len(plain)


def _needs(node: Node) -> Iterator[str]:
    """The names of values that a node needs, those that its graphs take from around it included."""
    yield from (n for n in node.inputs if n)
    for value in node.attributes.values():
        if isinstance(value, Program):
            yield from value.captures


def _fixed(nodes: list[Message]) -> Iterator[str]:
    """Values that are no weights, because an operator takes them as numbers or statistics."""
    for node in nodes:
        form = OPERATORS.get(("", node.op_type or ""))
        for place in (*form.lists, *form.fixed) if form is not None else ():
            if place < len(node.input):
                yield node.input[place]


def _computed(node: Node, constants: dict[str, Constant], values: dict[str, Any], device: Any) -> Any:
    """The results of a node, as a list or tuple."""
    form = OPERATORS[node.domain, node.kind]
    given = [values[n] if n else None for n in node.inputs]
    if not form.raw:
        if node.kind in SIZES and not node.domain and all(isinstance(v, np.ndarray) for v in given):
            found = SIZES[node.kind](node, *given)
            if found is not NotImplemented:
                return found if isinstance(found, list) else [np.asarray(found)]
        for place, value in enumerate(given):
            if place in form.lists:
                constant = constants.get(node.inputs[place])
                given[place] = listed(value) if constant is None or constant.known is None else constant.known
                if given[place] is not None and not isinstance(given[place], list):
                    given[place] = [given[place]]
            elif isinstance(value, np.ndarray):
                given[place] = as_tensor(value, device)
        made = form.run(node, *given)
    else:
        made = form.run(node, *given, values=values, device=device)
    if not isinstance(made, tuple):
        made = (made,)
    if any(node.outputs[len(made) :]):
        raise OnnxModelError(f"it has no output number {len(made) + 1}")
    return made


def listed(value: Any) -> list[Any] | None:
    """A value as a list of numbers."""
    if value is None:
        return None
    found = value.reshape(-1).tolist() if isinstance(value, (np.ndarray, Tensor)) else value
    return found if isinstance(found, list) else [found]


def as_tensor(value: Any, device: Any) -> Any:
    """A value as a tensor."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    if value.dtype == object:
        value = np.asarray([int(v) for v in value.reshape(-1)], np.int64).reshape(value.shape)
    return ops.tensor(np.asarray(value), device=device)
