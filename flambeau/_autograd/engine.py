"""The backward pass: nodes in reverse order of their making, each fed with the sum of its consumers' gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from operator import attrgetter
from sys import getrefcount
from threading import RLock, Thread
from typing import Any

import numpy as np

from .._backend import threads
from .._core.dtypes import dtype
from .._core.sizes import Size
from .._core.state import CAPTURE, DISPATCH, GRAD, LEAVES, SAVED_HOOKS, SPARSE, held_over_forks, local, modes
from .._errors.frames import warn_user
from .._tensor import Tensor, meta_of, wrap
from .node import NOWHERE, AccumulateGrad, Node, edge_of, gradient_function, sequence


def _not_set(*args: Any) -> Any:
    raise RuntimeError("the operations are not imported yet")


# Set by the ops layer: sum of two gradients, a copy of one in a leaf's layout.
add: Callable[[Tensor, Tensor], Tensor] = _not_set
clone_like: Callable[[Tensor, Tensor], Tensor] = _not_set
add_in_place: Callable[[Tensor, Tensor], Any] = _not_set
zeros: Callable[[Any, Any, Any], Tensor] = _not_set


def _references() -> int:
    """What `getrefcount` says of an object that only a local variable holds."""
    probe = object()
    return getrefcount(probe)


ALONE = _references()
# Whether a leaf ever got a hook: only then does it show when a leaf's turn comes (see `_awaited`).
leaves_are_watched = False
sequences_are_set = (
    False  # whether a node ever got another number (`_set_sequence_nr`): then it may stand before its consumers
)
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed): the first pass freed what the graph had kept. Specify retain_graph=True in the first pass to go through "
    "it again."
)
# One of these is held while a leaf gets its gradient: a lock for each leaf would weigh more than it is used.
_leaf_locks = [RLock() for _ in range(64)]
for _lock in _leaf_locks:
    held_over_forks(_lock, LEAVES)
_walks = count().__next__
_DEEPEST = 40  # backward passes inside of each other in one thread: each takes a good part of its stack
# Classes of what a node keeps that are not its operands' memory: with these alone it may be used again.
PLAIN = {type(None), bool, int, float, complex, str, tuple, Size, dtype}


class Walk:
    """A backward pass while it runs, in `local.walk`."""

    __slots__ = ("callbacks", "depth", "given", "leaves", "node", "number_given", "outer", "owned", "pending")
    number_given: int

    callbacks: list[Any] | None  # what is called at its end
    depth: int  # how many passes of this thread it runs in
    given: tuple[
        Any, ...
    ]  # the roots, the nodes that run (None for all), the wanted edges or None, whether leaves get theirs, whether the graph is kept
    node: Node | None  # the one that runs now
    outer: Walk | None  # the pass that it runs in
    pending: dict[Node, Any]  # what nodes and leaves have received so far
    leaves: dict[Tensor, Any]
    owned: dict[Any, int]  # by target, the object among these into which parts may be added (see `add_part`)

    @property
    def wanted(self) -> Any:
        return self.given[2]

    @property
    def keeps(self) -> bool:
        """Whether another pass may come, for which nodes keep what they have."""
        return self.given[4]

    @property
    def number(self) -> int:
        """A number that no other pass has, given at the first need."""
        try:
            return self.number_given
        except AttributeError:
            self.number_given = _walks()
            return self.number_given


_new = object.__new__


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
    pending: dict[Node, Any] = {}  # the gradient of a node; a list of them if it has several outputs
    leaves: dict[Tensor, Any] = {}  # their gradients, in the order in which the first reached them
    heap: list[tuple[int, Node]] = []
    captured: dict[Any, Tensor] = {}
    needed = wanted_edges = None
    if sequences_are_set:
        _renumber(roots)
    if wanted is not None:
        edges = [e for t in wanted if (e := edge_of(t)) is not None]
        wanted_edges = {(id(target), number) for target, number in edges}
        needed = _nodes_towards(roots, edges)
    awaited = _awaited(roots, needed) if leaves_are_watched else None
    state = local.__dict__  # of this thread: looked up once
    outer, outer_walk = state.get("grad", True), state.get("walk")
    walk = _new(Walk)
    walk.given = roots, needed, wanted_edges, into_leaves, keep_graph
    walk.callbacks = None
    walk.pending, walk.leaves, walk.owned = pending, leaves, {}
    walk.depth = 0
    walk.outer = outer_walk
    if outer_walk is not None:
        walk.depth = outer_walk.depth + 1
        if walk.depth > _DEEPEST:
            return _in_another_thread(roots, gradients, keep_graph, create_graph, wanted, into_leaves)
    state["grad"], state["walk"] = create_graph, walk
    # in forward mode derivatives are computed by operations, which give the gradients their tangents
    formulas = create_graph or state.get("duals") is not None
    hooks = state.get("saved_hooks", ()) if modes.on else None
    look_for_nan, profiler = (local.anomaly, local.profiler) if modes.on else (None, None)
    try:
        for t, g in zip(roots, gradients):
            if t._k & GRAD:
                target = t._edge or (t, 0)
                if isinstance(target[0], Tensor):
                    leaves[t] = add(leaves[t], g) if t in leaves else g
                else:
                    _send(target, g, pending, heap)
        if awaited is not None and leaves:
            _finish(
                _complete([(t, 0) for t in leaves], leaves, awaited), wanted_edges, captured, into_leaves, create_graph
            )
        following: Any = None  # the next node and its gradient if no other waits: it need not queue
        while heap or following is not None:
            if following is None:
                node = heappop(heap)[1]
                g = pending.pop(node)
            else:
                (node, g), following = following, None
            if needed is not None:  # what is captured has been through the hooks of tensors, not those of nodes
                if node.pre_hooks:
                    g = _call_pre_hooks(node, g, of_node=False)
                reached = _capture(node, g, wanted_edges, captured)
                if node not in needed and not (reached and into_leaves):  # `backward` runs the nodes of its inputs
                    continue
                if node.pre_hooks:
                    g = _call_pre_hooks(node, g, of_tensors=False)
            elif node.pre_hooks:
                g = _call_pre_hooks(node, g)
            if node.saved is None:
                raise RuntimeError(FREED)
            walk.node = node
            asked = node if needed is None else _narrowed(node, needed, wanted_edges)
            results = (node.op if profiler is None else profiler).backward(asked, g, formulas)
            if look_for_nan:
                _check_for_nan(node, results)
            if node.hooks:
                results = _call_hooks(node, results, g)
            if not keep_graph:
                for kept in node.saved:
                    if kept.__class__ not in PLAIN:
                        node.saved = None
                        break
                else:
                    saved = node.saved
                    if len(saved) > 1 and saved[1] is not None and getattr(node.op, "holds_numbers", False):
                        node.saved = None
            for edge, g in zip(node.edges, results):
                if edge is None or g is None:
                    continue
                target = edge[0]
                if needed is not None and not _leads(target, edge[1], needed, wanted_edges):
                    continue
                if target.__class__ is Node:
                    if following is None and not heap and target.outputs is None:
                        following = target, g
                        continue
                elif isinstance(target, Tensor):
                    leaves[target] = add(leaves[target], g) if target in leaves else g
                    continue
                if following is not None:  # now two wait
                    _send((following[0], 0), following[1], pending, heap)
                    following = None
                _send(edge, g, pending, heap)
            results = g = asked = None  # type: ignore[assignment]
            if awaited is not None:
                done = _complete(node.edges, leaves, awaited)
                if done:
                    _finish(done, wanted_edges, captured, into_leaves, create_graph)
        _finish(leaves, wanted_edges, captured, into_leaves, create_graph)
        if walk.callbacks is not None:
            for callback in walk.callbacks:  # those may add others
                callback()
    finally:
        state["grad"], state["walk"] = outer, outer_walk
        if hooks is not None:
            while len(local.saved_hooks) > len(hooks):  # blocks that a hook opened and did not close end with the pass
                local.saved_hooks = local.saved_hooks[:-1]
                modes.leave(SAVED_HOOKS)
    return captured


def _in_another_thread(*args: Any) -> dict[Any, Tensor]:
    """Runs a backward pass in a thread of its own, whose stack is empty, in the modes of this one."""
    found: list[Any] = []
    state = dict(local.__dict__)

    def work() -> None:
        local.__dict__.update(state)
        local.walk = None
        try:
            found.append((run(*args), None))
        except BaseException as error:
            found.append((None, error))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result


def without_gradient(node: Node) -> Sequence[Any]:
    """What comes of a node whose results have no gradient at all: hooks and users' functions are asked, no derivative."""
    g = None if node.outputs is None else [None] * len(node.outputs)
    if node.pre_hooks:
        g = _call_pre_hooks(node, g)
    return node.op.backward(node, g, False) if "ctx" in node.__dict__ else ()


