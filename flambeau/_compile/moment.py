"""The state of the process and of the thread at a moment: switches and modes that operations ask."""

from __future__ import annotations

from typing import Any

from .._core import devices, dtypes
from .._core.config import config
from .._core.state import AUTOCAST, CAPTURE, local, modes
from .._kernel.threads import pool
from .holders import Holder, Slots

_OTHER = ~CAPTURE
_THREAD = (
    "transforms", "batches", "duals", "forward_grad", "dispatch_off", "overrides_off", "fake", "function_modes", "dispatch_modes",
    "saved_hooks", "anomaly", "profiler",
)  # fmt: skip


class Moment:
    """How the process and the thread are set: `holders` for slots of objects, and conditions as texts, each with words for it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {
            "modes": modes,
            "local": local,
            "place": devices._local,
            "settings": pool.settings,
        }
        self.conditions: list[tuple[str, str]] = []
        self.holders: list[Holder] = [
            _slots(config, "deterministic", "warn_only", "fill_uninitialized_memory", "matmul_precision"),
            _slots(dtypes.default, "float", "complex"),
            _slots(modes, "overrides", "inferring"),
        ]
        on = modes.on & _OTHER
        self._need("local.grad", local.grad, f"grad mode is {local.grad}")
        self.conditions.append(
            (f"modes.on & {_OTHER} == {on}", "modes that are on (autocast, function modes, hooks of saved tensors)")
        )
        self._need("settings[0]", pool.settings[0], f"number of threads == {pool.settings[0]}")
        where = devices._local.device
        self._need("place.device", where, f"default device is {where or 'cpu'}")
        if on or modes.overrides or modes.inferring is not None:  # otherwise no thread has any of these
            self._need("local.inference", local.inference, f"inference mode is {local.inference}")
            for name in _THREAD:
                self._need(f"local.{name}", getattr(local, name), f"state of {name}")
        if on & AUTOCAST:
            cast = local.autocast
            state = None if cast is None else (tuple(cast.on.items()), tuple(cast.dtypes.items()), cast.cached)
            self.values["casting"] = _casting
            self._need(
                "casting(local)", state, "autocast is off" if cast is None else "autocast is on with the same types"
            )

    def _need(self, text: str, value: Any, words: str) -> None:
        if value is None or value is True or value is False:
            self.conditions.append((f"{text} is {value}", words))
        else:
            name = f"m{len(self.values)}"
            self.values[name] = value
            self.conditions.append((f"{text} == {name}", words))

    def changed(self) -> str | None:
        """What is not as it was, in words."""
        for condition, words in self.conditions:
            if not eval(condition, self.values):
                return words
        for holder in self.holders:
            for effect in holder.changes():
                return effect.path
        return None


def _slots(owner: Any, *names: str) -> Slots:
    return Slots(owner, {name: getattr(type(owner), name) for name in names}, type(owner).__name__.strip("_").lower())


def _casting(local: Any) -> Any:
    cast = local.autocast
    return cast and (tuple(cast.on.items()), tuple(cast.dtypes.items()), cast.cached)
