"""Operations that write into a part of their first argument: each is a function that writes, from which the
out-of-place record, the in-place form and `out=` are made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._backend.copies import duplicate, row_major
from ..._backend.cpu import cpu
from ..._core.dtypes import COMPLEX, dtype
from ..._core.state import CUDA, DISPATCH, GRAD, META, local, modes
from ..._dispatch import _check_devices, backend_of
from ..._tensor import Tensor, alias, bump, wrap
from .. import registry
from ..basic import zeros
from ..plans.device_plans import Writing
from ..registry import functions, methods, ops
from .casting import checked_number
from .inplace import assign, before_write, keep_original, pointwise_in_place
from .pointwise_op import Pointwise
from .primitive import Primitive
from .rewriting import rewrite_history
from .shape_rules import dense, same
from .writable import check_apart, check_writable, overlaps_itself, warn_of_expanded

_PLAIN = GRAD | CUDA | META


class Update(Primitive):
    """A primitive made from `write(backend, x, …)`, which changes x; x is copied first unless it runs in place.

    The copy lies in memory as x does, or by rows if `rows` says so. In place, the first `apart` of the other arguments
    may not share x's memory. `expanded` is the name by which a warning calls the in-place form when elements of x share
    memory; without one that raises.
    """

    def __init__(
        self, write: Callable[..., Any], rows: bool = False, apart: int | None = None, expanded: str | None = None,
        **options: Any,
    ):  # fmt: skip
        def forward(backend: Any, x: Any, *rest: Any) -> Any:
            out = row_major(x) if rows else duplicate(x)
            write(backend, out, *rest)
            return out

        forward.__name__ = write.__name__
        forward.__signature__ = inspect.signature(write)  # type: ignore[attr-defined]
        options.setdefault("meta", same if rows else dense)
        super().__init__(forward, **options)
        self.write, self.apart, self.expanded = write, apart, expanded
        self.on_device_in_place = Writing(self.name, self.names, functools.partial(_write, self))
        # a derivative that looks at the old or new value of x needs them as separate tensors
        self.keeps = any(
            kind in ("out", "outs") or (kind == "value" and position == 0)
            for formula in self.formulas if formula is not None
            for kind, position in formula[1]
        )  # fmt: skip


def update(**options: Any) -> Callable[[Any], Update]:
    """Declares an `Update` over a function that writes into its first array."""
    return lambda write: Update(write, **options)


def write_into(op: Update, t: Tensor, *rest: Any) -> Tensor:
    """t = op(t, *rest) in t's own memory, with its history."""
    check_writable(t, rest, op.expanded is not None, partial=False)
    if op.apart != 0:
        check_apart(t, rest if op.apart is None else rest[: op.apart])
    if op.expanded is not None and 0 in t._array.strides and overlaps_itself(t._array):
        warn_of_expanded(op.expanded)
    args = (t, *rest)
    k = 0
    for a in args[: op.tensors]:
        if isinstance(a, Tensor):
            k |= a._k
    if not (
        modes.on and overlaps_itself(t._array)
    ):  # a copy of it written back would undo what is written; recordings see that it was
        k |= modes.on
    tracked = bool(k & GRAD and local.grad)
    if k & ~_PLAIN or (tracked and op.keeps):
        before = before_write(t) if local.grad else t
        result = op(before, *rest)
        keep_original(before, result)
        return assign(t, result, op.name)
    if k & (CUDA | META):
        _check_devices(op, args)
    before = alias(t) if tracked else t
    if k & CUDA:
        op.on_device_in_place(t, *rest)
    else:
        if not k & META:
            _run(op, t, rest)
        bump(t)
    if tracked:
        result = alias(t)
        result._edge = result._view = None
        result._k &= ~GRAD
        op.record((before, *rest), result)
        if result._edge is not None:
            rewrite_history(t, result._edge)
    return t


def apart(array: Any, target: Any) -> Any:
    """`array`, copied if its memory may be that of `target`, which is about to be written."""
    return array.copy() if np.may_share_memory(array, target) else array