def is_for_all_leaves() -> bool:
    """Whether gradients are computed for all leaves; while `grad` computes those of some tensors, old checkpoints refuse."""
    return local.walk is None or local.walk.given[2] is None


def will_run(node: Node) -> bool:
    """Whether the backward pass that runs now comes to a node."""
    walk = local.walk
    if walk is None:
        raise RuntimeError("_will_engine_execute_node should only be called during the backward pass")
    _, needed, wanted, into_leaves, _ = walk.given
    if isinstance(node, AccumulateGrad):
        if wanted is None:
            return any(node is run for run in execution_order())
        if not into_leaves:
            raise RuntimeError(
                "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(), which "
                "runs no node of a leaf"
            )
        return (id(node.variable), 0) in wanted
    if needed is None:
        return any(node is run for run in execution_order())
    return node in needed or any(edge[0] == id(node) for edge in wanted if edge is not None)


def execution_order() -> list[Node]:
    """The nodes of the backward pass that runs now, in the order of their turns; a leaf's comes with its last gradient."""
    roots, needed, wanted, *_ = local.walk.given
    awaited = _awaited(roots, needed)
    found: list[Node] = []
    heap: list[tuple[int, Node]] = []
    queued: set[Any] = set()

    def reach(edges: Any) -> None:
        for edge in edges:
            if edge is None or not (needed is None or _leads(edge[0], edge[1], needed, wanted)):
                continue
            if not isinstance(edge[0], Tensor):
                if edge[0] not in queued:
                    queued.add(edge[0])
                    heappush(heap, (edge[0].seq, edge[0]))
                continue
            awaited[edge[0]] -= 1
            if not awaited[edge[0]]:
                found.append(gradient_function(*edge))

    reach([t._edge or (t, 0) for t in roots if t._k & GRAD])
    while heap:
        node = heappop(heap)[1]
        found.append(gradient_function(node))
        if needed is None or node in needed:
            reach(node.edges)
    return found


