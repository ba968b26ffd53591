"""Where the parts of what a run gives and changes come from in later runs: the program's outputs and inputs, arguments, or what is made of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from .._compile.arrays import Elements
from .._compile.breaks import Break
from .._compile.capture import Capture
from .._compile.given import single
from .._compile.graph import replaced
from .._compile.guards import Trail
from .._compile.holders import MISSING, Effect, base_of, plain, put_attribute, put_item
from .._compile.numbers import Leaf, computed, is_live
from .._compile.numbers import plain as plain_number
from .._compile.writes import whole_of
from .._core.state import GRAD, local
from .._ops.records.rewriting import replay
from .._tensor import MADE_IN_INFERENCE, MADE_WITHOUT_GRAD, Tensor
from ._objects import again, is_made

# From outputs, inputs, other arguments, itself, outputs' elements, what is computed from these, made around them, or a view of them.
OUTPUT, INPUT, GIVEN, ITSELF, NUMBER, COMPUTED, MADE, VIEW = range(8)
Place = tuple[int, Any]
# Outputs and inputs of a run, what else it was given, objects made of them.
Sources = tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Any], dict[Any, Any]]


def found(place: Place, sources: Sources) -> Any:
    """A part of a result."""
    kind, what = place
    if kind == ITSELF:
        return what
    if kind >= COMPUTED:
        return what(sources)
    return what[1](sources[0][what[0]]) if kind == NUMBER else sources[kind][what]


def make(effects: Any, sources: Sources) -> None:
    """Makes changes."""
    for (put, _), value in zip(effects, [found(place, sources) for _, place in effects]):
        put(value, sources)


class _Also:
    """Stands for a tensor among the arguments of a view (where it begins), which is another in each run."""

    def __init__(self, place: Place):
        self.place = place


class Shown:
    """A view among the parts of a result. If another part shows the same memory, or somebody else has it, it is taken again in each run:
    writes to one are a part of the history of the other."""

    view: Any  # both are of the run that is recorded
    base: Any

    def __init__(self, view: Tensor, base: Tensor, chain: list[Any]):
        self.view, self.base, self.chain = view, base, chain
        self.recorded = view._view[5] not in (MADE_WITHOUT_GRAD, MADE_IN_INFERENCE)
        self.place: Place | None = None  # of the base
        self.moves = False  # whether tensors say which part it shows
        self.own = -1  # its number among the outputs, if it is an output of its own

    def __call__(self, sources: Sources) -> Tensor:
        if self.place is None:
            return sources[OUTPUT][self.own]
        if self in sources[-1]:
            return sources[-1][self]
        before, local.grad = local.grad, self.recorded
        try:
            chain = self.chain
            if self.moves:
                chain = replaced(chain, _Also, lambda also: found(also.place, sources))
            base, made = found(self.place, sources), sources[-1]
            if not self.moves and chain[0][2] is not None:  # one of several, which are taken together
                op, static, number = chain[0]
                key = op, id(base), repr(static)
                if key not in made:
                    made[key] = op(base, *static)
                base, chain = made[key][number], chain[1:]
            made[self] = replay(chain, base)
            return made[self]
        finally:
            local.grad = before


class Places:
    """The places of a recorded run's parts; `outputs` are the tensors that its program has to give for them."""

    def __init__(self, tape: Capture, trail: Trail, inside: list[Tensor]):
        self.tape, self.trail, self.inside = tape, trail, inside
        self.outputs: list[Tensor] = []
        self.asks_containers = False  # whether those that the run found and replaced are needed
        self._shown: list[Shown] = []
        self._made: dict[int, Place | None] = {}  # by ids of objects; None while the parts of one are looked for

    def read(self, a: Any, alone: bool) -> Place | None:
        """Where something comes from that the run read from a tensor."""
        read = self.tape.number(a, alone)
        if read is None:
            return None
        self.outputs.append(read.tensor)
        return NUMBER, (len(self.outputs) - 1, read.how)

    def kept(self, changed: list[Effect]) -> dict[int, Place]:
        """Where comes from what the run read from tensors and appended to lists that it does not read, by ids."""
        tape, trail = self.tape, self.trail
        made: dict[int, Place] = {}
        places = [read.place for read in tape.kept]
        lists = {id(owner) for owner in trail.grown}
        for effect in changed:
            if effect.kind == "append" and is_live(effect.new) and id(effect.holder) not in lists:
                raise Break(f"item reads elements for Python, and {effect.path} may be read")
        for read in tape.kept:
            appended = [effect for effect in changed if effect.new is read.value and id(effect.holder) in lists]
            if len(appended) != 1 or trail.appends.count(read.place) != places.count(read.place):
                raise Break("item reads elements for Python")
            if read.mark >= 0 and tape.changed_since(read.mark):
                raise Break("numpy reads elements for Python, which are written later")
            self.outputs.append(read.tensor)
            made[id(read.value)] = NUMBER, (len(self.outputs) - 1, read.how)
        return made

    def counted(self, effect: Effect) -> Place | None:
        """What an integer is to which the run adds something."""
        more = self.trail.counted.get((id(effect.holder), effect.key))
        get = self.trail.arguments.finding((effect.holder, effect.key, effect.kind))
        return None if more is None else (COMPUTED, lambda sources: get(sources[GIVEN]) + more)

    def of(self, a: Any, made: dict[int, Place | None] | None = None) -> Place:
        """Where an object comes from: one that the run has made is made again. `made` are those that others are made of, by their ids."""
        if not is_made(a) or self.trail.knows_object(a):
            return self.itself(a)
        made = self._made if made is None else made
        if id(a) not in made:
            made[id(a)] = None
            made[id(a)] = MADE, again(a, lambda b: self.of(b, made), found)
        place = made[id(a)]
        if place is None:
            raise Break(f"the run returns an object of class {type(a).__name__} that holds itself")
        return place

    def itself(self, a: Any) -> Place:
        """Where something comes from that is not made again."""
        trail = self.trail
        if is_live(a):
            return COMPUTED, computed(a, self._read_again)
        number = trail.arguments.number_of(a)
        if number is not None:
            return GIVEN, number
        for i, (container, _) in enumerate(trail.carried.containers if trail.carried is not None else ()):
            if container is a:
                self.asks_containers = True
                return GIVEN, len(trail.arguments.given) + i
        if isinstance(a, Tensor):
            return self._tensor(a)
        if a.__class__ is str and any([f"{id(b):x}" in a for b in trail.arguments.given]):
            raise Break("the run returns or keeps a text that says where an argument lies")
        known = isinstance(a, (type, FunctionType, BuiltinFunctionType)) or trail.reach.knows_object(a)
        if (not plain(a) and not known) or trail.may_have_made(a):
            raise Break(f"the run returns or keeps an object of class {type(a).__name__}")
        return ITSELF, a

    def _read_again(self, leaf: Any) -> Callable[[Any], Any]:
        """Reads a number from the tensor that holds it."""
        given, kind = self.tape.tensor_of(leaf), OUTPUT if isinstance(leaf, Leaf) else INPUT
        held = self.outputs if kind == OUTPUT else self.inside
        if kind == OUTPUT and not any([t is given for t in held]):
            held.append(given)
        number = next(i for i, t in enumerate(held) if t is given)
        return lambda sources: sources[kind][number].item()

    def _tensor(self, a: Tensor) -> Place:
        trail, tape = self.trail, self.tape
        for given in (self.inside, [t for t, _ in trail.arguments.inputs]):
            for i, t in enumerate(given):
                if a is t:
                    return INPUT, i
        value, was_there = tape.known(a), id(a._array) in trail.reach.tensors
        if a._autograd_meta is not None and a._autograd_meta.grad is not None and not was_there:
            raise Break("a result that was given a gradient")
        if value is None or value in tape.graph.constants:
            if was_there:
                return ITSELF, a
            raise Break("a result that was made in a way that cannot be recorded")
        array = tape.borrowed.get(whole_of(value))
        if array is not None and any([np.may_share_memory(array, other) for other in self._arrays(array)]):
            raise Break("a result over the memory of an array that others have, too")
        if a.__dict__:
            raise Break(f"a result with attributes of its own ({', '.join(a.__dict__)})")
        if type(a) is not Tensor or (a._k & GRAD and a._edge is None):
            raise Break(f"a result that is a {type(a).__name__ if type(a) is not Tensor else 'leaf'} of its own")
        shown = next((one for one in self._shown if one.view is a), None) or self._as_view(a)
        if shown is not None:
            return VIEW, shown
        return OUTPUT, self._output(a)

    def _arrays(self, array: Any) -> list[Any]:
        """The arrays that were there before the run, and those that the run made other tensors of."""
        found = [holder.owner for holder in self.trail.reach.holders if isinstance(holder, Elements)]
        return found + [other for other in self.tape.borrowed.values() if other is not array]

    def _output(self, a: Tensor) -> int:
        for i, t in enumerate(self.outputs):
            if a is t:
                return i
        self.outputs.append(a)
        return len(self.outputs) - 1

    def _is_given(self, a: Tensor) -> bool:
        return any([a is t for t in (*self.inside, *[t for t, _ in self.trail.arguments.inputs])])

    def _as_view(self, a: Tensor) -> Shown | None:
        """A tensor as a view of what the run was given or has made; None if it is none, or has another history than that."""
        chain, base = list[Any](), a
        while base._view is not None and not self._is_given(base):
            value = self.tape.known(base)
            if value is not None and value.node is not None and value.node.opaque:
                break  # what it shows, Python says in each run
            parent, op, static, number, *_ = base._view
            chain.append((op, static, number))
            base = parent
        if base is a or self.tape.known(base) is None:
            return None
        shown = Shown(a, base, chain[::-1])
        if (a._k ^ base._k) & GRAD and (shown.recorded or a._k & GRAD):
            return None
        self._shown.append(shown)
        return shown

    def settle(self) -> None:
        """Decides which views are taken again: those of which another part of the result knows the memory, or somebody outside does."""
        bases = [id(one.base) for one in self._shown]
        for one in self._shown:
            alone = bases.count(id(one.base)) == 1 and not any([one.base is t for t in self.outputs])
            alone = alone and not (one.view._k ^ one.base._k) & GRAD
            if alone and not self._is_given(one.base) and id(one.base._array) not in self.trail.reach.tensors:
                one.own = self._output(one.view)
            else:
                one.place = self._tensor(one.base)
                fixed, one.chain = one.chain, replaced(one.chain, Tensor, lambda t: _Also(self._tensor(t)))
                one.moves = one.chain != fixed
        for one in self._shown:  # the tensors of this run are not kept
            one.view = one.base = None

    @staticmethod
    def settled(place: Place) -> Place:
        """A place, now that it is known which views are outputs."""
        kind, what = place
        return (OUTPUT, what.own) if kind == VIEW and what.place is None else place


