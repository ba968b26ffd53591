"""Plans of calls that draw a few numbers from the default stream: loops of the random engine between taking and giving back its lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import random
from ..._core.dtypes import float32, int64
from ..._kernel.native.plan import Plan, absent
from ..._tensor import Tensor
from ..plans.making import makes
from ..plans.steps import drawing
from .generator import default_generator

MOST = 1 << 14  # elements of a result that are drawn without giving other threads of the interpreter a chance
_Step = tuple[Any, ...]  # the name of a loop, and what it is given


class _Result(int):
    """An address: so many bytes from where the result begins."""


def drawn(steps: Callable[..., list[_Step] | None]) -> Callable[[Any], Any]:
    """Gives plans to a function that draws numbers. `steps` is told how many, the engine, where a word for each number and sixteen have room,
    the result's address and dtype, and the arguments."""

    def plan(values: Sequence[Any], out: Tensor) -> Plan | None:
        size, engine = out._array.size, default_generator._engine
        if not 0 < size <= MOST:
            return None
        words = np.empty(max(size, 64) + 16, np.uint32)
        found = steps(size, engine, random.address(words), _Result(0), out.dtype, values)
        if found is None:
            return None
        made = Plan()
        target = made.result(out.dtype, out._array.shape)
        made.keep.append(words)
        with drawing(made, engine):
            for name, *given in found:
                step, own = random.kernels.step(name, *given)
                made.work(step, own, 0, [(target, v, i + 1) for i, v in enumerate(given) if isinstance(v, _Result)])
        return made

    return lambda slow: makes(slow, plan)


def uniforms(count: int, engine: Any, words: int, out: int, d: Any, values: Sequence[Any]) -> list[_Step] | None:
    return [("floats", engine._address, out, count, 0.0, 1.0)] if d is float32 else None


def normals(count: int, engine: Any, words: int, out: int, d: Any, values: Sequence[Any]) -> list[_Step] | None:
    return _normals(count, engine, words, out) if d is float32 else None


def scaled_normals(count: int, engine: Any, words: int, out: int, d: Any, values: Sequence[Any]) -> list[_Step] | None:
    mean, std = [default if v is absent else v for v, default in zip(values, (0.0, 1.0))]
    return _normals(count, engine, words, out, float(mean), float(std)) if d is float32 else None


def _normals(count: int, engine: Any, words: int, out: int, mean: float = 0.0, std: float = 1.0) -> list[_Step]:
    if count < 16:
        return [("singles", engine._address, words, engine._spare_at, out, count, mean or -0.0, std)]
    ragged = count % 16 > 0  # PyTorch has drawn a uniform for each element by then
    steps: list[_Step] = [("fill", engine._address, words, count + 16 * ragged)]
    steps.append(("normal", words, out, count // 16, mean, std))
    if ragged:
        steps.append(("normal", words + 4 * count, _Result(4 * (count - 16)), 1, mean, std))
    return steps


def integers(count: int, engine: Any, words: int, out: int, d: Any, values: Sequence[Any]) -> list[_Step] | None:
    bounds = [v for v in values[:2] if v.__class__ is int]
    low, high = [0, *bounds][-2:]
    if d is not int64 or not -_WIDE < low < high < _WIDE or high - low >= _ONE_WORD:
        return None
    return [("fill", engine._address, words, count), ("integers", words, out, count, low, high - low)]


_WIDE, _ONE_WORD = (
    1 << 62,
    1 << 28,
)  # integers that are added without overflow, and a range that one random word is enough for


def permutation(count: int, engine: Any, words: int, out: int, d: Any, values: Sequence[Any]) -> list[_Step] | None:
    if d is not int64 or count < 2:
        return None
    return [("fill", engine._address, words, count - 1), ("swap", words, out, count)]
