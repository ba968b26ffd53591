"""The one call path of operations that are not plain: overrides, batching, capture, autocast, devices, history.

Ops with only plain CPU operands never come here; what comes here is decided by the bits in `_k` and `modes.on`.
"""

from __future__ import annotations

from typing import Any

from ._autograd.rehearsal import recorded
from ._backend.cpu import cpu
from ._backend.placement import gpu_count
from ._core.config import memory_problem
from ._core.state import (
    ANOMALY,
    AUTOCAST,
    BATCHED,
    CAPTURE,
    CUDA,
    DISPATCH,
    DUAL,
    FUNCTION_MODE,
    GRAD,
    META,
    OVERRIDE,
    POSTPONED,
    PROFILE,
    QUANTIZED,
    SAVED_HOOKS,
    SPARSE,
    local,
    modes,
    unobserved,
)
from ._tensor import Tensor, computed

# Handlers of rarer properties, by bit, tried in this order; each layer that owns one registers it here.
# handler(op, args, k) -> result, or NotImplemented to go on.
handlers: dict[int, Any] = {}
IN_PARTS = 0  # what shows an operation as several to those who look below autograd
_PLAIN = GRAD | CAPTURE | FUNCTION_MODE  # neither tensors that are special nor who looks at derivatives
_ORDER = (FUNCTION_MODE, OVERRIDE, BATCHED, AUTOCAST, DUAL, SPARSE, QUANTIZED)


# Set where machine code can carry out plans: (record, function of its arguments) -> the same with plans before it.
record_site: Any = None


def special(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs an op whose operands or moment are not plain."""
    k |= modes.on
    if k & ~GRAD == CUDA and record_site is not None:  # plain, but for the device
        try:
            call = op.on_device
        except AttributeError:
            call = op.on_device = record_site(op, _on_device(op))
        return call(*args)
    return run_special(op, args, k)


def _on_device(op: Any) -> Any:
    def call(*args: Any) -> Any:
        k = modes.on
        for t in tensors_in(args):
            k |= t._k
        return run_special(op, args, k)

    return call


def run_special(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """What `special` does if there is no plan."""
    for bit in _ORDER:
        if k & bit:
            result = handlers[bit](op, args, k)
            if result is not NotImplemented:
                return result
    if k & DISPATCH:
        out = handlers[IN_PARTS](op, args)
        if out is not NotImplemented:
            return out
        out = handlers[DISPATCH](op, args, k)
        if out is not NotImplemented:
            out = tuple(out) if isinstance(out, list) else out
            if k & GRAD and local.grad:
                op.record(args, out, bool(k & ANOMALY))
            return out
    if k & CAPTURE and local.captures and not k & (SAVED_HOOKS | DISPATCH):  # no code of users runs inside
        with unobserved():
            return _run(op, args, k)
    return _run(op, args, k)


def _run(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Computes, keeps history, and tells recordings."""
    if k & (CUDA | META):
        _check_devices(op, args)
    given = args
    if k & POSTPONED and not getattr(op, "view", False):
        given, k = tuple([_computed(a) for a in args]), k & ~POSTPONED
    tapes, local.captures = local.captures, ()  # records that a record uses are its own
    try:
        if k & PROFILE and local.profiler is not None:
            out = local.profiler.compute(op, given, k)
        else:
            out = op.compute(given, k)
    except MemoryError as error:
        raise (memory_problem(error) or error) from error
    finally:
        local.captures = tapes
    try:
        if k & GRAD and local.grad:
            if k & ~_PLAIN:
                op.record(args, out, bool(k & ANOMALY))
            else:
                recorded(op, args, out)
    finally:  # a hook for what is saved may end a recomputation here
        if k & CAPTURE and tapes:
            tapes[-1].add(op, args, out)
    return out


def _computed(a: Any) -> Any:
    if isinstance(a, Tensor):
        return computed(a)
    return type(a)([_computed(b) for b in a]) if a.__class__ is list or a.__class__ is tuple else a


def backend_of(k: int) -> Any:
    """The backend that computes on tensors with these properties."""
    if k & CUDA:
        from ._backend.cuda import cuda  # loads CuPy

        return cuda
    return cpu


def tensors_in(args: Any) -> list[Tensor]:
    """All tensors among arguments, lists included, in order."""
    found = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif a.__class__ is list or a.__class__ is tuple:
            found += [b for b in a if isinstance(b, Tensor)]
    return found


def _check_devices(op: Any, args: tuple[Any, ...]) -> None:
    """All tensors must be on one device; a 0-d CPU tensor counts as a number."""
    tensors = tensors_in(args)
    kinds = [t._k & (CUDA | META) for t in tensors if t._k & (CUDA | META) or t._array.ndim]
    if len(kinds) < 2 or (kinds.count(kinds[0]) == len(kinds) and (kinds[0] == META or gpu_count() == 1)):
        return
    devices = dict.fromkeys(t.device for t in tensors if t._array.ndim or t._k & (CUDA | META))
    if len(devices) > 1:
        first, second = list(devices)[:2]
        raise RuntimeError(
            f"{op.name}: Expected all tensors to be on the same device, got {first} and {second}; "
            f"move one, for example with .to('{first}')"
        )
