"""Statements that only tell somebody something: `print(f"{loss.item():.3f}")`, `log.info(…)`, `bar.set_postfix(…)`.

What such a statement computes goes nowhere else, so that it may do with numbers whatever it likes. When a program has run, the statement
runs again: the code of its function, entered at the statement and left behind it, with that run's values for the variables that it names.
"""

from __future__ import annotations

import dis
import functools
import gc
import io
import itertools
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .._autograd.node import Node as History
from .._core.state import CAPTURE, FUNCTION_MODE, GRAD, local, modes
from .._errors.frames import is_ours
from .._tensor import Tensor, detached
from .breaks import Break
from .holders import Effect

_TELLING = ("logging", "tqdm", "wandb", "tensorboard", "tensorboardX")  # packages whose functions do nothing else
_NEVER = (
    "STORE",
    "DELETE",
    "YIELD",
    "SEND",
    "GET_A",
    "IMPORT",
    "MAKE_FUNCTION",
    "LOAD_CLOSURE",
    "LOAD_BUILD_CLASS",
    "RETURN",
    "RAISE",
)
CHANGING = frozenset((
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "next", "__next__", "pop", "popitem", "popleft", "remove",
    "reverse", "rotate", "send", "setdefault", "sort", "update", "__setitem__", "__setattr__", "setattr",
))  # fmt: skip


class Statement(NamedTuple):
    """A call whose result nobody takes: where in its code the function is loaded, where the call is, and where the result is dropped."""

    code: Any
    start: int
    call: int
    end: int

    def instructions(self) -> Iterator[Any]:
        return (s for s in dis.get_instructions(self.code) if self.start <= s.offset < self.end)


@functools.cache
def statements(code: Any) -> tuple[Statement, ...]:
    """The calls in a code object whose results nobody takes, and whose arguments are computed without branches."""
    if code.co_flags & (0x20 | 0x80 | 0x200):  # generators and the like are not entered in their midst
        return ()
    steps = list(dis.get_instructions(code))
    found = []
    for i, step in enumerate(steps):
        after = next((s for s in steps[i + 1 :] if s.opname not in ("CACHE", "NOP")), None)
        if not step.opname.startswith("CALL") or after is None or after.opname != "POP_TOP":
            continue
        wanted, at = 1, i
        while at >= 0:
            s = steps[at]
            if s.opname.startswith(_NEVER) or s.opcode in (*dis.hasjrel, *dis.hasjabs):
                break
            if s.opname not in ("CACHE", "EXTENDED_ARG"):
                wanted -= dis.stack_effect(s.opcode, s.arg if s.opcode >= dis.HAVE_ARGUMENT else None)
            if wanted <= 0 and steps[at - 1].opname not in ("EXTENDED_ARG", "PUSH_NULL"):
                found.append(Statement(code, s.offset, step.offset, after.offset))
                break
            if s.is_jump_target:
                break
            at -= 1
    return tuple(found)


def statement_at(frame: Any) -> Statement | None:
    """The statement in which a frame is."""
    for one in statements(frame.f_code):
        if one.start <= frame.f_lasti < one.end:
            return one
    return None


def _users_frame(frame: Any) -> Any:
    """The innermost frame from there on that is not ours."""
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame


class Event(NamedTuple):
    """Something that a run has said: the values that the statement names, what the run had changed by then, how much it had recorded."""

    statement: Statement
    spaces: dict[str, Any]
    values: dict[str, Any]
    effects: list[Effect]
    mark: int


