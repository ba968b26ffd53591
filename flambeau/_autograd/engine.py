"""The backward pass: nodes in reverse order of their making, each fed with the sum of its consumers' gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from .._core.state import GRAD, local
from .._tensor import Tensor, meta_of
from .node import Node, edge_of

# Set by the ops layer: sum of two gradients, a copy of one in a leaf's layout.
add: Callable[[Tensor, Tensor], Tensor]
clone_like: Callable[[Tensor, Tensor], Tensor]
add_in_place: Callable[[Tensor, Tensor], Any]
zeros: Callable[[Any, Any, Any], Tensor]


def run(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor],
    keep_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None = None,
    into_leaves: bool = True,
) -> dict[Any, Tensor]:
    """Walks the graph behind `roots`.

    With `wanted`, only what leads to those tensors is computed, and the result maps their edges to gradients;
    gradients of leaves are accumulated unless `into_leaves` is false (with `wanted`: of the wanted ones only).
    """
    pending: dict[Node, Any] = {}  # node -> gradient, or list of gradients of a node with several outputs
    leaves: dict[int, list[Any]] = {}  # id -> [leaf, gradient]
    heap: list[tuple[int, Node]] = []
    captured: dict[Any, Tensor] = {}
    wanted_edges = {_key(edge_of(t)) for t in wanted} if wanted is not None else frozenset()
    needed = _nodes_towards(roots, wanted_edges) if wanted is not None else None

    def send(edge: Any, g: Tensor) -> None:
        target, number = edge
        if isinstance(target, Tensor):
            entry = leaves.get(id(target))
            if entry is None:
                leaves[id(target)] = [target, g]
            else:
                entry[1] = add(entry[1], g)
            return
        held = pending.get(target)
        if held is None:
            heappush(heap, (target.seq, target))
            if target.outputs is None:
                pending[target] = g
            else:
                held = pending[target] = [None] * len(target.outputs)
                held[number] = g
        elif target.outputs is None:
            pending[target] = add(held, g)
        else:
            held[number] = g if held[number] is None else add(held[number], g)

    outer, overrides_off = local.grad, local.overrides_off
    local.grad, local.overrides_off = create_graph, True
    try:
        for t, g in zip(roots, gradients):
            edge = edge_of(t)
            if edge is not None:
                send(edge, g)
        while heap:
            node = heappop(heap)[1]
            g = pending.pop(node)
            if node.pre_hooks:
                g = _call_pre_hooks(node, g)
            if wanted_edges:
                for number, part in enumerate((g,) if node.outputs is None else g):
                    if (id(node), number) in wanted_edges and part is not None:
                        captured[id(node), number] = part
                assert needed is not None
                if node not in needed:
                    continue
            if node.saved is None:
                raise RuntimeError(
                    "Trying to backward through the graph a second time (or directly access saved tensors after they "
                    "have already been freed). Saved intermediate values of the graph are freed when you call "
                    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                    "graph a second time or if you need to access saved tensors after calling backward."
                )
            results = node.op.backward(node, g, create_graph)
            if local.anomaly:
                _check_for_nan(node, results)
            if node.hooks:
                results = _call_hooks(node, results, g)
            if not keep_graph:
                node.saved = None
            for edge, result in zip(node.edges, results):
                if edge is not None and result is not None:
                    target, number = edge
                    # the common case of `send`, in place
                    if target.__class__ is Node and target.outputs is None and target not in pending:
                        if needed is None or target in needed or (id(target), 0) in wanted_edges:
                            heappush(heap, (target.seq, target))
                            pending[target] = result
                    elif needed is None or _leads(target, number, needed, wanted_edges):
                        send(edge, result)
            results = result = g = None
        for target, g in leaves.values():
            g = _call_leaf_hooks(target, g)
            if (id(target), 0) in wanted_edges:
                captured[id(target), 0] = g
            if into_leaves and (wanted is None or (id(target), 0) in wanted_edges):
                leaves[id(target)][1] = None
                accumulate(target, g, create_graph, sys.getrefcount(g) <= 3)
    finally:
        local.grad, local.overrides_off = outer, overrides_off
    return captured


def _key(edge: Any) -> Any:
    return None if edge is None else (id(edge[0]), edge[1])


def _leads(target: Any, number: int, needed: Any, wanted: Any) -> bool:
    return (id(target), number) in wanted or (not isinstance(target, Tensor) and target in needed)


def _nodes_towards(roots: Sequence[Tensor], wanted: Any) -> set[Node]:
    """The nodes on a path from the roots to a wanted edge, found without recursion."""
    start = [e[0] for e in map(edge_of, roots) if e is not None and not isinstance(e[0], Tensor)]
    children: dict[Node, list[Node]] = {}
    stack, needed = list(start), set()
    order = []
    while stack:
        node = stack.pop()
        if node in children:
            continue
        children[node] = []
        order.append(node)
        for edge in node.edges:
            if edge is None:
                continue
            if _key(edge) in wanted:
                needed.add(node)
            if not isinstance(edge[0], Tensor):
                children[node].append(edge[0])
                stack.append(edge[0])
    for node in sorted(order, key=lambda n: -n.seq):  # the oldest first: children before their consumers
        if any(child in needed for child in children[node]):
            needed.add(node)
    return needed


def accumulate(leaf: Tensor, g: Tensor, create_graph: bool = False, may_keep: bool = False) -> None:
    """Adds a gradient to a leaf's `.grad`; the first one is kept as it is if nobody else holds it."""
    meta = meta_of(leaf)
    held = meta.grad
    if held is None:
        if create_graph:
            meta.grad = clone_like(g, leaf)
        else:
            array = g._array
            keep = may_keep and g._storage is None and array.base is None and array.strides == leaf._array.strides
            meta.grad = g if keep else clone_like(g, leaf)
    elif create_graph or held._k & GRAD:
        meta.grad = add(held, g)
    else:
        add_in_place(held, g)
    if meta.post_hooks:
        for hook in list(meta.post_hooks.values()):
            hook(leaf)