def queue_callback(callback: Callable[[], Any], outermost: bool = False) -> None:
    """Has a function called when the backward pass that is running now ends, or the one that it runs in."""
    walk = local.walk
    if walk is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    while outermost and walk.outer is not None:
        walk = walk.outer
    if walk.callbacks is None:
        walk.callbacks = []
    walk.callbacks.append(callback)


def _finish(
    leaves: dict[Tensor, Any], wanted_edges: Any, captured: dict[Any, Tensor], into_leaves: bool, create_graph: bool
) -> None:
    """What happens to leaves that have received all their gradients: hooks, results of `grad`, `.grad`."""
    profiler = local.profiler if modes.on else None
    for leaf in leaves:
        g, leaves[leaf] = leaves[leaf], None
        meta = leaf._autograd_meta
        if meta is not None and meta.hooks:
            g = _call_leaf_hooks(leaf, g, into_leaves)
        if wanted_edges is not None:
            if (id(leaf), 0) not in wanted_edges:
                continue
            captured[id(leaf), 0] = g
        if into_leaves:
            if modes.on & DISPATCH:  # a mode may ask whose turn it is
                local.walk.node = gradient_function(leaf)
            alone = getrefcount(g) <= ALONE
            if modes.on & CAPTURE and local.captures:
                local.captures[-1].accumulate(accumulate, leaf, g, create_graph, alone)
            elif profiler is None:
                accumulate(leaf, g, create_graph, alone)
            else:
                profiler.accumulate(accumulate, leaf, g, create_graph, alone)


def _awaited(roots: Sequence[Tensor], needed: Any) -> dict[Tensor, int]:
    """How many gradients each leaf will receive: its turn comes with the last, before that of any other node."""
    counts: dict[Tensor, int] = {}
    seen: set[Any] = set()
    stack = [(t._edge or (t, 0)) for t in roots if t._k & GRAD]
    while stack:
        target = stack.pop()[0]
        if isinstance(target, Tensor):
            counts[target] = counts.get(target, 0) + 1
        elif target not in seen and (needed is None or target in needed):
            seen.add(target)
            stack.extend([edge for edge in target.edges if edge is not None])
    return counts


