"""What the functions of linear algebra share: checks of arguments, errors, the identity, how results lie in memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._backend import lapack, threads
from ..._backend.copies import rows_of
from ..._backend.cpu import cpu
from ..._core.dtypes import FLOATING, bfloat16, float16
from ..._core.sizes import broadcast_shapes
from ..._kernel.folds.counting import any_nonzero
from ..._tensor import Tensor
from ..records.batching import leading
from ..records.primitive import primitive
from ..records.refusals import is_met, refusal
from ..records.rules import type_name
from ..records.shape_rules import column_strides, dtype_of
from ..records.tangents import linear
from ..registry import ops


def eye_like(t: Tensor, rows: int, columns: int | None = None) -> Tensor:
    """The identity (cut to so many columns) with a tensor's dtype, where the tensor is."""
    return ops.eye(rows, columns, dtype=t.dtype, device=t.device)


class LinAlgError(RuntimeError):
    """A matrix that the operation cannot be done with: singular, not positive-definite, no convergence."""


def check_matrix(name: str, x: Any, what: str = "A", low: bool = False) -> None:
    """A tensor of floating or complex matrices; 16-bit types only if `low`."""
    if x._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {what} must have at least 2 dimensions.")
    check_floating(name, x, low)


def check_floating(name: str, x: Tensor, low: bool = False) -> None:
    d = x.dtype
    if d.category < FLOATING:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {type_name(d)}")
    if not low and (d in (float16, bfloat16) or d.itemsize < 4 or d.name == "complex32"):
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(d)}")


def check_square(name: str, x: Any, what: str = "A", low: bool = False) -> None:
    check_matrix(name, x, what, low)
    m, n = x._array.shape[-2:]
    if m != n:
        raise RuntimeError(f"{name}: {what} must be batches of square matrices, but they are {m} by {n} matrices")


def check_same(name: str, a: Tensor, b: Tensor, first: str = "A", second: str = "B") -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type "
            f"{type_name(a.dtype)} and {second} of type {type_name(b.dtype)} instead"
        )


def matched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches of matrices with their batch dimensions broadcast to each other."""
    x, y = a._array.shape, b._array.shape
    if x[:-2] == y[:-2]:
        return a, b
    lead = broadcast_shapes(x[:-2], y[:-2])
    return ops.expand(a, (*lead, *x[-2:])), ops.expand(b, (*lead, *y[-2:]))


@refusal
def check_info(backend: Any, info: Any, message: str) -> None:
    """Raises for the first matrix that an operation failed on; `message` tells of the number that the operation says of it."""
    flat = info.reshape(-1)
    if is_met(any_nonzero, flat) if backend is cpu else flat.any():
        place = int((flat != 0).argmax())
        name, colon, rest = message.format(int(flat[place])).partition(": ")
        raise LinAlgError(f"{name}: (Batch element {place}): {rest}" if info.ndim else name + colon + rest)


_SEVERAL = 1 << 11  # elements of a batch that are worth several threads


def _in_parts(function: Any, a: Any, *args: Any, **named: Any) -> Any:
    """A function of a batch of matrices that gives arrays or None, on parts of the batch side by side."""
    flat = a.reshape(-1, *a.shape[-2:])
    parts = threads.ranges(len(flat), 4)
    found: list[Any] = [None] * len(parts)

    def run(i: int, start: int, stop: int) -> None:
        found[i] = function(flat[start:stop], *args, **named)

    if len(parts) == 1:
        return function(a, *args, **named)
    threads.run([functools.partial(run, i, *part) for i, part in enumerate(parts)])

    def joined(pieces: Any) -> Any:
        if pieces[0] is None:
            return None
        made = np.concatenate(pieces)
        return made.reshape(*a.shape[:-2], *made.shape[1:])

    if isinstance(found[0], tuple):
        return tuple(joined(pieces) for pieces in zip(*found))
    return joined(found)


def converged(name: str, function: Any, *args: Any, **named: Any) -> Any:
    """A call of NumPy's linear algebra; its error becomes ours."""
    try:
        with lapack.few_threads(args[0].size):
            if args[0].ndim > 2 and args[0].__class__ is np.ndarray and args[0].size >= _SEVERAL:
                return _in_parts(function, *args, **named)
            return function(*args, **named)
    except np.linalg.LinAlgError as problem:
        finite = np.isfinite(args[0]).all()
        cause = problem if finite else "the input matrix contained non-finite values"
        raise LinAlgError(f"{name}: The algorithm failed to converge because {cause}.") from None


def svd_arrays(name: str, xp: Any, a: Any, full: bool = False, vectors: bool = True) -> tuple[Any, Any, Any]:
    """(U, S, Vh) of arrays; U and Vh are None without `vectors`."""
    made = converged(name, lapack.svd, a, full, vectors) if xp is np else None
    if made is not None:
        return made
    if vectors:
        return tuple(converged(name, xp.linalg.svd, a, full_matrices=full))
    return None, converged(name, xp.linalg.svd, a, compute_uv=False), None


def conjugated(a: Any) -> Any:
    """An array's conjugate, itself if it is real."""
    return a.conj() if a.dtype.kind == "c" else a


def transposed(t: Tensor) -> Tensor:
    return ops.transpose(t, -2, -1)


def nothing(t: Tensor) -> Tensor:
    """Zeros with matrices in their history, for results that require grad and do not depend on them."""
    return ops.tril(ops.triu(t, 1), -1)


# -- memory order ----------------------------------------------------------------------------------------------------


def columns(xp: Any, made: Any, rows: int = 0) -> Any:
    """Matrices one after the other whose columns lie side by side, as LAPACK leaves them.

    Columns may be longer than the matrix, `rows` elements.
    """
    turned = made.swapaxes(-1, -2)
    if made.shape[-2] >= rows:
        return rows_of(turned).swapaxes(-1, -2)
    space = xp.zeros((*turned.shape[:-1], rows), made.dtype)
    space[..., : made.shape[-2]] = turned
    return space[..., : made.shape[-2]].swapaxes(-1, -2)


def column_major(*places: int) -> Callable[[Any], Any]:
    """For the function of a primitive: those of its results at `places` (or the only one) are column-major, others row-major."""

    def decorate(forward: Any) -> Any:
        @functools.wraps(forward)
        def compute(backend: Any, *args: Any) -> Any:
            made, xp = forward(backend, *args), backend.xp
            if not places:
                return columns(xp, made)
            return tuple([columns(xp, m) if i in places and m.ndim > 1 else rows_of(m) for i, m in enumerate(made)])

        def layout(number: int, shape: tuple[int, ...], args: Any) -> tuple[int, ...] | None:
            return column_strides(shape) if len(shape) > 1 and (not places or number in places) else None

        compute.layout = layout  # type: ignore[attr-defined]
        compute.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
        return compute

    return decorate


@primitive(
    name="in_columns", grad={"x": lambda g: g}, backward_name="CloneBackward0",
    batch=leading, meta=lambda x, rows: (x.shape, dtype_of(x), column_strides(x.shape, rows)),
    tangent=linear("x"),
)  # fmt: skip
def in_columns(backend: Any, x: Any, rows: int) -> Any:
    """A copy that is column-major, with columns of at least `rows` elements."""
    return columns(backend.xp, x.copy(), rows)
