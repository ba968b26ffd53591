"""What nobody reads of the results of recurrent layers: steps of time that lead to nothing are not computed.

A network that looks at the last output alone needs one step of the direction that begins there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from .._core.state import GRAD
from .._ops.layers.recurrent import layer_back, layer_op
from .._ops.layers.recurrent_arrays import Span, Steps
from .._tensor import wrap
from .graph import Node, Value, is_view, replaced

_OUT = 16  # where the backward pass of a layer is given the outputs


def without_unread(nodes: Sequence[Node], outputs: Sequence[Value]) -> None:
    """Tells recurrent layers which of their outputs later nodes read; `outputs` are read by others."""
    layers = [node for node in nodes if node.op is layer_op and _steps(node).uniform and not is_partial(node)]
    if not layers:
        return
    users, read = _users(nodes, outputs), set(outputs)
    for node in layers:
        out, *others = node.outs
        if out is None or out.k & ~GRAD or any([v in read or users.get(v) for v in others[:2] if v is not None]):
            continue
        back = [user for user in users.get(out, ()) if _gets_outputs(user, out)]
        if any([v in read or set(users.get(v, ())) - set(back) for v in others[2:] if v is not None]):
            continue
        steps, spans = _steps(node), list(_spans(out, users, read))
        low, high = min([a for a, _ in spans], default=0), max([b for _, b in spans], default=1)
        if high - low < steps.length:
            less = steps.reading(low, high)
            for other in (node, *back):
                other.args = tuple([less if a is steps else a for a in other.args])


def is_partial(node: Node | None) -> bool:
    """Whether a node is a layer that does not compute all of its outputs."""
    if node is None or node.op is not layer_op:
        return False
    steps = _steps(node)
    return steps.read != (0, steps.length)


def _steps(node: Node) -> Steps:
    return next(a for a in node.args if isinstance(a, Steps))


def _users(nodes: Sequence[Node], outputs: Sequence[Value]) -> dict[Value, list[Node]]:
    """The nodes that read each value, and that somebody needs."""
    wanted, users = set(outputs), dict[Value, list[Node]]()
    for node in reversed(nodes):
        if node.opaque or node.writes or any([v in wanted for v in node.outs if v is not None]):
            for v in dict.fromkeys((*node.operands(), *node.writes)):
                wanted.add(v)
                users.setdefault(v, []).append(node)
    return users


def _gets_outputs(node: Node, out: Value) -> bool:
    """Whether a node is the backward pass of the layer that made these outputs: it reads those that gradients reach, or makes them again."""
    return node.op is layer_back and [i for i, a in enumerate(node.args) if a is out] == [_OUT]


def _spans(out: Value, users: dict[Value, list[Node]], read: set[Value]) -> Iterator[Span]:
    """The steps whose outputs are read, by nodes that are given them or views of them."""
    each = prod(out.shape[1:]) * out.dtype.itemsize
    base = np.empty(out.shape, out.dtype.numpy)  # never touched
    start = np.lib.array_utils.byte_bounds(base)[0]
    shown = {out: wrap(base, out.dtype)}
    waiting = [out]
    while waiting:
        v = waiting.pop()
        own = [user for user in users.get(v, ()) if not _gets_outputs(user, out)]
        views = [user for user in own if is_view(user)]
        if v in read:  # views of it can be made that show all
            yield 0, out.shape[0]
        elif len(views) < len(own):
            low, high = np.lib.array_utils.byte_bounds(shown[v]._array)
            yield (low - start) // each, -(-(high - start) // each)
        for user in views:
            made = user.op(*replaced(user.args, Value, shown.__getitem__))
            shown.update(zip(user.outs, made if user.several else (made,)))
            waiting += [w for w in user.outs if w is not None]
