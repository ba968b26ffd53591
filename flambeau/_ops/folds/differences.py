"""Finite differences and the sums that undo them: diff, trapezoid rules, numerical gradients."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import BOOL, FLOATING, default
from ..._core.sizes import wrap_dim
from ..._tensor import Tensor
from ..registry import ops, public, relabel


def _steps(x: Tensor, dim: int) -> Tensor:
    n = x._array.shape[dim]
    later, earlier = ops.narrow(x, dim, 1, n - 1), ops.narrow(x, dim, 0, n - 1)
    return ops.logical_xor(later, earlier) if x.dtype.category == BOOL else later - earlier


@public(out=True, planned=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along a dimension, `n` times over.

    >>> import flambeau as torch
    >>> torch.diff(torch.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if input._array.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, input._array.ndim)
    if n == 0:
        return ops.clone(input)
    parts = [t for t in (prepend, input, append) if t is not None]
    for t in parts:
        if t is input:
            continue
        if t._array.ndim != input._array.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        if any(a != b for i, (a, b) in enumerate(zip(t._array.shape, input._array.shape)) if i != dim):
            raise RuntimeError(
                f"diff expects the shape of tensor to prepend or append to match that of input except along the differencing dimension, got {list(t._array.shape)} "
                f"for {list(input._array.shape)}"
            )
    x = ops.cat(parts, dim) if len(parts) > 1 else input
    if n >= x._array.shape[dim]:
        return ops.clone(ops.narrow(x, dim, 0, 0))
    for _ in range(n):
        x = _steps(x, dim)
    return x


# -- trapezoids --------------------------------------------------------------------------------------------------


def _pairs(y: Tensor, dim: int) -> Tensor:
    """Sums of neighbours."""
    n = y._array.shape[dim]
    return ops.narrow(y, dim, 1, n - 1) + ops.narrow(y, dim, 0, n - 1)


def _widths(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Distances of the points `x` at which `y` was taken."""
    if x._array.ndim != 1:
        return diff(x, dim=dim if x._array.ndim == y._array.ndim else dim - y._array.ndim)
    if x._array.shape[0] != y._array.shape[dim]:
        raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
    return ops.reshape(diff(x), [-1 if d == dim else 1 for d in range(y._array.ndim)])


def _prepared(name: str, y: Tensor, x: Any, dx: Any, dim: int) -> tuple[Tensor, Any, Any, int]:
    if y._array.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    for t in (y, x):
        if t is not None and t.dtype.category == BOOL:
            raise RuntimeError(f"{name}: received a bool input, but bool is not supported")
    if isinstance(dx, Tensor):
        dx = dx.item()
    return y, x, 1 if dx is None else dx, wrap_dim(dim, y._array.ndim)


