"""Numbers of a run that are others in each run: read from tensors (`loss.item()`), or found where the run leaves others (`self.steps += 1`).

While a run is recorded they are objects that are numbers in every respect, and that know what they were computed from. What is computed from
them in Python is computed again when the program has run; where they decide about something (`if`, an operand of a tensor), they tell.
"""

from __future__ import annotations

import dis
import functools
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.collector import referrers
from .._errors.frames import users_frame
from .._tensor import Tensor
from .breaks import Break
from .holders import MISSING
from .lookups import deciders
from .names import names_of
from .said import statements

Place = tuple[Any, Any, str]  # an object, a name or key, and how it is found: "attribute", "item" or "cell"


BRANCH = " (a branch on them can be torch.cond)"


class _Live:
    """A number of one run: `leaf` is what it was read from or the place where it was found; otherwise `function(*parts)`.

    A subclass goes first in arithmetic, so that none with plain numbers escapes it.
    """

    leaf: Any = None
    function: Any = None
    parts: tuple[Any, ...] = ()
    numbers: Numbers

    def leaves(self) -> Iterator[Any]:
        if self.function is None:
            yield self
        for part in self.parts:
            if is_live(part):
                yield from part.leaves()


class Number(_Live, float):
    """A float that knows what it was computed from."""

    __class__: Any = property(lambda self: float)  # type: ignore[assignment]

    def __new__(cls, value: Any = 0.0) -> Any:
        return float(value)  # what programs make of the type of one is a plain number


class Integer(_Live):
    """An integer that does. It is no subclass of integers: floats, truth values and enumerations on its left would compute with it unseen."""

    __class__: Any = property(lambda self: int)  # type: ignore[assignment]

    value: int

    def __new__(cls, *value: Any) -> Any:
        return int(*value)


def is_live(a: Any) -> bool:
    """Whether an object is a number that is another in each run."""
    return type(a) is Number or type(a) is Integer


def plain(a: Any) -> Any:
    """The number itself."""
    return _float(a) if type(a) is Number else a.value if type(a) is Integer else a


_float = float.__float__


def _arithmetic(function: Any, turned: bool = False) -> Any:
    def compute(self: Any, *others: Any) -> Any:
        given = (*others, self) if turned else (self, *others)
        if not all([isinstance(other, (int, float)) for other in others]):
            if not isinstance(
                others[0], Tensor
            ):  # a sequence that is repeated, an array: these do not ask; tensors tell
                self.numbers.used(self)
            return function(*map(plain, given)) if isinstance(others[0], complex) else NotImplemented
        return self.numbers.made(function(*map(plain, given)), function, given)

    return compute


def _telling(own: Any) -> Any:
    def tell(self: Any, *args: Any) -> Any:
        self.numbers.used(self)
        return own(plain(self), *args)

    return tell


def _deciding(function: Any) -> Any:
    def decide(self: Any, *others: Any) -> Any:
        if not all([isinstance(other, (int, float)) for other in others]):
            if others[0] is not None and not isinstance(others[0], (Tensor, str)):
                self.numbers.used(self)
            return NotImplemented
        answer = function(*map(plain, (self, *others)))
        self.numbers.decided(function, (self, *others), answer)
        return answer

    return decide


def _array(self: Any, dtype: Any = None, copy: Any = None) -> Any:
    self.numbers.used(self)
    return np.array(plain(self), dtype)


def _by_universal_function(self: Any, function: Any, method: str, *args: Any, **named: Any) -> Any:
    """NumPy computes with the numbers themselves: an object that it does not know would be an array of objects."""
    self.numbers.used(*_numbers_in((args, named)))
    return getattr(function, method)(*_plainly(args), **_plainly(named))


def _by_array_function(self: Any, function: Any, types: Any, args: Any, named: Any) -> Any:
    self.numbers.used(*_numbers_in((args, named)))
    return function(*_plainly(args), **_plainly(named))


