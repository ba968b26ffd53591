"""Tensors, and containers of them, that a run found in a place and replaced there (`self.state = lstm(x, self.state)`): later runs find others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._core.state import GRAD
from .._tensor import Tensor
from .arguments import Arguments
from .holders import MISSING, Cell, Effect, External, Fields, Holder, Items, Namespace, plain
from .holders import Sequence as Elements
from .reach import Reach

_PLACES = {"attribute": (Fields,), "item": (Items, Namespace, Elements), "cell": (Cell,)}
Place = tuple[int, Any]


class Carried:
    """What a run carries on: `tensors` are those that it found and the program needs, each with a function that gets it, `made` the places
    where it leaves containers that are to be made again in each run, `containers` those that it found, each with a function that gets it.

    `used(tensor)` says whether the program reads a tensor; `use(tensor)` has it do so.
    """

    def __init__(
        self, reach: Reach, arguments: Arguments, effects: Sequence[Effect], used: Callable[[Tensor], bool], use: Callable[[Tensor], Any]
    ):  # fmt: skip
        self.reach, self.arguments = reach, arguments
        self.tensors: list[tuple[Tensor, Callable[[Any], Tensor]]] = []
        self.made: set[Place] = set()
        self.containers: list[tuple[Any, Callable[[Any], Any]]] = []
        kept = {id(part) for e in effects for part in parts_of(e.new) or ()}
        changed = {id(e.holder) for e in effects}
        waiting = [e for e in effects if self._may_be(e, changed)]
        for e in waiting:
            for t in _tensors(e.old):
                if id(t) in kept:
                    use(t)
        within = {(id(part), home) for e in waiting for part, home in _homes(e.old)}
        self._homes = Counter(part for part, _ in within)
        while True:
            found = Counter(id(part) for e in waiting for part in parts_of(e.old) or ())
            left = [e for e in waiting if all([self._is_alone(part, found, used) for part in parts_of(e.old) or ()])]
            if len(left) == len(waiting):
                break
            waiting = left
        for e in waiting:
            self._carry(e, used)
        for e in effects:
            first = e.old is MISSING or plain(e.old)
            if type(e.new) is not Tensor and parts_of(e.new) and e.kind in _PLACES and first:
                self.made.add(_place(e))

    def _may_be(self, e: Effect, changed: set[int]) -> bool:
        old, new = parts_of(e.old), parts_of(e.new)
        if not old or not new or e.kind not in _PLACES or (e.kind == "item" and not isinstance(e.holder, (dict, list))):
            return False
        if type(e.old) is not Tensor and (_form(e.old) != _form(e.new) or any([id(part) in changed for part in old])):
            return False
        return self._holder(e) is not None

    def _holder(self, e: Effect) -> Holder | None:
        """What looks at the place of an effect."""
        return next((h for h in self.reach.holders if isinstance(h, _PLACES[e.kind]) and h.owner is e.holder), None)

    def _is_alone(self, part: Any, found: Counter[int], used: Callable[[Tensor], bool]) -> bool:
        """Whether a tensor or container, and the memory of a tensor, lies nowhere but in the places that are replaced."""
        if len(self.reach.places(part)) != found[id(part)]:
            return False
        if self._homes[id(part)] > 1:  # what is in one container stays apart from what is elsewhere
            return False
        if type(part) is not Tensor:
            return found[id(part)] == 1
        if part.__dict__ or (part._k & GRAD and used(part)):
            return False
        return not any([one is not part and one._array is part._array for one, _ in self.reach.tensors_met()])

    def _carry(self, e: Effect, used: Callable[[Tensor], bool]) -> None:
        """No longer guards who a tensor is, but what it looks like."""
        holder, parts = self._holder(e), parts_of(e.old) or []
        if isinstance(holder, (Items, Elements)):
            holder.free.add(e.key)
        elif isinstance(holder, Cell):
            self.reach.holders.remove(holder)
        elif isinstance(holder, (Fields, Namespace)):
            (holder.names if isinstance(holder, Fields) else holder.before).pop(e.key, None)
        gone = {id(part) for part in parts}
        kinds = (External, Items, Elements)
        self.reach.holders = [h for h in self.reach.holders if not (isinstance(h, kinds) and id(h.owner) in gone)]
        for part, get in self.arguments.carried(e.holder, e.key, e.kind, e.old, e.path):
            if type(part) is not Tensor:
                self.containers.append((part, get))
                continue
            self.reach.tensors.pop(id(part._array), None)
            if used(part) and not any([part is known for known, _ in self.tensors]):
                self.tensors.append((part, get))
        if type(e.old) is not Tensor:
            self.made.add(_place(e))


def _place(e: Effect) -> Place:
    return id(e.holder), e.key


def parts_of(a: Any) -> list[Any] | None:
    """A tensor, or containers of nothing but tensors, with all that is in them; None for anything else."""
    if type(a) is Tensor:
        return [a]
    if type(a) not in (tuple, list, dict) or (type(a) is dict and not all(map(plain, a))):
        return None
    found = [a]
    for part in a.values() if type(a) is dict else a:
        more = parts_of(part) if part is not a else None
        if more is None:
            return None
        found += more
    return found if any([type(part) is Tensor for part in found]) else None


def _tensors(a: Any) -> Iterator[Tensor]:
    yield from (part for part in parts_of(a) or () if type(part) is Tensor)


def _homes(a: Any, home: int = 0) -> Iterator[tuple[Any, int]]:
    """All tensors in something, each with the id of the container that it is in, if it is in one."""
    if type(a) is Tensor:
        yield a, home
    else:
        for part in a.values() if type(a) is dict else a:
            yield from _homes(part, id(a))


def _form(a: Any) -> Any:
    """What tensors and containers of them look like, as something that can be compared."""
    if type(a) is Tensor:
        return a._array.shape, a.dtype
    return type(a), list(a) if type(a) is dict else None, [_form(b) for b in (a.values() if type(a) is dict else a)]
