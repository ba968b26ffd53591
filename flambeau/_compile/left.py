"""What a run leaves where a step may look: steps that Python takes find it there in later runs, too.

A program makes the changes of Python's objects when it is over. Those that a step could see before are nodes of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .breaks import shown
from .given import Formula, visible
from .holders import Effect, grad_of, same
from .holders import plain as is_plain
from .numbers import held_at, is_live, plain, put
from .unseen import Unseen
from .writes import leaves_of

if TYPE_CHECKING:
    from .tape import Tape


def left_before(tape: Tape, function: Any, args: Any, named: Any) -> list[tuple[Any, Any]]:
    """Has later runs leave what this one has left where a step may look: they make all other changes when the program is over. Gives places
    of numbers that are others in each run, with these.

    What the program could not leave there by itself ends it.
    """
    if tape.problem is not None:
        return []
    planted = [(place, number) for place, _, number in tape.live.planted if held_at(*place) is number]
    effects = {(id(e.holder), e.key): e for e in tape.effects() if not _is_done_by_step(tape, e)}
    places = [(e.holder, e.key, e.kind) for e in effects.values()]
    held = list[tuple[Any, Any]]()
    for place in visible([*places, *[place for place, _ in planted]], (function, args, named)):
        number = next((number for other, number in planted if other is place), None)
        effect = effects.get((id(place[0]), place[1]))
        if number is None and effect is not None:
            if not _may_be_left(effect):
                tape.stop(f"{shown(function)} may look at {effect.path}, which the run has changed")
                if tape.problem is not None:
                    tape.problem.passing = True  # if it is there from now on
                return []
            formula = Formula([effect.new], tape.tensor_of)
            tape.leave(place, formula)
            number = effect.new
        held += [(place, number)] * is_live(number)
    return held


def done(tape: Tape, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What a step gives; what it changes, it will change again."""
    numbers = left_before(tape, function, args, named)
    for place, number in numbers:
        put(place, plain(number))
    before, leaves = tape.changed(), leaves_of((*args, *named.values()))
    gradients = [grad_of(t) for t in leaves]
    with Unseen():
        out = function(*args, **named)
    after = tape.changed()
    for t, g in zip(leaves, gradients):
        if grad_of(t) is not g:
            tape.gradients.setdefault(id(t), (t, g))
    tape.by_steps.update({key: new for key, new in after.items() if key not in before or before[key] is not new})
    for place, number in numbers:
        if (id(place[0]), place[1]) not in tape.by_steps:
            put(place, number)
        else:  # what is there now is no number that tells
            tape.live.used(number)
    return out


def _is_done_by_step(tape: Tape, effect: Effect) -> bool:
    key = id(effect.holder), effect.key
    return key in tape.by_steps and (tape.by_steps[key] is effect.new or same(tape.by_steps[key], effect.new))


def _may_be_left(effect: Effect) -> bool:
    """Whether a program can make a change by itself: it puts a number or what never changes into an object that is the same in each run."""
    owner, key, kind, new = effect.holder, effect.key, effect.kind, effect.new
    if not (is_live(new) or is_plain(new)):
        return False
    if kind == "attribute":
        return key in getattr(owner, "__dict__", ()) and not isinstance(owner, type)
    return kind == "cell" or (kind == "item" and type(owner) in (dict, list))
