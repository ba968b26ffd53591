"""Guards: one function that says whether everything that a recorded run depended on is as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import config as _config
from .._core import devices, dtypes
from .._core.state import AUTOCAST, CAPTURE, local, modes
from .._kernel.native import pool
from .._tensor import Tensor
from .arguments import Arguments
from .holders import Effect, Holder, Slots, grad_of, same
from .reach import Reach
from .words import Scan


class Guards:
    """What a recorded run depended on.

    `check(args, kwargs)` says whether a call may take the recorded program, `reason` why not. `tensors` are those that the
    run could find besides its arguments, `grads` the gradients among them with the tensors whose they are, `effects` the
    changes to Python objects that the run made.
    """

    def __init__(self, arguments: Arguments, reach: Reach, effects: list[Effect]):
        self.effects = effects
        self.tensors: dict[int, tuple[Tensor, str]] = reach.tensors
        self.grads: dict[int, tuple[Tensor, str]] = {}
        self._arguments = arguments
        trains = bool(reach.names & {"grad", "backward"})
        if trains:
            for t, path in reach.tensors.values():
                g = grad_of(t)
                if g is not None:
                    self.grads[id(g._array)] = t, f"{path}.grad"
        self._holders: list[Holder] = [*_settings(), *reach.holders]
        for holder in self._holders:
            if trains and hasattr(holder, "trains"):
                holder.trains = True
            holder.close()
        self._state = _state_conditions(arguments)
        self._scan = Scan(self._holders)
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
        for condition, _ in (*self._state, *arguments.conditions):
            lines += [f"        if not ({condition}):", "            return False"]
        lines += [
            "    except (AttributeError, IndexError, KeyError, TypeError):",
            "        return False",
            "    return hold()" if self._scan.slow else "    return scan() is True or hold()",
        ]
        values = {**arguments.values, "hold": self._scan.hold, "scan": self._scan.scan}
        exec(compile("\n".join(lines), "<guards>", "exec"), values)
        return values["check"]  # type: ignore[no-any-return]

    def reason(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The first guard that does not hold, in words; an empty text if all do."""
        arguments = self._arguments
        if len(args) != arguments.count:
            return f"number of positional arguments == {arguments.count}"
        if tuple(kwargs) != arguments.named:
            return f"keyword arguments are {list(arguments.named)}"
        values = {**arguments.values, "args": args, "kwargs": kwargs}
        for condition, words in (*self._state, *arguments.conditions):
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


def _settings() -> list[Holder]:
    """Switches of the whole process."""
    return [
        _slots(_config.config, "deterministic", "warn_only", "fill_uninitialized_memory", "matmul_precision"),
        _slots(dtypes.default, "float", "complex"),
        _slots(modes, "overrides", "inferring"),
    ]


def _slots(owner: Any, *names: str) -> Slots:
    return Slots(owner, {name: getattr(type(owner), name) for name in names}, type(owner).__name__.strip("_").lower())


_OTHER = ~CAPTURE


def _state_conditions(arguments: Arguments) -> list[tuple[str, str]]:
    """The modes of this thread."""
    on = modes.on & _OTHER
    arguments.values.update(modes=modes, local=local, place=devices._local, settings=pool.settings, same=same)
    found = [
        (f"local.grad is {local.grad}", f"grad mode is {local.grad}"),
        (
            f"modes.on & {_OTHER} == {on}",
            "modes that are on (autocast, function modes, hooks on saved tensors, anomaly detection)",
        ),
        (f"local.inference is {local.inference}", f"inference mode is {local.inference}"),
        (f"settings[0] == {pool.settings[0]}", f"number of threads == {pool.settings[0]}"),
    ]
    where = devices._local.device
    found.append(
        ("place.device is None", "default device is cpu")
        if where is None
        else (f"place.device == {arguments.constant(where)}", f"default device is {where}")
    )
    for name in ("transforms", "batches", "duals", "forward_grad", "dispatch_off", "overrides_off", "fake"):
        value = getattr(local, name)
        found.append((f"local.{name} == {arguments.constant(value)}", f"state of {name}"))
    if on:
        for name in ("function_modes", "dispatch_modes", "saved_hooks", "anomaly", "profiler"):
            value = getattr(local, name)
            found.append((f"local.{name} == {arguments.constant(value)}", f"state of {name}"))
    if on & AUTOCAST:
        cast = local.autocast
        if cast is None:
            found.append(("local.autocast is None", "autocast is off"))
        else:
            state = tuple(cast.on.items()), tuple(cast.dtypes.items()), cast.cached
            text = "(tuple((c := local.autocast).on.items()), tuple(c.dtypes.items()), c.cached)"
            found.append((f"{text} == {arguments.constant(state)}", "autocast is on with the same types"))
    return found
