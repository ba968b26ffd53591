"""Programs as CUDA graphs (`mode="reduce-overhead"`): a stretch of launches that comes again over the same memory is recorded, and one launch from then on.

A graph holds the addresses that it was recorded over. So it stands for calls whose operands lie there: parameters always do, and what comes from
elsewhere in each call is copied to memory of the graph's own first. What a graph makes lies in memory of its own, too. It is launched again only
when nobody has these results any more, so that they stay what they are as long as somebody wants them; until then another graph is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend.cuda_graphs import holders
from .._core.state import CUDA
from .._dispatch import backend_of
from .._kernel.native.runner import run_words, runner
from .._tensor import Tensor, wrap
from .breaks import counters, log
from .program import Lowered, Program
from .running import Frame, Stretch, fresh
from .steps import Launch

_FEW = 4  # launches that are not worth a graph
_SMALL = (
    512  # bytes of results that are copied from the graph's memory, so that a loss that is kept does not hold all of it
)
_PLACES = 4  # where operands may lie, before those that move are copied
_GRAPHS = 2  # for operands at one place: while one's results are in use, the other is launched
_ROUNDS = 3  # how often it may turn out that more operands move


class Replaying(Program):
    """A program that runs as CUDA graphs, as far as it is launches on a GPU."""

    def _formed(self, lowering: Any, inputs: Sequence[Tensor]) -> Lowered:
        if not any([isinstance(step, Launch) for step in lowering.steps]):
            if any([t._k & CUDA for t in inputs]):
                skipped("Python does all of it", len(self.graph.nodes))
            return super()._formed(lowering, inputs)
        return Replayed(lowering)

    def _run(self, inputs: Sequence[Tensor], spent: bool) -> list[Tensor]:
        found: Any = self._lowered
        if not getattr(found, "stretches", None) or backend_of(CUDA).capturing:
            return super()._run(inputs, spent)
        with backend_of(CUDA).graphs():
            return super()._run(inputs, spent)


class Replayed(Lowered):
    """A form of such a program. The stretches that are worth a graph are recorded when they run."""

    def __init__(self, lowering: Any):
        super().__init__(lowering)
        alone = [i for i, part in enumerate(self.parts) if isinstance(part, Stretch) and _launches(part)]
        self.stretches = [i for i in alone if len(self.parts[i].steps) >= _FEW]
        if not self.stretches:
            skipped("less than four launches follow each other", len(self.nodes))

    def started(self, part: int, frame: Frame, found: list[Tensor]) -> int:
        if part not in self.stretches or backend_of(CUDA).capturing:
            return super().started(part, frame, found)
        known = frame.graphs.get(part)
        if known is None:
            known = frame.graphs[part] = Recordings(self, part, frame)
        made = known.run(found)
        if made is None:
            return super().started(part, frame, found)
        found += made
        return 0


class Recordings:
    """The graphs of one stretch over one arena, by the addresses of its operands."""

    def __init__(self, program: Replayed, part: int, frame: Frame):
        self.program, self.part, self.frame = program, part, frame
        self.backend = backend_of(CUDA)
        steps = program.parts[part].steps
        self.layouts = program.layouts[part]
        own = [memory.number for memory, *_ in program.born[part]]
        used = {m.number for step in steps for m in (*step.reads(), *step.writes())}
        self.own, self.used = np.array(own, np.intp), np.array(sorted(used.difference(own)), np.intp)
        self.bases = np.frombuffer(frame.bases, np.int64)
        opens = part == program.opening
        given = [number for number, _ in (*program.from_inputs, *program.from_constants)] if opens else []
        self.words, self._keep = run_words(
            frame.starts[part], 0, frame.at, given
        )  # what only finds the operands' addresses
        self.opens, self.work = opens, (frame.starts[part], frame.loops[part], frame.at)
        written = {m.number for p in program.parts for step in getattr(p, "steps", [p]) for m in step.writes()}
        inputs = [number for number, _ in program.from_inputs] if opens else []
        self.movable = {number: i for i, number in enumerate(inputs) if number not in written}
        last = part == len(program.parts) - 1  # nobody in the program writes to what it has made
        self.small = [last and memory.nbytes <= _SMALL for memory, *_ in program.born[part]]
        self.graphs: dict[bytes, list[Recording]] = {}
        self.met: dict[bytes, None] = {}  # addresses that have come once
        self.copies: dict[
            int, tuple[int, Any]
        ] = {}  # operands that are copied: which of the given tensors they are, and where to
        self.rounds = 0
        self.refused = False

    def run(self, found: list[Tensor]) -> list[Tensor] | None:
        """The tensors that the stretch makes anew, if a graph has made them."""
        if self.refused or (self.opens and self.program._native(self.words, found) != 0):
            return None
        key = self._key()
        graphs = self.graphs.get(key)
        one = next((one for one in graphs if one.is_free()), None) if graphs is not None else None
        if one is None:
            if graphs is None and key not in self.met:
                self._meet(key, found)
                return None
            if graphs is not None and len(graphs) >= _GRAPHS:
                return None  # somebody keeps the results of all of them
            one = self._record(found)
            if one is None:
                return None
            self.graphs.setdefault(key, []).append(one)
        for i, memory in self.copies.values():
            self.backend.copy(found[i]._array, memory)
        self.bases[self.own] = one.places
        one.graph.launch(self.backend.xp.cuda.get_current_stream())
        return one.tensors()

    def _key(self) -> bytes:
        """Where all that it is given lies for a graph."""
        for number, (_, memory) in self.copies.items():
            self.bases[number] = memory.data.ptr
        return self.bases[self.used].tobytes()

    def _meet(self, key: bytes, found: list[Tensor]) -> None:
        """Operands lie where they have not been before. Those that lie elsewhere each time are copied from now on."""
        self.met[key] = None
        if len(self.met) <= _PLACES:
            return
        places = np.array([np.frombuffer(k, np.int64) for k in self.met])
        moving = [int(n) for n in self.used[(places != places[0]).any(0)]]
        self.graphs.clear()
        self.met.clear()
        self.rounds += 1
        for number in moving:
            i = self.movable.get(number, -1)
            copy = self.backend.duplicate(found[i]._array) if i >= 0 and self.rounds <= _ROUNDS else None
            if copy is None or copy.strides != found[i]._array.strides:
                self._refuse("what it writes to, or what Python makes within it, lies elsewhere in each call")
                return
            self.copies[number] = i, copy
        self.met[self._key()] = None

    def _record(self, found: list[Tensor]) -> Recording | None:
        arrays = [t._array for t in fresh(self.layouts)]
        one = Recording(self.backend, arrays, self.layouts, self.small)
        self.bases[self.own] = one.places
        one.graph = self.backend.graphs.recorded(lambda: runner()(*self.work))
        if one.graph is None:
            self._refuse("a library's function cannot be recorded")
            return None
        counters["inductor"]["cudagraph_recorded"] += 1
        return one

    def _refuse(self, reason: str) -> None:
        self.refused = True
        self.graphs.clear()
        self.copies.clear()
        skipped(reason, len(self.program.parts[self.part].steps))


class Recording:
    """A graph and the memory of what it makes."""

    graph: Any = None

    def __init__(self, backend: Any, arrays: list[Any], layouts: Sequence[Any], small: Sequence[bool]):
        self.backend, self.arrays, self.small = backend, arrays, small
        self.dtypes = [dtype for _, _, _, _, dtype, *_ in layouts]
        self.places = np.array([a.data.ptr for a in arrays], np.int64)
        self.alone = [*map(holders, arrays)]

    def is_free(self) -> bool:
        """Whether nobody has what it has made."""
        return [*map(holders, self.arrays)] == self.alone

    def tensors(self) -> list[Tensor]:
        """What it has made, for a call of its own."""
        shown = [self.backend.duplicate(a) if small else a for a, small in zip(self.arrays, self.small, strict=True)]
        return [wrap(a, dtype, CUDA) for a, dtype in zip(shown, self.dtypes, strict=True)]


def _launches(part: Stretch) -> bool:
    return all([isinstance(step, Launch) for step in part.steps])


def skipped(reason: str, count: int) -> None:
    """Counts, and says to those who asked for it, why a part of a program is no graph."""
    counters["inductor"]["cudagraph_skips"] += 1
    log("cudagraphs", f"no CUDA graph for {count} steps: {reason}")
