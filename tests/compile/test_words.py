"""Guards as words in memory: whatever happens to an object, words say no less than its holder."""

import random

import pytest

from flambeau._compile import words
from flambeau._compile.holders import Cell, Code, Fields, Items, Namespace, Sequence, Slots
from flambeau._compile.words import Scan


class Thing:
    def __init__(self, count):
        for i in range(count):
            setattr(self, f"a{i}", object())


class Slotted:
    __slots__ = ("x", "y")


def fields(owner, rng):
    holder = Fields(owner, "owner")
    names = [name for name in holder.before if name.startswith("a")]
    holder.names.update(dict.fromkeys(rng.sample(names, min(2, len(names)))))
    return holder


def an_instance(rng):
    thing = Thing(rng.choice([1, 3, 8, 40]))
    if rng.random() < 0.3:
        thing.more = 1
    if rng.random() < 0.2:
        del thing.a0

    def change():
        name, kind = f"a{rng.randrange(4)}", rng.randrange(8)
        if kind < 2:
            setattr(thing, name, object())
        elif kind == 2:
            thing.new = 1
        elif kind == 3 and name in thing.__dict__:
            delattr(thing, name)
        elif kind == 4:
            thing.__dict__ = dict(thing.__dict__)
        elif kind == 5:
            thing.__dict__[name] = object()
        elif kind == 6:
            setattr(thing, name, holder.before.get(name))
        else:
            Thing(5).another = 1

    holder = fields(thing, rng)
    return holder, change


def a_class(rng):
    kind = type("Kind", (), {f"a{i}": object() for i in range(rng.choice([1, 5, 12]))})

    def change():
        name = f"a{rng.randrange(4)}"
        if rng.random() < 0.6:
            setattr(kind, rng.choice([name, "new"]), object())
        elif name in kind.__dict__:
            delattr(kind, name)

    return fields(kind, rng), change


def a_dictionary(rng, globals=False):
    own = {(f"a{i}" if globals or rng.random() < 0.8 else i): object() for i in range(rng.choice([1, 4, 9, 30, 300]))}
    first = list(own)[:3]

    def change():
        kind = rng.randrange(8)
        if kind < 2 and own:
            own[rng.choice(list(own))] = object()
        elif kind == 2:
            own[rng.choice(["new", "absent"])] = 1
        elif kind == 3 and own:
            own.pop(rng.choice(list(own)))
        elif kind == 4 and own:
            own.popitem()
        elif kind == 5:
            own.update({f"u{i}": i for i in range(rng.choice([1, 50]))})
        elif kind == 6:
            own[first[0]] = before[first[0]]
        elif rng.random() < 0.2:
            own.clear()

    before = dict(own)
    if not globals:
        return Items(own, "own"), change
    holder = Namespace(own, "")
    for name in (*first, "absent"):
        holder.add(name)
    return holder, change


def some_globals(rng):
    return a_dictionary(rng, globals=True)


def a_list(rng):
    own = [object() for _ in range(rng.choice([0, 1, 5, 30]))]

    def change():
        kind = rng.randrange(4)
        if kind == 0:
            own.append(1)
        elif own:
            if kind == 1:
                own[rng.randrange(len(own))] = object()
            elif kind == 2:
                own.pop()
            else:
                own.reverse()

    return Sequence(own, "own"), change


def a_function(rng):
    def function(a=1, *, b=2):
        return change, a, b

    def change():
        nonlocal cell
        kind = rng.randrange(4)
        if kind == 0:
            function.__defaults__ = (rng.choice([1, 2]),)
        elif kind == 1:
            function.__kwdefaults__["b"] = rng.choice([2, 3])
        elif kind == 2:
            function.__code__ = rng.choice([function.__code__, function.__code__.replace(co_name="other")])
        else:
            cell = object()

    cell = object()
    return Code(function, "function"), change


def a_cell(rng):
    held = 1

    def inner():
        return held

    def change():
        nonlocal held
        held = rng.choice([1, 2])

    return Cell(inner.__closure__[0], "held"), change


def slots(rng):
    thing = Slotted()
    thing.x = 1

    def change():
        kind = rng.randrange(3)
        if kind == 0:
            thing.x = rng.choice([1, 2])
        elif kind == 1:
            thing.y = 1
        elif hasattr(thing, "y"):
            del thing.y

    return Slots(thing, {name: getattr(Slotted, name) for name in Slotted.__slots__}, "thing"), change


@pytest.mark.skipif(not words.known(), reason="an interpreter whose objects are not known")
@pytest.mark.parametrize("versioned", [words._VERSIONED, False])
@pytest.mark.parametrize("make", [an_instance, a_class, a_dictionary, some_globals, a_list, a_function, a_cell, slots])
def test_words_say_what_holders_say(make, versioned, monkeypatch):
    monkeypatch.setattr(words, "_VERSIONED", versioned)
    rng = random.Random(make.__name__)
    for _ in range(150):
        holder, change = make(rng)
        holder.close()
        scan = Scan([holder])
        assert scan.hold() and not scan.slow
        for _ in range(rng.choice([1, 2, 4, 9])):
            change()
            try:
                holds = holder.holds()
            except (AttributeError, KeyError):
                holds = False
            assert scan.hold() is holds


def test_what_another_thread_takes_away_meanwhile_does_not_hold():
    class Owner:
        pass

    class Racing(Fields):
        """Loses an attribute between two looks at it."""

        __slots__ = ("looks",)

        def now(self):
            self.looks += 1
            if self.looks == 2:
                del self.owner.width
            return super().now()

    owner = Owner()
    owner.width = 3
    holder = Racing(owner, "owner")
    holder.looks, holder.names = 0, {"width": None}
    holder.close()
    assert not Scan([holder]).hold() and holder.looks > 1
