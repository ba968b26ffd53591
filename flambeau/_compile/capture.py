"""A recording of every operation that runs in a block, forward and backward, which can be run again on other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .._core.state import CAPTURE, local, modes
from .._tensor import Tensor, bump, detached


class Slot(NamedTuple):
    """The place of a tensor in a recording: an input, a constant or a result."""

    number: int


class Step(NamedTuple):
    """One operation: its record, its arguments with tensors as slots, and the slots of its results."""

    op: Any
    arguments: tuple[Any, ...]
    results: Any


class Write(NamedTuple):
    """A result written into the memory of an earlier tensor."""

    target: Slot
    source: Slot


class Capture:
    """A block whose operations are recorded as a list of steps.

    >>> import flambeau as torch
    >>> from flambeau._compile.capture import Capture
    >>> x = torch.tensor([1.0, 2.0])
    >>> with Capture(x) as tape:
    ...     y = (x * 3).exp()
    >>> [step.op.name for step in tape.steps]
    ['mul', 'exp']
    >>> tape.replay([torch.tensor([0.0, 0.0])], [y])
    [tensor([1., 1.])]
    """

    def __init__(self, *inputs: Tensor):
        self.steps: list[Step | Write] = []
        self.constants: dict[int, Tensor] = {}  # slot -> tensor that existed before and is not an input
        # A tensor is known by its array, which detached and saved forms of it share.
        self._slots: dict[int, int] = {}  # id of an array -> slot
        self._alive: list[Tensor] = []  # ids stay unique while their arrays live
        self.inputs = [self._slot(t) for t in inputs]

    def __enter__(self) -> Capture:
        local.captures = (*local.captures, self)
        modes.enter(CAPTURE)
        return self

    def __exit__(self, *error: Any) -> None:
        local.captures = local.captures[:-1]
        modes.leave(CAPTURE)

    def _slot(self, t: Tensor) -> Slot:
        number = self._slots.get(id(t._array))
        if number is None:
            number = self._slots[id(t._array)] = len(self._alive)
            self._alive.append(t)
        return Slot(number)

    def _encode(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            known = id(a._array) in self._slots
            slot = self._slot(a)
            if not known:
                self.constants[slot.number] = a
            return slot
        if a.__class__ is list or a.__class__ is tuple:
            return type(a)(self._encode(b) for b in a)
        return a

    def add(self, op: Any, args: tuple[Any, ...], out: Any) -> None:
        """Called by the dispatcher after each operation."""
        arguments = tuple(self._encode(a) for a in args)
        several = isinstance(out, (tuple, list))
        results = tuple(self._slot(t) if isinstance(t, Tensor) else None for t in (out if several else (out,)))
        self.steps.append(Step(op, arguments, results if several else results[0]))

    def add_write(self, target: Tensor, source: Tensor) -> None:
        """Called after an in-place operation."""
        self.steps.append(Write(self._encode(target), self._encode(source)))

    def slot_of(self, t: Tensor) -> Slot:
        """Where a tensor of the recorded block stands."""
        return self._encode(t)

    def replay(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs the steps on new inputs; gives what now stands where `outputs` stood in the recording."""
        wanted = [self.slot_of(t) for t in outputs]
        values: dict[int, Tensor] = {slot.number: detached(t) for slot, t in zip(self.inputs, inputs, strict=True)}
        values.update((number, detached(t)) for number, t in self.constants.items() if number not in values)

        def decode(a: Any) -> Any:
            if a.__class__ is Slot:
                return values[a.number]
            if a.__class__ is list or a.__class__ is tuple:
                return type(a)(decode(b) for b in a)
            return a

        outer, local.grad = local.grad, False
        try:
            for step in self.steps:
                if isinstance(step, Write):
                    target, source = values[step.target.number], values[step.source.number]
                    target._array[...] = source._array
                    bump(target)
                    continue
                out = step.op(*[decode(a) for a in step.arguments])
                if step.results.__class__ is Slot:
                    values[step.results.number] = out
                else:
                    for slot, t in zip(step.results, out):
                        if slot is not None:
                            values[slot.number] = t
        finally:
            local.grad = outer
        return [values[slot.number] for slot in wanted]
