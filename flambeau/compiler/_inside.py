"""What stands for arguments while a function is recorded: tensors where a backward pass ends, copies of the containers that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

from .._autograd.node import Node, edge_of
from .._compile.guards import Trail
from .._compile.numbers import is_live
from .._compile.numbers import plain as plain_number
from .._core.state import GRAD, local
from .._ops.layout.metadata import hand_over, left_behind
from .._ops.records.primitive import view_link
from .._tensor import Tensor, detached, storage_of
from .._tensor.constructors import alias_op
from ..utils._pytree import tree_flatten, tree_unflatten


class Entrance:
    """What stands between a tensor and its form inside a region: gradients go through."""

    name, backward_name = "entrance", "CompiledFunctionBackward"

    @staticmethod
    def backward(node: Node, g: Any, create_graph: bool) -> list[Any]:
        if local.captures:
            local.captures[-1].stop("a backward pass goes on to what an argument was made of")
        return [g]


def inside_form(t: Tensor) -> Tensor:
    """A tensor over the same memory, where a backward pass that is recorded ends: so do leaves themselves."""
    if not t._k & GRAD or t._edge is None:
        return t
    own = detached(t)
    own._k |= GRAD
    own._edge = (Node(Entrance, (edge_of(t),)), 0)
    return own


class Linked:
    """A block in which stand-ins of tensors that share memory with others become their views before the first write to one of them:
    what is written then reaches the history of all."""

    def __init__(self, inputs: list[Tensor], inside: list[Tensor]):
        self.pairs = [(t, own) for t, own in zip(inputs, inside) if own is not t]
        self.waits = any([_is_shared(t) for t, _ in self.pairs])

    def __enter__(self) -> Linked:
        self.outer = local.before_write
        if self.waits:
            local.before_write = self._link
        return self

    def __exit__(self, *error: Any) -> None:
        local.before_write = self.outer

    def _link(self, written: Tensor) -> None:
        if self.outer is not None:
            self.outer(written)
        if not self.waits or all([own._storage is not written._storage for _, own in self.pairs]):
            return
        self.waits = False
        for t, own in self.pairs:
            own._view = view_link(own, t, alias_op, (), None)
            views = own._storage.views  # type: ignore[union-attr]
            if views is None:
                own._storage.add_view(own)  # type: ignore[union-attr]
            else:  # those of `own` come after it, as their history begins with its own
                views.insert(next((i + 1 for i, known in enumerate(views) if known() is t), 0), ref(own))


def _is_shared(t: Tensor) -> bool:
    """Whether a tensor is a view, or has views."""
    views = None if t._storage is None else t._storage.views
    return t._view is not None or any([known() is not None for known in views or ()])


def settle(inputs: list[Tensor], inside: list[Tensor]) -> bool:
    """Does to arguments what a run has done to their forms inside, whose views become theirs; whether it wrote to one."""
    pairs = [(t, own) for t, own in zip(inputs, inside) if own is not t]
    written = [pair for pair in pairs if is_changed(*pair)]
    for t, own in written:
        take_over(t, own)
    for t, own in pairs:
        if own._storage is t._storage:
            hand_over(own, t)
    return bool(written)


def is_changed(t: Tensor, own: Tensor) -> bool:
    """Whether a run wrote to the form that a tensor had inside, or made another tensor of it."""
    return own is not t and (own._edge is None or own._edge[0].op is not Entrance or own._array is not t._array)


def take_over(t: Tensor, own: Tensor) -> None:
    """What became of its form inside becomes of a tensor: history, shape, memory, views."""
    linked = own._view is not None and own._view[0] is t  # then a write has told the tensor
    if own._array is not t._array and own._storage is t._storage and own._view is not None and not linked:
        _turn(t, own)
    elif not linked:
        t._edge, t._k = own._edge, t._k & ~GRAD | own._k & GRAD
    if own._array is not t._array:
        t._array, t.dtype, t._storage = own._array, own.dtype, own._storage


def _turn(t: Tensor, own: Tensor) -> None:
    """A tensor becomes the view of its memory that its form inside has become; what it was stays behind for its views."""
    left_behind(t)
    t._view, t._edge, t._k = own._view, own._edge, t._k & ~GRAD | own._k & GRAD
    views = storage_of(t).views
    if views is not None:
        views[:] = [ref(t) if known() is own else known for known in views if known() is not t]


def leads_to(outputs: Iterable[Tensor], leaves: list[Tensor]) -> bool:
    """Whether a backward pass from one of the outputs would come to one of the leaves."""
    wanted, seen = {id(t) for t in leaves}, set[int]()
    waiting: list[Any] = [t._edge[0] for t in outputs if t._k & GRAD and t._edge is not None] if leaves else []
    while waiting:
        node = waiting.pop()
        if id(node) in wanted:
            return True
        if id(node) not in seen and isinstance(node, Node) and node.saved is not None:  # no backward pass has been here
            seen.add(id(node))
            waiting += [edge[0] for edge in node.edges if edge is not None]
    return False


def has_more(a: Any) -> bool:
    """Whether a tuple holds more than its elements: then one that is made of these is another."""
    return isinstance(a, tuple) and bool(getattr(a, "__dict__", None))


def copied_containers(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    """The lists and dictionaries in a nest, each with the one that stands for it in a copy of the nest."""
    if a.__class__ is b.__class__ and isinstance(a, (list, tuple)):
        for c, d in zip(a, b):
            yield from copied_containers(c, d)
    elif a.__class__ is b.__class__ and isinstance(a, dict):
        for c, d in zip(a.values(), b.values()):
            yield from copied_containers(c, d)
    if a is not b and isinstance(a, (list, dict)):
        yield a, b


def write_back(copied: list[tuple[Any, Any]], inputs: list[Tensor], inside: list[Tensor]) -> None:
    """Does to arguments what a function has done to copies of them; `inside` are the tensors that stood for `inputs`."""
    own = {id(copy): a for a, copy in copied}
    tensors = {id(stood): t for t, stood in zip(inputs, inside)}
    name = lambda b: own.get(id(b), tensors.get(id(b), b))
    for a, copy in copied:
        if isinstance(a, list):
            if [id(b) for b in a] != [id(name(b)) for b in copy]:
                a[:] = [name(b) for b in copy]
        elif [(key, id(b)) for key, b in a.items()] != [(key, id(name(b))) for key, b in copy.items()]:
            found = {key: name(b) for key, b in copy.items()}
            a.clear()
            a.update(found)


def given_back(out: Any, inputs: list[Tensor], inside: list[Tensor], trail: Trail) -> Any:
    """What a function returned, with its arguments as they were given."""
    names = {id(own): t for t, own in zip(inputs, inside) if own is not t}
    leaves, form = tree_flatten(out, lambda a: has_more(a) or trail.knows_object(a))
    if not names and not any([is_live(a) for a in leaves]):
        return out
    return tree_unflatten([names.get(id(a), plain_number(a)) for a in leaves], form)
