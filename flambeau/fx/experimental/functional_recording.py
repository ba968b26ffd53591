"""Graphs without writes: while a function is functionalized, its recorder gives tensors that were written to new values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..._library.namespaces import ops
from ..._library.schema_texts import gives_view, schemas_of
from ..._tensor import Tensor
from ...utils._pytree import tree_leaves
from .._recorded import add_call
from ..node import Node, map_arg

aten = ops.aten

_RESHAPING = frozenset({"view", "_unsafe_view", "unsqueeze", "squeeze", "reshape", "flatten"})
_SCATTERS = frozenset({"select", "slice", "diagonal"})


@dataclass
class _View:
    """How a tensor was taken from its base, and how often the memory had been written to when its node was made."""

    base: Tensor
    func: Any
    args: Any  # after the base, with nodes for tensors
    named: Any
    val: Any  # of the call's result
    number: int  # of the tensor among the results
    age: int


class Values:
    """Which node a tensor's value is now. A write makes a new one, of the base too; views are taken again when they are read."""

    def __init__(self, recorder: Any, copies: bool):
        self.recorder, self.copies = recorder, copies
        self.views: dict[int, _View] = {}  # by arrays
        self.ages: dict[int, int] = defaultdict(int)  # of arrays that are no views

    def renewed(self, t: Tensor, node: Node) -> Node:
        """The node of a tensor, another one if its memory was written to by another name since."""
        view = self.views.get(id(t._array))
        if view is None or view.age == self._age(view):
            return node
        node = self._taken(view, self.recorder.node_of(view.base))
        self.recorder.bind(t, node)
        view.age = self._age(view)
        return node

    def add(self, func: Any, args: Any, given: Any, options: Any, out: Any) -> None:
        """Writes down a call that was carried out; `given` and `options` are its encoded arguments."""
        name, first = func._opname, args[0] if args else None
        schema = getattr(func, "_schema", None)  # records that are no operator of PyTorch's have none, and do not write
        if schema is not None and schema.written == [0] and isinstance(first, Tensor) and name.endswith("_"):
            self._assign(first, self._written(func, args, given, options))
            return
        if not (isinstance(first, Tensor) and gives_view(name)):
            self.recorder.add(func, given, options, out)
            return
        if self.copies and schema is not None:
            func = _form(f"{name}_copy", func) or func
        self.recorder.add(func, given, options, out)
        results = out if isinstance(out, (list, tuple)) else [out]
        val = [self.recorder.described(t) for t in results]
        for number, t in enumerate(results):
            if isinstance(t, Tensor) and t._array is not first._array:
                whole = val if isinstance(out, (list, tuple)) else val[0]
                view = _View(first, func, given[1:], options, whole, number, 0)
                view.age = self._age(view)
                self.views[id(t._array)] = view

    def _age(self, view: _View) -> int:
        while (outer := self.views.get(id(view.base._array))) is not None:
            view = outer
        return self.ages[id(view.base._array)]

    def _call(self, func: Any, args: Any, val: Any, named: Any = None) -> Any:
        return add_call(self.recorder.graph, func, args, named or {}, val, self.recorder.meta)[0]

    def _written(self, func: Any, args: Any, given: Any, options: Any) -> Node:
        """What a tensor holds after a write, by the operator that gives a new tensor; without one, by a write to a copy."""
        val = self.recorder.described(args[0])
        if func is aten.zero_.default:  # its other form is none of the operators
            func, given = aten.fill_.Scalar, (*given, 0)
        plain = _form(func._opname.removesuffix("_"), func)
        if plain is None:
            return self._call(func, (self._call(aten.clone.default, given[:1], val), *given[1:]), val, options)
        if all(a.dtype is val.dtype for a in args[1:] if isinstance(a, Tensor)):
            return self._call(plain, given, val, options)
        found = plain(*map_arg(given, _val), **map_arg(options, _val))  # may have the dtype of another operand
        node = self._call(plain, given, found, options)
        return (
            node if found.dtype is val.dtype else self._call(aten._to_copy.default, (node,), val, {"dtype": val.dtype})
        )

    def _assign(self, t: Tensor, node: Node) -> None:
        view = self.views.get(id(t._array))
        if view is None:
            self.ages[id(t._array)] += 1
        else:
            self._assign(view.base, self._put_back(view, self.recorder.node_of(view.base), node))
            view.age = self._age(view)
        self.recorder.bind(t, node)

    def _taken(self, view: _View, base: Node) -> Node:
        made = add_call(self.recorder.graph, view.func, (base, *view.args), view.named, view.val, self.recorder.meta)
        return made[view.number]

    def _put_back(self, view: _View, base: Node, node: Node) -> Node:
        """The base with other values where a view of it was."""
        name = view.func._opname.removesuffix("_copy") if hasattr(view.func, "_schema") else ""
        val = self.recorder.described(view.base)
        if name in ("detach", "alias"):
            return node
        if name in _SCATTERS:
            return self._call(getattr(aten, f"{name}_scatter").default, (base, node, *view.args), val, view.named)
        if name in ("t", "transpose"):
            return self._call(view.func, (node, *view.args), val)
        if name in _RESHAPING:
            return self._call(
                _form("view_copy", aten.view.default) if self.copies else aten.view.default,
                (node, list(val.shape)),
                val,
            )
        copy = self._call(aten.clone.default, (base,), val)
        self._call(aten.copy_.default, (self._taken(view, copy), node), node.meta["val"])
        return copy


def _form(name: str, func: Any) -> Any:
    """The overload of another operator that takes what `func` takes; None if there is none."""
    overload = func._overloadname
    return getattr(getattr(aten, name), overload) if overload.replace("default", "") in schemas_of(name) else None


def _val(node: Node) -> Any:
    return node.meta["val"]


def functionalized(recorder: Any, function: Callable[[], Any], inputs: list[Any], copies: bool) -> Any:
    """What a function gives, recorded with values in the place of writes; inputs that were written to get theirs at the end."""
    before, tensors = recorder.values, [t for t in inputs if isinstance(t, Tensor)]
    first = [recorder.node_of(t) for t in tensors]
    recorder.values = Values(recorder, copies)
    try:
        out = function()
        for t in tree_leaves(out):
            if isinstance(t, Tensor):
                recorder.node_of(t)  # views of what was written to are taken again
        for t, node in zip(tensors, first):
            last = recorder.node_of(t)
            if last is not node:
                add_call(recorder.graph, aten.copy_.default, (node, last), {}, recorder.described(t), recorder.meta)
    finally:
        recorder.values = before
    return out
