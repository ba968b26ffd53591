"""Records what a block does with tensors as a `Graph`, while it runs for real.

Two places tell of everything. The dispatcher tells of records, writes and gradients of leaves (`add`, `add_write`,
`accumulate`); public functions ask the capture as they ask any function mode. A public function that is made of records
over known values is those records. One that makes tensors elsewhere, or writes unseen, is one opaque node: when the program
runs, Python calls it. What reads elements on behalf of Python (`item`, `if x > 0:`) cannot be recorded: `Break`.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from .._core.dtypes import INTEGER, int64
from .._core.random import MersenneState
from .._core.state import CAPTURE, FUNCTION_MODE, GRAD, META, local, modes, unobserved
from .._errors.frames import called_from, users_line
from .._ops.records.pointwise_op import Pointwise
from .._ops.records.primitive import Primitive
from .._ops.registry import ops, position_arguments, records
from .._tensor import Tensor, detached, storage_of, version_of, wrap
from .arguments import overlap
from .births import Born, is_even
from .breaks import Break, shown
from .expected import Expect
from .given import ENDS, Formula, Given, Put, Question, compared, single
from .graph import COMPUTES, Graph, Node, Value, replaced, used
from .holders import Effect, grad_of
from .left import done, left_before
from .numbers import BRANCH, Integer, Leaf, Numbers, _Live, held_at, is_live, plain
from .returned import READS, Read, is_only_returned, kept_by
from .standing import Inside, plain_in, stands, with_others
from .unseen import Tried, Unseen, is_certain, is_closed, needs_elements, other_elements, shape_is_known
from .whole import Called, Hooked, Whole, known_to, one_behind_another, tensors_in
from .writes import WRITES, Accumulate, changes, whole_of, write, write_data


class Capture:
    """A block that is recorded; `external(tensor)` says whether a tensor that nobody made in it may be one of its constants.

    >>> import flambeau as torch
    >>> from flambeau._compile.capture import Capture
    >>> x = torch.tensor([1.0, 2.0])
    >>> with Capture([x]) as tape:
    ...     y = (x * 3).exp()
    >>> [node.name for node in tape.finish([y]).nodes]
    ['mul', 'exp']
    """

    def __init__(self, inputs: Any = (), external: Callable[[Tensor], bool] | None = None, of: Capture | None = None):
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
        self._births: list[tuple[Node, Any]] = []  # nodes of tensors that were made from numbers, and their arrays
        self._written: list[Tensor] = []  # by nodes, of the function that runs
        self._numbers: int = 0 if of is None else of._numbers
        # Values by the arrays of their tensors, which detached and saved forms of them share.
        self._values: dict[int, tuple[Any, Value]] = {} if of is None else dict(of._values)
        self._given = list(inputs)
        self._versions = list(map(version_of, inputs))
        self.graph.inputs = [self._new(t) for t in inputs]

    # -- the block -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Capture:
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

    def stop(self, reason: str, line: Any = None, ours: bool = False) -> None:
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
            self.stop(f"the shape of {op.name}'s result depends on elements", ours=True)
            return
        drawn = any([a.__class__ is MersenneState for a in args])  # each run draws once
        if any([isinstance(a, np.ndarray) for a in (args[-1] if drawn else args)]):  # elements of a tensor
            self._strange = True
        self._append(op, self._encoded(args), out, opaque=COMPUTES if drawn else False)

    def _append(self, op: Any, args: Any, out: Any, named: Any = None, opaque: int = False, writes: Any = ()) -> None:
        several = isinstance(out, (tuple, list))
        if opaque or writes:
            self._disturb()
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
            self.stop("tensors without elements are made", ours=True)
        if self.problem is None and self.known(t) is None:
            self._append(Born(t), (), t)
            self._births.append((self.graph.nodes[-1], t._array))

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

    # -- what public functions ask ---------------------------------------------------------------------------------------

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        with unobserved():  # at once: what watches the run follows what users' code does
            if is_closed(function, args, named):
                return self._called(function, args, named)
        return self._called(function, args, named)

    def _called(self, function: Any, args: Any, named: Any) -> Any:
        """Runs a public function, and records what it does."""
        name = getattr(function, "__name__", "")  # a record that is asked for directly has none
        if name in HOOKS and self.outside(args[0]) is not args[0]:
            self.stop(f"{name} of an argument", ours=True)
            return function(self.outside(args[0]), *args[1:], **named)
        if name == "detach_" and self.outside(args[0]) is not args[0]:
            function(self.outside(args[0]))  # which may be a view, that is not to be detached
            args[0]._view = None
        if self.problem is not None:
            return function(*args, **named)
        if name == "__set__":
            if function.__self__ is Tensor.grad:
                return self.step(function, args, named)
            given_back = function.__self__ is Tensor.data and _same_memory(*args)  # what `p.data -= …` ends with
            if not given_back and function.__self__ is not Tensor.requires_grad:  # which guards look at
                self.stop("an attribute of a tensor is set")
        if self.live.all and name in position_arguments:
            args, named = self._with_positions(*position_arguments[name], args, named)
        numbers_given = self.live.look_for((args, named))
        asked = function if not numbers_given else Given(function, args, named, self.tensor_of)
        args, named = replaced((args, named), _Live, plain) if numbers_given else (args, named)
        given = plain_in((args, named))
        before = [(t, version_of(t)) for t in given]
        arrays = [t._array for t in given]
        mark, numbers = len(self.graph.nodes), self._numbers
        outer, self._strange, self._written = self._strange, False, []
        self._depth += 1
        try:
            out = function(*args, **named)
        except Exception as error:
            if self._depth == 1 and not is_certain(error, function, args, named):
                self.stop(f"{shown(function)} raises an error that depends on elements")
            raise
        finally:
            self._depth -= 1
            strange, self._strange = self._strange, outer
        if self.problem is not None:
            return out
        if any([t._array is not array for t, array in zip(given, arrays)]):  # a tensor was turned, or got other memory
            if not all([t._array is array or self._is_made_as(array) for t, array in zip(given, arrays)]):
                self.stop(f"{shown(function)} changes a tensor that was there before", ours=True)
                return out
            before = [pair for pair, array in zip(before, arrays) if pair[0]._array is array]
        if isinstance(asked, Given):
            if not all([_takes_numbers(node) for node in self.graph.nodes[mark:]]):
                self.live.used(*numbers_given)
                return out
            wrote = [t for t, version in before if version_of(t) != version]
            self._as_a_whole(asked, asked.args, asked.named, out, wrote, mark, numbers)
            return out
        made = plain_in(out)
        if not made and name not in _ABOUT and name not in _SILENT and out is not None and given:
            if out.__class__ is bool and name in ("__bool__", "item") and self.expect(out, None, given[:1]):
                return out
            if name in ("__int__", "__index__"):
                if self.expect(out, lambda tensors: int(tensors[0]), given[:1], given[0].dtype.category == INTEGER):
                    return out
            if name == "register_hook" and given[0]._edge is not None and self._is_made(given[0]):
                return out  # the backward pass will call it
            if name in HOOKS:
                self.stop(f"{name} of a tensor that was there before", ours=True)
                return out
            read = (
                self._read(name, given[0], out)
                if name in READS and len(args) == 1 and not any(named.values())
                else None
            )
            if read is not None:
                return read
            hint = BRANCH if name == "__bool__" else ""
            ours = name in _NUMBERS or (name == "__bool__" and self.choosing())
            stop = lambda line: self.stop(f"{shown(function)} reads elements for Python{hint}", line, ours)
            if self.live.said is None or not self.live.said.excuses(sys._getframe(2), stop):
                stop(None)
            return out
        unseen = any([version_of(t) - v != sum([_shared(t, w) for w in self._written]) for t, v in before])
        unknown = [t for t in made if self.known(t) is None and not (self.external is not None and self.external(t))]
        strange = strange or bool(unknown) or self._filled_late(mark)
        if name not in _ABOUT and (strange or unseen or self._reads_elements(function, args, named, given, made, mark)):
            changed = [t for t, version in before if version_of(t) != version]
            self._as_a_whole(function, args, named, out, changed, mark, numbers)
        return out

    def _with_positions(self, place: int, key: str, args: Any, named: Any) -> Any:
        """The arguments of an operation, with tensors for whole numbers that say where in another tensor it looks."""
        if not isinstance(args[0], Tensor) or args[0]._k & ~GRAD:
            return args, named
        if len(args) > place:
            own = args[place]
            parts = tuple(map(self._as_position, own)) if own.__class__ is tuple else self._as_position(own)
            return (*args[:place], parts, *args[place + 1 :]), named
        return args, {name: self._as_position(a) if name == key else a for name, a in named.items()}

    def _as_position(self, a: Any) -> Any:
        """A whole number that is another in each run, as a tensor of the program."""
        if type(a) is not Integer:
            return a
        if a.function is None:
            t = self.tensor_of(a.leaf)
            return ops.to(ops.reshape(t, ()), int64) if t._array.ndim or t.dtype is not int64 else t
        given, t = Given(single, (a,), {}, self.tensor_of), single(a.value)
        self._append(given, self._encoded(given.args), t, opaque=COMPUTES)
        return t

    def _is_made(self, t: Tensor) -> bool:
        """Whether the block has made a tensor."""
        value = self._made_here(t)
        return isinstance(value, Value) and value not in self.graph.inputs

    def _is_made_as(self, array: Any) -> bool:
        """The same of a tensor that had this array."""
        found = self._values.get(id(array))
        return found is not None and found[1] not in self.graph.constants and found[1] not in self.graph.inputs

    def _read(self, name: str, t: Tensor, out: Any) -> Any:
        """What a run gets that reads elements of a tensor, if its program can do without them; None if not."""
        t, kind, mark = detached(t), out.__class__, len(self.graph.nodes)
        if name == "item" and kind in (int, float) and self.until and self.live.read(kind is int):
            return self._live(t, out)
        if self._may_give(t) and is_only_returned(self.until):
            self.numbers.append(Read(out, t, mark, READS[name]))
            return out
        place = kept_by(kind is not float) if self._may_give(t) else None
        if place is not None and kind in (float, list, np.ndarray):
            shares = kind is np.ndarray  # it shows what is written to the tensor later
            copy = t if shares else ops.clone(t)  # type: ignore[attr-defined]
            self.kept.append(Read(out, copy, mark if shares else -1, READS[name], place))
            return out
        few = name == "tolist" and t._array.ndim == 1 and len(out) <= _FEW and {type(a) for a in out} <= {int, float}
        if few and self.until and self.live.read(t.dtype.category < 2):
            return [self._live(ops.select(t, 0, i), a) for i, a in enumerate(out)]  # type: ignore[attr-defined]
        return None

    def _live(self, t: Tensor, value: Any) -> Any:
        """A number that is read from a tensor in each run."""
        copy = ops.clone(t)  # type: ignore[attr-defined]
        return self.live.new(value, Leaf(t if self._may_give(t) else copy, copy, len(self.graph.nodes)))

    def _may_give(self, t: Tensor) -> bool:
        """Whether numbers that the program does not need may be read from a tensor."""
        return isinstance(self._made_here(t), Value) and self.until is not None

    def number(self, a: Any, alone: bool) -> Read | None:
        """How a part of the result was read from a tensor; `alone`: there is nothing else in the result.

        Raises `Break` if that cannot be known, or if the tensor may hold another by now.
        """
        for read in self.numbers:
            if read.value is a:
                if self.changed_since(read.mark):
                    raise Break("item reads elements for Python, which are written later")
                if a.__class__ in (int, bool) and not alone:  # these are no objects of their own
                    raise Break("item reads elements for Python")
                return read
        return None

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

    def _reads_elements(self, function: Any, args: Any, named: Any, given: Any, made: Any, mark: int) -> bool:
        """Whether a function looks at elements: those of an argument that its results are not made of, or it records something else for others."""
        name = getattr(function, "__name__", "")
        if not given or (name in _SILENT and name != "__setitem__"):
            return False
        recent = [node for node in self.graph.nodes[mark:] if node.op is not Tensor.detach]
        wanted = {v for t in made if (v := self.known(t)) is not None}
        used(self.graph.nodes[mark:], wanted)
        same = {id(t._array) for t in made}
        if any([self.known(t) not in wanted and id(t._array) not in same for t in given]):
            if needs_elements(function, args, named):
                return True
        born = any([isinstance(node.op, Born) for node in recent])
        if len(recent) < 2 or name in _SILENT or any([node.opaque for node in recent]):
            return False
        if not born and sum([t._array.size for t in given]) > _MANY:
            return False

        with Tried():
            again = Capture()
            again.functions = False
            try:
                others, more = with_others(tuple(args), other_elements), with_others(named, other_elements)
                with again:
                    function(*others, **more)
            except Exception:
                return True
        return _outline(again.graph.nodes) != _outline(recent)

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

    def _as_a_whole(
        self, function: Any, args: Any, named: Any, out: Any, wrote: Any, mark: int, numbers: int, sure: bool = True
    ) -> None:
        """Records a public function as one node, in the place of what was recorded of it; `sure`: its results have a history in each run."""
        if local.saved_hooks:  # they are not open when the program calls it
            self.stop(f"hooks for what {shown(function)} saves")
            return
        del self.graph.nodes[mark:]
        for key, (_, value) in list(self._values.items()):
            if value.number >= numbers and value not in self.graph.inputs:
                del self._values[key]
                self.graph.constants.pop(value, None)
        if not shape_is_known(function, args, named, numbers=sure):
            self.stop(f"the shape of {shown(function)}'s result depends on elements", ours=True)
            return
        inner, more = (function.function, ((), {})) if isinstance(function, Given) else (function, (args, named))
        if not is_closed(inner, *more):  # it may call users' code
            left_before(self, inner, args, named)
        if any([stands(t) for t in tensors_in((args, named, out))]):
            function, out = Inside(function, args, named), plain_in(out)
            args, named = function.parts(args, named), {}
        given, made = tensors_in((args, named)), tensors_in(out)
        firsts = [next(k for k, a in enumerate(given) if a is t) for t in given]
        wanted = [bool(t._k & GRAD and local.grad) and first == i for i, (t, first) in enumerate(zip(given, firsts))]
        if any(wanted) and (not sure or any([t._k & GRAD for t in (*made, *wrote)])):
            ends = [t for t, need in zip(given, wanted) if need]
            dual = isinstance(function, Inside) and function.forward  # gradients would have tangents
            if dual or wrote or any([_shared(t, a) for t in made for a in given]) or one_behind_another(ends):
                self.stop(f"the gradient of {shown(function)} cannot be recorded")
                return
            whole = Whole(function, wanted, sure=sure)
            whole.firsts = firsts
            kept = whole.kept(made, given)
            whole.cut(made, given, kept)
            self._append(whole, self._encoded(tuple(args)), (*made, kept), self._encoded(named), COMPUTES)
            return
        views = any([_is_part(t, a) for t in made for a in given])
        self._append(
            function, self._encoded(tuple(args)), out, self._encoded(named), True if views else COMPUTES,
            [self.value(t) for t in wrote],
        )  # fmt: skip

    def hooked(self, hook: Any, *args: Any) -> Any:
        """A hook is to be called for gradients, in programs alone: in its place they are copied."""
        if any([isinstance(self._made_here(t), Value) for t in known_to(hook, {}, self.existed)]):
            raise Break("a hook on gradients that knows tensors of the run", ours=True)
        with Unseen():
            made = tuple([None if g is None else ops.clone(g) for g in args[0]])
        self._append(Hooked(hook), self._encoded(args), made, opaque=True)
        return made

    def applied(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs a function that has a derivative of its own: in a graph for others, one node that calls it."""
        before = [(t, version_of(t)) for t in tensors_in((args, named))]
        out = done(self, function, args, named)
        if any([version_of(t) != version for t, version in before]):
            self.stop(f"{shown(function)} writes into its arguments")
            self.tied = True
        if self.problem is None:  # what it does besides, it does in each run
            self._append(function, self._encoded(args), out, self._encoded(named), opaque=True)
        return out

    def called(self, function: Any, users: Any, args: tuple[Any, ...]) -> Any:
        """Runs `function(*users, *args)`, which calls users' functions as elements say: one node, that calls them again."""
        if self.problem is not None:
            return function(*users, *args)
        users = Called(function, users, lambda t: isinstance(self._made_here(t), Value))
        given = (users.held, *args)
        if users.problem or any([isinstance(new, Tensor) for new in self.changed().values()]):
            self.stop(users.problem or f"{shown(function)} after tensors were put elsewhere")
            return users(*given)
        self.reached(users.reached.values())
        if any([stands(t) for t in tensors_in(given)]):
            mark, numbers = len(self.graph.nodes), self._numbers
            out = users(*given)
            if self.problem is None:
                self._as_a_whole(users, given, {}, out, (), mark, numbers, sure=False)
            return out
        for t in users.known if local.grad else ():  # they get gradients
            self.value(t)
        tensors = tensors_in(given)
        versions = [version_of(t) for t in tensors]
        wanted = [bool(t._k & GRAD and local.grad) for t in tensors]
        whole = Whole(users, wanted, users.known if local.grad else (), sure=False)
        out, made, kept = done(self, whole.computed, (given, {}), {})
        if versions != [version_of(t) for t in tensors]:
            self.stop(f"a function that {shown(function)} calls writes into its operands")
        whole.cut(made, tensors, kept)
        if self.problem is None:
            self._append(whole, self._encoded(given), (*made, kept), {}, True)
        return out