def _renumber(roots: Sequence[Tensor]) -> None:
    """Gives the nodes behind the roots their numbers anew, if one was given another number.

    Consumers come first, otherwise those of the highest number.
    """
    waiting: dict[Node, int] = {}
    stack = [t._edge[0] for t in roots if t._edge is not None and not isinstance(t._edge[0], Tensor)]
    for node in stack:
        waiting[node] = 0
    stack = list(waiting)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and not isinstance(edge[0], Tensor):
                if edge[0] not in waiting:
                    waiting[edge[0]] = 0
                    stack.append(edge[0])
                waiting[edge[0]] += 1
    if not any(["sequence_nr" in node.__dict__ for node in waiting]):
        return
    order = []
    ready = [(-node._sequence_nr(), id(node), node) for node, count in waiting.items() if not count]
    heapify(ready)
    while ready:
        node = heappop(ready)[2]
        order.append(node)
        for edge in node.edges:
            if edge is not None and not isinstance(edge[0], Tensor):
                waiting[edge[0]] -= 1
                if not waiting[edge[0]]:
                    heappush(ready, (-edge[0]._sequence_nr(), id(edge[0]), edge[0]))
    for node in reversed(order):
        node.__dict__.setdefault("sequence_nr", -node.seq)
        node.seq = sequence()


def _complete(edges: Any, leaves: dict[Tensor, Any], awaited: dict[Tensor, int]) -> dict[Tensor, Any]:
    """Takes out of `leaves` those for which the gradient of one of these edges was the last."""
    done = {}
    for edge in edges:
        if edge is not None and isinstance(edge[0], Tensor) and edge[0] in awaited:
            leaf = edge[0]
            awaited[leaf] -= 1
            if not awaited[leaf] and leaf in leaves:
                done[leaf] = leaves.pop(leaf)
    return done


def _send(edge: Any, g: Tensor, pending: dict[Node, Any], heap: list[Any]) -> None:
    """Adds a gradient to what a node has received so far."""
    if edge is NOWHERE:
        return
    target, number = edge
    held = pending.get(target)
    if held is None:
        heappush(heap, (target.seq, target))
        if target.outputs is not None:
            held = [None] * len(target.outputs)
            held[number] = g
            g = held  # type: ignore[assignment]
        pending[target] = g
    elif target.outputs is None:
        pending[target] = add(held, g)
    else:
        held[number] = g if held[number] is None else add(held[number], g)


def add_part(node: Node, g: Tensor, part: Callable[[Any], Any]) -> bool:
    """Adds the gradient of a part of a tensor in place to what the whole has received, as `part` of its array; whether that was done.

    Otherwise each part of a sequence would cost zeros and a sum of the size of the whole."""
    edge = node.edges[0]
    if edge is None or modes.on or node.hooks or g._k:
        return False
    walk, (target, number) = local.walk, edge
    table: Any = walk.leaves if isinstance(target, Tensor) else walk.pending
    held = table.get(target)
    if held.__class__ is list:  # of the outputs of a node
        table, target, held = held, number, held[number]
    if held is None or held._k or held.dtype is not g.dtype:
        return False
    key = id(edge[0]), edge[1]
    if walk.owned.get(key) != id(held):  # somebody else may hold it
        held = table[target] = wrap(held._array.copy("K"), g.dtype)
        walk.owned[key] = id(held)
    whole = part(held._array)
    if threads.pay(whole.size):
        add_in_place(wrap(whole, g.dtype), g)
    else:
        np.add(whole, g._array, whole)
    return True


def own_part(node: Node, made: Tensor) -> None:
    """Says that a part made a gradient of the whole which nobody else holds."""
    edge = node.edges[0]
    if edge is not None and not (modes.on or node.hooks or made._k):
        local.walk.owned[id(edge[0]), edge[1]] = id(made)


def _capture(node: Node, g: Any, wanted: Any, captured: dict[Any, Tensor]) -> bool:
    """Keeps the gradients of a node's results that are asked for; whether there are any."""
    reached = False
    for number, part in enumerate((g,) if node.outputs is None else g):
        if part is not None and (id(node), number) in wanted:
            captured[id(node), number] = part
            reached = True
    return reached


def _leads(target: Any, number: int, needed: Any, wanted: Any) -> bool:
    return (id(target), number) in wanted or (not isinstance(target, Tensor) and target in needed)


