"""Programs of a function by the sizes of its arguments.

A program is made for one set of sizes. A function that is called with ever new ones would be recorded without end: a size that has changed
once, or was said to change, is no reason to record again, and calls run eagerly until those with one set have taken as long as it takes to make a program. As many programs stay as fit into a
bound, those that were used last.

A program ends with what it was made for: it is kept by one of the tensors that it knows (`keep`), and the function only knows where it is.

A program of a few small operations may take longer than these, as it has to be found. So short ones and the functions that they stand for run by
turns for a while, and the faster one stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from statistics import median
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary, ref

from .._compile.arguments import is_ordinary, is_record
from .._compile.holders import attributes_of
from .._tensor import Tensor, meta_of
from ._marks import changing, check_followed, fixed, marked

MOST_FORMS = 64
MOST_BYTES = 1 << 30  # of memory in which programs compute
_MOST_SEEN = 4096
_MOST_PARTS = 1024  # of one argument that are looked at
_DEEP = 3  # containers in containers that are looked at
_FIRST, _TIMED = 16, 8  # calls before programs are compared with functions, and those that are timed of each
_MUCH, _TINY = (
    1.25,
    1e-4,
)  # by how much a function must be faster if gradients follow, and seconds that its program takes
_SHORT = 5e-4  # seconds that a program must take for that, at most


def leaves_in(parts: Iterable[Any], alike: Container[type] = (), loose: Container[str] = ()) -> list[Any]:
    """The parts of arguments in order, also those of dataclasses and of objects of the classes `alike`, but for numbers in attributes called `loose`."""
    found: list[Any] = []
    _open(parts, alike, loose, found, ())
    return found


def _open(
    parts: Iterable[Any], alike: Container[type], loose: Container[str], found: list[Any], outer: tuple[int, ...]
) -> None:
    for a in parts:
        kind = a.__class__
        if kind is Tensor or kind in _SIMPLE:
            found.append(a)
            continue
        if isinstance(a, (tuple, list)):
            inner: Any = a
        elif kind is dict or kind is OrderedDict:
            inner = a.values()
        elif kind in alike or (hasattr(kind, "__dataclass_fields__") and is_record(a)):
            own = attributes_of(a)
            inner = (
                [b for name, b in own.items() if b.__class__ is not int or name not in loose] if loose else own.values()
            )
            inner = (*inner, *(dict.values(a) if isinstance(a, dict) else ()))
        else:
            found.append(a)
            continue
        if id(a) not in outer:  # nothing is in itself without end
            _open(inner, alike, loose, found, (*outer, id(a)))


_SIMPLE = frozenset((int, bool, float, str, type(None)))


def kinds_of(parts: Iterable[Any], depth: int = 0) -> tuple[Any, ...]:
    """What kinds of things arguments are, but not their sizes and numbers."""
    return tuple([
        (a.dtype, a._k, len(a._array.shape)) if a.__class__ is Tensor else _kind_of(a, depth) for a in parts
    ])  # fmt: skip


def _kind_of(a: Any, depth: int) -> Any:
    kind = a.__class__
    if a is None or kind is bool or kind is str:
        return a
    if isinstance(a, Tensor):
        return kind, a.dtype, a._k, len(a._array.shape)
    if depth < _DEEP and isinstance(a, (tuple, list, dict)) and len(a) <= _FIRST:
        names = [k if k.__class__ is str else k.__class__ for k in a] if isinstance(a, dict) else ()
        return kind, *names, kinds_of(a.values() if isinstance(a, dict) else a, depth + 1)
    return kind


def ordinary_in(a: Any) -> list[Any]:
    """An object and the ordinary ones in it."""
    found, waiting = {}, [a]
    while waiting and len(found) < _MOST_PARTS:
        b = waiting.pop()
        for part in leaves_in((b,)):
            if is_ordinary(type(part)) and id(part) not in found:
                found[id(part)] = part
                waiting.append(list(attributes_of(part).values()))
    return list(found.values())


def _kept_by(owner: Tensor) -> WeakKeyDictionary[Any, list[Any]]:
    """The programs that a tensor keeps, by those who know them."""
    own = meta_of(owner).__dict__
    if "programs" not in own:
        own["programs"] = WeakKeyDictionary()
    return own["programs"]


def nothing() -> None:
    """There is no entry."""


class Trial:
    """Whether a program is faster than the function that it stands for, with arguments of a form.

    That of one `entry` (a weak reference) runs the function where its guards hold, if it is not: other states of the world are others.
    """

    def __init__(self, form: tuple[Any, ...], entry: Any = None):
        self.form, self.calls, self.entry = form, 0, entry
        self.times: tuple[list[float], list[float]] = [], []  # of the program, and of the function

    def run(self, function: Any, program: Any, args: Any, named: Any) -> Any:
        self.calls += 1
        turn = self.calls > _FIRST and self.calls % 2
        start = perf_counter()
        out = (function if turn else program)(*args, **named)
        if self.calls > _FIRST:
            self.times[turn].append(perf_counter() - start)
        return out

    @property
    def is_over(self) -> bool:
        short = _SHORT if self.entry is None else _TINY
        return len(self.times[0]) >= _TIMED or (bool(self.times[0]) and min(self.times[0]) > short)

    @property
    def is_lost(self) -> bool:
        much = 1.0 if self.entry is None else _MUCH
        return len(self.times[0]) >= _TIMED and much * median(self.times[1]) < median(self.times[0])


def _differing(form: tuple[Any, ...], other: tuple[Any, ...]) -> set[tuple[int, int]]:
    """The places in which two forms differ."""
    if len(form) != len(other):
        return {(-1, -1)}
    found = set[tuple[int, int]]()
    for i, (a, b) in enumerate(zip(form, other)):
        if a.__class__ is tuple is b.__class__ and len(a) == len(b):
            found |= {(i, d) for d, (n, m) in enumerate(zip(a, b)) if n != m}
        elif a != b:
            found.add((i, -1))
    return found


def _living(known: list[ref[Any]]) -> list[Any]:
    found = [entry for one in known if (entry := one()) is not None]
    if len(found) < len(known):
        known[:] = map(ref, found)
    return found


class Forms:
    """Entries of a region; `dynamic` is what `torch.compile` was given."""

    def __init__(self, dynamic: bool | None, alike: Container[type], loose: Container[str]):
        self.dynamic, self.alike, self.loose = dynamic, alike, loose
        self.known: OrderedDict[tuple[Any, ...], list[ref[Any]]] = OrderedDict()
        self._owners: list[ref[Tensor]] = []  # what keeps them alive
        self._own: list[Any] = []  # those that know no tensor
        self._idle: list[ref[Any]] = []  # those that were added since the last time that one was of use
        self.cost = 0.0  # seconds that the last program took to make
        self.recent: Callable[[], Any] = nothing  # gives the entry that was right last
        self.trial: Trial | None = None
        self.slow: set[tuple[Any, ...]] = set()  # forms for which the function itself is faster
        # places in forms where sizes change: the number of an argument, and of a dimension (-1: all of them, or a whole number)
        self._changing: set[tuple[int, int]] = set()
        self._spent: OrderedDict[tuple[Any, ...], float] = OrderedDict()  # seconds in calls that ran eagerly
        self._made: dict[
            tuple[Any, ...], int
        ] = {}  # by how much more than a program costs these have to be, the next time

    def of(self, args: Any, named: Any) -> tuple[Any, ...]:
        """The form of arguments: the sizes of tensors and the whole numbers among them."""
        if not named and all([a.__class__ is Tensor for a in args]):
            return tuple([a._array.shape for a in args])
        return tuple([
            a._array.shape if isinstance(a, Tensor) else a if a.__class__ is int else None
            for a in leaves_in((args, named), self.alike, self.loose)
        ])  # fmt: skip

    def entries(self) -> list[Any]:
        """All of them, the newest first."""
        return [entry for entries in reversed(self.known.values()) for entry in _living(entries)]

    def fitting(self, args: Any, named: Any) -> list[Any]:
        """Entries that may be right for arguments."""
        if len(self.known) == 1:
            return _living(next(iter(self.known.values())))
        form = self.of(args, named)
        found = self.known.get(form)
        if found is None:
            return []
        self.known.move_to_end(form)
        return _living(found)

    def add(self, form: tuple[Any, ...], entry: Any, owner: Tensor | None) -> None:
        """Adds an entry that lives as long as a tensor, and drops others if there are too many."""
        self.known.setdefault(form, []).insert(0, ref(entry))
        self._idle.append(ref(entry))
        self._owners = [known for known in self._owners if known() is not None]
        if owner is None:
            self._own.append(entry)
        else:
            self._owners += [] if any([known() is owner for known in self._owners]) else [ref(owner)]
            _kept_by(owner).setdefault(self, []).append(entry)
        self.known.move_to_end(form)
        if self._spent.pop(form, None) is not None:  # if it is dropped, all begins again, and takes longer
            self._made[form] = 2 * self._made.get(form, 1)
        while len(self.known) > 1 and (len(self.known) > MOST_FORMS or self._bytes() > MOST_BYTES):
            self._drop(_living(self.known.popitem(last=False)[1]))

    def _drop(self, entries: list[Any]) -> None:
        owners = [owner for known in self._owners if (owner := known()) is not None]
        for kept in (self._own, *[_kept_by(owner)[self] for owner in owners]):
            kept[:] = [entry for entry in kept if entry not in entries]
        if self.recent() in entries:
            self.recent = nothing

    def was_right(self, entry: Any) -> None:
        """An entry was right for a call: it is asked first the next time."""
        self.recent = ref(entry)
        self._idle.clear()

    @property
    def are_lost(self) -> bool:
        """Whether the function itself turned out faster for all arguments that there were."""
        return bool(self.slow) and self.slow >= self.known.keys()

    @property
    def wasted(self) -> int:
        """How many came to their end before one was of use."""
        return sum([entry() is None for entry in self._idle])

    def prefer(self, entry: Any) -> None:
        """Puts an entry before others for the same sizes."""
        for own in self.known.values():
            if ref(entry) in own:
                own.remove(ref(entry))
                own.insert(0, ref(entry))
                return

    def compare(self, form: tuple[Any, ...], entry: Any = None) -> None:
        """Has programs for arguments of this form, or one of them, compared with the function in later calls."""
        if self.trial is None:
            self.trial = Trial(form, None if entry is None else ref(entry))

    def tried(self, function: Any, program: Any, args: Any, named: Any) -> Any:
        """Runs one or the other, if there is a trial for these arguments."""
        trial, self.trial = self.trial, None
        try:
            fits = trial is not None and self.of(args, named) == trial.form
            return trial.run(function, program, args, named) if trial is not None and fits else program(*args, **named)
        finally:
            if trial is None or not trial.is_over:
                self.trial = trial
            elif trial.is_lost and trial.entry is not None:
                if (entry := trial.entry()) is not None and entry is self.recent():
                    entry.function = function
            elif trial.is_lost:
                self.slow.add(trial.form)
                self.recent = nothing

    def _bytes(self) -> int:
        return sum([entry.program.nbytes for entry in self.entries()])

    def recompiles(self, args: Any, named: Any, automatic: bool) -> bool:
        """Whether new sizes are a reason to record again, as any other change is: those of which one is known to change are none."""
        leaves = leaves_in((args, named), self.alike, self.loose)
        self._changing.update(marked(leaves))
        if self.dynamic is False or not (automatic or self.dynamic) or not self.known:
            return True
        form = self.of(args, named)
        if form in self.known or any([isinstance(a, Tensor) and a in fixed and a not in changing for a in leaves]):
            return True
        if self.dynamic:
            return False
        differing = min([_differing(form, other) for other in self.known], key=len)
        new = differing - self._changing
        self._changing |= differing
        return bool(new)

    def check_marks(self, function: Any, args: Any, named: Any) -> None:
        """Raises if a function that changes nothing takes no other size where one was said to change."""
        if changing:
            check_followed(function, args, named, self._changing, bool(self.dynamic))

    def eagerly(self, function: Any, args: Any, named: Any, form: tuple[Any, ...]) -> Any:
        """Runs a function, and notes how long that took with arguments of a form."""
        start = perf_counter()
        try:
            return function(*args, **named)
        finally:
            self._spent[form] = self._spent.pop(form, 0.0) + perf_counter() - start
            if len(self._spent) > _MOST_SEEN:
                self._spent.popitem(last=False)

    def pays(self, form: tuple[Any, ...]) -> bool:
        """Whether calls with these sizes have taken as long as making a program, or, if there was one, as making it as often again."""
        return self._spent.get(form, 0.0) >= self.cost * self._made.get(form, 1)

    def waiting(self, args: Any, named: Any) -> tuple[Any, ...] | None:
        """The form of arguments, if calls like this one run eagerly as yet."""
        form = self.of(args, named)
        return form if form in self._spent and not self.pays(form) else None
