"""What is switched on: one number that the hot path looks at, and the thread's own modes behind it."""

from __future__ import annotations

import _imp
import importlib
import os
import sys
import threading
import time
import types
from typing import Any

# Properties of a tensor, in its `_k`. A tensor of plain CPU memory without history has none.
GRAD, CUDA, META, OVERRIDE, BATCHED, SPARSE, QUANTIZED, CONJ, NEG, DUAL = (1 << i for i in range(10))
DISPATCH = 1 << 16  # of a tensor whose class has `__torch_dispatch__`, and of the moment while a mode has
SPECIAL = ~(GRAD | CUDA)  # all but what leaves a view of memory what it is
POSTPONED = CONJ | NEG  # reading the tensor conjugates or negates what lies in its memory
# Properties of the moment, in `modes.on`: set while any thread has them.
CAPTURE, AUTOCAST, FUNCTION_MODE, SAVED_HOOKS, ANOMALY, PROFILE = (1 << i for i in range(10, 16))

# What is entered and left.
_MOMENTS = (CAPTURE, AUTOCAST, FUNCTION_MODE, SAVED_HOOKS, ANOMALY, PROFILE, BATCHED, DISPATCH)
_ASKED = FUNCTION_MODE | AUTOCAST | PROFILE | BATCHED | DISPATCH  # what public functions ask before they run


class Modes:
    """`on` is the union over threads; zero means that an op may go straight to its kernel.

    `overrides` is not zero while a class or a mode may take over operations (`__torch_function__`, autocast).
    `inferring` holds what new tensors of threads in inference mode or inside a transform that differentiates are marked
    with, by thread; None if there is no such thread.

    Garbage collection may end a block of the program in the midst of any call here (a generator that nobody finishes, a
    proxy): so a thread that holds the lock may take it again, and nothing is called between a count and what follows of it.
    """

    __slots__ = (
        "counts",
        "default",
        "inferred",
        "inferring",
        "lock",
        "on",
        "overrides",
        "watched",
        "watching",
        "when_watched",
    )

    def __init__(self) -> None:
        self.on = self.overrides = 0
        self.inferring: dict[int, Any] | None = None
        self.inferred = False  # whether there ever was one: inference tensors may be about
        self.default: Any = None  # the default dtype: plans on a GPU are good for one of them
        self.counts = dict.fromkeys(_MOMENTS, 0)
        self.lock = threading.RLock()
        self.watching: Any = None  # who looks at what one call of one thread does with which memory
        self.when_watched: Any = None  # called with True when the first function mode begins, False when the last ends
        self.watched: bool | None = False  # what it was last called with; None while it runs

    def enter(self, bit: int) -> None:
        with self.lock:
            self.counts[bit] += 1
            self._set(self.on | bit & ~BATCHED)  # records see by their tensors whether these are batched
            self.overrides |= bit & _ASKED
            if bit == FUNCTION_MODE:
                self._watch()

    def seen(self) -> int:
        """The bits of those who look at single operations and want the usual ones; who records programs takes any record."""
        return self.on & ~(CAPTURE | FUNCTION_MODE) if self.on & CAPTURE else self.on

    def leave(self, bit: int) -> None:
        with self.lock:
            self.counts[bit] -= 1
            if not self.counts[bit]:
                self._set(self.on & ~bit)
                self.overrides &= ~(bit & _ASKED)
            if bit == FUNCTION_MODE:
                self._watch()

    def _set(self, on: int) -> None:
        self.on = AUTOCAST if on == AUTOCAST else on  # one object, which machine code knows

    def _watch(self) -> None:
        while self.watched is not None and self.watched != (self.counts[FUNCTION_MODE] > 0):
            wanted, self.watched = not self.watched, None
            try:
                self.when_watched(wanted)
            finally:
                self.watched = wanted

    def mark(self, mark: Any) -> Any:
        """From now on new tensors of this thread get a mark, or none (None); the one before."""
        thread = threading.get_ident()
        with self.lock:
            if mark is not None and mark.inference:
                self.inferred = True
            before = None if self.inferring is None else self.inferring.get(thread)
            marks = {**(self.inferring or {}), thread: mark}
            self.inferring = {thread: m for thread, m in marks.items() if m is not None} or None
        return before