def _narrowed(node: Node, needed: Any, wanted: Any) -> Node:
    """A node that computes only the gradients which lead to something wanted; functions of users decide themselves."""
    edges = tuple([e if e is not None and _leads(e[0], e[1], needed, wanted) else None for e in node.edges])
    if "ctx" in node.__dict__ or edges == node.edges:
        return node
    made = Node(node.op, edges, node.saved, node.outputs)
    made.versions, made.info = node.versions, node.info
    made.__dict__.update(node.__dict__)
    return made


def _nodes_towards(roots: Sequence[Tensor], wanted: Sequence[Any]) -> set[Node]:
    """The nodes on a path from the roots to a wanted edge, found without recursion."""
    keys = {(id(target), number) for target, number in wanted}
    # what is older than all that is wanted does not lead there; of leaves it is not known how old they are
    oldest = max([inf if isinstance(target, Tensor) else target.seq for target, _ in wanted], default=0)
    stack = [e[0] for e in map(edge_of, roots) if e is not None and not isinstance(e[0], Tensor)]
    seen: dict[int, Node] = {}
    while stack:
        node = stack.pop()
        if id(node) in seen or node.seq > oldest:
            continue
        seen[id(node)] = node
        for edge in node.edges:
            if edge is not None and id(edge[0]) not in seen and not isinstance(edge[0], Tensor):
                stack.append(edge[0])
    found = dict[int, Node]()
    for node in sorted(seen.values(), key=_age, reverse=True):  # the oldest first: children before their consumers
        for edge in node.edges:
            if edge is not None and (id(edge[0]) in found or (id(edge[0]), edge[1]) in keys):
                found[id(node)] = node
                break
    return set(found.values())


_age = attrgetter("seq")


def accumulate(leaf: Tensor, g: Tensor, create_graph: bool = False, may_keep: bool = False) -> None:
    """Adds a gradient to a leaf's `.grad`; the first one is kept as it is if nobody else holds it."""
    with _leaf_locks[id(leaf) >> 6 & 63]:  # passes in several threads add to one leaf one after the other
        meta = leaf._autograd_meta
        if meta is None or meta.inherited is meta:
            meta = meta_of(leaf)
        held = meta.grad
        if held is None:
            array = g._array
            if (
                may_keep
                and not create_graph
                and g._storage is None
                and not (g._k | leaf._k) & SPARSE
                and array.base is None
                and getrefcount(array) <= ALONE + 1  # held by `g` and by this function
                and (array.strides == leaf._array.strides or not local.grad_layout)
            ):
                meta.grad = g if not modes.on & DISPATCH else g.detach()  # an operation, which modes see
            else:
                kept = may_keep and not create_graph and g._k == SPARSE and array.is_packed()
                meta.grad = g if kept else clone_like(g, leaf)
        elif (
            create_graph or held._k & GRAD or (held._k & SPARSE and not g._k & SPARSE)
        ):  # a dense sum is another tensor
            meta.grad = add(held, g)
        else:
            add_in_place(held, g)
    if meta.post_hooks:
        for key, hook in list(meta.post_hooks.items()):
            if key.__class__ is tuple:  # of the node that stands for the leaf
                hook((), (g,))
            elif (made := hook(leaf)) is not None and made is not leaf:  # as what updates it in place gives
                if not isinstance(made, Tensor):
                    raise TypeError(f"expected Variable, but hook returned '{type(made).__name__}'")
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _call_leaf_hooks(leaf: Tensor, g: Tensor, of_node: bool) -> Tensor:
    for key, hook in list(leaf._autograd_meta.hooks.items()):  # type: ignore[union-attr]
        if of_node or key.__class__ is not tuple:
            g = _replaced(g, hook(g), hook)
    return g


def _replaced(g: Any, result: Any, hook: Any) -> Any:
    if result is None:
        return g
    if not isinstance(result, Tensor):
        raise RuntimeError(f"hook's return value must be a tensor or None, not {type(result).__name__}")
    if g is not None and tuple(result._array.shape) != tuple(g._array.shape):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value: {tuple(g._array.shape)} became "
            f"{tuple(result._array.shape)}"
        )
    return result


def _call_pre_hooks(node: Node, g: Any, of_tensors: bool = True, of_node: bool = True) -> Any:
    single = node.outputs is None
    gradients = (g,) if single else tuple(g)
    for key, hook in list(node.pre_hooks.items()):
        if not (of_node if key.__class__ is tuple and key[0] == "node" else of_tensors):
            continue
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
                warn_user(f"Error detected in {node.name()}. Traceback of the forward call:\n{where}")
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
