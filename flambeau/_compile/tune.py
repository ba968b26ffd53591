"""Tuning (`mode="max-autotune"`): a program is made in several forms, the fastest of which is kept, and which one that is on disk.

Forms differ in how long loops must be to become one: a kernel more takes a moment to compile and may not pay. A program that changes
something cannot be tried; it gets the form with the fewest steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from .._kernel.building import jit
from .._kernel.building.cache import Cache
from .._kernel.threads import pool
from .._tensor import Tensor
from .graph import Graph
from .lower import Lowering
from .memory import MADE
from .program import Lowered
from .running import Stretch
from .steps import Work

_FORMS = (None, 1, 1 << 62)  # the least elements of loops that become one: as always, all loops, none
_SECONDS, _ROUNDS = 0.02, 5  # of each form


def tuned(lowering: Lowering, inputs: Sequence[Tensor]) -> Lowered:
    """The program in its fastest form."""
    usual = Lowered(lowering)
    if usual.device is not None:  # its host's loops are not what takes time
        return usual
    if not changes_nothing(usual):
        return Lowered(lowering, 1)
    digest, cache = _digest(lowering.graph), Cache.open()
    known = None if cache is None else cache.read(digest)
    if known in (b"0", b"1", b"2"):
        return Lowered(lowering, _FORMS[int(known)])
    times = [_time(Lowered(lowering, least), inputs) for least in _FORMS]
    best = times.index(min(times))
    if cache is not None:
        cache.write(digest, str(best).encode())
    return Lowered(lowering, _FORMS[best])


def changes_nothing(lowered: Lowered) -> bool:
    """Whether a program only makes its outputs, so that it may run as often as one likes."""
    steps = [step for part in lowered.parts if isinstance(part, Stretch) for step in part.steps]
    native = all([isinstance(part, Stretch) for part in lowered.parts])
    return native and not lowered.written and all([m.kind == MADE for step in steps for m in _written(step)])


def _written(step: Any) -> list[Any]:
    """The blocks that a step writes; of work for the pool nobody knows, but it writes to no memory of others."""
    return [] if isinstance(step, Work) else list(step.writes())


def _time(lowered: Lowered, inputs: Sequence[Tensor]) -> float:
    lowered.run(inputs)
    start = perf_counter()
    lowered.run(inputs)
    count = max(1, int(_SECONDS / _ROUNDS / max(perf_counter() - start, 1e-7)))
    found = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        for _ in range(count):
            lowered.run(inputs)
        found.append((perf_counter() - start) / count)
    return min(found)


def _digest(graph: Graph) -> str:
    """What a program is: its operations with the sizes of their operands, and on how many threads."""
    text = [f"form of a program on {pool.settings[0]} threads of {jit.target().key}"]
    text += [repr((v.shape, v.strides, v.dtype)) for v in (*graph.inputs, *graph.constants)]
    text += [f"{node!r} {[(v.shape, v.strides) for v in node.outs if v is not None]}" for node in graph.nodes]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()