def as_tensor(get: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    """Gets a number as a tensor."""
    return lambda given: single(get(given))


def first(a: Any, place: Place) -> Place:
    """Where a part of a result comes from in the run that was recorded."""
    return (ITSELF, plain_number(a)) if place[0] == COMPUTED else place


def change(effect: Effect, trail: Trail, made: bool = False) -> Callable[[Any, Sources], None]:
    """Makes a change again that a run made to an object of the program, with another value; `made`: it is there already."""
    key, number = effect.key, trail.arguments.number_of(effect.holder)
    if number is None and trail.arguments.knows(effect.holder):
        raise Break(f"the run changes {effect.path} by names that nobody knows")
    holder = effect.holder if number is None else None  # one of this call is not kept
    owner: Callable[[Sources], Any] = lambda sources: holder if number is None else sources[GIVEN][number]
    if effect.new is MISSING:
        if number is None:
            raise Break(f"the run deletes {effect.path}")
        if made:
            return lambda value, sources: None
        if effect.kind == "attribute":
            return lambda value, sources: object.__delattr__(owner(sources), key)
        rest = slice(key, None) if isinstance(effect.holder, list) else key
        return lambda value, sources: base_of(owner(sources)).__delitem__(owner(sources), rest)
    if effect.kind == "attribute":
        put = setattr if number is None else put_attribute
        return lambda value, sources: put(owner(sources), key, value)
    if effect.kind == "item" or (made and effect.kind == "append"):
        place = (lambda a, key, value: a.__setitem__(key, value)) if number is None else put_item
        return lambda value, sources: place(owner(sources), key, value)
    if effect.kind == "append":
        return lambda value, sources: owner(sources).append(value)
    if effect.kind == "cell":
        return lambda value, sources: setattr(holder, "cell_contents", value)
    raise Break(f"the run changes {effect.path}")
