"""Numbers of a run that are others in each run: read from tensors (`loss.item()`), or found where the run leaves others (`self.steps += 1`).

While a run is recorded they are objects that are numbers in every respect, and that know what they were computed from. What is computed from
them in Python is computed again when the program has run; where they decide about something (`if`, an operand of a tensor), they tell.
"""

from __future__ import annotations

import dis
import functools
import gc
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._errors.frames import users_frame
from .breaks import Break
from .holders import MISSING
from .names import names_of

Place = tuple[Any, Any, str]  # an object, a name or key, and how it is found: "attribute", "item" or "cell"


class Number(float):
    """A number of one run: `leaf` is what it was read from or the place where it was found; otherwise `function(*parts)`.

    A subclass goes first in arithmetic, so that none with plain numbers escapes it. (Integers are no such numbers: floats take them as they are.)
    """

    leaf: Any = None
    function: Any = None
    parts: tuple[Any, ...] = ()
    numbers: Numbers

    __hash__ = float.__hash__
    __class__: Any = property(lambda self: float)  # type: ignore[assignment]

    def leaves(self) -> Iterator[Number]:
        if self.function is None:
            yield self
        for part in self.parts:
            if type(part) is Number:
                yield from part.leaves()


def plain(a: Any) -> Any:
    """The number itself."""
    return _float(a) if type(a) is Number else a


_float = float.__float__


def _arithmetic(function: Any, turned: bool = False) -> Any:
    def compute(self: Number, *others: Any) -> Any:
        if not all([isinstance(other, (int, float)) for other in others]):
            return NotImplemented
        given = (*others, self) if turned else (self, *others)
        return self.numbers.made(function(*map(plain, given)), function, given)

    return compute


def _telling(own: Any) -> Any:
    def tell(self: Number, *args: Any) -> Any:
        self.numbers.used(self)
        return own(_float(self), *args)

    return tell


for _name in (
    "bool", "ceil", "divmod", "eq", "float", "floor", "format", "ge", "getnewargs", "gt", "int", "le", "lt", "ne", "rdivmod", "reduce",
    "reduce_ex", "repr", "round", "str", "trunc",
):  # fmt: skip
    setattr(Number, f"__{_name}__", _telling(getattr(float, f"__{_name}__")))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Number, f"__{_name}__", _arithmetic(getattr(operator, _name)))
    setattr(Number, f"__r{_name}__", _arithmetic(getattr(operator, _name), turned=True))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _arithmetic(getattr(operator, _name)))


class Leaf(NamedTuple):
    """What a number was read from: a tensor, a copy of it, and how many nodes there were then."""

    tensor: Any
    copy: Any
    mark: int


class Numbers:
    """The numbers of a run that is recorded. `stop(reason)` ends the recording."""

    def __init__(self, stop: Callable[[str], None]):
        self.stop, self.all = stop, list[Any]()
        self.handled: dict[Any, Any] = {}  # code that has numbers, with its globals
        self.readers: dict[Any, str] = {}  # code that called what may look at numbers unnoticed
        self.planted: list[tuple[Place, Any, Any]] = []  # places, what was there, and what stands there for it
        self.refused: list[Place] = []  # those whose numbers decide about something

    def new(self, value: Any, leaf: Any) -> Any:
        """A number that was read (`Leaf`) or found in a place."""
        made = self.made(value, None, ())
        made.leaf = leaf
        return made

    def made(self, value: Any, function: Any, parts: tuple[Any, ...]) -> Any:
        if value.__class__ is not float:
            self.used(*[part for part in parts if type(part) is Number])
            return value
        number = Number(value)
        number.function, number.parts, number.numbers = function, parts, self
        self.all.append(number)
        return number

    def used(self, *numbers: Number) -> None:
        """A number decides about something that a program does."""
        places = [leaf.leaf for number in numbers for leaf in number.leaves() if leaf.leaf.__class__ is not Leaf]
        self.refused += places
        self.stop("a number that changes from call to call is used" if places else "item reads elements for Python")

    def look_for(self, args: Any) -> None:
        """Tells of numbers among the arguments of an operation."""
        if self.all:
            found = list(_numbers_in(args))
            if found:
                self.used(*found)

    # -- what the run does with them ---------------------------------------------------------------------------------

    def read(self) -> bool:
        """Whether the program may read a number that tells."""
        frame = users_frame()
        if frame is None or problem_of(frame.f_code, frame.f_globals) is not None:
            return False
        self.handled[frame.f_code] = frame.f_globals
        return True

    def given(self, frame: Any, to_users: bool) -> None:
        """A function is called, perhaps with numbers."""
        found = list(_numbers_in(tuple(frame.f_locals.values()))) if self.all else ()
        if found and frame.f_code.co_filename != __file__:
            if to_users:
                self.handled[frame.f_code] = frame.f_globals
            else:
                self.used(*found)

    def returned(self, value: Any, outer: Any) -> None:
        """A function returns something to a frame."""
        if outer is not None and self.all and next(_numbers_in(value), None) is not None:
            self.handled[outer.f_code] = outer.f_globals

    def called(self, frame: Any, function: Any, name: str, module: str | None) -> None:
        """A function written in C is called."""
        owner = getattr(function, "__self__", None)
        if type(owner) is Number:
            self.used(owner)
        elif reads(module, name):
            self.readers[frame.f_code] = name

    def check(self, ran: Any, keys: set[str]) -> None:
        """Raises `Break` if code that may have numbers could have looked at them unnoticed; `keys` are names of places of numbers."""
        if not self.all:
            return
        named = [
            (code, spaces) for code, names, spaces in ran if keys & {*names.attributes, *names.globals, *names.cells}
        ]
        handled = {**self.handled, **dict(named)}
        for code, spaces in handled.items():
            reason = problem_of(code, spaces)
            if reason is None and code in self.readers:
                reason = f"{code.co_name}() calls {self.readers[code]}(), which may read it"
            if reason is not None:
                self.refused += [place for place, _, _ in self.planted]
                raise Break(f"item reads elements for Python: {reason}")

    # -- places ------------------------------------------------------------------------------------------------------

    def plant(self, places: Sequence[Place]) -> None:
        """Puts numbers that tell into places."""
        for place in places:
            old = _get(place)
            if old.__class__ is float:
                number = self.new(old, place)
                _put(place, number)
                self.planted.append((place, old, number))

    def settle(self) -> None:
        """Puts plain numbers wherever numbers of ours are."""
        if not self.all:
            return
        _replace({id(number): plain(number) for number in self.all}, self.all)


