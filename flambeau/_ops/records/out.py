"""`out=`: results written into given tensors, with PyTorch's checks."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..._core.dtypes import COMPLEX, bool_, can_cast, dtype
from ..._core.layouts import like_strides
from ..._core.return_types import with_out
from ..._core.state import BATCHED, CAPTURE, CUDA, DISPATCH, DUAL, GRAD, META, local, modes
from ..._dispatch import tensors_in
from ..._errors.frames import warn_user
from ..._tensor import Tensor, bump, read_as
from .. import registry
from ..plans.sites import planned_writer
from ..registry import ops, records
from .casting import laid, write
from .inplace import shown, write_plain
from .pointwise_op import Pointwise
from .rules import type_name
from .writable import apart_or_same, check_partial_overlap, check_writable, overlaps_itself, same_memory

show_out: Any = None  # set by `torch_dispatch`: shows a call to a mode, which carries it out
_WORTH_A_COPY = 1 << 20  # bytes of a result from which it pays to see whether it can be made in its place
_writers: dict[Any, Any] = {}  # by function


def into_out(target: Any, function: Any, args: Any, named: Any) -> Any:
    """Runs a function and writes its result(s) into the given tensor(s), resizing them if need be; as planned before, if it was."""
    if target.__class__ is not Tensor or target._k & ~(GRAD | CUDA) or target._array.nbytes >= _WORTH_A_COPY:
        return _into_out(target, function, args, named)
    writer = _writers.get(function)
    if writer is None:
        writer = _writers[function] = _planned_writer(function)
    return writer(target, *args, **named)


def _planned_writer(function: Any) -> Any:
    """A function that writes what another one gives into its first argument, and remembers how."""

    kinds = [p for p in inspect.signature(function).parameters.values() if p.name != "out"]
    names = [p.name for p in kinds if p.kind is not p.KEYWORD_ONLY]

    def write(out: Tensor, *args: Any, **named: Any) -> Tensor:
        given = list(args)
        for name in names[len(args) :]:
            if name not in named:
                break
            given.append(named.pop(name))
        return _into_out(out, function, given, named)

    fixed = not any([p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in kinds])
    return planned_writer(write, ["out", *[p.name for p in kinds]], 1 + len(names)) if fixed else write


def _into_out(target: Any, function: Any, args: Any, named: Any) -> Any:
    record: Any = records.get(function.__name__)
    pointwise = record.__class__ is Pointwise
    plain = isinstance(target, Tensor)
    if not plain:
        public = function if record is None else registry.public_form(record)
        taken = NotImplemented if public is None else registry.ask_foreign(public, args, {**named, "out": target})
        if taken is not NotImplemented:
            return taken
    if pointwise and not record.takes_out:
        raise TypeError(f"{function.__name__}() got an unexpected keyword argument 'out'")
    if pointwise and plain and args and function is record.call and write_plain(record, target, args[0], args[1:]):
        return target
    if local.grad:
        for a in [*args, *named.values(), *(target if isinstance(target, (tuple, list)) else (target,))]:
            if isinstance(a, Tensor) and a._k & (GRAD | DUAL):
                if a._k & DUAL:
                    raise NotImplementedError(
                        f"Trying to use forward AD with {function.__name__}_out that does not support it because it is an "
                        "out= function"
                    )
                raise RuntimeError(
                    f"{function.__name__}(): functions with out=... arguments don't support automatic differentiation, but "
                    "one of the arguments requires grad. detach() it, or leave out= away"
                )
    if local.duals is not None and any(t._k & DUAL for t in tensors_in((*args, *named.values(), target))):
        raise RuntimeError(
            f"{function.__name__}(): an out= function cannot be used with tensors that have a forward gradient; leave out= away"
        )
    if plain and modes.overrides & DISPATCH and show_out(function, args, named, target):
        return target
    if plain and pointwise and not target._k & META:
        memory = target._storage
        for a in args:
            if isinstance(a, Tensor) and a is not target and memory is not None and memory.has_memory_of(a._storage):
                check_partial_overlap(target._array, a._array)
    rule = getattr(function, "out_rule", None)
    if rule == "dtype" and plain:
        if named.get("dtype") is None:
            named = {**named, "dtype": target.dtype}
        else:
            rule = "exact"
    place = _destination(target, (*args, *named.values()), pointwise) if plain else None
    if place is None:
        result = function(*args, **named)
    else:
        before, local.destination = local.destination, place
        try:
            result = function(*args, **named)
        finally:
            local.destination = before
        if isinstance(result, Tensor) and same_memory(target._array, result._array):
            bump(target)
            return target
    if pointwise and record.exact_out and plain and result.dtype is not target.dtype:
        _refuse_cast(record, args[0] if args else named["input"], result.dtype, target.dtype)
    if rule == "exact" and plain and isinstance(result, Tensor):
        check_out_dtype(target, result.dtype)
    elif rule.__class__ is tuple and plain and target.dtype is not result.dtype:
        text, also, of = rule
        if target.dtype in also:
            result = ops.to_dtype(result, target.dtype)
        elif of is None or of(*args, **named):
            raise RuntimeError(text.format(out=type_name(target.dtype), made=type_name(result.dtype)))
    if isinstance(result, (tuple, list)):
        if not isinstance(target, (tuple, list)) or len(target) != len(result):
            raise TypeError(f"{function.__name__}(): argument 'out' must be a tuple of {len(result)} Tensors")
        for t, r in zip(target, result):
            if isinstance(t, Tensor):
                check_out_dtype(t, r.dtype)
            write_out(t, r, function.__name__)
        return type(result)(target) if type(result) in (tuple, list) else with_out(type(result))(*target)
    return write_out(target, result, function.__name__)


def check_out_dtype(t: Tensor, made: dtype) -> None:
    """Raises for an `out=` of another dtype than the result's."""
    if t.dtype is not made:
        raise RuntimeError(
            f"Expected out tensor to have dtype {made.name} (scalar type {type_name(made)}), but got {t.dtype.name} instead "
            f"(expected scalar_type {type_name(made)} but found {type_name(t.dtype)})"
        )


