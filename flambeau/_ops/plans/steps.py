"""Steps of plans that move the default stream on: each takes the engine's lock and gives it back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..._core import random
from ..._kernel.native.plan import Plan


@contextlib.contextmanager
def drawing(plan: Plan, engine: Any) -> Iterator[None]:
    """Steps that are added meanwhile have the engine for themselves; if another thread has it, the plan ends and Python draws."""
    lock = engine.lock.acquire, engine.lock.release
    plan.keep += [engine, *lock]
    step, own = random.kernels.take(lock[0])
    plan.work(step, own, 0, [], fails=True)
    yield
    step, own = random.kernels.give(lock[1])
    plan.work(step, own, 0, [])


def add_words(plan: Plan, engine: Any, count: int, place: tuple[int, int]) -> None:
    """Writes the next words of a stream to an operand (its number, bytes from where it begins)."""
    with drawing(plan, engine):
        step, own = random.kernels.step("fill", engine._address, 0, count)
        plan.work(step, own, 0, [(*place, 2)])