def _plainly(a: Any) -> Any:
    """The same arguments with the numbers themselves."""
    if a.__class__ is tuple or a.__class__ is list:
        return a.__class__(map(_plainly, a))
    return {key: _plainly(value) for key, value in a.items()} if a.__class__ is dict else plain(a)


def _made_plain(a: Any) -> Any:
    """The same, where lists and dictionaries stay those that they are."""
    if a.__class__ is list:
        a[:] = map(_made_plain, a)
    elif a.__class__ is dict:
        a.update({key: _made_plain(value) for key, value in a.items()})
    else:
        return tuple(map(_made_plain, a)) if a.__class__ is tuple else plain(a)
    return a


_TELLING = ("float", "format", "getnewargs", "hash", "reduce", "reduce_ex", "repr", "str")
for _class, _base, _more in (
    (Number, float, ("as_integer_ratio", "conjugate", "hex", "is_integer")),
    (Integer, int, ("__index__", "as_integer_ratio", "bit_length", "conjugate", "to_bytes")),
):
    for _name in (*[f"__{name}__" for name in _TELLING], *_more):
        setattr(_class, _name, _telling(getattr(_base, _name)))
    for _name in ("real", "imag", *(("numerator", "denominator") if _base is int else ())):
        setattr(_class, _name, property(_telling(getattr(_base, _name).__get__)))
    for _name in ("eq", "ge", "gt", "le", "lt", "ne"):
        setattr(_class, f"__{_name}__", _deciding(getattr(operator, _name)))
    for _name, _function in (
        ("bool", operator.truth),
        ("int", int),
        ("floor", math.floor),
        ("ceil", math.ceil),
        ("trunc", math.trunc),
    ):
        setattr(_class, f"__{_name}__", _deciding(_function))
    deciders[_class] = lambda number, function: _deciding(function)(number)
    setattr(_class, "__array__", _array)  # noqa: B010
    setattr(_class, "__array_ufunc__", _by_universal_function)  # noqa: B010
    setattr(_class, "__array_function__", _by_array_function)  # noqa: B010
    setattr(_class, "__round__", _arithmetic(round))  # noqa: B010
    setattr(_class, "__divmod__", _telling(divmod))  # noqa: B010
    setattr(_class, "__rdivmod__", _telling(lambda a, b: divmod(b, a)))  # noqa: B010
    _bits = ("and_", "or_", "xor", "lshift", "rshift") if _base is int else ()
    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", *_bits):
        _short = _name.rstrip("_")
        setattr(_class, f"__{_short}__", _arithmetic(getattr(operator, _name)))
        setattr(_class, f"__r{_short}__", _arithmetic(getattr(operator, _name), turned=True))
    setattr(_class, "__pow__", _arithmetic(pow))  # noqa: B010
    setattr(_class, "__rpow__", _arithmetic(pow, turned=True))  # noqa: B010
    for _name in ("neg", "pos", "abs", *(("invert",) if _base is int else ())):
        setattr(_class, f"__{_name}__", _arithmetic(getattr(operator, _name)))


class Leaf(NamedTuple):
    """What a number was read from: a tensor, a copy of it, and how many nodes there were then."""

    tensor: Any
    copy: Any
    mark: int


