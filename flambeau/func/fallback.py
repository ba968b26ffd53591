"""What has no rule for whole batches runs for each sample: records by `each_sample`, public functions by `on_batches`.

A public function is first run as it is written, on the batched tensors. If something in it reads values (`ValuesRead`),
it is run for every sample instead, and the results are stacked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core.refusals import ValuesRead
from .._core.state import local
from .._ops.layout.striding import address, byte_bounds
from .._ops.making.generator import default_generator
from .._ops.registry import ops
from .._tensor import Tensor
from .batched import Batched, batch_size, deepest, make_batched, part_samples, unwrap

# Functions that know what to do with batches themselves: name -> rule(function, level, args, named), which may return
# NotImplemented.
function_rules: dict[str, Callable[..., Any]] = {}


class _Guard(threading.local):
    passed: Any = None  # the function that is about to be run as it is written


_guard = _Guard()


def on_batches(function: Any, args: Any, named: Any) -> Any:
    """The result of a public function of batched tensors; NotImplemented if none is among its arguments."""
    if _guard.passed is function:
        _guard.passed = None
        return NotImplemented
    level = max(deepest(args), deepest(named.values())) if named else deepest(args)
    if not level:
        return NotImplemented
    rule = function_rules.get(function.__name__)
    if rule is not None:
        result = rule(function, level, args, named)
        if result is not NotImplemented:
            return result
    if is_in_place(function) and args and isinstance(args[0], Tensor) and unwrap(args[0], level)[1] is None:
        raise not_possible(function.__name__)
    try:
        return as_written(function, level, args, named)
    except ValuesRead as error:
        if function.__name__ in error.by:
            raise dynamic(function.__name__, *error.by) from None
        reason = error
    if named.get("out") is not None:
        raise reason
    return _each(level, function, args, named, reason)


def as_written(function: Any, level: int, args: Any, named: Any) -> Any:
    """The rule of functions that look after batches themselves."""
    _guard.passed = function
    try:
        return function(*args, **named)
    finally:
        _guard.passed = None


def is_in_place(function: Any) -> bool:
    name = function.__name__
    return name in ("setitem", "__setitem__") or (name.endswith("_") and not name.endswith("__"))


def _each(level: int, function: Any, args: Any, named: Any, reason: ValuesRead) -> Any:
    writes = is_in_place(function)
    if writes and isinstance(args[0], Batched):
        part_samples(args[0])
    outs = _run(level, function, args, named)
    if writes:
        target = args[0]
        if isinstance(target, Batched):  # its history may be another
            target.refresh()
        return target
    return _stacked(function.__name__, outs, level, reason)


def not_possible(name: str) -> RuntimeError:
    return RuntimeError(
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
        "more elements than `self`: `other` is mapped over and `self` is not, so it cannot hold what differs between "
        f"samples. Please try to use out-of-place operators instead of {name}, or, for inplace ones, make `self` from a "
        "mapped tensor, as with `zeros_like`."
    )


def each_sample(level: int, op: Any, args: tuple[Any, ...]) -> Any:
    """Runs a record for each sample and stacks the results: right for every op, fast for none."""
    if getattr(op, "view", False):
        made = _strided_view(level, op, args)
        if made is not NotImplemented:
            return made
    reason = ValuesRead(f"vmap: {op.name} gives a Python value that may differ between samples")
    return _stacked(op.name, _run(level, op, args, {}), level, reason)


def _run(level: int, call: Any, args: Any, named: Any) -> list[Any]:
    count = batch_size((args, named), level)
    if not count:
        raise RuntimeError(
            f"vmap: {getattr(call, 'name', None) or call.__name__}: there is no rule for whole batches, and the "
            "result is not known. The fallback path does not support vmap over dims of size 0"
        )
    with _without(level) as start_sample:
        outs = []
        for i in range(count):
            start_sample()
            outs.append(call(*_sample(args, level, i), **_sample(named, level, i)))
        return outs


@contextmanager
def _without(level: int) -> Iterator[Callable[[], None]]:
    """Closes a level while its samples run alone; gives what is called before each, for their random numbers."""
    before = local.batches
    randomness = next((r for n, _, r in before if n == level), "different")
    if randomness == "error":  # stays open, so that random operations raise
        yield lambda: None
        return
    state = default_generator.get_state() if randomness == "same" else None
    local.batches = tuple(entry for entry in before if entry[0] != level)
    try:
        yield (lambda: None) if state is None else lambda: default_generator.set_state(state) and None
    finally:
        local.batches = before


def _sample(a: Any, level: int, i: int) -> Any:
    """An argument as sample i has it; tensors are views of the batch, so that writes to them arrive there."""
    if isinstance(a, Tensor):
        value, bdim = unwrap(a, level)
        return a if bdim is None else ops.select(value, bdim, i)
    if isinstance(a, dict):
        return {key: _sample(b, level, i) for key, b in a.items()}
    if isinstance(a, slice):
        return slice(_sample(a.start, level, i), _sample(a.stop, level, i), _sample(a.step, level, i))
    if isinstance(a, (list, tuple)) and deepest(a):
        parts = [_sample(b, level, i) for b in a]
        return tuple(parts) if isinstance(a, tuple) else parts
    return a


def _stacked(name: str, outs: list[Any], level: int, reason: ValuesRead) -> Any:
    """The results of all samples as one batched result."""
    first = outs[0]
    if first is None:
        return None
    if isinstance(first, (tuple, list)):
        parts = [_stacked(name, [o[j] for o in outs], level, reason) for j in range(len(first))]
        if type(first) in (tuple, list):
            return type(first)(parts)
        return type(first)._make(parts) if hasattr(first, "_make") else tuple(parts)
    if not isinstance(first, Tensor):
        raise ValuesRead(f"{reason} (Batching rule not implemented for aten::{name}: its result is no tensor.)")
    shape = first._array.shape
    if any(o._array.shape != shape for o in outs):
        raise dynamic(name)
    return make_batched(ops.stack(outs), 0, level)


def dynamic(name: str, *by: str) -> ValuesRead:
    return ValuesRead(
        f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{name}: the "
        "shape of its result depends on the elements, which differ between samples.", by,
    )  # fmt: skip


def outside(shape: Any, strides: Any, offset: int) -> RuntimeError:
    """Why a view by strides is refused: samples must not look into each other's memory."""
    return RuntimeError(
        f"result = tensor.as_strided({list(shape)}, {list(strides)}, {offset}) can access memory outside of `tensor`, which "
        "is one sample. This is not supported inside of vmap: use view operations."
    )


def _strided_view(level: int, op: Any, args: tuple[Any, ...]) -> Any:
    """A view of each sample as one view of the batch: strides that the first sample's view has, the batch's before them."""
    value, bdim = unwrap(args[0], level)
    array = value._array
    if bdim is None or isinstance(value, Batched) or not array.size:
        return NotImplemented
    from .._dispatch import backend_of

    sample = array[(slice(None),) * bdim + (0, ...)]
    made = op.forward(backend_of(value._k), sample, *args[1:])
    if isinstance(made, (tuple, list)) or made.dtype != array.dtype:
        return NotImplemented
    size = array.itemsize
    steps = [s // size for s in (array.strides[bdim], *made.strides)]
    offset = value.storage_offset() + (address(made) - address(array)) // size
    (low, high), (first, last) = byte_bounds(sample), byte_bounds(made)
    if made.size and not low <= first <= last <= high:
        raise outside(made.shape, steps[1:], offset)
    return make_batched(ops.as_strided(value, (array.shape[bdim], *made.shape), steps, offset), 0, level)


__all__ = [
    "as_written", "dynamic", "each_sample", "function_rules", "is_in_place", "not_possible", "on_batches", "outside",
]  # fmt: skip
