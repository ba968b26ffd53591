"""Numbers that change from call to call, where tensors or steps of a program need them: Python computes them anew in each run."""

from __future__ import annotations

import gc
import math
import operator
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from .._core.dtypes import float64, int64
from .._core.state import META
from .._ops.registry import ops
from .._tensor import Tensor, wrap
from .graph import replaced
from .names import codes_in, names_of
from .numbers import Place, _Live, computed, is_live, plain, put
from .reach import USERS, home_of, is_ours, is_users, trust


class Formula:
    """Some numbers of a run, as a function of the tensors that they begin with; `tensor_of(leaf)` gives one."""

    def __init__(self, numbers: Sequence[Any], tensor_of: Callable[[Any], Tensor]):
        self.tensors: list[Tensor] = []
        self.first = [plain(number) for number in numbers]  # what they are in the run that is recorded

        def found(leaf: Any) -> Callable[[Any], Any]:
            t = tensor_of(leaf)
            self.tensors.append(t)
            i = len(self.tensors) - 1
            return lambda sources: sources[i].item()

        self.numbers = [computed(number, found) for number in numbers]

    def __call__(self, sources: Sequence[Tensor]) -> list[Any]:
        if any([t._k & META for t in sources]):  # only shapes are asked for
            return self.first
        return [number(sources) for number in self.numbers]


class Question:
    """What a function answers about some numbers."""

    def __init__(self, function: Callable[..., Any], numbers: Sequence[Any], tensor_of: Callable[[Any], Tensor]):
        self.function, self.formula = function, Formula(numbers, tensor_of)

    def __call__(self, sources: Sequence[Tensor]) -> Any:
        return self.function(*self.formula(sources))


def compared(function: Any, numbers: Sequence[Any], tensor_of: Callable[[Any], Tensor]) -> Tensor | None:
    """The same answer by operations on tensors that compute as Python does; None where there are none."""
    name = _COMPARED.get(function)
    operands = [_in_double(number, tensor_of) for number in (*numbers, *([0.0] if function is operator.truth else ()))]
    if name is None or any([a is None for a in operands]) or not any([isinstance(a, Tensor) for a in operands]):
        return None
    if not isinstance(operands[0], Tensor):
        operands[0] = ops.full((), operands[0], dtype=float64)
    return getattr(ops, name)(*operands)


def _in_double(number: Any, tensor_of: Callable[[Any], Tensor]) -> Any:
    """A number as a tensor in double precision, or as a float; None if Python computes otherwise."""
    if plain(number).__class__ is not float and (is_live(number) or abs(number) > _WHOLE):
        return None
    if not is_live(number):
        return float(number)
    if number.function is None:
        t = tensor_of(number.leaf)
        return ops.to(t, float64) if t.dtype is not float64 else t
    name, parts = _COMPUTED.get(number.function), [_in_double(part, tensor_of) for part in number.parts]
    return None if name is None or any([a is None for a in parts]) else getattr(ops, name)(*parts)


_WHOLE = 1 << 53  # integers up to there are floats, too
_COMPARED = {
    operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge", operator.eq: "eq", operator.ne: "ne", operator.truth: "ne",
    math.isnan: "isnan", math.isinf: "isinf", math.isfinite: "isfinite",
}  # fmt: skip
_COMPUTED = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.neg: "neg", operator.abs: "abs"}


class _Place:
    """Stands for a number among arguments."""

    def __init__(self, i: int):
        self.i = i


class Given:
    """A function some of whose arguments are such numbers, as one of the tensors that these begin with and of its other arguments."""

    def __init__(self, function: Callable[..., Any], args: Any, named: Any, tensor_of: Callable[[Any], Tensor]):
        self.function, self.__name__ = function, getattr(function, "__name__", "step")
        numbers: list[Any] = []

        def place(number: Any) -> _Place:
            numbers.append(number)
            return _Place(len(numbers) - 1)

        args, self.named = replaced((tuple(args), named), _Live, place)
        self.formula = Formula(numbers, tensor_of)
        self.args = (tuple(self.formula.tensors), *args)

    def __call__(self, sources: Sequence[Tensor], *args: Any, **named: Any) -> Any:
        numbers = self.formula(sources)
        args, named = replaced((args, named), _Place, lambda place: numbers[place.i])
        return self.function(*args, **named)


class Put:
    """Leaves a number or another value where a step of the program will look for it."""

    name = "put"

    def __init__(self, place: Place, formula: Formula):
        self.place, self.formula = place, formula

    def __call__(self, *sources: Tensor) -> None:
        put(self.place, self.formula(sources)[0])


def single(value: Any) -> Tensor:
    """A number as a tensor that holds all of it."""
    whole = value.__class__ is int
    return wrap(np.array(value, np.int64 if whole else np.float64), int64 if whole else float64)


def visible(places: Sequence[Place], roots: Any) -> list[Place]:
    """Those places that a step may look at which is given some objects: in what these lead to, and among the globals and attributes that functions
    of the program name there, which are called in the step."""
    seen: dict[int, Any] = {}
    attributes, named = set[str](), set[tuple[int, str]]()  # what these functions ask of objects, and of globals
    modules: list[ModuleType] = []
    waiting = [roots] if places else []
    while waiting:
        a = waiting.pop()
        if id(a) in seen or isinstance(a, ENDS):
            continue
        seen[id(a)] = a
        if isinstance(a, FunctionType):
            waiting += [a.__closure__, a.__defaults__, a.__kwdefaults__, a.__dict__]
            users, spaces = trust(a.__code__.co_filename) == USERS, a.__globals__
            for found in map(names_of, codes_in(a.__code__)):
                if users:
                    attributes |= found.attributes
                    named.update([(id(spaces), name) for name in found.globals])
                values = [spaces[name] for name in found.globals if name in spaces]
                waiting += values if users else [value for value in values if isinstance(value, dict)]  # of hooks
        elif isinstance(a, ModuleType):
            modules += [a] if is_users(a) else []
        elif isinstance(a, type):
            waiting += [*vars(a).values(), *a.__bases__] if is_users(sys.modules.get(home_of(a))) else []
        else:
            waiting += [*gc.get_referents(a), type(a)]
        if not waiting:
            waiting += [vars(m)[name] for m in modules for name in attributes & vars(m).keys()]
            waiting = [b for b in waiting if id(b) not in seen]
    named.update([(id(vars(m)), name) for m in modules for name in attributes])

    def shown(owner: Any, key: Any, kind: str) -> bool:
        if id(owner) not in seen:
            return (id(owner), key) in named
        return kind != "attribute" or key in attributes or any(map(is_ours, type(owner).__mro__))

    return [place for place in places if shown(*place)]


ENDS = (Tensor, np.ndarray, str, bytes, int, float)