class Numbers:
    """The numbers of a run that is recorded. `stop(reason, line, ours)` ends the recording, `expect(function, parts, answer)` says whether the answer
    may be expected of later runs, too."""

    def __init__(self, stop: Callable[[str, Any, bool], None], expect: Callable[[Any, Any, Any], bool]):
        self.stop, self.expect, self.all = stop, expect, list[Any]()
        self.said: Any = None  # what the run tells somebody, which may be made of numbers
        self.choosing: Callable[[], bool] = lambda: False  # whether `min` or `max` asks
        self.over = False  # whether the run is: what is asked from then on is of no consequence
        self.handled: dict[Any, Any] = {}  # code that has numbers, with its globals
        self.readers: dict[Any, str] = {}  # code that called what may look at numbers unnoticed
        self.planted: list[tuple[Place, Any, Any]] = []  # places, what was there, and what stands there for it
        self.refused: list[Place] = []  # those whose numbers decide about something
        self.decisions: list[tuple[Any, Any]] = []  # questions about numbers in places, and their answers
        # makes of a place a function that gets what is there from what a call was given
        self.finding: Callable[[Place], Callable[[Sequence[Any]], Any]] = lambda place: lambda given: held_at(*place)

    def new(self, value: Any, leaf: Any) -> Any:
        """A number that was read (`Leaf`) or found in a place."""
        made = self.made(value, None, ())
        made.leaf = leaf
        return made

    def made(self, value: Any, function: Any, parts: tuple[Any, ...]) -> Any:
        if value.__class__ is not float and value.__class__ is not int:
            self.used(*filter(is_live, parts))
            return value
        if value.__class__ is float:
            number: Any = float.__new__(Number, value)
        else:
            number = object.__new__(Integer)
            number.value = value
        number.function, number.parts, number.numbers = function, parts, self
        self.all.append(number)
        return number

    def decided(self, function: Any, parts: tuple[Any, ...], answer: Any) -> None:
        """A question about numbers was answered: of those in places it is asked again before each run, of those in tensors in each."""
        if any([leaf.leaf.__class__ is Leaf for part in parts if is_live(part) for leaf in part.leaves()]):

            def ask(line: Any) -> None:
                if line is not None or not self.expect(function, parts, answer):  # it may be too late to ask
                    self._refuse(list(filter(is_live, parts)), line, BRANCH)

            self._unless_told(ask)
            return
        asked = [computed(part, self.finding) for part in parts]
        decision = (lambda given: function(*[part(given) for part in asked])), answer
        self._unless_told(lambda line: self.decisions.append(decision))

    def used(self, *numbers: Any) -> None:
        """A number decides about something that a program does: of whole ones it may be expected that they are the same."""
        for number in numbers:
            if type(number) is Integer and any([leaf.leaf.__class__ is Leaf for leaf in number.leaves()]):
                self.decided(operator.pos, (number,), number.value)
            else:
                self._unless_told(functools.partial(self._refuse, [number]))

    def _refuse(self, numbers: Sequence[Any], line: Any, hint: str = "") -> None:
        places = [leaf.leaf for number in numbers for leaf in number.leaves() if leaf.leaf.__class__ is not Leaf]
        self.refused += places
        why = "a number that changes from call to call is used" if places else f"item reads elements for Python{hint}"
        self.stop(why, line, not hint or self.choosing())

    def _unless_told(self, then: Callable[[Any], None]) -> None:
        """Does something about a number that is looked at, unless that is of no consequence, as what comes of it is only said."""
        said = self.said
        if not self.over and (said is None or not (said.speaking or said.excuses(sys._getframe(2), then))):
            then(None)

    def look_for(self, args: Any) -> list[Any]:
        """Numbers among the arguments of an operation; those in slices are sizes, and decide."""
        found = list(_numbers_in(args)) if self.all else []
        if any([isinstance(one, slice) for one in _nested(args)]) if found else False:
            self.used(*found)
            return []
        return found

    # -- what the run does with them ---------------------------------------------------------------------------------

    def read(self, whole: bool) -> bool:
        """Whether the program may read a number (a `whole` one?) that tells."""
        frame = users_frame()
        if frame is None or problem_of(frame.f_code, frame.f_globals, whole, told=statements(frame.f_code)) is not None:
            return False
        self.handled[frame.f_code] = frame.f_globals
        return True

    def given(self, frame: Any, to_users: bool) -> None:
        """A function is called, perhaps with numbers."""
        found = list(_numbers_in(tuple(frame.f_locals.values()))) if self.all else ()
        code = frame.f_code
        if not found or code.co_filename == __file__:
            return
        exact = wants_integers(names_of(code)) and any([type(number) is Integer for number in found])
        if to_users and not exact and reader_in(code, frame.f_globals) is None:
            self.handled[code] = frame.f_globals
            return
        self.used(*found)  # it gets the numbers themselves, as it may ask for their class
        told = self.said is not None and (self.said.speaking or self.said.excuses(frame, lambda line: None))
        own = frame.f_locals
        for name, value in list(own.items()):
            own[name] = _plainly(value) if told else _made_plain(value)

    def returned(self, value: Any, outer: Any) -> None:
        """A function returns something to a frame."""
        if outer is not None and self.all and next(_numbers_in(value), None) is not None:
            self.handled[outer.f_code] = outer.f_globals

    def called(self, frame: Any, function: Any, name: str, module: str | None) -> None:
        """A function written in C is called."""
        owner = getattr(function, "__self__", None)
        if is_live(owner):
            self.used(owner)
        elif reads(module, name):
            self._unless_told(lambda line: self.readers.update({frame.f_code: name}))

    def check(self, ran: Any, keys: set[str]) -> None:
        """Raises `Break` if code that may have numbers could have looked at them unnoticed; `keys` are names of places of numbers."""
        told = self.said.confirmed() if self.said is not None else ()
        if not self.all:
            return
        named = [
            (code, spaces) for code, names, spaces in ran if keys & {*names.attributes, *names.globals, *names.cells}
        ]
        handled = {**self.handled, **dict(named)}
        whole = any([type(number) is Integer for number in self.all])
        for code, spaces in handled.items():
            reason = problem_of(code, spaces, whole, keys, tuple([one for one in told if one.code is code]))
            if reason is None and code in self.readers:
                reason = f"{code.co_name}() calls {self.readers[code]}(), which may read it"
            if reason is not None:
                self.refused += [place for place, _, _ in self.planted]
                raise Break(f"item reads elements for Python: {reason}")

    # -- places ------------------------------------------------------------------------------------------------------

    def plant(self, places: Sequence[Place]) -> None:
        """Puts numbers that tell into places."""
        for place in places:
            old = found_at(place)
            if old.__class__ is float or old.__class__ is int:
                number = self.new(old, place)
                put(place, number)
                self.planted.append((place, old, number))

    def settle(self) -> None:
        """Puts plain numbers wherever numbers of ours are."""
        if not self.all:
            return
        self.planted.clear()
        for number in self.all:  # they hold each other, and to look for what else does takes long
            number.parts = ()
        del number
        _replace({id(number): plain(number) for number in self.all}, self.all)


