"""A method of a program as a graph of operators, for reading: nodes with kinds, inputs and outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .._library.schema_texts import is_random
from ._closures import dotted
from ._machine import Function


class GraphValue:
    """A value of a graph."""

    def __init__(self, name: str, node: GraphNode | None = None):
        self._name, self._node = name, node

    def debugName(self) -> str:
        return self._name

    def node(self) -> Any:
        return self._node

    def __repr__(self) -> str:
        return f"%{self._name}"


class GraphNode:
    """An operator in a graph; a branch or loop has blocks."""

    def __init__(self, kind: str, inputs: list[GraphValue], outputs: list[str], text: str = ""):
        self._kind, self._inputs, self._text = kind, inputs, text
        self._outputs = [GraphValue(name, self) for name in outputs]
        self._blocks: list[list[GraphNode]] = []

    def kind(self) -> str:
        return self._kind

    def inputs(self) -> Iterator[GraphValue]:
        return iter(self._inputs)

    def outputs(self) -> Iterator[GraphValue]:
        return iter(self._outputs)

    def blocks(self) -> list[list[GraphNode]]:
        return self._blocks

    def isNondeterministic(self) -> bool:
        """Whether the operator draws random numbers."""
        return is_random(self._kind.removeprefix("aten::").rstrip("_"))

    def lines(self, depth: int) -> list[str]:
        left = ", ".join(map(str, self._outputs))
        made = [
            "  " * depth
            + (f"{left} = " if left else "")
            + f"{self._kind}{self._text}({', '.join(map(str, self._inputs))})"
        ]
        for number, block in enumerate(self._blocks):
            made.append("  " * (depth + 1) + f"block{number}():")
            made += [line for node in block for line in node.lines(depth + 2)]
        return made

    def __repr__(self) -> str:
        return "\n".join(self.lines(0))


class Graph:
    """The operators of a method in their order."""

    def __init__(self, inputs: list[str]):
        self._inputs = [GraphValue(name) for name in inputs]
        self._nodes: list[GraphNode] = []
        self._outputs: list[GraphValue] = []

    def inputs(self) -> Iterator[GraphValue]:
        return iter(self._inputs)

    def outputs(self) -> Iterator[GraphValue]:
        return iter(self._outputs)

    def nodes(self) -> Iterator[GraphNode]:
        return iter(self._nodes)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[GraphNode]:
        """The nodes of a kind, those in branches and loops too."""

        def walk(nodes: list[GraphNode]) -> Iterator[GraphNode]:
            for node in nodes:
                if node._kind == kind:
                    yield node
                for block in node._blocks if recurse else ():
                    yield from walk(block)

        return list(walk(self._nodes))

    def findNode(self, kind: str, recurse: bool = True) -> GraphNode | None:
        """The first node of a kind."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def __str__(self) -> str:
        head = f"graph({', '.join(map(str, self._inputs))}):"
        body = [line for node in self._nodes for line in node.lines(1)]
        return "\n".join([head, *body, f"  return ({', '.join(map(str, self._outputs))})", ""])

    __repr__ = __str__


def graph_of(function: Function, module: Any) -> Graph:
    """The graph of a method."""
    graph = Graph(function.parameters)
    reader = _Reader(graph, set(function.parameters))
    graph._nodes = reader.block(function.definition.body)
    return graph


class _Reader:
    def __init__(self, graph: Graph, names: set[str]):
        self.graph, self.names, self.nodes, self.count = graph, names, [], 0  # type: ignore[var-annotated]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(self, kind: str, inputs: list[GraphValue], outputs: list[str], text: str = "") -> GraphNode:
        node = GraphNode(kind, inputs, outputs, text)
        self.nodes.append(node)
        return node

    def block(self, body: list[ast.stmt]) -> list[GraphNode]:
        outer, self.nodes = self.nodes, []
        for statement in body:
            self.statement(statement)
        made, self.nodes = self.nodes, outer
        return made

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            names = [ast.unparse(t) for t in target.elts] if isinstance(target, ast.Tuple) else [ast.unparse(target)]
            self.value(node.value, names)
        elif isinstance(node, ast.Expr):
            self.value(node.value, None)
        elif isinstance(node, ast.Return) and node.value is not None:
            self.graph._outputs = [self.value(node.value, None)]
        elif isinstance(node, (ast.If, ast.While, ast.For)):
            test = node.iter if isinstance(node, ast.For) else node.test
            kind = "prim::If" if isinstance(node, ast.If) else "prim::Loop"
            given = self.value(test, None)
            made = self.add(kind, [given], [])
            made._blocks = [self.block(node.body)] + ([self.block(node.orelse)] if isinstance(node, ast.If) else [])

    def value(self, node: ast.expr, names: list[str] | None) -> GraphValue:
        if isinstance(node, ast.Name) and names is None:
            return GraphValue(node.id)
        outputs = names or [self.fresh()]
        if isinstance(node, ast.Call):
            made = self.call(node, outputs)
        elif isinstance(node, (ast.Tuple, ast.List)):
            kind = "prim::TupleConstruct" if isinstance(node, ast.Tuple) else "prim::ListConstruct"
            made = self.add(kind, [self.value(e, None) for e in node.elts], outputs)
        elif isinstance(node, ast.Attribute):
            made = self.add("prim::GetAttr", [self.value(node.value, None)], outputs, f'[name="{node.attr}"]')
        elif isinstance(node, ast.Constant):
            made = self.add("prim::Constant", [], outputs, f"[value={node.value!r}]")
        else:
            inner = [self.value(e, None) for e in ast.iter_child_nodes(node) if isinstance(e, ast.expr)]
            made = self.add(f"aten::{type(node).__name__.lower()}", inner, outputs)
        return made._outputs[0]

    def call(self, node: ast.Call, outputs: list[str]) -> GraphNode:
        path = dotted(node.func)
        if isinstance(node.func, ast.Name) and node.func.id in ("annotate", "unchecked_cast") and len(node.args) == 2:
            return self.add("prim::" + node.func.id, [self.value(node.args[1], None)], outputs)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            return self.add(
                "prim::GetAttr", [self.value(node.args[0], None)], outputs, f"[name={ast.unparse(node.args[1])}]"
            )
        given = [self.value(a, None) for a in (*node.args, *(k.value for k in node.keywords))]
        if path is not None and path[0] == "torch":
            return self.add(f"aten::{'_'.join(path[1:])}", given, outputs)
        if path is not None and path[0] == "ops" and len(path) == 3:
            return self.add(f"{path[1]}::{path[2]}", given, outputs)
        if path is not None and path[0] == "__torch__":
            return self.add("prim::CallFunction", given, outputs, f"[{'.'.join(path)}]")
        if isinstance(node.func, ast.Attribute):
            holder = self.value(node.func.value, None)
            return self.add("prim::CallMethod", [holder, *given], outputs, f'[name="{node.func.attr}"]')
        return self.add(f"aten::{ast.unparse(node.func)}", given, outputs)
