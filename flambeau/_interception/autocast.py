"""Mixed precision: which operations take their tensors in a 16-bit type, in float32 or in the widest type among them.

Nothing here runs unless `autocast` is on in some thread. Functions ask before they run, records in the dispatcher;
both come to `Settings.run`, which calls them again, with the arguments that they should have had and autocast off.
"""

from __future__ import annotations

import functools
from typing import Any

from .._core.allocation import not_planned
from .._core.devices import device
from .._core.dtypes import FLOATING, bfloat16, dtype, float16, float32, float64, promote_types
from .._core.state import (
    AUTOCAST,
    BATCHED,
    CUDA,
    DISPATCH,
    FUNCTION_MODE,
    GRAD,
    META,
    OVERRIDE,
    PROFILE,
    QUANTIZED,
    local,
    modes,
)
from .._dispatch import handlers
from .._ops.records.facts import fact
from .._ops.registry import ops
from .._tensor import Tensor

LOWER, SINGLE = "lower", "single"  # the third policy is the widest type among the tensors
# Devices that programs may name; tensors are on the first two.
KINDS = ("cpu", "cuda", "hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")


@functools.cache
def policies_of(name: str) -> dict[str, str]:
    """What is done for a function: by device, and "whole" if it takes its tensors as they are where it has no policy, and is made of
    nothing that has one."""
    said = fact(name, "autocast")
    found: dict[str, str] = {}
    for one in said.split("/") if said else ():
        kind, _, policy = one.rpartition(":")
        found.update(dict.fromkeys((kind,) if kind else ("whole",) if policy == "whole" else KINDS[:2], policy))
    return found


# Of these PyTorch computes the gates on CPUs in a 16-bit type, but changes the state in the state's own.
_WITH_STATE = frozenset(("gru", "gru_cell", "lstm", "lstm_cell"))


# What may be on though no class or mode is asked for a call: of other threads, or of other tensors of the program.
_LASTING = AUTOCAST | BATCHED | DISPATCH | FUNCTION_MODE | OVERRIDE | PROFILE | QUANTIZED
# What autocast may do, by the types that it uses on both devices: plans know it by these numbers.
_numbers: dict[tuple[dtype | None, ...], int] = {(None, None): 0}


