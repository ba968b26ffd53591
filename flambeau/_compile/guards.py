"""What the Python side of a run did: the code that ran, what it could have read, and what cannot be part of a program."""

from __future__ import annotations

import abc
import contextvars
import enum
import functools
import inspect
import random
import re
import sys
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable
from typing import Any

from .._core.dtypes import dtype
from .._core.once import found_once
from .._core.state import unobserved
from .._kernel.native.site import Site
from .._tensor import Tensor
from .._tensor.methods import _Later
from .arguments import Arguments
from .arrays import computes, is_pure
from .breaks import Break
from .carried import Carried
from .checks import Guards
from .chosen import Choice
from .frames import functions_of
from .holders import Answer, Effect, Fields, held_by, plain, same
from .lookups import BY_NAME, OF_ALL, TRANSPARENT, Lookups
from .moment import Moment
from .names import names_of
from .numbers import Numbers, found_at, is_live, is_own
from .reach import CALLS, IMPORT, LIBRARY, OURS, TRUSTED, USERS, Reach, Unguarded, results_of, trust
from .said import CHANGING, Said, is_telling, tells

# Functions written in C that give the same result for the same arguments, or change only what they are given.
_PURE = frozenset((
    "abs", "all", "any", "ascii", "bin", "callable", "chr", "divmod", "format", "hash", "hex", "isinstance", "issubclass", "iter",
    "len", "locals", "max", "min", "next", "oct", "ord", "pow", "repr", "round", "sorted", "sum", "__build_class__", "aiter", "anext",
))  # fmt: skip
_PURE_MODULES = frozenset((
    "math", "cmath", "operator", "_operator", "itertools", "_functools", "functools", "_bisect", "_heapq", "_collections", "collections",
    "_abc", "_struct", "_typing", "typing", "_string", "unicodedata", "binascii", "_weakref", "_statistics",
))  # fmt: skip
# What not even our own layers may ask.
_WORLD = frozenset(("time", "random", "_random", "posix", "nt", "io", "_io", "_socket", "_thread"))
_PURE_OF_SYS = frozenset(
    ("exc_info", "exception", "intern", "getrecursionlimit", "getsizeof", "setprofile", "getprofile")
)
_MADE_BY = frozenset((
    "__new__", "fromkeys", "from_bytes", "fromhex", "maketrans", "__init_subclass__", "__subclasshook__", "__prepare__", "mro",
    "_make", "__subclasses__", "register", "__class_getitem__", "from_iterable",
))  # fmt: skip
# Methods of these act on their object alone; if that was there before, it is looked at again when the run is over.
_DATA: tuple[Any, ...] = (
    str, bytes, bytearray, tuple, list, dict, set, frozenset, int, float, complex, deque, OrderedDict, defaultdict, range, slice,
    type({}.keys()), type({}.values()), type({}.items()), types.GeneratorType, types.CoroutineType, property, BaseException,
    types.MappingProxyType, types.GenericAlias, types.CellType, classmethod, staticmethod, contextvars.ContextVar, contextvars.Token,
)  # fmt: skip


_FIELD = re.compile(r"\{[^{}.\[!:]*((?:\.\w+|\[[^\]]*\])+)")
_UNCLEAR = "what this call reads cannot be found out"


class Entered(typing.NamedTuple):
    """Code that ran: whose it is, and of which functions."""

    code: types.CodeType
    spaces: dict[str, Any]
    whose: int
    functions: list[Callable[[], Any]]