def _replace(others: dict[int, Any], objects: list[Any]) -> None:
    """Puts others wherever some objects are."""
    tuples: list[Any] = []
    for owner in gc.get_referrers(*objects):
        if owner is objects or isinstance(owner, types.FrameType) or type(owner) is Number:
            continue
        if owner.__class__ is tuple:
            tuples.append(owner)
        elif isinstance(owner, list):
            owner[:] = [others.get(id(value), value) for value in owner]
        elif isinstance(owner, types.CellType):
            owner.cell_contents = others.get(id(owner.cell_contents), owner.cell_contents)
        elif not isinstance(owner, type) and (isinstance(owner, dict) or hasattr(owner, "__dict__")):
            own = owner if isinstance(owner, dict) else vars(owner)
            own.update({key: others[id(value)] for key, value in list(own.items()) if id(value) in others})
    if tuples:
        _replace({id(one): tuple([others.get(id(value), value) for value in one]) for one in tuples}, tuples)


def _get(place: Place) -> Any:
    owner, key, kind = place
    try:
        return owner.__dict__[key] if kind == "attribute" else owner.cell_contents if kind == "cell" else owner[key]
    except (AttributeError, KeyError, IndexError, ValueError):
        return MISSING


def _put(place: Place, value: Any) -> None:
    owner, key, kind = place
    if kind == "attribute":
        owner.__dict__[key] = value
    elif kind == "cell":
        owner.cell_contents = value
    else:
        owner[key] = value


def is_own(owner: Any, key: Any) -> bool:
    """Whether an object has an attribute for itself: nothing runs when it is read or written."""
    return (
        isinstance(key, str)
        and key in getattr(owner, "__dict__", ())
        and not hasattr(type(owner), key)
        and not isinstance(owner, type)
    )


def getter(place: Place) -> Callable[[], Any]:
    """Gets what is in a place."""
    owner, key, kind = place
    if kind == "attribute":
        return lambda: owner.__dict__[key]
    return (lambda: owner.cell_contents) if kind == "cell" else lambda: owner[key]


def _numbers_in(a: Any) -> Iterator[Number]:
    if type(a) is Number:
        yield a
    elif isinstance(a, (tuple, list)):
        for b in a:
            yield from _numbers_in(b)
    elif a.__class__ is dict:
        yield from _numbers_in(tuple(a.values()))
    elif a.__class__ is slice:
        yield from _numbers_in((a.start, a.stop, a.step))


def computed(number: Any, found: Callable[[Any], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """A function that computes a number again; `found(leaf)` is one that gets what it begins with."""
    if type(number) is not Number:
        return lambda sources: number
    if number.function is None:
        return found(number.leaf)
    function, parts = number.function, [computed(part, found) for part in number.parts]
    return lambda sources: function(*[part(sources) for part in parts])


# -- what numbers cannot tell of -------------------------------------------------------------------------------------------

# Functions and classes written in C read numbers without asking them.
_READERS = frozenset(
    ("math", "cmath", "_struct", "_statistics", "itertools", "unicodedata", "binascii", "_heapq", "_bisect")
)
_READING = frozenset(("chr", "hex", "oct", "bin", "format", "pow", "divmod", "sorted"))
_HARMLESS = frozenset((
    float, int, str, bool, list, dict, tuple, set, frozenset, zip, enumerate, reversed, map, filter, range, slice, object, super, property,
    staticmethod, classmethod,
))  # fmt: skip
_HEAP = 1 << 9  # flag of classes that are made while the program runs


def reads(module: str | None, name: str) -> bool:
    """Whether a function written in C may look at a number without its noticing."""
    return module in _READERS or (module == "builtins" and name in _READING)


@functools.cache
def _formats(code: Any) -> bool:
    """Whether code has `text % number`, or what looks like it."""
    steps = dis.get_instructions(code)
    return any([s.opname.endswith("_MODULO") or (s.opname == "BINARY_OP" and s.argrepr[:1] == "%") for s in steps])


def problem_of(code: Any, spaces: dict[str, Any]) -> str | None:
    """Why code that has a number might look at it unnoticed."""
    if _formats(code):
        return f"{code.co_name}() may format it"
    names = names_of(code)
    for name, chains in names.globals.items():
        home = spaces.get("__builtins__", {})
        value = spaces.get(name, (home if isinstance(home, dict) else home.__dict__).get(name, MISSING))
        for chain in chains:
            found = value
            for part in chain:
                found = getattr(found, part, MISSING) if isinstance(found, types.ModuleType) else MISSING
            if isinstance(found, type) and not found.__flags__ & _HEAP and found not in _HARMLESS:
                if not issubclass(found, BaseException):
                    return f"{code.co_name}() names {found.__name__}, which may read it"
    return None
