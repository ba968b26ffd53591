"""The one form of a recorded program: operations in the order in which they ran, over values that each are made once.

A value is a tensor of the program: what it looks like, not what it holds. Nodes are records, or Python functions where an
operation is not made of records. Order matters: a node may write into the memory of a value (`writes`), and views share it, as in
the eager run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from .._ops.records.refusals import Refusal
from .._tensor import Tensor

COMPUTES = (
    2  # what `opaque` says of functions that only compute: what they write is known, and they may draw random numbers
)


class Value:
    """A tensor of a program."""

    __slots__ = ("dtype", "k", "node", "number", "shape", "strides")

    def __init__(self, number: int, t: Tensor, node: Node | None = None):
        array = t._array
        self.number, self.node = number, node  # None: an input or a constant
        self.shape, self.strides, self.dtype, self.k = array.shape, array.strides, t.dtype, t._k

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"%{self.number}"


class Node:
    """One operation: `op(*args, **named)`, with values in the place of tensors, gives `outs` (None where it gave no tensor).

    `op` is a record, or a Python function (`opaque`); in traces it is the name of an operator of PyTorch's library.
    """

    __slots__ = ("args", "line", "named", "op", "opaque", "outs", "several", "writes")

    def __init__(
        self, op: Any, args: Any, outs: Sequence[Any] = (), several: Any = False,
        named: dict[str, Any] | None = None, opaque: int = False, writes: Sequence[Value] = (), line: Any = None,
    ):  # fmt: skip
        self.op, self.args, self.outs, self.several, self.named = op, args, outs, several, named or {}
        self.opaque, self.writes, self.line = opaque, tuple(writes), line

    @property
    def name(self) -> str:
        return str(getattr(self.op, "name", None) or getattr(self.op, "__name__", self.op))

    def operands(self) -> Iterator[Value]:
        """The values among the arguments, in their order."""
        yield from values_in(self.args)
        yield from values_in(self.named)

    def __repr__(self) -> str:
        outs = ", ".join("_" if v is None else repr(v) for v in self.outs)
        named = [f"{key}={value!r}" for key, value in self.named.items()]
        return f"{outs} = {self.name}({', '.join([*map(repr, self.args), *named])})"


class Graph:
    """A program: its inputs, the tensors that it knows (`constants`), its nodes, and what it gives back."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.constants: dict[Value, Tensor] = {}  # that were there before; read where they lie when the program runs
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        # inputs that nobody needs when the program has read them; whether each is memory of its own
        self.passing: dict[Value, bool] = {}
        self.engines: list[Any] = []  # generators that go back to where they were if the program is left early

    def __str__(self) -> str:
        lines = [f"inputs {', '.join(map(described, self.inputs))}"]
        lines += [f"constant {described(v)}" for v in self.constants]
        lines += [f"{node!r}{_place(node.line)}" for node in self.nodes]
        return "\n".join([*lines, f"outputs {', '.join(map(repr, self.outputs))}"])

    def keep_used(self) -> None:
        """Drops nodes whose results nobody needs and that write to nothing that lasts."""
        wanted = set(self.outputs)
        self.nodes = used(self.nodes, wanted)
        self.constants = {v: t for v, t in self.constants.items() if v in wanted}

    def once(self) -> Graph:
        """The same program, in which each value is the result of one node: one that a node gives back is another from then on."""
        made, names = Graph(), dict[Value, Value]()

        def now(v: Value) -> Value:
            return names.get(v, v)

        for given in (*self.inputs, *self.constants):
            if given.node is not None:  # of another program, whose result this one is given
                names[given] = own = copy(given)
                own.node = None
        made.inputs, made.passing = [now(v) for v in self.inputs], {now(v): own for v, own in self.passing.items()}
        made.constants = {now(v): t for v, t in self.constants.items()}
        for node in self.nodes:
            args, named = replaced((node.args, node.named), Value, now)
            writes = [now(v) for v in node.writes]
            other = Node(node.op, args, (), node.several, named, node.opaque, writes, node.line)
            outs: list[Value | None] = []
            for v in node.outs:
                if v is not None:
                    own = copy(v)
                    own.node = other
                    names[v] = v = own
                outs.append(v)
            other.outs = tuple(outs)
            made.nodes.append(other)
        made.outputs, made.engines = [now(v) for v in self.outputs], self.engines
        return made


def used(nodes: Sequence[Node], wanted: set[Value]) -> list[Node]:
    """Those nodes that do something, or make what is wanted; what they need is wanted, too."""
    kept: list[Node] = []
    for node in reversed(nodes):
        needed = any([v in wanted for v in node.outs if v is not None])
        if needed or node.opaque or node.writes or isinstance(node.op, Refusal):
            wanted.update(node.operands())
            wanted.update(node.writes)
            kept.append(node)
    return kept[::-1]


def is_view(node: Node) -> bool:
    """Whether a node does nothing but show parts of its one operand."""
    return getattr(node.op, "view", False) and not node.opaque and not node.writes and len(list(node.operands())) == 1


def shows(node: Node) -> bool:
    """Whether a node shows a part of its first operand; which one, others may say in each run."""
    return getattr(node.op, "view", False) and not node.opaque and not node.writes


def described(v: Value) -> str:
    return f"{v!r}: {v.dtype}{list(v.shape)}"


def _place(line: Any) -> str:
    return "" if line is None else f"    # {line[0]}:{line[1]}"


def values_in(a: Any) -> Iterator[Value]:
    """All values in nested lists, tuples and dicts."""
    if isinstance(a, Value):
        yield a
    elif isinstance(a, (tuple, list, dict)):
        for b in a.values() if isinstance(a, dict) else a:
            yield from values_in(b)


def replaced(a: Any, kind: type | tuple[type, ...], replace: Callable[[Any], Any]) -> Any:
    """The same nest with `replace(b)` for everything of a class, or of one of several, in it."""
    if isinstance(a, kind):
        return replace(a)
    if a.__class__ is tuple or a.__class__ is list:
        return a.__class__([replaced(b, kind, replace) for b in a])
    if a.__class__ is dict:
        return {key: replaced(b, kind, replace) for key, b in a.items()}
    return a
