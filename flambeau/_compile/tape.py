"""What a recorded block did with tensors, as values and nodes of a `Graph`: what the dispatcher tells of records, writes and gradients
of leaves."""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from .._core.dtypes import INTEGER
from .._core.random import MersenneState
from .._core.state import CAPTURE, FUNCTION_MODE, GRAD, META, local, modes
from .._errors.frames import called_from, users_line
from .._ops.records.primitive import Primitive
from .._ops.registry import ops, records
from .._tensor import Tensor, detached, storage_of, version_of, wrap
from .births import Born, is_even
from .breaks import Break, shown
from .expected import Expect
from .given import ENDS, Formula, Put, Question, compared, single
from .graph import COMPUTES, Graph, Node, Value, replaced
from .holders import Effect, grad_of
from .left import done
from .numbers import Leaf, Numbers, held_at, is_live, plain
from .returned import Read
from .unseen import Unseen, shape_is_known
from .writes import Accumulate, changes, whole_of, write, write_data


class Tape:
    """Values, nodes and writes of a block that is recorded; `external(tensor)` says whether a tensor that nobody made in it may be one of
    its constants."""

    def __init__(self, inputs: Any = (), external: Callable[[Tensor], bool] | None = None, of: Tape | None = None):
        self.graph = Graph()
        self.functions = of is None  # the backward pass of a run that was recorded calls records
        self.external = external
        self.found: dict[int, tuple[Tensor, str]] = {}  # tensors that were there, by their arrays; set by who knows
        self.problem: Break | None = None
        self.detaches = False  # whether the graph tells where values go without their history
        self.branches = False  # whether the way that a branch takes is expected of later runs, too
        self.sizes = False  # whether a number that decides about a shape is, and one that an argument holds
        self.until: Any = None  # the code that runs the block, if numbers that the block only returns may be read
        self.numbers: list[Read] = []  # these
        self.kept: list[Read] = []  # what is read and only kept
        self.live = Numbers(self.stop, self.decided)  # numbers that are others in each run
        self._strange = False  # whether a public function used a tensor that nobody told of
        self._given_some = False  # whether the one that runs was given tensors
        self._depth = 0  # of public functions
        self.drawn: Any = None  # whether random numbers were drawn; for backends of others
        self.outside: Callable[[Any], Any] = lambda t: t  # the argument that another tensor stands for
        self.choosing: Callable[[], bool] = lambda: False  # whether the least or greatest of objects is looked for
        self.tied = False  # whether something knows tensors of this run as they are
        self.changed: Callable[[], dict[Any, Any]] = (
            dict  # what the run has changed of Python's objects; set by who knows
        )
        self.effects: Callable[[], list[Effect]] = list  # the same with who was changed
        self.held: list[tuple[Any, Tensor]] = []  # places of numbers, and inputs that get what is there
        self.reached: Callable[[Any], None] = lambda objects: None  # told what functions that run unseen may read
        # told of a module that gets other tensors for a while; whether an object was there before the run
        self.exchanging: Callable[[Any], None] = lambda module: None
        # a block for a backward pass over some nodes
        self.backward: Callable[[list[Any]], AbstractContextManager[Any]] = lambda nodes: nullcontext()
        self.existed: Callable[[Any], bool] = lambda a: not isinstance(a, Tensor) or self._made_here(a) is a
        self.by_steps: dict[Any, Any] = {}  # what steps changed of those, and to what: they do it again
        self.gradients: dict[int, Any] = {}  # tensors whose gradients steps changed, with those of before
        self.decisive: set[Value] = set()  # tensors whose elements are expected to be the same
        self.borrowed: dict[Value, Any] = {}  # tensors over the memory of arrays of NumPy's, with these
        self._births: list[tuple[Node, Any]] = []  # nodes of tensors that were made from numbers, and their arrays
        self._written: list[Tensor] = []  # by nodes, of the function that runs
        self._numbers: int = 0 if of is None else of._numbers
        # Values by the arrays of their tensors, which detached and saved forms of them share.
        self._values: dict[int, tuple[Any, Value]] = {} if of is None else dict(of._values)
        self._given = list(inputs)
        self._versions = list(map(version_of, inputs))
        self.graph.inputs = [self._new(t) for t in inputs]

    # -- the block -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Any:
        local.captures = (*local.captures, self)
        modes.enter(CAPTURE)
        if self.functions:
            local.function_modes = (*local.function_modes, self)
            modes.enter(FUNCTION_MODE)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.functions:
            modes.leave(FUNCTION_MODE)
            local.function_modes = local.function_modes[:-1]
        modes.leave(CAPTURE)
        local.captures = local.captures[:-1]

    def forget(self) -> None:
        """Lets go of the tensors of the block."""
        self._given.clear()
        self._values.clear()
        self.borrowed.clear()
        self.outside = lambda t: t

    def writes_to_inputs(self) -> list[int]:
        """How many writes to each input the run has counted."""
        return [version_of(t) - before for t, before in zip(self._given, self._versions)]

    def finish(self, outputs: Any, whole: bool = False) -> Graph:
        """The program that computes these tensors and does all writes (or all that was recorded); raises `Break` if there is none."""
        if self.problem is not None:
            raise self.problem
        if self._filled_late(0):
            problem = Break("a tensor that was filled in a way that cannot be recorded")
            problem.passing = True  # if it is there from now on
            raise problem
        self._births.clear()
        self.graph.outputs = [self._operand(t) if self.detaches else self.value(t) for t in outputs]
        if self.problem is not None:
            raise self.problem
        if not whole:
            self.graph.keep_used()
        return self.graph

    def stop(self, reason: str, line: Any = None, ours: bool = True) -> None:
        """Remembers why the run cannot be recorded (by PyTorch neither, unless it is `ours`); it goes on unrecorded."""
        if self.problem is None:
            file, number = line or users_line() or ("", 0)
            self.problem = Break(reason, file, number, ours)

    # -- values ------------------------------------------------------------------------------------------------------

    def _new(self, t: Tensor, node: Node | None = None) -> Value:
        value = Value(self._numbers, t, node)
        self._numbers += 1
        array, key = t._array, id(t._array)
        forget = lambda _, values=self._values, key=key, number=value.number: _drop(values, key, number)
        try:
            self._values[key] = ref(array, forget), value
        except TypeError:  # it stays, then, until the run is recorded
            self._values[key] = (lambda: array), value
        return value

    def known(self, t: Tensor) -> Value | None:
        """The value that a tensor is, if the block was told of it."""
        found = self._values.get(id(t._array))
        return None if found is None or found[0]() is not t._array else found[1]

    def value(self, t: Tensor) -> Value:
        """The value that a tensor is; one that was there before the block is a constant."""
        value = self.known(t)
        if value is None:
            given = self.external is None or self.external(t)
            if not given and local.walk is not None and is_even(t):  # zeros or ones that the engine made
                self.born(t)
                return self.value(t)
            t = self._with_history(t)
            value = self._new(t)
            self.graph.constants[value] = t
            if not given:
                if self._depth:
                    self._strange = True
                else:
                    self.stop("a tensor that was made in a way that cannot be recorded")
        elif t._k & GRAD and t._edge is None and self._is_another(t, value):
            self.stop("a leaf that has its memory in common with another tensor")
        return value

    def _with_history(self, t: Tensor) -> Tensor:
        """The tensor that was there, where one may be what it is without its history: it may be needed with that, too."""
        other, _ = self.found.get(id(t._array), (t, ""))
        return other if other._k == t._k | GRAD and other.dtype is t.dtype and not t._k & GRAD else t

    def _is_another(self, t: Tensor, value: Value) -> bool:
        """Whether a leaf that was there before the block is another tensor than the one that is known as a value, in the same memory."""
        there = [given for given, own in zip(self._given, self.graph.inputs) if own is value]
        there += [self.graph.constants[value]] if value in self.graph.constants else []
        was_there = any([t is given for given in self._given]) or (id(t._array) in self.found and self.existed(t))
        return was_there and bool(there) and not any([t is own for own in there])

    def tensor(self, value: Value, same: Value | None = None) -> Tensor:
        """The tensor of the run that a value stands for, or another that is the same."""
        for found, t in zip(self.graph.inputs, self._given):  # a tensor that is given twice is two of them
            if found is value:
                return wrap(t._array, value.dtype, value.k & ~GRAD)
        for array, found in self._values.values():
            if found in (value, same) and array() is not None:
                return wrap(array(), value.dtype, value.k & ~GRAD)
        raise Break("a tensor that is needed later was dropped")

    def _made_here(self, t: Tensor) -> Tensor | Value:
        """The value that a tensor is; one that was there before, as it is."""
        value = self.known(t)
        return t if value is None or value in self.graph.constants else value

    def _encoded(self, a: Any) -> Any:
        return replaced(a, Tensor, self._operand if self.detaches else self.value)

    def _operand(self, t: Tensor) -> Value:
        """The value that a tensor is, or, without the history that this has, another one."""
        value = self.value(t)
        return value if not value.k & GRAD or t._k & GRAD else self._without_history(t, value)

    def _without_history(self, t: Tensor, value: Value) -> Value:
        node = Node(Tensor.detach, (value,))
        self.graph.nodes.append(node)
        node.outs = (Value(self._numbers, t, node),)
        self._numbers += 1
        return node.outs[0]

    # -- what the dispatcher tells -------------------------------------------------------------------------------------

    def add(self, op: Any, args: tuple[Any, ...], out: Any) -> None:
        """A record ran."""
        if self.problem is not None:
            return
        if not self.functions and any([is_live(a) for a in args]):
            self.stop("a derivative that depends on numbers which are others in each run")
            return
        if isinstance(op, Primitive) and not op.view and not shape_is_known(op, args, {}):
            self.stop(f"the shape of {op.name}'s result depends on elements")
            return
        drawn = any([a.__class__ is MersenneState for a in args])  # each run draws once
        if any([isinstance(a, np.ndarray) for a in (args[-1] if drawn else args)]):  # elements of a tensor
            self._strange = True
        self._append(op, self._encoded(args), out, opaque=COMPUTES if drawn else False)

    def _append(self, op: Any, args: Any, out: Any, named: Any = None, opaque: int = False, writes: Any = ()) -> None:
        several = isinstance(out, (tuple, list))
        if opaque or writes:
            self._disturb()
            self._written_to(writes)
        node = Node(op, args, (), several, named, opaque, writes, users_line())
        node.outs = tuple([self._out(t, node) if isinstance(t, Tensor) else None for t in (out if several else (out,))])
        self.graph.nodes.append(node)

    def _out(self, t: Tensor, node: Node) -> Value:
        known = self.known(t)
        return self._new(t, node) if known is None else known  # an operation may give back its argument

    def add_write(self, target: Tensor, source: Any) -> None:
        """A tensor or a number was written into a tensor."""
        if self.problem is None:
            self._disturb()
            value, source = self.value(target), self._encoded(source)
            self._written_to((value,))
            tracked = local.grad and target._k & GRAD
            op = write if self._counts(target, value) else write_data
            detached = self.detaches and value.k & GRAD and not tracked and op is write
            into = self._without_history(target, value) if detached else value
            self.graph.nodes.append(Node(op, (into, source), writes=(value,), line=users_line()))
            self._written.append(target)

    def _counts(self, target: Tensor, value: Value) -> bool:
        """Whether a write counts as one to the tensor that was there, and not only to what `.data` gave of it."""
        whole = whole_of(value)
        there = [t for given, t in zip(self.graph.inputs, self._given) if given is whole]
        there += [self.graph.constants[whole]] if whole in self.graph.constants else []
        return not there or any([storage_of(t) is storage_of(target) for t in there])

    def accumulate(self, function: Any, leaf: Tensor, g: Tensor, *rest: Any) -> None:
        """A leaf gets a gradient; how it is added is part of the step. One that was made here is another in each run."""
        given = [self.value(t) for t in self._given if t is leaf]
        if not given and self.known(leaf) is not None and not self.existed(leaf):
            function(leaf, g, *rest)
            return
        first = grad_of(leaf) is None
        with Unseen():
            function(leaf, g, *rest)
        if self.problem is None:
            op = Accumulate(leaf if not given else None, first)
            self._append(op, (self.value(g), *given), leaf.grad, opaque=True)

    def born(self, t: Tensor) -> None:
        """A tensor was made from numbers."""
        if t._k & META:
            self.stop("tensors without elements are made")
        if self.problem is None and self.known(t) is None:
            self._append(Born(t), (), t)
            self._births.append((self.graph.nodes[-1], t._array))

    def borrowed_from(self, t: Tensor) -> None:
        """A tensor was made over an array of NumPy's, whose elements are the same in each run, unless a function of the user's has made them
        of tensors."""
        if self._given_some:
            self._strange = True
            return
        self.born(t)
        value = self.known(t)
        if value is not None:
            self.borrowed[value] = t._array

    def _written_to(self, values: Iterable[Value]) -> None:
        """Values are written to: of what arrays of NumPy's have in their memory nobody would know then."""
        if self.borrowed and any([whole_of(value) in self.borrowed for value in values]):
            self.stop("a tensor over the memory of an array is written to")

    def step(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs a function that is a step of its own in the program: Python calls it each time."""
        args = tuple([list(a) if isinstance(a, Iterator) else a for a in args])  # it is called again
        if args and hasattr(args[0], "state_dict") and not self.existed(args[0]):  # each run makes another
            self.stop(f"a step of an object of class {type(args[0]).__name__} that the run has made")
        if any(map(self._is_new_function, (*args, *named.values()))):
            self.stop(f"{shown(function)} with a function that the run has made")
        out = done(self, function, args, named)
        if self.problem is None:
            args, named = replaced((args, named), Tensor, self._made_here)
            self._append(function, args, out, named, opaque=True)
        return out

    def leave(self, place: Any, formula: Formula) -> None:
        """The program puts a number where a step may look."""
        self._append(Put(place, formula), self._encoded(tuple(formula.tensors)), None, opaque=True)

    def _is_new_function(self, a: Any) -> bool:
        """Whether an argument is a function that the run has made: in another run it knows other values."""
        a = getattr(a, "__self__", a) if isinstance(a, MethodType) else a
        return callable(a) and not isinstance(a, (Tensor, type)) and not self.existed(a)

    def _disturb(self) -> None:
        """Something happens that is no part of a statement which only says something."""
        if self.live.said is not None:
            self.live.said.disturbed(sys._getframe(2))

    def copied(self, t: Tensor) -> Tensor | None:
        """A copy of a tensor as it is now; None of one that was there before the run."""
        if self.problem is not None or not self._is_made(t):
            return None
        return ops.clone(detached(t))  # type: ignore[attr-defined]

    def tensor_of(self, leaf: Any) -> Tensor:
        """What a number is read from in each run: a tensor of the program, or an input that gets what is in a place."""
        if isinstance(leaf, Leaf):
            return leaf.copy if self.changed_since(leaf.mark) else leaf.tensor
        for place, t in self.held:
            if place[0] is leaf[0] and place[1] == leaf[1]:
                return t
        t = single(plain(held_at(*leaf)))
        self.graph.inputs.append(self._new(t))
        self.held.append((leaf, t))
        return t

    def keeps(self, objects: Sequence[Any]) -> bool:
        """Whether nodes know some objects: a list or a dictionary among their arguments is a copy."""
        wanted, seen = {id(a) for a in objects}, dict[int, Any]()
        waiting = [
            a for node in self.graph.nodes for a in (*node.args, *node.named.values(), *[node.op] * bool(node.opaque))
        ]
        while waiting:
            a = waiting.pop()
            if isinstance(a, FunctionType):
                waiting += [a.__closure__, a.__defaults__]
            elif id(a) not in seen and not isinstance(a, (Value, type, ModuleType, BuiltinFunctionType, *ENDS)):
                seen[id(a)] = a
                waiting += gc.get_referents(a)
        return not wanted.isdisjoint(seen)

    def asked(self, of_shape: bool, of: Tensor | None = None) -> None:
        """Our own code looks at elements, so that other runs may go another way: what runs now is one step, which Python takes each time.

        Where a shape depends on one whole number, later runs are expected to have the same.
        """
        if of_shape and of is not None and self.problem is None:
            if self.expect(int(of._array.reshape(())), lambda tensors: int(tensors[0]), [of], whole=True):
                return
        if of_shape or not self._depth:
            self.stop("a shape or a derivative that depends on elements")
        self._strange = True

    # -- what is expected of later runs --------------------------------------------------------------------------------

    def _is_made(self, t: Tensor) -> bool:
        """Whether the block has made a tensor."""
        value = self._made_here(t)
        return isinstance(value, Value) and value not in self.graph.inputs

    def _is_made_as(self, array: Any) -> bool:
        """The same of a tensor that had this array."""
        found = self._values.get(id(array))
        return found is not None and found[1] not in self.graph.constants and found[1] not in self.graph.inputs

    def changed_since(self, mark: int) -> bool:
        """Whether something may have been written since there were so many nodes."""
        return any([changes(node) for node in self.graph.nodes[mark:]])

    def expect(self, answer: Any, question: Any, tensors: Any, whole: bool = False) -> bool:
        """Expects of later runs an answer that elements give now; whether it may. `whole`: it is about a whole number."""
        checks = called_from("distributions")
        may = self.branches or checks or (self.sizes and whole)
        if may:
            late = ValueError("a distribution was given values that are not valid") if checks else None
            self._append(Expect(answer, question, late), self._encoded(tuple(tensors)), None, opaque=True)
        return may

    def decides(self, t: Tensor) -> None:
        """The elements of a tensor decide what the run does."""
        if self.problem is not None:
            return
        value = self.value(t)
        made = value.node is not None and isinstance(value.node.op, Born)
        if value not in self.decisive and not (made and not any([value in node.writes for node in self.graph.nodes])):
            if not self.expect(t._array.tolist(), lambda tensors: tensors[0]._array.tolist(), [t]):
                self.stop("how many rows there are depends on elements")
        self.decisive.add(value)

    def decided(self, function: Any, parts: Any, answer: Any) -> bool:
        """Expects of later runs what a function answers about numbers that were read; whether it may."""
        leaves = [leaf.leaf for part in parts if is_live(part) for leaf in part.leaves()]
        whole = function is operator.pos or all(
            [leaf.__class__ is Leaf and self._is_number(leaf.copy) for leaf in leaves]
        )
        if self.problem is not None or not (self.branches or (self.sizes and whole)):
            return False
        t = compared(function, parts, self.tensor_of)
        if t is not None and bool(t._array) is answer:
            return self.expect(answer, None, [t], whole)
        question = Question(function, parts, self.tensor_of)
        return self.expect(answer, question, question.formula.tensors, whole)

    def _is_number(self, t: Tensor) -> bool:
        """Whether a tensor is an argument, or a copy of one, that is a whole number."""
        value = self.known(t)
        while value is not None and value.node is not None and value.node.op is records["clone"]:
            value = value.node.args[0]
        return value in self.graph.inputs and not t._array.ndim and t.dtype.category == INTEGER

    def _filled_late(self, mark: int) -> bool:
        """Whether one of the tensors that were made from numbers since then got its elements afterwards, unseen."""
        recent = self.graph.nodes[mark:]
        written = {whole_of(v) for node in recent for v in node.writes}
        return any(
            [
                array.tobytes() != node.op.array.tobytes()
                for node, array in self._births
                if node in recent and node.outs[0] not in written
            ]
        )


def _drop(values: dict[int, tuple[Any, Value]], key: int, number: int) -> None:
    if key in values and values[key][1].number == number:
        del values[key]
