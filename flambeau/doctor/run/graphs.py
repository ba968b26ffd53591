"""Walks autograd's graph before a backward pass: which parameters and which forward passes it reaches, and how large it is."""

from __future__ import annotations

import weakref
from typing import Any

from ... import Tensor

_LARGEST = 50_000


class Mark:
    """One call of a model by the program: where, in which mode, and whether a backward pass ever reached it."""

    __slots__ = ("call", "line", "module", "old", "reached", "step", "training")

    def __init__(self, module: Any, line: Any, training: bool, step: int) -> None:
        self.module, self.line, self.training, self.step = module, line, training, step
        self.call: Any = None
        self.reached = self.old = False


class Graphs:
    """Marks on nodes; nodes keep nothing alive that they would not without."""

    def __init__(self) -> None:
        self.marks: dict[int, tuple[Any, Mark]] = {}  # by the identity of a node, which is held weakly

    def mark(self, output: Any, mark: Mark) -> bool:
        """Marks the nodes of a model's results; False if there are none."""
        found = False
        for tensor in tensors_in(output):
            if tensor._edge is not None:
                node = tensor._edge[0]
                number = id(node)
                self.marks[number] = weakref.ref(node, lambda _, number=number: self.marks.pop(number, None)), mark
                found = True
        return found

    def walk(self, roots: list[Any], since: int = 0) -> Reach:
        """What a backward pass from some tensors would reach; `since` is the number of a node at the last one."""
        reach = Reach()
        leaves, seen, known = reach.leaves, set(), self.marks
        todo = [t._edge[0] for t in roots if t._edge is not None]
        for tensor in roots:
            if tensor._edge is None and tensor.requires_grad:
                leaves[id(tensor)] = tensor
        while todo and len(seen) < _LARGEST:
            node = todo.pop()
            number = id(node)
            if number in seen:
                continue
            seen.add(number)
            if isinstance(node, Tensor):
                leaves[number] = node
                continue
            old = node.seq > since  # later nodes have smaller numbers
            reach.old += old
            if number in known:
                mark = known[number][1]
                mark.reached, mark.old = True, old
                reach.marks.append(mark)
            for edge in node.edges:
                if edge is not None and edge[0] is not None:
                    todo.append(edge[0])
                    if not old and isinstance(edge[0], Tensor):
                        reach.fresh = True
        reach.size = len(seen)
        return reach


class Reach:
    """What a backward pass reaches: leaves, marks, nodes; how many are older than the last one, and whether younger ones use leaves."""

    __slots__ = ("fresh", "leaves", "marks", "old", "size")

    def __init__(self) -> None:
        self.leaves: dict[int, Any] = {}
        self.marks: list[Mark] = []
        self.size = self.old = 0
        self.fresh = False


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
