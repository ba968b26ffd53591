"""Walks autograd's graph before a backward pass: which parameters and which forward passes it reaches, and how large it is."""

from __future__ import annotations

import weakref
from typing import Any

from ... import Tensor

_LARGEST = 50_000


class Mark:
    """One call of a model by the program: where, in which mode, and whether a backward pass ever reached it."""

    __slots__ = ("grown", "line", "module", "reached", "step", "training")

    def __init__(self, module: Any, line: Any, training: bool, step: int) -> None:
        self.module, self.line, self.training, self.step = module, line, training, step
        self.reached = False


class Graphs:
    """Marks on nodes; nodes keep nothing alive that they would not without."""

    def __init__(self) -> None:
        self.marks: weakref.WeakKeyDictionary[Any, Mark] = weakref.WeakKeyDictionary()

    def mark(self, output: Any, mark: Mark) -> bool:
        """Marks the nodes of a model's results; False if there are none."""
        found = False
        for tensor in tensors_in(output):
            if tensor.grad_fn is not None:
                try:
                    self.marks[tensor.grad_fn] = mark
                except TypeError:
                    continue
                found = True
        return found

    def walk(self, roots: list[Any]) -> tuple[dict[int, Any], list[Mark], int]:
        """The leaves that a backward pass from some tensors would reach, the marks on the way, the number of nodes."""
        leaves: dict[int, Any] = {}
        marks: list[Mark] = []
        seen: set[int] = set()
        todo = [t.grad_fn for t in roots if t.grad_fn is not None]
        for tensor in roots:
            if tensor.grad_fn is None and tensor.requires_grad:
                leaves[id(tensor)] = tensor
        known = self.marks
        while todo and len(seen) < _LARGEST:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, Tensor):
                leaves[id(node)] = node
                continue
            mark = known.get(node) if known else None
            if mark is not None:
                mark.reached = True
                marks.append(mark)
            for edge in getattr(node, "edges", ()):
                if edge is not None and edge[0] is not None:
                    todo.append(edge[0])
        return leaves, marks, len(seen)


def tensors_in(value: Any, depth: int = 0) -> list[Any]:
    """The tensors in results: alone, in tuples, lists, dicts and simple objects."""
    if isinstance(value, Tensor):
        return [value]
    if depth > 3:
        return []
    if isinstance(value, (tuple, list)):
        return [t for v in value[:64] for t in tensors_in(v, depth + 1)]
    if isinstance(value, dict):
        return [t for v in list(value.values())[:64] for t in tensors_in(v, depth + 1)]
    return []