class Settings:
    """What autocast does in one thread."""

    def __init__(self) -> None:
        self.on = dict.fromkeys(KINDS, False)
        brief = ("cpu", "hpu", "maia", "xla")
        self.dtypes: dict[str, dtype] = {kind: bfloat16 if kind in brief else float16 for kind in KINDS}
        self.cached = True  # whether the 16-bit copy of a parameter is kept until the outermost block ends
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}
        self.nesting = 0
        self.number = 0

    def switch(self, kind: str, on: bool) -> None:
        self.on[kind] = on
        active = any(self.on.values())
        if active and local.autocast is None:
            local.autocast = self
            modes.enter(AUTOCAST)
        elif not active and local.autocast is not None:
            local.autocast = None
            modes.leave(AUTOCAST)
        self.tell()

    def tell(self) -> None:
        """Says to this thread's plans what autocast does now."""
        about = tuple([self.dtypes[kind] if self.on[kind] else None for kind in KINDS[:2]])
        if about not in _numbers:
            with modes.lock:
                _numbers.setdefault(about, 2 * len(_numbers))
        local.casting = self.number = _numbers[about] and _numbers[about] + self.cached

    def run(self, function: Any, args: Any, named: Any) -> Any:
        """The result of a call whose tensors have the types that it should have; NotImplemented if any will do."""
        name = getattr(function, "__name__", "")
        policies = policies_of(name)
        if not policies:
            return NotImplemented
        first = args[0] if args and isinstance(args[0], Tensor) else next(_tensors((*args, *named.values())), None)
        if first is None or first._k & META:
            return NotImplemented
        kind = "cuda" if first._k & CUDA else "cpu"
        policy = policies.get(kind) if self.on[kind] else None
        # Otherwise a mode or a class will be asked, and may run anything.
        alone = modes.overrides & ~BATCHED == AUTOCAST or (
            policy == SINGLE
            and not local.function_modes
            and not local.dispatch_modes
            and not modes.overrides & ~_LASTING
            and not any([t._k & (OVERRIDE | DISPATCH) for t in _tensors((*args, *named.values()))])
        )
        if policy is None and not (alone and "whole" in policies):
            return NotImplemented
        while alone and hasattr(function, "public"):  # it has a short path
            function = function.public
        if policy is None or (named and named.get("out") is not None):  # tensors are taken as they are
            return self.without(lambda: function(*args, **named))
        if policy == LOWER:
            target = self.dtypes[kind]
            if kind == "cpu" and name in _WITH_STATE:
                state = _wide_state(name, args, named)
                if state is not None:
                    return self.without(lambda: self.beside_state(function, args, named, state, target))
        elif policy == SINGLE:
            target = float32
        else:
            target = _widest((*args, *named.values()))
        given = [self.fit(a, target) for a in args]
        options = {key: self.fit(a, target) for key, a in named.items()} if named else named
        if alone:
            return self.without(lambda: function(*given, **options))
        before, after = (*args, *named.values()), (*given, *options.values())
        return function(*given, **options) if any([a is not b for a, b in zip(before, after)]) else NotImplemented

    def fit(self, value: Any, target: dtype) -> Any:
        """An argument whose tensors have a type, if they have one that it stands for."""
        if isinstance(value, Tensor):
            d = value.dtype
            return value if d is target or d.category != FLOATING or d is float64 else self.cast(value, target)
        if value.__class__ is list or value.__class__ is tuple:
            fitted = [self.fit(v, target) for v in value]
            return value if all([a is b for a, b in zip(value, fitted)]) else value.__class__(fitted)
        return value

    def beside_state(self, function: Any, args: Any, named: Any, state: Any, target: dtype) -> Any:
        """The result of a recurrent function in float32, from inputs and weights that are rounded to 16 bits."""

        def fit(value: Any) -> Any:
            if value is state:
                return value
            if isinstance(value, Tensor):
                if value.dtype.category != FLOATING or value.dtype is float64:
                    return value
                return ops.to_dtype(value if value.dtype is target else self.cast(value, target), float32)
            if value.__class__ is list or value.__class__ is tuple:
                return value.__class__([fit(v) for v in value])
            return value

        made = function(*[fit(a) for a in args], **{key: fit(a) for key, a in named.items()})
        if _is_projected(state):
            return (*[ops.to_dtype(t, target) for t in made[:2]], made[2])
        return made

    def without(self, call: Any) -> Any:
        """The result of a call for which this thread's autocast is off: what runs inside it has its types."""
        local.autocast, local.casting = None, 0
        modes.leave(AUTOCAST)
        try:
            return call()
        finally:
            local.autocast, local.casting = self, self.number
            modes.enter(AUTOCAST)

    def cast(self, x: Tensor, target: dtype) -> Tensor:
        """A tensor in another type; for parameters the copy is kept, so that a second use finds it."""
        keep = self.cached and target is not float32 and x._k & GRAD and x._edge is None
        if keep:
            not_planned()  # which copy there is Python finds out each time
            found = self.copies.get(id(x))
            if found is not None and found[1].dtype is target and (found[1]._k & GRAD or not local.grad):
                return found[1]
        made = ops.to_dtype(x, target)
        if keep:
            self.copies[id(x)] = (x, made)
        return made


def _wide_state(name: str, args: Any, named: Any) -> Any:
    """The state among the arguments of a recurrent function, if it is in float32 and the result shall be."""
    packed = "batch_sizes" in named or (len(args) > 3 and args[3].__class__ in (list, tuple))
    state = named["hx"] if "hx" in named else args[2 if packed else 1] if len(args) > 1 + packed else None
    parts = state if state.__class__ in (list, tuple) else (state,)
    if not all(isinstance(t, Tensor) and t.dtype is float32 for t in parts):
        return None
    return state if name != "lstm" or packed or _is_projected(state) else None


def _is_projected(state: Any) -> bool:
    return len(state) == 2 and not isinstance(state, Tensor) and state[0]._array.shape[-1] != state[1]._array.shape[-1]


def _tensors(args: Any) -> Any:
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif a.__class__ is list or a.__class__ is tuple:
            yield from (b for b in a if isinstance(b, Tensor))


def _widest(args: Any) -> dtype:
    found = [t.dtype for t in _tensors(args) if t.dtype.category == FLOATING]
    target = found[0] if found else float32
    for d in found[1:]:
        target = promote_types(target, d)
    return target


def settings() -> Settings:
    """Those of this thread."""
    found = getattr(local, "autocast_settings", None)
    if found is None:
        found = local.autocast_settings = Settings()
    return found


def kind_of(device_type: Any) -> str:
    """The name of a device that autocast knows."""
    kind = device(device_type).type if not isinstance(device_type, str) or ":" in device_type else device_type
    if kind not in KINDS:
        raise RuntimeError(f"autocast is not available for device type {kind!r}; it is for {', '.join(KINDS)}")
    return kind


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """For records that are called directly."""
    settings = local.autocast
    if settings is None:
        return NotImplemented
    if ("cuda" if k & CUDA else "cpu") in policies_of(op.name):
        return settings.run(op.call, args, {})
    if k & ~(GRAD | AUTOCAST):
        return NotImplemented
    return settings.without(lambda: op.call(*args))  # nothing else is special: the short way


handlers[AUTOCAST] = _handle
