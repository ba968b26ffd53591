"""Guards: one function that says whether everything that a recorded run depended on is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._tensor import Tensor
from .arguments import Arguments
from .chosen import Choice, choose
from .holders import Effect, Holder, grad_of
from .moment import Moment
from .reach import Reach
from .words import Scan


class Guards:
    """What a recorded run depended on.

    `check(args, kwargs)` says whether a call may take the recorded program, `reason` why not. `tensors` are those that the
    run could find besides its arguments, `grads` the gradients among them with the tensors whose they are, `effects` the
    changes to Python objects that the run made. `others` are guards of runs with other arguments: if what was found besides
    these is the same, it is looked at in one place. `choice` says which guards stay.
    """

    def __init__(
        self, arguments: Arguments, moment: Moment, reach: Reach, effects: list[Effect], others: Iterable[Guards] = (),
        choice: Choice | None = None,
    ):  # fmt: skip
        self.effects = effects
        self.tensors: dict[int, tuple[Tensor, str]] = reach.tensors
        self.grads: dict[int, tuple[Tensor, str]] = {}
        self._arguments = arguments
        trains = "grad" in reach.names  # what only the engine and optimizers see is theirs when the program runs
        if trains:
            for t, path in reach.tensors.values():
                g = grad_of(t)
                if g is not None:
                    self.grads[id(g._array)] = t, f"{path}.grad"
        arguments.guard_memory([t for t, _ in reach.tensors.values()])
        if reach.names & _LEAVES:
            arguments.guard_leaves()
        if "is_inference" in reach.names:
            arguments.guard_inference()
        arguments.guard_identity({type(effect.holder) for effect in effects}, reach.seen)
        self.find = arguments.finder()
        found = reach.holders if choice is None else choose(choice, arguments, reach.holders)
        self._holders: list[Holder] = [*moment.holders, *found]
        for holder in self._holders:
            if trains and hasattr(holder, "trains"):
                holder.trains = True
            holder.close()
        self._conditions = [*moment.conditions, *arguments.conditions]
        self._covered = set(arguments.covered)
        self._values = {**moment.values, **arguments.values}
        alike = next((other for other in others if _alike(self._holders, other._holders)), None)
        if alike is not None:
            self._holders = alike._holders
        self._scan: Scan = Scan(self._holders) if alike is None else alike._scan
        self.check: Callable[[Any, Any], bool] = self._generate()

    def _generate(self) -> Callable[[Any, Any], bool]:
        arguments = self._arguments
        lines = [
            "def check(args, kwargs):",
            f"    if len(args) != {arguments.count} or "
            + (f"(*kwargs,) != {arguments.named}:" if arguments.named else "kwargs:"),
            "        return False",
            "    try:",
        ]
        covering = arguments.covering
        for condition, words in self._conditions:
            if covering is None or (condition, words) not in self._covered:
                lines += [f"        if not ({condition}):", "            return False"]
        if covering is not None:
            lines.append(f"        if {covering} is not True:")
            lines += [f"            if not ({condition}): return False" for condition, _ in arguments.covered]
        lines += [
            "    except (AttributeError, IndexError, KeyError, TypeError):",
            "        return False",
            "    return hold()" if self._scan.slow else "    return scan() is True or hold()",
        ]
        values = {**self._values, "hold": self._scan.hold, "scan": self._scan.scan}
        exec(compile("\n".join(lines), "<guards>", "exec"), values)
        return values["check"]

    def texts(self) -> list[str]:
        """The guards of arguments and modes, in words."""
        return [words for _, words in self._conditions]

    def reason(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first guard that does not hold, in words; an empty text if all do."""
        arguments = self._arguments
        if len(args) != arguments.count:
            return f"number of positional arguments == {arguments.count}"
        if tuple(kwargs) != arguments.named:
            return f"keyword arguments are {list(arguments.named)}"
        values = {**self._values, "args": args, "kwargs": kwargs}
        for condition, words in self._conditions:
            try:
                if not eval(condition, values):
                    return words
            except (AttributeError, IndexError, KeyError, TypeError):
                return words
        for holder in self._holders:
            words_of = holder.failing()
            if words_of is not None:
                return words_of
        return ""


def _alike(holders: list[Holder], others: list[Holder]) -> bool:
    return len(holders) == len(others) and all(map(Holder.like, holders, others))


_LEAVES = frozenset(("is_leaf", "grad_fn", "retain_grad", "retains_grad", "grad"))  # tell leaves from results
