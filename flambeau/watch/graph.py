"""A model as a graph: its modules, what they take and give, and which way values go between them, from one forward pass."""

from __future__ import annotations

from typing import Any

from .._autograd.node import sequence
from .._tensor import Tensor
from ..drawing.models import shapes, tensors_of

_MOST = 2000  # nodes
# Nodes of autograd that only change the form of a value.
_FORMS = (
    "View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Slice", "Select", "Clone", "ToCopy", "TBackward",
    "AsStrided", "Expand", "Alias", "Detach", "AccumulateGrad",
)  # fmt: skip


class Call:
    """A call of a module: its path, and the numbers that nodes of autograd got meanwhile."""

    __slots__ = ("first", "last", "leaf", "path")

    def __init__(self, path: str, leaf: bool) -> None:
        self.path, self.leaf = path, leaf
        self.first, self.last = -sequence(), 0


class Trace:
    """Notes the calls of one forward pass of `model`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.calls: list[Call] = []
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: dict[tuple[str, str], None] = {}
        self.made: dict[
            int, tuple[str, Any]
        ] = {}  # results of innermost modules, by identity: held, so that it stays theirs

    def call(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        """Calls a module, and notes it."""
        path = self.paths.get(id(module))
        if path is None:
            return original(module, *args, **kwargs)
        call = Call(path, not module._modules)
        self.calls.append(call)
        out = original(module, *args, **kwargs)
        call.last = -sequence()
        if path not in self.nodes:
            own = list(module.parameters())
            self.nodes[path] = {
                "path": path, "kind": type(module).__name__, "in": shapes((*args, *kwargs.values())), "out": shapes(out),
                "parameters": sum(p.numel() for p in own), "trained": sum(p.numel() for p in own if p.requires_grad),
                "about": module.extra_repr(),
            }  # fmt: skip
        if call.leaf:
            for tensor in tensors_of((*args, *kwargs.values())):
                known = self.made.get(id(tensor))
                if known is not None:
                    self.edges[known[0], path] = None
            for tensor in tensors_of(out):
                self.made[id(tensor)] = path, tensor
        if path == "":
            self._walk(out)
            self.made.clear()
        return out

    def _walk(self, out: Any) -> None:
        """Follows autograd from the results back to the inputs; every node belongs to the innermost module that ran when it was made."""
        found: dict[int, Any] = {}
        todo = [tensor._edge[0] for tensor in tensors_of(out) if tensor._edge is not None]
        while todo and len(found) < 20 * _MOST:
            node = todo.pop()
            if node is None or isinstance(node, Tensor) or id(node) in found:
                continue
            found[id(node)] = node
            todo.extend(edge[0] for edge in node.edges if edge is not None)
        owner = self._owners(list(found.values()))
        for node in found.values():
            target = owner[id(node)]
            if target is None or len(self.nodes) > _MOST:
                continue
            for source in self._sources(node, owner, found):
                if source != target:
                    self.edges[source, target] = None

    def _owners(self, nodes: list[Any]) -> dict[int, str | None]:
        """The graph's node for each of autograd's; None for those that are looked through."""
        events: list[tuple[int, int, Any]] = []
        for call in self.calls:
            events += [(call.first, 0, call), (call.last or 1 << 62, 2, call)]
        events += [(-node.seq, 1, node) for node in nodes]
        owner: dict[int, str | None] = {}
        running: list[Call] = []
        for _, kind, what in sorted(events, key=lambda event: event[:2]):
            if kind == 0:
                running.append(what)
            elif kind == 2:
                running.remove(what)
            elif not running:
                owner[id(what)] = None
            elif running[-1].leaf:
                owner[id(what)] = running[-1].path
            else:
                owner[id(what)] = self._operation(what, running[-1].path)
        return owner

    def _operation(self, node: Any, container: str) -> str | None:
        name = node.name()
        if name.startswith(_FORMS):
            return None
        kind = name.partition("Backward")[0].lower()
        path = f"{container}.{kind}#{len(self.nodes)}".lstrip(".")
        self.nodes[path] = {"path": path, "kind": kind, "in": "", "out": "", "operation": True}
        return path

    def _sources(self, node: Any, owner: dict[int, str | None], found: dict[int, Any]) -> list[str]:
        """The nodes that a node takes its operands from, past those that are looked through."""
        sources: list[str] = []
        todo, seen = [edge[0] for edge in node.edges if edge is not None], set()
        while todo:
            one = todo.pop()
            if id(one) not in found or id(one) in seen:
                continue
            seen.add(id(one))
            name = owner[id(one)]
            if name is not None:
                sources.append(name)
            else:
                todo.extend(edge[0] for edge in one.edges if edge is not None)
        return sources

    def record(self) -> dict[str, Any]:
        """The graph as the page draws it."""
        nodes = list(self.nodes.values())[:_MOST]
        kept = {node["path"] for node in nodes}
        edges = [list(edge) for edge in self.edges if edge[0] in kept and edge[1] in kept]
        return {"name": type(self.model).__name__, "nodes": nodes, "edges": edges}