class Said:
    """What a run says. `copied(tensor)` gives a copy that the program makes, or None for one that was there before the run.

    What saying something changes of Python's objects (as `changed()` finds them) is noted in `by_steps`: it will do so again.
    """

    def __init__(
        self, copied: Callable[[Tensor], Tensor | None], changed: Callable[[], dict[Any, Any]], by_steps: dict[Any, Any]
    ):
        self.copied, self.changed, self.by_steps = copied, changed, by_steps
        self.events: list[Event] = []
        self.excused: list[tuple[Statement, Callable[[], None]]] = []  # in which numbers were looked at
        self.spoilt: set[Statement] = set()  # which do something else besides
        self._inside: Any = None  # (frame, whether it called a function written in C) while something is being said
        self._modes: Any = ()

    def excuses(self, frame: Any, otherwise: Callable[[Any], None]) -> bool:
        """Whether numbers may be looked at, as this is part of a statement that will run again; if it turns out not to be, `otherwise(line)`."""
        frame = _users_frame(frame)
        one = None if frame is None else statement_at(frame)
        if one is not None:
            self.excused.append((one, functools.partial(otherwise, (frame.f_code.co_filename, frame.f_lineno))))
        return one is not None

    def disturbed(self, frame: Any) -> None:
        """Something happens that must not happen twice."""
        frame = _users_frame(frame)
        one = None if frame is None else statement_at(frame)
        if one is not None:
            self.spoilt.add(one)

    def confirmed(self) -> set[Statement]:
        """The statements that said something."""
        said = {event.statement for event in self.events}
        for one, otherwise in self.excused:
            if one not in said:
                otherwise()
        self.excused.clear()
        return said

    # -- the run -----------------------------------------------------------------------------------------------------

    def begins(self, frame: Any, inner: Any, effects: Callable[[], list[Effect]], mark: int) -> bool:
        """A function that says something is about to run, called by `frame`; `inner` is its own frame, None if it is written in C."""
        one = statement_at(frame)
        if one is None or frame.f_lasti < one.call or one in self.spoilt:
            return False
        values: dict[str, Any] = {}
        for s in one.instructions():
            if s.opname.startswith("LOAD_FAST"):
                names = s.argval if isinstance(s.argval, tuple) else (s.argval,)
            elif s.opname == "LOAD_DEREF":
                if s.argval in frame.f_code.co_cellvars:
                    return False
                names = (s.argval,)
            else:
                continue
            values.update({name: self._kept(frame.f_locals[name]) for name in names if name in frame.f_locals})
        made = effects()
        if any([effect.kind == "contents" for effect in made]):
            return False
        self.events.append(Event(one, frame.f_globals, values, made, mark))
        self._inside = (inner or frame, inner is None, self.changed())
        self._modes = local.captures, local.function_modes
        bits = [CAPTURE] * bool(local.captures) + [FUNCTION_MODE] * len(local.function_modes)
        for bit in bits:
            modes.leave(bit)
        local.captures, local.function_modes = (), ()
        return True

    def inside(self, frame: Any, event: str) -> bool:
        """Whether an event belongs to something that is being said."""
        if self._inside is None:
            return False
        own, native, before = self._inside
        if frame is own and event in (("c_return", "c_exception") if native else ("return",)):
            self._inside = None
            after = self.changed()
            self.by_steps.update({k: new for k, new in after.items() if k not in before or before[k] is not new})
            local.captures, local.function_modes = self._modes
            for bit in [CAPTURE] * bool(local.captures) + [FUNCTION_MODE] * len(local.function_modes):
                modes.enter(bit)
        return True

    @property
    def speaking(self) -> bool:
        return self._inside is not None

    def _kept(self, value: Any) -> Any:
        if isinstance(value, Tensor) and type(value) is Tensor:
            copy = self.copied(value)
            return value if copy is None else _Named(copy, value)
        return value


class _Named:
    """A copy of a tensor, and what its history is called."""

    def __init__(self, copy: Tensor, t: Tensor):
        self.copy, self.grad = copy, bool(t._k & GRAD)
        op = None if t._edge is None or isinstance(t._edge[0], Tensor) else t._edge[0].op
        self.op: Any = None
        if op is not None:
            self.op = type(type(t.grad_fn).__name__, (), {"name": "said", "backward_name": type(t.grad_fn).__name__})()

    def of(self, t: Tensor) -> Tensor:
        """A tensor that looks like the one that the run had."""
        t = detached(t)
        if self.grad:
            t._k |= GRAD
            t._edge = None if self.op is None else (History(self.op, ()), 0)
        return t