@public(method=False, aliases=("trapz",), planned=True)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along a dimension by the trapezoidal rule, over points `x` or steps `dx`.

    >>> import flambeau as torch
    >>> torch.trapezoid(torch.tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    y, x, dx, dim = _prepared("trapezoid", y, x, dx, dim)
    if y._array.shape[dim] == 0:
        d = y.dtype if y.dtype.category >= FLOATING else default.float
        shape = y._array.shape
        return ops.new_zeros(y, shape[:dim] + shape[dim + 1 :], dtype=d)
    if x is not None:
        return relabel(ops.sum(_widths(y, x, dim) * _pairs(y, dim), dim) / 2, "DivBackward1")
    ends = ops.select(y, dim, 0) + ops.select(y, dim, -1)
    return relabel((ops.sum(y, dim) - ends * 0.5) * dx, "MulBackward1")


@public(method=False, planned=True)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Integrals up to every point along a dimension by the trapezoidal rule.

    >>> import flambeau as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    y, x, dx, dim = _prepared("cumulative_trapezoid", y, x, dx, dim)
    if x is not None:
        return relabel(ops.cumsum(_widths(y, x, dim) * _pairs(y, dim), dim) / 2, "DivBackward1")
    return ops.cumsum(relabel(_pairs(y, dim) * (dx / 2), "MulBackward1"), dim)


# -- numerical gradients -----------------------------------------------------------------------------------------


def _even(f: Tensor, h: Any, dim: int, order: int) -> Tensor:
    """Central differences over an even spacing, one-sided at the ends."""

    def at(start: int, count: int = 1) -> Tensor:
        return ops.narrow(f, dim, start, count)

    n = f._array.shape[dim]
    inner = (at(2, n - 2) - at(0, n - 2)) / (2 * h)
    if order == 1:
        first, last = (at(1) - at(0)) / h, (at(n - 1) - at(n - 2)) / h
    else:
        first = (-1.5 * at(0) + 2 * at(1) - 0.5 * at(2)) / h
        last = (0.5 * at(n - 3) - 2 * at(n - 2) + 1.5 * at(n - 1)) / h
    return ops.cat([first, inner, last], dim)


def _uneven(f: Tensor, x: Tensor, dim: int, order: int) -> Tensor:
    """Differences of second order at points `x`, one-sided at the ends."""

    def at(start: int, count: int = 1) -> Tensor:
        return ops.narrow(f, dim, start, count)

    n = f._array.shape[dim]
    shape = [1] * f._array.ndim
    shape[dim] = -1
    h = ops.reshape(diff(x), shape)
    a, b = ops.narrow(h, dim, 0, n - 2), ops.narrow(h, dim, 1, n - 2)
    inner = -b / (a * (a + b)) * at(0, n - 2) + (b - a) / (a * b) * at(1, n - 2) + a / (b * (a + b)) * at(2, n - 2)
    h0, h1 = ops.narrow(h, dim, 0, 1), ops.narrow(h, dim, n - 2, 1)
    if order == 1:
        first, last = (at(1) - at(0)) / h0, (at(n - 1) - at(n - 2)) / h1
    else:
        c, d = h0, ops.narrow(h, dim, 1, 1)
        first = -(2 * c + d) / (c * (c + d)) * at(0) + (c + d) / (c * d) * at(1) - c / (d * (c + d)) * at(2)
        c, d = ops.narrow(h, dim, n - 3, 1), h1
        last = d / (c * (c + d)) * at(n - 3) - (c + d) / (c * d) * at(n - 2) + (2 * d + c) / (d * (c + d)) * at(n - 1)
    return ops.cat([first, inner, last], dim)


@public()
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative along each dimension, estimated from neighbours; `spacing` are steps or coordinates.

    >>> import flambeau as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if isinstance(spacing, Tensor):
        raise TypeError(
            "gradient(): argument 'spacing' must be a number or a sequence of numbers or tensors, not Tensor"
        )
    ndim = input._array.ndim
    if dim is None:
        dims = list(range(ndim))
    else:
        dims = [wrap_dim(d, ndim) for d in ([dim] if isinstance(dim, int) else dim)]
        if len(set(dims)) != len(dims):
            raise RuntimeError("dim appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    listed = isinstance(spacing, (list, tuple))
    steps = list(spacing) if listed else [spacing] * len(dims)
    if listed and len(steps) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be a number or a list of length {len(dims)}, "
            f"got one of length {len(steps)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input._array.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for h, d in zip(steps, dims):
        if isinstance(h, Tensor) and h._array.ndim != 1:
            raise RuntimeError(f"torch.gradient: each element of spacing must have one dimension, got {h._array.ndim}")
        if isinstance(h, Tensor) and h._array.shape[0] != input._array.shape[d]:
            raise RuntimeError(
                f"torch.gradient: spacing along dimension {d} must have its length {input._array.shape[d]}, "
                f"got {h._array.shape[0]}"
            )
    return tuple((_uneven if isinstance(h, Tensor) else _even)(input, h, d, edge_order) for h, d in zip(steps, dims))


SCHEMAS = """
diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor
trapezoid|trapz|cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor
trapezoid|cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor
trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor
gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]
gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]
gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]
gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]
gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]
gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]
gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]
"""