HOOKS = frozenset(["register_hook", "register_post_accumulate_grad_hook", "retain_grad"])
_NUMBERS = frozenset(["__float__", "__int__", "__index__", "_float", "_int", "_index", "item", "numpy", "data_ptr"])
_FEW = 16  # elements that are numbers of their own
_MANY = 1 << 20  # elements that are not computed with twice without a reason


def _outline(nodes: Any) -> list[Any]:
    """What nodes do, whatever their operands hold."""
    about = lambda a: (a.shape, a.dtype) if isinstance(a, Value) else repr(a)  # NaN is NaN
    does = lambda op: op.array.tobytes() if isinstance(op, Born) else write if op in WRITES else op
    return [(does(node.op), replaced((node.args, node.named), (Value, float), about)) for node in nodes]


# Functions that ask about tensors, not about their elements; those that say something to the engine.
_ABOUT = frozenset(
    [
        "__get__", "__set__", "size", "dim", "ndimension", "numel", "nelement",
        "stride", "storage_offset", "is_contiguous", "element_size", "get_device", "type", "is_tensor",
        "is_floating_point", "is_complex", "is_signed", "is_same_size", "is_conj", "is_neg", "is_inference",
        "is_storage", "is_set_to", "is_pinned", "result_type", "can_cast", "promote_types", "__len__",
        "__hash__", "__dir__", "dense_dim", "sparse_dim", "has_names", "is_coalesced", "is_shared",
        "__format__", "__repr__", "requires_grad_", "retain_grad", "broadcast_shapes", "typename",
    ]
)  # fmt: skip
_SILENT = frozenset(["backward", "grad", "__setitem__", "_foreach_copy_", "__iter__"])


def _takes_numbers(node: Node) -> bool:
    """Whether a node does to elements what a number says, which has no say in shapes."""
    return isinstance(node.op, Pointwise) or node.op in WRITES or (isinstance(node.op, Born) and not node.op.array.ndim)


def _drop(values: dict[int, tuple[Any, Value]], key: int, number: int) -> None:
    if key in values and values[key][1].number == number:
        del values[key]


def _shared(a: Tensor, b: Tensor) -> bool:
    return a is b or (a._storage is not None and a._storage is b._storage)


def _same_memory(t: Tensor, other: Any) -> bool:
    return isinstance(other, Tensor) and other._array is t._array and other.dtype is t.dtype


def _is_part(t: Tensor, a: Tensor) -> bool:
    """Whether a tensor may lie in the memory of another one, and is not simply that one."""
    if not isinstance(t._array, np.ndarray) or not isinstance(a._array, np.ndarray):
        return t is not a and _shared(t, a)
    return t._array is not a._array and overlap(t._array, a._array)