def tells(function: Any, name: str) -> bool:
    """Whether a function written in C does nothing but say something."""
    owner = getattr(function, "__self__", None)
    if name == "print":
        return getattr(function, "__module__", None) == "builtins"
    return name in ("write", "flush", "writelines") and isinstance(owner, io.TextIOBase)


@functools.cache
def is_telling(file: str) -> bool:
    """Whether a file belongs to a package whose functions do nothing but say something."""
    roots = [sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "purelib", "platlib")]
    roots += [os.path.dirname(os.path.dirname(home)) + os.sep for name in _TELLING if (home := _file_of(name))]
    return any([file.startswith(root + name + os.sep) for root in roots for name in _TELLING])


def _file_of(name: str) -> str:
    return getattr(sys.modules.get(name), "__file__", None) or ""


def again(
    event: Event, place: Callable[[Any], Any], found: Callable[[Any, Any], Any], written: Callable[[int], bool]
) -> Callable[[Any], None]:
    """A function of what a run gives that says the same for it."""
    one, code = event.statement, event.statement.code
    if written(event.mark) and _finds_tensors(event):
        raise Break("tensors that are written later are printed")
    function = _entered(code, one)
    values = {}
    for name, value in event.values.items():
        named = value if isinstance(value, _Named) else None
        values[name] = named, place(value.copy if isinstance(value, _Named) else value)

    def say(sources: Any) -> None:
        now = {}
        for name, (named, where) in values.items():
            value = found(where, sources)
            now[name] = value if named is None else named.of(value)
        cells = tuple([types.CellType(now[n]) if n in now else types.CellType() for n in code.co_freevars])
        types.FunctionType(function, event.spaces, code.co_name, None, cells)(*[now.get(n) for n in code.co_varnames])

    return say


def _finds_tensors(event: Event) -> bool:
    """Whether a statement may find tensors that were there before the run: in objects that it names."""
    names = [s.argval for s in event.statement.instructions() if s.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    held = [*event.values.values(), *[event.spaces.get(name) for name in names]]
    return any([_mutable_tensors(value) for value in held if not isinstance(value, (_Named, types.ModuleType))])


def _mutable_tensors(value: Any) -> bool:
    """Whether an object leads to tensors."""
    seen: dict[int, Any] = {}
    waiting = [value]
    while waiting and len(seen) < 10_000:
        a = waiting.pop()
        if isinstance(a, Tensor):
            return True
        if id(a) in seen or isinstance(
            a, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, int, float)
        ):
            continue
        seen[id(a)] = a
        waiting.extend(gc.get_referents(a))
    return bool(waiting)


def _entered(code: Any, one: Statement) -> Any:
    """The code with a jump to a statement, and an end behind it; all its variables are arguments."""
    jump, more, leave = [dis.opmap[name] for name in ("JUMP_FORWARD", "EXTENDED_ARG", "RETURN_VALUE")]
    steps = list(dis.get_instructions(code))
    begin = next((after.offset for s, after in itertools.pairwise(steps) if s.opname == "RESUME"), 0)
    raw = bytearray(code.co_code)
    room = one.start - begin
    if room:
        for way in range(3):  # how many bytes the jump needs depends on how far it goes
            size = 2 * (way + 1)
            far = (room - size) // 2
            if room >= size and far < 1 << (8 * (way + 1)):
                high = [b for k in range(way, 0, -1) for b in (more, (far >> (8 * k)) & 0xFF)]
                raw[begin : begin + size] = bytes([*high, jump, far & 0xFF])
                break
    raw[one.end : one.end + 2] = bytes([leave, 0])
    flags = code.co_flags & ~(0x04 | 0x08)
    changes: dict[str, Any] = {"co_exceptiontable": b""} if sys.version_info >= (3, 11) else {}
    return code.replace(
        co_code=bytes(raw),
        co_argcount=len(code.co_varnames),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=flags,
        **changes,
    )