class Trail:
    """Watches a call of a function. What it reached, before the run and after it, becomes guards and effects.

    >>> from flambeau._compile.guards import Arguments, Trail
    >>> settings = {"scale": 2}
    >>> def scaled(x):
    ...     return x * settings["scale"]
    >>> trail = Trail(scaled, Arguments(scaled, (3,), {}))
    >>> with trail:
    ...     out = scaled(3)
    >>> guards = trail.guards()
    >>> guards.check((3,), {})
    True
    >>> settings["scale"] = 5
    >>> guards.check((3,), {}), guards.reason((3,), {})
    (False, "settings['scale'] == 2")
    """

    def __init__(self, function: Any, arguments: Arguments):
        self.problem: Break | None = None
        # told of what cannot be part of a program, where what follows it can; without, it is the `problem`
        self.breaks: Callable[[str, tuple[str, int]], None] | None = None
        self.effects: list[Effect] = []
        self._compared: list[Any] = []  # all holders when the run was over; not all that a holder knows is guarded
        self.carried: Carried | None = None  # what the run found and replaced
        self.counted: dict[tuple[int, Any], int] = {}
        self.appends: list[tuple[Any, int]] = []  # instructions that appended to a list, as (code, where)
        self.grown: list[Any] = []  # lists that are only appended to
        self.choosing = 0  # how many calls of `min` and `max` have not returned
        self.ends = False  # whether what runs is given up at a problem
        self.reach = Reach()
        self.said: Said | None = None  # what it tells somebody
        self.mark: Callable[[], int] = int  # how much is recorded by now
        self.numbers: Numbers | None = None  # those of the run that change from call to call
        # code that ran and is not trusted, with the arguments of which it takes all attributes
        self._codes: dict[int, Any] = {}
        # the same with whose it is, its globals and functions: what another trail is told, if it runs where that does not look
        self.entered: dict[int, Entered] = {}
        self._stack = [USERS]  # whose the frames are that run, innermost last
        self._inner: set[int] = set()  # code of functions that code which ran may have made
        self._outer: Any = None
        self._home: Any = None  # the code that runs the function
        self._busy = False
        self._lookups = Lookups(
            functools.partial(self._asked, self.reach.learn_one), functools.partial(self._asked, self.reach.all_of)
        )
        code = getattr(getattr(function, "forward", function), "__code__", None)
        self._place = (getattr(code, "co_filename", "?"), getattr(code, "co_firstlineno", 0))
        self.moment = Moment()
        self.arguments = arguments
        try:
            self.reach.others = arguments.others
            self.reach.give(arguments.holders, {id(value) for value in arguments.given})
            self.reach.root(function, _name(function))
            for value, path in self.arguments.objects:
                self.reach.root(value, path)
        except Unguarded as error:
            self.problem = Break(str(error), *self._place)
        except Exception as error:  # the program is not to see errors of ours
            self.problem = Break(f"{_UNCLEAR}: {type(error).__name__}: {error}", *self._place)

    # -- the run -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Trail:
        self._home = sys._getframe(1).f_code
        self.watch()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.look_away()
        if error is None and self.problem is None:
            self._compare()

    def watch(self) -> None:
        """Follows what this thread does from now on."""
        self._outer = sys.getprofile()
        self._lookups.open()
        sys.setprofile(self._event)

    def look_away(self) -> None:
        """Follows it no longer."""
        if self._outer is None or callable(self._outer):
            sys.setprofile(self._outer)
        else:
            self._outer.enable()  # a profile of cProfile's, which is no function
        self._lookups.close()

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if (self.said is not None and self.said.inside(frame, event)) or self.problem is not None:
            return
        busy, self._busy = self._busy, True
        try:
            if event == "call":
                if self.said is not None and self._stack[-1] == USERS and self._tells(frame, frame.f_code):
                    return
                self._starts(frame, frame.f_code)
            elif event == "return":
                if self.numbers is not None and self._stack[-1] > TRUSTED:
                    self.numbers.returned(arg, self._receiver(frame.f_back))
                if len(self._stack) > 1:
                    self._stack.pop()
            elif event == "c_call" and self._stack[-1] > TRUSTED and id(frame.f_code) not in _TRANSPARENT:
                name = getattr(arg, "__name__", "?")
                self.choosing += arg is min or arg is max
                if self.said is not None:
                    if name in CHANGING:
                        self.said.disturbed(frame)
                    if tells(arg, name) and self.said.begins(frame, None, self.changes, self.mark()):
                        return
                reason = self._called(frame, arg, self._stack[-1])
                if reason is not None:
                    self._break(reason, frame, ours=arg is id or _is_traced(arg))
            elif event in ("c_return", "c_exception") and self.choosing:
                self.choosing -= arg is min or arg is max
        except Unguarded as error:
            self._break(str(error), frame)
        except Exception as error:  # the program is not to see errors of ours
            self._break(f"{_UNCLEAR}: {type(error).__name__}: {error}", frame)
        finally:
            self._busy = busy
        if self.ends and self.problem is not None:
            raise self.problem

    def _tells(self, frame: Any, code: Any) -> bool:
        """Whether a function that is called does nothing but tell somebody something, and may do that when the program has run."""
        said, file = self.said, code.co_filename
        if said is None or frame.f_back is None:
            return False
        if is_telling(file):
            return said.begins(frame.f_back, frame, self.changes, self.mark())
        if trust(file) == USERS:
            said.disturbed(frame.f_back)
        return False

    def changes(self) -> list[Effect]:
        """What the run has changed so far, but for gradients."""
        holders = {id(holder): holder for holder in (*self._compared, *self.holders)}.values()
        with unobserved():
            return [e for holder in holders for e in holder.changes() if e.kind != "grad"]

    def _receiver(self, frame: Any) -> Any:
        """The frame that gets what is returned to one, which may hand it on; None if that is the end of the run."""
        while frame is not None and frame.f_code is not self._home:
            if trust(frame.f_code.co_filename) > TRUSTED:
                return frame
            frame = frame.f_back
        return None

    def _starts(self, frame: Any, code: Any) -> None:
        """A frame begins, or a generator goes on."""
        asked = self._stack[-1]
        whose = trust(code.co_filename)
        if id(code) in _TRANSPARENT:
            whose = asked
        elif asked == IMPORT or code.co_name == "<module>":
            whose = IMPORT
        elif id(code) in _HARMLESS or code.co_filename in _HARMLESS_FILES or computes(code.co_filename):
            whose = TRUSTED
        elif whose == LIBRARY:  # it does what its caller wants of it
            whose = USERS if asked == USERS or (asked == OURS and code.co_filename == random.__file__) else TRUSTED
        self._stack.append(whose)
        if id(code) in _TRANSPARENT:
            return
        if self.numbers is not None and asked > TRUSTED and (whose > TRUSTED or trust(code.co_filename) == LIBRARY):
            self.numbers.given(frame, trust(code.co_filename) == USERS)  # of the trusted, operations tell themselves
        if whose in (TRUSTED, IMPORT):
            return
        if id(code) not in self._codes:
            self._entered(frame, code, whose)
        if whose == USERS and self._codes[id(code)][1]:
            for name in self._codes[id(code)][1]:
                if name:
                    self.reach.all_of(frame.f_locals.get(name))
                else:
                    self.reach.learn_everything()

    def _asked(self, look: Any, what: Any) -> None:
        """An attribute is asked for by its name, or all of an object are."""
        if self._busy or self.problem is not None or self._stack[-1] <= TRUSTED:
            return
        self._busy = True
        try:
            look(what)
        except Unguarded as error:
            self._break(str(error), sys._getframe(2))
        except Exception as error:  # the program is not to see errors of ours
            self._break(f"{_UNCLEAR}: {type(error).__name__}: {error}", sys._getframe(2))
        finally:
            self._busy = False

    def _entered(self, frame: Any, code: Any, whose: int) -> None:
        functions = functions_of(frame) if id(code) not in self._inner and not self.reach.knows(code) else []
        self._enter(Entered(code, frame.f_globals, whose, [*map(weakref.ref, functions)]))

    def _enter(self, entered: Entered) -> None:
        code, spaces, whose, functions = entered
        self.entered[id(code)] = entered
        self._codes[id(code)] = code, names_of(code).dictionaries
        if whose == CALLS:
            self.reach.call(code, spaces)
            return
        for known in functions:
            function = known()
            if function is not None:
                self.reach.root(function, function.__qualname__)
        self._inner.update(id(c) for c in code.co_consts if isinstance(c, types.CodeType))
        self.reach.enter(code, spaces, whose)

    def expect(self, entered: Iterable[Entered]) -> None:
        """Code is going to run where the trail does not look."""
        try:
            for one in entered:
                if self.problem is None and id(one.code) not in self._codes:
                    self._enter(one)
        except Unguarded as error:
            self.problem = Break(str(error), *self._place)

    def _called(self, frame: Any, function: Any, whose: int) -> str | None:
        """Why a function written in C cannot be part of a program; None if it can."""
        name = getattr(function, "__name__", "?")
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Site):
            return None
        if self.numbers is not None:
            self.numbers.called(frame, function, name, getattr(function, "__module__", None))
        if name == "append" and type(owner) is list:
            self.appends.append((frame.f_code, frame.f_lasti))
        if owner is None or isinstance(owner, types.ModuleType):
            module = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
            if module == "builtins":
                if name in BY_NAME or name in OF_ALL:
                    if whose == USERS:  # somebody kept the function itself
                        self.reach.learn_everything()
                    return None
                if name == "id" and (
                    whose == OURS or trust(frame.f_code.co_filename) == LIBRARY
                ):  # to know objects again
                    return None
                if name == "hash" and any([_by_address(type(a)) for a in self.arguments.given]):
                    return "hash() may depend on who an argument is"
                return None if name in _PURE else f"{name}() cannot be part of a compiled program"
            if module in _PURE_MODULES or (module == "sys" and name in _PURE_OF_SYS) or name == "fspath":
                return None
            if (whose == OURS and module not in _WORLD) or is_pure(owner, module, name):
                return None
            if module is None and isinstance(getattr(function, "__objclass__", None), type):
                if issubclass(function.__objclass__, _DATA):
                    return None
                name, module = function.__name__, function.__objclass__.__qualname__
            if name == "get_ident":  # under which `repr` of dataclasses notes that it is at work
                return None
            return f"{module}.{name}() cannot be part of a compiled program"
        if isinstance(owner, str) and name in ("format", "format_map"):  # "{a.b}" asks for attributes
            self.reach.learn(part for chain in _FIELD.findall(owner) for part in re.split(r"[.\[\]]", chain))
            return None
        if name in _WHOLE:
            self.reach.all_of(owner)
            return None
        kind = owner if isinstance(owner, type) else type(owner)
        home = getattr(kind, "__module__", None)
        if isinstance(owner, type):
            if name in _MADE_BY or issubclass(owner, _DATA) or is_pure(owner, None, name):
                return None
        elif (
            is_pure(owner, None, name)
            or isinstance(owner, _DATA)
            or home in _PURE_MODULES
            or home == "re"
            or name in _OF_ALL
        ):
            return None
        if whose == OURS and home not in _WORLD:
            return None
        return f"{home}.{kind.__qualname__}.{name}() cannot be part of a compiled program"

    def _break(self, reason: str, frame: Any, ours: bool = True) -> None:
        """Notes the first problem, at the line of the program that led there."""
        file, line, inner = *self._place, frame
        while frame is not None:
            name = frame.f_code.co_filename
            if id(frame.f_code) in self._codes and trust(name) == USERS:
                file, line = name, frame.f_lineno
                if inner is not frame and trust(inner.f_code.co_filename) == LIBRARY:
                    module = inner.f_globals.get("__name__", "?")
                    reason = f"{module}.{inner.f_code.co_name}() cannot be part of a compiled program: {reason}"
                break
            inner, frame = frame, frame.f_back
        if self.breaks is not None:
            self.breaks(reason, (file, line))
        else:
            self.problem = Break(reason, file, line, ours)

    # -- afterwards --------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """What the run changed."""
        self._compared = [holder.kept() for holder in self.holders]
        for cache, before, path, problem in self.reach.caches:
            now = cache.cache_info()
            if now == before:
                continue
            if problem or now.misses > before.misses:
                reason = f"{path} keeps results of earlier calls (functools.lru_cache)"
                self.problem = Break(f"{reason}: {problem}" if problem else reason, *self._place)
                self.problem.passing = not problem  # the next call finds what this one has put there
                return
            self.reach.add(Answer(_Keeps(cache), f"{path}.cache_info()"))
        changed = self.moment.changed()
        if changed is not None:
            self.problem = Break(f"the run changes a switch ({changed})", *self._place)
            return
        for holder in self.holders:
            for effect in holder.changes():
                if effect.kind == "contents" or id(effect.holder) in self.reach.met:
                    self.problem = Break(f"the run changes {effect.path}", *self._place)
                    self.problem.late = True
                    return
                self.effects.append(effect)

    @property
    def holders(self) -> list[Any]:
        """Of all that was there before the run and that it could change."""
        return [*self.reach.holders, *self.arguments.holders]

    def may_have_made(self, function: Any) -> bool:
        """Whether the run has made a function that knows something of it."""
        made = id(getattr(function, "__code__", None)) in self._inner and not self.reach.knows_object(function)
        return made and bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__)

    def knows_object(self, value: Any) -> bool:
        """Whether an object was there before the run."""
        return self.reach.knows_object(value) or self.arguments.knows(value)

    def reached(self, objects: Iterable[Any]) -> None:
        """Functions and modules may be called unseen."""
        busy, self._busy = self._busy, True
        try:
            for value in list(objects):
                if isinstance(value, types.FunctionType):
                    self.reach.root(value, value.__qualname__)
                    self.reach.enter(value.__code__, value.__globals__, USERS)
                elif hasattr(value, "_parameters"):
                    self.reach.root(value, type(value).__name__)
                    self.reach.all_of(value)
        except Unguarded as error:
            self.problem = self.problem or Break(str(error), *self._place)
        finally:
            self._busy = busy

    def exchanging(self, module: Any) -> None:
        """Code that nobody follows is about to put other tensors into a module for a while: what is guarded are its own."""
        if self.problem is None and self.reach.knows_object(module):
            busy, self._busy = self._busy, True
            try:
                for part in module.modules():
                    self.reach.root(part, type(part).__name__)
            except Unguarded as error:
                self.problem = Break(str(error), *self._place)
            finally:
                self._busy = busy

    def _check_numbers(self) -> None:
        """Numbers that the run finds in places are any of their class, if nothing but numbers depends on them."""
        if self.numbers is None:
            return
        stored = [e.key for e in self.effects if is_live(e.new)]
        keys = {str(key) for key in (*stored, *[place[1] for place, _, _ in self.numbers.planted])}
        cells = {e.path for e in self.effects if e.kind == "cell"}
        self.numbers.check(self.reach.codes, keys | cells)
        for answered, answer in self.numbers.decisions:
            self.arguments.need_answer(answered, answer, "a number decides as it did")
        for (owner, key, kind), old, number in self.numbers.planted:
            if not self.reach.loosen(owner, key):
                self.numbers.refused.append((owner, key, kind))
                raise Break("a number may be read by a name that nobody knows")
            self.arguments.number(owner, key, kind, type(old).__name__, str(key))
            now = found_at((owner, key, kind))
            if now is not number and same(
                now, old
            ):  # the run has put there what was there: the next one finds another number
                self.effects.append(Effect(owner, key, old, now, str(key), kind))

    def check_origins(self, effects: Iterable[Effect]) -> None:
        """Raises `Break` if the run left something that was neither there before nor is a number of its own, and may be made of one."""
        if self.numbers is None or not self.numbers.all:
            return
        known = {id(value) for holder in self.holders for value in held_by(holder)}
        known |= {id(value) for code, _, _ in self.reach.codes for value in code.co_consts}
        for effect in effects:
            unsuspicious = type(effect.new) in _UNSUSPICIOUS or getattr(effect.new, "index", 0) is None  # a device
            if not unsuspicious and plain(effect.new) and id(effect.new) not in known:
                place = effect.holder, effect.key, effect.kind
                self.numbers.refused += [place] * is_live(effect.old)  # perhaps the next run leaves what it finds
                problem = Break(f"item reads elements for Python: {effect.path} may be made of them")
                problem.passing = True
                raise problem

    def changed(self) -> dict[tuple[int, Any], Any]:
        """What the run has changed so far: by object and key, what is there now."""
        with unobserved():
            return {(id(e.holder), e.key): e.new for holder in self.holders for e in holder.changes()}

    def guards(
        self, used: Callable[[Tensor], bool] = lambda t: True, use: Callable[[Tensor], Any] = bool, steps: Container[Any] = (), others: Iterable[Guards] = (),
        choice: Choice | None = None,
    ) -> Guards:  # fmt: skip
        """The guards of everything that was reached; raises `Break` if something cannot be guarded.

        Tensors that the run replaced where it found them (`self.state = …`) are `carried`: not the same in each run, only alike.
        `used(tensor)` says whether the program reads one, `use(tensor)` has it do so. `steps` are places that steps of the program change. Integers to which the run only
        adds are `counted`, with what it adds. `others` are guards of other runs, `choice` says which guards stay.
        """
        if self.problem is not None:
            raise self.problem
        lists = {id(effect.holder): effect.holder for effect in self.effects if effect.kind == "append"}
        self.grown = [
            owner
            for owner in lists.values()
            if all([e.kind == "append" for e in self.effects if e.holder is owner]) and self.reach.let_grow(owner)
        ]
        self.carried = Carried(self.reach, self.arguments, self.effects, used, use)
        self._check_numbers()
        for effect in self.effects:
            key, kind = (id(effect.holder), effect.key), effect.kind
            simple = kind == "cell" or type(effect.holder) is dict or is_own(effect.holder, effect.key)
            if (
                key not in steps
                and type(effect.old) is type(effect.new) is int
                and simple
                and self.reach.only_counts(effect)
            ):
                self.arguments.number(effect.holder, effect.key, kind, "int", effect.path)
                self.counted[key] = effect.new - effect.old
        self.reach.add(_methods(self.reach.names))
        return Guards(self.arguments, self.moment, self.reach, self.effects, others, choice)