def _call_leaf_hooks(leaf: Tensor, g: Tensor) -> Tensor:
    hooks = leaf._meta.hooks if leaf._meta is not None else None
    if hooks:
        for hook in list(hooks.values()):
            g = _replaced(g, hook(g))
    return g


def _replaced(g: Any, result: Any) -> Any:
    if result is None:
        return g
    if not isinstance(result, Tensor):
        raise RuntimeError(f"hook's return value must be a tensor or None, not {type(result).__name__}")
    if g is not None and tuple(result._array.shape) != tuple(g._array.shape):
        raise RuntimeError(
            f"hook '' has changed the size of value: {tuple(g._array.shape)} became {tuple(result._array.shape)}"
        )
    return result


def _call_pre_hooks(node: Node, g: Any) -> Any:
    single = node.outputs is None
    gradients = (g,) if single else tuple(g)
    for hook in list(node.pre_hooks.values()):
        result = hook(gradients)
        if result is not None:
            gradients = result if isinstance(result, tuple) else (result,)
    return gradients[0] if single else list(gradients)


def _call_hooks(node: Node, results: Any, g: Any) -> Any:
    received = (g,) if node.outputs is None else tuple(g)
    for hook in list(node.hooks.values()):
        changed = hook(tuple(results), received)
        if changed is not None:
            results = changed if isinstance(changed, tuple) else (changed,)
    return results


def _check_for_nan(node: Node, results: Sequence[Any]) -> None:
    for i, g in enumerate(results):
        if g is not None and g.dtype.category >= 2 and bool((g._array != g._array).any()):
            where = node.__dict__.get("traceback")
            if where:
                print(f"Error detected in {node.name()}. Traceback of the forward call:\n{where}", file=sys.stderr)
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