class Local(threading.local):
    """Modes of one thread."""

    grad = True  # whether operations are recorded
    inference = False
    captures: Any = ()  # open recordings, innermost last
    autocast: Any = None
    casting = 0  # the number of what autocast does in this thread: plans are good for one of them
    function_modes: Any = ()  # innermost last
    dispatch_modes: Any = ()  # the same of modes below autograd
    fake: Any = None  # the FakeTensorMode that is on
    dispatch_off = False  # whether neither those nor classes with `__torch_dispatch__` are asked
    overrides_off = False  # whether classes may not take over operations
    scripting = 0  # how many calls of what `jit.script` gave are running
    saved_hooks: Any = ()
    anomaly: Any = None  # None, or whether NaN is looked for
    profiler: Any = None
    walk: Any = None  # the backward pass that runs (see `engine.Walk`)
    duals: Any = None  # weak references to the tensors that have a tangent; None without an open level
    forward_grad = True  # whether operations compute tangents
    forward_reading = False  # whether a backward pass runs for the sake of its derivative, which is the forward one
    transforms: Any = ()  # open transforms that differentiate (`func.grad` and the like): (level, kind), innermost last
    batches: Any = ()  # open `vmap`s as (level, batch size, randomness), innermost last
    # levels of those at which only tangents are batched, never what they belong to
    directions: frozenset[int] = frozenset()
    # (array, whether it is row-major and no operand lies there): memory given as `out=` that a result may be made in
    destination: Any = None
    grad_layout = True  # whether the first gradient of a leaf is laid out as the leaf is
    view_replay = False  # what `_force_original_view_tracking` was told: only the names of renewed views differ
    before_write: Any = None  # called with a tensor that is about to be written to (allow_mutation_on_saved_tensors)


class Unfollowed:
    """A place for what is found out from other objects, so that recordings need not follow it."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class unobserved:
    """A moment whose Python code no recording follows: it is ours, there is much of it, and no code of users runs in it or no result depends on it."""

    __slots__ = ("observer",)

    def __enter__(self) -> None:
        observer = sys.getprofile() if local.captures else None
        self.observer = observer if callable(observer) else None
        if self.observer is not None:
            sys.setprofile(None)

    def __exit__(self, *error: Any) -> None:
        if self.observer is not None:
            sys.setprofile(self.observer)


# Locks from the outermost to the innermost: whoever holds one may wait for a later one, never for an earlier one.
HELPING, WATCHING, LEAVES, DRAWING, FACTORISING, IMPORTING, STARTING, LOADING, COMPILING, MOMENT = range(10)
_over_forks: list[tuple[int, Any]] = []
_taken: list[Any] = []


def held_over_forks(lock: Any, depth: int) -> None:
    """A fork waits until nobody holds the lock, so that a child never gets one that no thread of its own will free."""
    _over_forks.append((depth, lock))


our_packages = {__name__.partition(".")[0]}  # parts of these are imported while programs run; an alias adds its names
_PATIENCE = 30.0  # seconds that a fork waits for an import, which may itself wait for whoever forks


def _imported_elsewhere() -> bool:
    """Whether another thread imports a part of ours: in a child nobody would finish it, and who needs it would wait for ever."""
    me = threading.get_ident()
    for name, reference in list(getattr(importlib._bootstrap, "_module_locks", {}).items()):
        if name.partition(".")[0] in our_packages and getattr(reference(), "owner", None) not in (None, me):
            return True
    return False


# who holds it lets no import begin
_beginning = types.SimpleNamespace(acquire=_imp.acquire_lock, release=_imp.release_lock)


def _take() -> None:
    global _taken
    until = time.monotonic() + _PATIENCE
    while True:
        # a thread may add one while this waits: only those of now are released
        wanted, taken = [*[lock for _, lock in sorted(_over_forks, key=lambda entry: entry[0])], _beginning], []
        try:
            for lock in wanted:
                lock.acquire()
                taken.append(lock)
        except BaseException:  # of a signal's handler while this waits; Python reports it, and the fork goes on
            _free(taken)
            raise
        _taken = taken  # not earlier: another thread may be about to release those that it took
        if not _imported_elsewhere() or time.monotonic() > until:
            return
        _release()
        time.sleep(0.001)


def _release() -> None:
    global _taken
    taken, _taken = _taken, []
    _free(taken)


def _free(taken: list[Any]) -> None:
    for lock in reversed(taken):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)

modes = Modes()
local = Local()


held_over_forks(modes.lock, MOMENT)