def _replace(others: dict[int, Any], objects: list[Any]) -> None:
    """Puts others wherever some objects are, besides the list in which they are given."""
    tuples: list[Any] = []
    held = _held_elsewhere(objects)
    for owner in referrers(held):
        if owner is objects or owner is held or isinstance(owner, types.FrameType) or is_live(owner):
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


def _held_elsewhere(objects: list[Any]) -> list[Any]:
    """Those to which more refers than the list: to find out what does takes long."""
    counts = [sys.getrefcount(one) for one in [*objects, object()]]
    return [one for one, count in zip(objects, counts) if count > counts[-1] + 1]


def found_at(place: Place) -> Any:
    """What is in a place; MISSING if there is none."""
    try:
        return held_at(*place)
    except (AttributeError, KeyError, IndexError, ValueError):
        return MISSING


def held_at(owner: Any, key: Any, kind: str) -> Any:
    """What is in a place."""
    return owner.__dict__[key] if kind == "attribute" else owner.cell_contents if kind == "cell" else owner[key]


def put(place: Place, value: Any) -> None:
    """Puts something into a place."""
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


def _numbers_in(a: Any) -> Iterator[Any]:
    if is_live(a):
        yield a
    elif isinstance(a, (tuple, list)):
        for b in a:
            yield from _numbers_in(b)
    elif a.__class__ is dict:
        yield from _numbers_in(tuple(a.values()))
    elif a.__class__ is slice:
        yield from _numbers_in((a.start, a.stop, a.step))


def _nested(a: Any) -> Iterator[Any]:
    yield a
    for b in a.values() if a.__class__ is dict else a if isinstance(a, (tuple, list)) else ():
        yield from _nested(b)


