"""What stands for arguments while a function is recorded: tensors where a backward pass ends, copies of the containers that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._autograd.node import Node, edge_of
from .._compile.guards import Trail
from .._compile.numbers import is_live
from .._compile.numbers import plain as plain_number
from .._core.state import GRAD, local
from .._tensor import Tensor, detached
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
    if not t._k & GRAD or not local.grad or t._edge is None:
        return t
    own = detached(t)
    own._k |= GRAD
    own._edge = (Node(Entrance, (edge_of(t),)), 0)
    return own


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
    leaves, form = tree_flatten(out, trail.knows_object)
    if not names and not any([is_live(a) for a in leaves]):
        return out
    return tree_unflatten([names.get(id(a), plain_number(a)) for a in leaves], form)
