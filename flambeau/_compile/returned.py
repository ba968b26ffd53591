"""What a function reads from tensors only to give it back (`return loss.item()`, `return y.tolist()`) or to keep it in a list
(`losses.append(loss.item())`, `outputs.append(y.numpy())`): no part of its program depends on it.

Whether that is so is read from the bytecode behind the call, which must lead straight to the end of the function, or to a call of a
function of one argument. That this is `list.append` is seen when it is called.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from .._errors.frames import PACKAGE, is_ours
from .._tensor import Tensor, detached
from .said import statements

# How tensors are read, by the names of functions.
READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda t: t.item(), "__float__": lambda t: t.item(), "tolist": lambda t: t.tolist(), "numpy": lambda t: detached(t).numpy(),
}  # fmt: skip


class Read(NamedTuple):
    """What was read from a tensor, how many nodes there were (-1: it stays as it is), how it is read, and the instruction that keeps it."""

    value: Any
    tensor: Tensor
    mark: int
    how: Callable[[Tensor], Any]
    place: tuple[Any, int] | None = None


_SILENT = frozenset(("NOP", "CACHE", "EXTENDED_ARG", "KW_NAMES", "NOT_TAKEN", "POP_BLOCK"))
# Whether each of the variables that an instruction names is stored.
_VARIABLES = {
    "LOAD_FAST": [False], "LOAD_FAST_BORROW": [False], "LOAD_FAST_CHECK": [False], "STORE_FAST": [True],
    "LOAD_FAST_LOAD_FAST": [False, False], "LOAD_FAST_BORROW_LOAD_FAST_BORROW": [False, False],
    "STORE_FAST_LOAD_FAST": [True, False], "STORE_FAST_STORE_FAST": [True, True],
}  # fmt: skip
_LOADS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "PUSH_NULL"))
_OF_ONE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_CALLS = frozenset(("PRECALL", "CALL", "CALL_FUNCTION", "CALL_METHOD"))
_MAKES = {
    "BUILD_TUPLE": lambda n: n, "BUILD_LIST": lambda n: n, "BUILD_MAP": lambda n: 2 * n, "BUILD_CONST_KEY_MAP": lambda n: n + 1,
}  # fmt: skip
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_READERS = tuple([PACKAGE + name for name in ("_compile", "_interception", "_tensor", "_ops/making/conversion")])


def _reader() -> Any:
    """The frame that reads a tensor now; None if that is a function of ours, which may do anything with what it reads."""
    frame: Any = sys._getframe(2)
    while frame is not None and is_ours(frame):
        if not frame.f_code.co_filename.startswith(_READERS):
            return None
        frame = frame.f_back
    return frame


def is_only_returned(until: Any) -> bool:
    """Whether what the program reads now is at once returned by all functions that the code `until` has called."""
    frame = _reader()
    while frame is not None and frame.f_code is not until:
        if is_ours(frame) or not _ends(frame.f_code, frame.f_lasti):
            return False
        frame = frame.f_back
    return frame is not None


def is_asserted() -> bool:
    """Whether the program reads what it reads now for a statement `assert`."""
    frame = _reader()
    return frame is not None and frame.f_lasti in _asserts(frame.f_code)


@functools.cache
def _asserts(code: Any) -> frozenset[int]:
    """Where the questions of `assert` are: jumps over the instruction that an error begins with."""
    found, jump = set[int](), list[int]()
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_ASSERTION_ERROR" or (
            one.opname == "LOAD_COMMON_CONSTANT" and one.argval is AssertionError
        ):
            found.update(jump)
        if one.opname not in ("NOT_TAKEN", "CACHE"):
            jump = [*jump[-1:], one.offset] if "JUMP" in one.opname else [one.offset]
    return frozenset(found)


def kept_by(sure: bool) -> tuple[Any, int] | None:
    """The instruction that gives what is read now to a function and does nothing else with it, as (code, where); None if there is none.

    With `sure` the function is one that is called `append`.
    """
    frame = _reader()
    where = -1 if frame is None else _given_away(frame.f_code, frame.f_lasti)
    if where >= 0 and sure:
        calls = [one for one in statements(frame.f_code) if one.call == where]
        if not any([s.argval == "append" for one in calls for s in one.instructions()]):
            return None
    return None if where < 0 else (frame.f_code, where)


@functools.cache
def _given_away(code: Any, last: int) -> int:
    """Where a function of one argument is called with what the call at an instruction gives; -1: nowhere."""
    steps = (s for s in dis.get_instructions(code) if s.offset > last and s.opname not in (*_SILENT, "PRECALL"))
    step = next(steps, None)
    return step.offset if step is not None and step.opname in _CALLS and step.arg == 1 else -1


@functools.cache
def _ends(code: Any, last: int) -> bool:
    """Whether a function returns what the call at an instruction gives, or puts it into what it returns, and does nothing else with it."""
    if code.co_flags & _GENERATORS:
        return False
    stack, names = [True], set[str]()  # which of the values that were pushed since then, and which variables, hold it

    def popped(count: int) -> bool:
        found = any(stack[-count:]) if count else False
        del stack[max(0, len(stack) - count) :]
        return found

    for step in dis.get_instructions(code):
        name = step.opname
        if step.offset <= last or name in _SILENT:
            continue
        if name in _VARIABLES:
            for variable, stored in zip(
                step.argval if isinstance(step.argval, tuple) else (step.argval,), _VARIABLES[name]
            ):
                if stored:
                    (names.add if popped(1) else names.discard)(variable)
                else:
                    stack.append(variable in names)
        elif name in _LOADS:
            stack += [False] * dis.stack_effect(step.opcode, step.arg)
        elif name in _OF_ONE:
            if popped(1):
                return False
            stack += [False] * (dis.stack_effect(step.opcode, step.arg) + 1)
        elif name in _CALLS or name.startswith(("BINARY_", "UNARY_")):
            made = int(name != "PRECALL")  # which takes arguments for the call that follows
            if popped(made - dis.stack_effect(step.opcode, step.arg)):
                return False
            stack += [False] * made
        elif name in _MAKES:
            stack.append(popped(_MAKES[name](step.arg or 0)))
        elif name in ("SWAP", "ROT_TWO"):  # as at the end of `with`
            depth = step.arg if name == "SWAP" and step.arg else 2
            stack[:0] = [False] * (depth - len(stack))
            stack[-1], stack[-depth] = stack[-depth], stack[-1]
        elif name == "DUP_TOP":
            stack.append(bool(stack) and stack[-1])
        elif name == "POP_TOP":
            popped(1)
        else:
            return name == "RETURN_VALUE" and stack[-1:] == [True]
    return False