def computed(number: Any, found: Callable[[Any], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """A function that computes a number again; `found(leaf)` is one that gets what it begins with."""
    if not is_live(number):
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


# What takes nothing for an integer but integers themselves: globals, and attributes.
_EXACT_GLOBALS, _EXACT_ATTRIBUTES = (
    frozenset(("pow", "ldexp", "deque", "Decimal")),
    frozenset(("ldexp", "deque", "Decimal")),
)


def wants_integers(names: Any) -> bool:
    """Whether code that names these may call something that an `Integer` is not good for."""
    return not (_EXACT_GLOBALS.isdisjoint(names.globals) and _EXACT_ATTRIBUTES.isdisjoint(names.attributes))


def reads(module: str | None, name: str) -> bool:
    """Whether a function written in C may look at a number without its noticing."""
    return module in _READERS or module == "numpy" or (module == "builtins" and name in _READING)


def _others(code: Any, told: tuple[Any, ...]) -> list[Any]:
    """The instructions of code that do something, but for those of some statements."""
    steps = [s for s in dis.get_instructions(code) if s.opname not in _SAME]
    return [s for s in steps if not any([one.start <= s.offset <= one.end for one in told])]


@functools.cache
def _formats(code: Any, told: tuple[Any, ...]) -> list[str]:
    """What stands on the left of `text % number`, or of what looks like it: names, or nothing if it has none."""
    steps = _others(code, told)
    found = []
    for i, s in enumerate(steps):
        if s.opname.endswith("_MODULO") or (s.opname == "BINARY_OP" and s.argrepr[:1] == "%"):
            right = i - 1
            while steps[right].opname == "LOAD_ATTR":
                right -= 1
            constant = right == i - 1 and steps[right].opname in ("LOAD_CONST", "LOAD_SMALL_INT")
            if not (constant and isinstance(steps[right].argval, (int, float))):  # `count % 10` is none
                left = steps[right - 1] if steps[right].opname.startswith("LOAD_") else None
                found.append(str(left.argval) if left is not None and left.opname == "LOAD_ATTR" else "")
    return found


def problem_of(
    code: Any, spaces: dict[str, Any], whole: bool, keys: set[str] | frozenset[str] = frozenset(), told: tuple[Any, ...] = ()
) -> str | None:  # fmt: skip
    """Why code that has a number (a `whole` one?) might look at it unnoticed; `keys` are names of places of numbers, `told` statements that may."""
    if not keys.issuperset(_formats(code, told)):
        return f"{code.co_name}() may format it"
    if any([isinstance(constant, complex) for constant in code.co_consts]):
        return f"{code.co_name}() has complex numbers, which compute with it unseen"
    names = names_of(code)
    if whole and wants_integers(names):
        return f"{code.co_name}() may want an integer of Python's"
    reader = reader_in(code, spaces)
    return None if reader is None else f"{code.co_name}() names {reader}, which may read it"


def reader_in(code: Any, spaces: dict[str, Any]) -> str | None:
    """The class written in C that code names, and that may look at a number unnoticed, or at its class."""
    for name, chains in names_of(code).globals.items():
        home = spaces.get("__builtins__", {})
        value = spaces.get(name, (home if isinstance(home, dict) else home.__dict__).get(name, MISSING))
        for chain in chains:
            found = value
            for part in chain:
                found = getattr(found, part, MISSING) if isinstance(found, types.ModuleType) else MISSING
            if isinstance(found, type) and not found.__flags__ & _HEAP and found not in _HARMLESS:
                if not issubclass(found, BaseException):
                    return found.__name__
    return None


_SAME = (
    "CACHE",
    "EXTENDED_ARG",
    "NOP",
    "COPY",
    "SWAP",
    "DUP_TOP_TWO",
    "DUP_TOP",
    "ROT_TWO",
    "ROT_THREE",
    "PRECALL",
    "PUSH_NULL",
    "KW_NAMES",
)
