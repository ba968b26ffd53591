"""Records what a block does with tensors as a `Graph`, while it runs for real.

Two places tell of everything. The dispatcher tells of records, writes and gradients of leaves (`add`, `add_write`,
`accumulate`); public functions ask the capture as they ask any function mode. A public function that is made of records
over known values is those records. One that makes tensors elsewhere, or writes unseen, is one opaque node: when the program
runs, Python calls it. What reads elements on behalf of Python (`item`, `if x > 0:`) cannot be recorded: `Break`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._core.dtypes import INTEGER, int64
from .._core.state import GRAD, local, unobserved
from .._ops.records.pointwise_op import Pointwise
from .._ops.registry import ops, position_arguments
from .._tensor import Tensor, detached, version_of
from .arguments import overlap
from .births import Born
from .breaks import Break, shown
from .given import Given, single
from .graph import COMPUTES, Node, Value, replaced, used
from .left import done, left_before
from .numbers import BRANCH, Integer, Leaf, _Live, plain
from .returned import READS, Read, is_asserted, is_only_returned, kept_by
from .standing import Inside, plain_in, stands, with_others
from .tape import Tape
from .unseen import Tried, Unseen, is_certain, is_closed, needs_elements, other_elements, shape_holds, shape_is_known
from .whole import Called, Hooked, Whole, known_to, one_behind_another, tensors_in
from .writes import WRITES, write


class Capture(Tape):
    """A block that is recorded; `external(tensor)` says whether a tensor that nobody made in it may be one of its constants.

    >>> import flambeau as torch
    >>> from flambeau._compile.capture import Capture
    >>> x = torch.tensor([1.0, 2.0])
    >>> with Capture([x]) as tape:
    ...     y = (x * 3).exp()
    >>> [node.name for node in tape.finish([y]).nodes]
    ['mul', 'exp']
    """

    by_functions = True  # operators of `torch.ops.aten` come as the functions that they are

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
            self.stop(f"{name} of an argument")
            return function(self.outside(args[0]), *args[1:], **named)
        if name == "detach_" and self.outside(args[0]) is not args[0]:
            function(self.outside(args[0]))  # which may be a view, that is not to be detached
            args[0]._view = None
        if self.problem is not None:
            return function(*args, **named)
        if name == "__set__":
            if function.__self__ is Tensor.grad:
                if self.outside(args[0]) is not args[0]:
                    function(self.outside(args[0]), args[1])
                return self.step(function, args, named)
            given_back = function.__self__ is Tensor.data and _same_memory(*args)  # what `p.data -= …` ends with
            if not given_back and function.__self__ is not Tensor.requires_grad:  # which guards look at
                self.stop("an attribute of a tensor is set")
        if self.live.all and name in position_arguments:
            args, named = self._with_positions(*position_arguments[name], args, named)
        numbers_given = self.live.look_for((args, named))
        asked, own = function if not numbers_given else Given(function, args, named, self.tensor_of), (args, named)
        args, named = replaced((args, named), _Live, plain) if numbers_given else (args, named)
        given = plain_in((args, named))
        before = [(t, version_of(t)) for t in given]
        arrays = [t._array for t in given]
        mark, numbers = len(self.graph.nodes), self._numbers
        outer, self._strange, self._written = self._strange, False, []
        before_that, self._given_some = self._given_some, bool(given)
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
            self._given_some = before_that
        if self.problem is not None:
            return out
        other = any([t._array is not array for t, array in zip(given, arrays)])
        if other:  # a tensor was turned, or got other memory
            if not all([t._array is array or self._is_made_as(array) for t, array in zip(given, arrays)]):
                self.stop(f"{shown(function)} changes a tensor that was there before")
                return out
            before = [pair for pair, array in zip(before, arrays) if pair[0]._array is array]
        if isinstance(asked, Given):
            recent = self.graph.nodes[mark:]
            if not (all(map(_takes_numbers, recent)) if recent else shape_holds(function, (args, named), own)):
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
                self.stop(f"{name} of a tensor that was there before")
                return out
            read = (
                self._read(name, given[0], out)
                if name in READS and len(args) == 1 and not any(named.values())
                else None
            )
            if read is not None:
                return read
            hint = BRANCH if name == "__bool__" else ""
            ours = name not in ("__bool__", "tolist") or self.choosing() or is_asserted()
            stop = lambda line: self.stop(f"{shown(function)} reads elements for Python{hint}", line, ours)
            if self.live.said is None or not self.live.said.excuses(sys._getframe(2), stop):
                stop(None)
            return out
        unseen = any([version_of(t) - v != sum([_shared(t, w) for w in self._written]) for t, v in before])
        unknown = [t for t in made if self.known(t) is None and not (self.external is not None and self.external(t))]
        strange = strange or bool(unknown) or self._filled_late(mark)
        asks = lambda: not other and self._reads_elements(function, args, named, given, made, mark)
        if name not in _ABOUT and (strange or unseen or asks()):
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

    def _reads_elements(self, function: Any, args: Any, named: Any, given: Any, made: Any, mark: int) -> bool:
        """Whether a function looks at elements: those of an argument that its results are not made of, or it records something else for others."""
        name = getattr(function, "__name__", "")
        given = [t for t in given if self.known(t) not in self.decisive]
        if not given or (name in _SILENT and name != "__setitem__"):
            return False
        other = lambda t: t if self.known(t) in self.decisive else other_elements(t)
        recent = [node for node in self.graph.nodes[mark:] if node.op is not Tensor.detach]
        wanted = {v for t in made if (v := self.known(t)) is not None}
        used(self.graph.nodes[mark:], wanted)
        same = {id(t._array) for t in made}
        if any([self.known(t) not in wanted and id(t._array) not in same for t in given]):
            if needs_elements(function, args, named, lambda t: self.known(t) in self.decisive):
                return True
        born = any([isinstance(node.op, Born) for node in recent])
        if len(recent) < 2 or name in _SILENT or any([node.opaque for node in recent]):
            return False
        if not born and sum([t._array.size for t in given]) > _MANY:
            return False

        with Tried():
            again = Capture()
            again.functions, again.decides = False, lambda t: None  # type: ignore[method-assign]
            try:
                others, more = with_others(tuple(args), other), with_others(named, other)
                with again:
                    function(*others, **more)
            except Exception:
                return True
        return _outline(again.graph.nodes) != _outline(recent)

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
            self.stop(f"the shape of {shown(function)}'s result depends on elements")
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
            raise Break("a hook on gradients that knows tensors of the run")
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
        "stride", "storage_offset", "is_contiguous", "element_size", "get_device", "type_", "is_tensor",
        "is_floating_point", "is_complex", "is_signed", "is_same_size", "is_conj", "is_neg", "is_inference", "is_distributed",
        "is_storage", "is_set_to", "is_pinned", "result_type", "can_cast", "promote_types", "__len__",
        "__hash__", "__dir__", "dense_dim", "sparse_dim", "has_names", "is_coalesced", "is_shared",
        "__format__", "__repr__", "requires_grad_", "retain_grad", "broadcast_shapes", "typename",
    ]
)  # fmt: skip
_SILENT = frozenset(["backward", "grad", "__setitem__", "_foreach_copy_", "__iter__"])


def _takes_numbers(node: Node) -> bool:
    """Whether a node does to elements what a number says, which has no say in shapes."""
    return isinstance(node.op, Pointwise) or node.op in WRITES or (isinstance(node.op, Born) and not node.op.array.ndim)


def _shared(a: Tensor, b: Tensor) -> bool:
    return a is b or (a._storage is not None and a._storage is b._storage)


def _same_memory(t: Tensor, other: Any) -> bool:
    return isinstance(other, Tensor) and other._array is t._array and other.dtype is t.dtype


def _is_part(t: Tensor, a: Tensor) -> bool:
    """Whether a tensor may lie in the memory of another one, and is not simply that one."""
    if not isinstance(t._array, np.ndarray) or not isinstance(a._array, np.ndarray):
        return t is not a and _shared(t, a)
    return t._array is not a._array and overlap(t._array, a._array)
