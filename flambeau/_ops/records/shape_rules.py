"""Shape rules: what the results of a primitive look like, found without computing them.

A rule gets the arrays and arguments of a call. It returns (shape, dtype) for a result that lies by rows,
(shape, dtype, strides in elements) for one that does not, an array for a view, None for a result that is left out; a
list of these for several results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..._core.dtypes import BY_NUMPY, dtype, from_numpy_dtype, int32
from ..._core.layouts import joint_strides, like_strides
from ..._core.sizes import broadcast_shapes


def dtype_of(x: Any) -> dtype:
    """The dtype of an array."""
    return BY_NUMPY.get(x.dtype) or from_numpy_dtype(x.dtype)


def same(x: Any, *rest: Any) -> Any:
    """The result has the first operand's shape and dtype."""
    return x.shape, dtype_of(x)


def dense(x: Any, *rest: Any, d: dtype | None = None) -> Any:
    """The same, and lies in memory as the operand does."""
    return x.shape, d or dtype_of(x), like_strides(x.shape, x.strides, x.itemsize)


def joint(d: dtype | None, *operands: Any) -> Any:
    """The result of a pointwise operation, in the first operand's dtype if none is given."""
    shape = broadcast_shapes(*[a.shape for a in operands])
    return (
        shape,
        d or dtype_of(operands[0]),
        joint_strides(shape, *[(a.shape, a.strides, a.itemsize) for a in operands]),
    )


def like(*places: int, wanted: bool = False) -> Callable[..., Any]:
    """There is a result like each of the operands at these places, if there is such an operand.

    With `wanted` the last argument says which of the results are made.
    """

    def rule(*args: Any) -> list[Any]:
        made = [None if args[i] is None else same(args[i]) for i in places]
        return [m if want else None for m, want in zip(made, args[-1])] if wanted else made

    return rule


def matrices(d: dtype, lead: tuple[int, ...], *shape: int, rows: bool = False) -> Any:
    """A batch of matrices that lie by columns, as those of LAPACK do, or by `rows`."""
    return ((*lead, *shape), d) if rows else ((*lead, *shape), d, column_strides((*lead, *shape)))


def column_strides(shape: tuple[int, ...], rows: int = 0) -> tuple[int, ...]:
    """Strides in elements of matrices whose columns, of at least `rows` elements, lie one after the other."""
    *lead, m, n = shape
    tall = max(m, rows, 1)
    strides, step = [1, tall], tall * max(n, 1)
    for size in reversed(lead):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def factor(a: Any, *rest: Any) -> list[Any]:
    """A matrix like the given one, and a number for each matrix that says what went wrong."""
    return [same(a), (a.shape[:-2], int32)]


class DataDependent(NotImplementedError):
    """The shape of a result depends on elements, which a meta tensor does not have."""


def data_dependent(*args: Any) -> NoReturn:
    """Nothing can be said of the result: its shape depends on elements."""
    raise DataDependent
