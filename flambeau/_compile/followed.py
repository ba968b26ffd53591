"""Code of users' that runs in the backward pass of a recorded run: derivatives of theirs, blocks that are computed again.

Programs do not run it any more. What it reads is guarded, as if the function itself had read it. If it changes anything of Python's,
or asks something of the world, there is no program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._autograd.functions import FunctionRecord
from .._core.state import GRAD
from .._ops.making.generator import forked
from .._ops.records.saved import Packed
from .._ops.registry import ops
from .._tensor import Tensor, detached, storage_of, version_of
from .breaks import Break
from .guards import Entered, Trail
from .holders import MISSING, Effect, base_of, put_item, same
from .numbers import Numbers, is_live
from .unseen import Tried


class Followed:
    """A block in which a backward pass is recorded over some nodes. The run is left as if it had not been.

    `known` is code that earlier runs have met there. If this one meets other code, the next one will know that, too.
    """

    def __init__(self, trail: Trail, numbers: Numbers, known: dict[int, Entered]):
        self.trail, self.numbers, self.known = trail, numbers, known
        self.watches = False

    def over(self, nodes: Iterable[Any]) -> Followed:
        """The block for these nodes."""
        users = [node for node in nodes if node.op.__class__ is FunctionRecord]
        packed = any([saved.__class__ is Packed for node in nodes for saved in node.saved or ()])
        self.watches = bool(users) or packed
        contexts = [vars(node.__dict__["ctx"]) for node in users if "ctx" in node.__dict__]
        read = any([is_live(value) for own in contexts for value in own.values()])
        if self.watches and (read or self.numbers.planted):
            raise Break("a derivative of the program's own depends on numbers that are others in each run")
        return self

    def __enter__(self) -> None:
        if self.watches:
            trail = self.trail
            self.met = set(trail.entered)
            self.before = _by_place(trail.changes())
            self.tensors = [_Elements(t) for t, _ in trail.reach.tensors.values() if not t._k & GRAD]
            self.tensors += [_Elements(t) for t, _ in trail.arguments.inputs if not t._k & GRAD]
            self.listeners, trail.numbers, trail.said = (trail.numbers, trail.said), None, None
            self.drawn = forked()
            self.drawn.__enter__()
            trail.ends = True  # nobody needs what it gives
            trail.watch()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.watches:
            trail = self.trail
            trail.look_away()
            trail.ends = False
            self.drawn.__exit__(None, None, None)
            trail.numbers, trail.said = self.listeners
            changed = self._undone()
            for elements in self.tensors:
                elements.put_back()
            if error is None:
                self._judge(changed)

    def _judge(self, changed: str) -> None:
        """Raises `Break` if there is no program."""
        if self.trail.problem is not None:
            raise self.trail.problem
        if changed:
            raise Break(f"the backward pass changes {changed}")
        new = {key: one for key, one in self.trail.entered.items() if key not in self.met}
        if new:
            self.known.update(new)
            problem = Break("code in the backward pass that is met for the first time")
            problem.passing = True
            raise problem

    def _undone(self) -> str:
        """Undoes what has been changed meanwhile; what was changed last."""
        now = _by_place(self.trail.changes())
        changed = ""
        for key, effect in reversed(now.items()):
            before = self.before.get(key)
            if before is None or not same(before.new, effect.new):
                changed = effect.path
                _put(effect, effect.old if before is None else before.new)
        for key, effect in self.before.items():
            if key not in now:
                changed = effect.path
                _put(effect, effect.new)
        return changed


class _Elements:
    """What is in a tensor's memory."""

    def __init__(self, t: Tensor):
        self.tensor, self.version, self.array = t, version_of(t), t._array
        with Tried():
            self.copy = ops.clone(detached(t))  # type: ignore[attr-defined]

    def put_back(self) -> None:
        """Undoes writes, which have not happened then."""
        t = self.tensor
        if version_of(t) != self.version and t._array is self.array:
            with Tried():
                ops.copy_(detached(t), self.copy)  # type: ignore[attr-defined]
            storage_of(t).version = self.version


def _by_place(effects: Iterable[Effect]) -> dict[tuple[int, Any], Effect]:
    return {
        (id(e.holder), e.key): e for e in effects if e.holder is not Tensor
    }  # whose methods are made when they are asked for


def _put(effect: Effect, value: Any) -> None:
    """Puts a value where something was changed."""
    owner, key, kind = effect.holder, effect.key, effect.kind
    if kind == "cell":
        owner.cell_contents = value
    elif kind == "attribute":
        if value is MISSING:
            delattr(owner, key)
        else:
            setattr(owner, key, value)
    elif kind in ("item", "append"):
        if value is MISSING:
            base_of(owner).__delitem__(owner, key)
        else:
            put_item(owner, key, value)