_UNSUSPICIOUS = (int, bool, type(None), dtype)  # what is made of a float is none of these, unless it tells


class _Keeps:
    """Whether a cache still keeps all that it did."""

    def __init__(self, cache: Any):
        self.cache, self.held, self.seen = cache, results_of(cache), cache.cache_info()

    def __call__(self) -> bool:
        about = self.cache.cache_info()
        if about != self.seen or about.currsize < _FEW:  # those who clear it hardly come to the same counts again
            now = {id(one) for one in results_of(self.cache)}
            if not all([id(one) in now for one in self.held]):
                return False
            self.seen = about
        return True


_FEW = 16


def _methods(names: Iterable[str]) -> Fields:
    """The methods of tensors that code names, and operators; those that were never asked for are not made yet."""
    fields = Fields(Tensor, "Tensor")
    for name, value in fields.before.items():
        if (name in names or name.startswith("__")) and type(value) is not _Later and hasattr(type(value), "__get__"):
            fields.names[name] = None
    return fields


_WEAK = weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary
# Parts of the library that ask about what guards know anyway, or keep only what they can find out again.
_HARMLESS = {
    id(inspect.signature.__code__),
    id(functools.cached_property.__get__.__code__),
    id(found_once.__get__.__code__),
    # what weak containers do when an object dies, whenever that happens
    *[id(c) for kind in _WEAK for c in kind.__init__.__code__.co_consts if isinstance(c, types.CodeType)],
}
_HARMLESS_FILES = frozenset(module.__file__ for module in (abc, enum, re, typing))
_TRANSPARENT = {id(code) for code in (*TRANSPARENT, Trail._asked.__code__)}  # code that works for whoever calls it
_OF_ALL = frozenset(("__sizeof__", "__format__", "__init_subclass__"))
_WHOLE = frozenset(("__reduce__", "__reduce_ex__", "__dir__", "__getstate__"))  # read all attributes


def _is_traced(function: Any) -> bool:
    """Whether PyTorch can record a call of a function written in C."""
    kind = type(getattr(function, "__self__", None))
    names = getattr(function, "__module__", None), kind.__module__, type(function).__module__
    return any([str(name).partition(".")[0] in _TRACED for name in names])


_TRACED = frozenset(("numpy", "random", "_random", "_warnings", "gc"))


def _by_address(kind: Any) -> bool:
    """Whether objects of a class are hashed by who they are."""
    return kind.__hash__ is object.__hash__


def _name(function: Any) -> str:
    """What a function is called in messages."""
    if hasattr(function, "_modules"):
        return "model"
    return getattr(function, "__name__", None) or type(function).__name__