def _write(op: Update, t: Tensor, *rest: Any) -> Tensor:
    """Writes into a tensor on a GPU, and counts that."""
    backend = backend_of(CUDA)
    op.write(backend, t._array, *[_on_device(backend, a) if isinstance(a, Tensor) else a for a in rest])
    bump(t)
    return t


def _run(op: Update, t: Tensor, rest: Any) -> None:
    array, backend = t._array, cpu
    given = [apart(a._array, array) if isinstance(a, Tensor) else a for a in rest]
    if array.flags.aligned:
        op.write(backend, array, *given)
    else:
        settled = array.copy()
        op.write(backend, settled, *given)
        array[...] = settled


def _on_device(backend: Any, t: Tensor) -> Any:
    return t._array if t._k & CUDA else backend.number(t._array)


def updates(
    *, out: bool = True, method: bool = True, aliases: Iterable[str] = (), expanded: Any = None
) -> Callable[[Any], Any]:
    """Makes public forms of a function that checks its arguments and returns (record, arguments of the record).

    `expanded` is what a pointwise operation in place calls instead, if elements of its input share memory.
    """

    def decorate(prepare: Any) -> Any:
        name = prepare.__name__

        @functools.wraps(prepare)
        def plain(*args: Any, **named: Any) -> Any:
            op, given = prepare(*args, **named)
            return op.call(*given)

        def changed(*args: Any, **named: Any) -> Any:
            op, given = prepare(*args, **named)
            if isinstance(op, Pointwise):
                array = given[0]._array
                if expanded is not None and 0 in array.strides and overlaps_itself(array):
                    return expanded(*given)
                return pointwise_in_place(op, *given)
            return write_into(op, *given)

        changed.__name__ = changed.__qualname__ = name + "_"
        changed.__doc__ = f"{name} that writes into its input."
        changed.__signature__ = signature = inspect.signature(prepare)  # type: ignore[attr-defined]
        plain.out_rule = "exact"  # type: ignore[attr-defined]
        plain = registry._overridable(plain, out)
        changed = registry._overridable(changed)
        shown = registry.with_plans(plain, name)
        writing = registry.with_plans(changed, name + "_", False, [next(iter(signature.parameters))])
        for form in (name, *aliases):
            setattr(ops, form, shown)
            setattr(ops, form + "_", writing)
            functions[form] = shown
            if method:
                methods[form], methods[form + "_"] = shown, writing
        return plain

    return decorate


def fitting(value: Tensor, d: dtype) -> Tensor:
    """A 0-d tensor cast to a dtype, which must hold its value as it must hold a number."""
    if not value._k & META:
        checked_number(value.item(), d)
    if value.dtype.category == COMPLEX and d.category != COMPLEX:
        value = ops.real(value)
    return ops.to_dtype(value, d)


def grown(g: Tensor, shape: Any) -> Tensor:
    """A gradient of a leading corner of a tensor, with zeros for the rest of it."""
    if tuple(g._array.shape) == tuple(shape):
        return g
    return ops.getitem_backward(g, tuple(shape), tuple(slice(n) for n in g._array.shape))


def into_zeros(op: Update, shape: Any, g: Tensor, *rest: Any) -> Tensor:
    """op on zeros of a shape, with the dtype and device of `g`: derivatives of operations that read a part."""
    k = g._k | modes.on
    for a in rest:
        if isinstance(a, Tensor):
            k |= a._k
    if not k:
        made = cpu.zeros(shape, g.dtype.numpy)
        op.write(cpu, made, *[a._array if isinstance(a, Tensor) else a for a in rest])
        return wrap(made, g.dtype)
    fresh = ops.new_zeros(g, shape) if k & DISPATCH else zeros(tuple(shape), g.dtype, g._k)
    return op(fresh, *rest) if (g._k | modes.on) & ~_PLAIN else write_into(op, fresh, *rest)


SCHEMAS = """
index_put_2  # record=index_put_
"""