def _refuse_cast(op: Pointwise, input: Tensor, made: dtype, wanted: dtype) -> None:
    """Raises for an `out=` of another dtype than the result's; a part of a complex number may be cast."""
    if made is bool_ and input.dtype is not bool_:
        raise RuntimeError(f"{op.name} does not support non-boolean outputs.")
    if input.dtype.category != COMPLEX or made.category == COMPLEX:
        raise RuntimeError(f"Found dtype {type_name(wanted)} but expected {type_name(made)}")


def _destination(target: Tensor, args: tuple[Any, ...], pointwise: bool) -> Any:
    """What to offer as the place of the result (see `Local.destination`); None where it must be written later.

    An operand may lie in the very same place if the function is one pointwise record: nothing reads it later.
    """
    k = target._k | modes.on
    array = target._array
    if k & ~(GRAD | CUDA) or array.nbytes < _WORTH_A_COPY or overlaps_itself(array):
        return None
    shared = False
    for a in tensors_in(args):
        if a._k & ~(GRAD | CUDA):
            return None
        if (a._k ^ target._k) & CUDA:  # a number, or an error
            continue
        if not apart_or_same(array, a._array):
            return None
        if same_memory(array, a._array):
            shared = True
            if not pointwise:
                return None
    if k & CUDA:
        return array, False
    return (array, array.flags.c_contiguous and not shared) if array.flags.writeable else None


def write_out(t: Any, result: Tensor, name: str) -> Tensor:
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if (t._k | result._k) & BATCHED:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work on out= or view ops: inside "
            "vmap leave out=, and use the result."
        )
    if not can_cast(result.dtype, t.dtype):
        raise RuntimeError(
            f"result type {type_name(result.dtype)} can't be cast to the desired output type {type_name(t.dtype)}"
        )
    if (t._k ^ result._k) & (CUDA | META):
        raise RuntimeError(f"{name}(): Expected out tensor to have device {result.device}, but got {t.device} instead")
    made = result._array
    if tuple(t._array.shape) != made.shape:
        resize_out(t, made.shape)
        if made.__class__ is np.ndarray and not made.flags.c_contiguous and not t._k & META:
            t._array = strided_like(t._array, made)
    check_writable(t, captured=True)
    if not shown(t, result) and not t._k & META:
        write(t._array, laid(read_as(result._array, result._k), t), t.dtype)
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].add_write(t, result)
    bump(t)
    return t


def strided_like(array: Any, made: Any) -> Any:
    """A row-major array's memory, addressed in the order of another array of that shape."""
    steps = tuple([s * array.itemsize for s in like_strides(made.shape, made.strides, made.itemsize)])
    return np.ndarray(made.shape, array.dtype, array.reshape(-1).view(np.uint8), 0, steps)


def resize_out(t: Tensor, shape: Any) -> None:
    if tuple(t._array.shape) == tuple(shape):
        return
    if t._array.size:
        warn_user(
            f"An output with one or more elements was resized since it had shape {list(t._array.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. Pass one of that shape, or an empty one."
        )
    ops.resize_(t, shape)


registry.into_out = into_out
