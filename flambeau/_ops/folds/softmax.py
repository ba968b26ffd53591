"""softmax, log_softmax and softmin: programs along rows, forwards and backwards."""

from __future__ import annotations

import functools
from typing import Any

from ..._core.allocation import not_planned
from ..._core.dtypes import BY_NUMPY, FLOATING, dtype
from ..._core.sizes import wrap_dim
from ..._errors.frames import warn_user
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor
from ..records import tangents
from ..records.batching import along
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..registry import ops, public

_STAGES = (("peak", lambda m, x, count: x), ("sum", lambda m, x, high, count: m.decay(x - high)))


@functools.cache
def _forward(log: bool, code: str) -> Rows:
    """`code` is the precision in which the logarithm gets the sum, and in which softmax has the exponentials before it divides."""

    def share(m: Any, high: Any, total: Any, count: Any) -> tuple[Any, Any]:
        return high, m.cast(1.0 / total, high.type)

    def size(m: Any, high: Any, total: Any, count: Any) -> tuple[Any, Any]:
        return high, m.log(m.stored(m.cast(total, high.type), code))

    if log:
        return Rows(_STAGES, lambda m, x, high, size, count: (x - high) - size, settle=size)
    return Rows(_STAGES, lambda m, e, high, share, count: m.stored(e, code) * share, settle=share, reused=True)


@functools.cache
def _backward(log: bool, code: str) -> Rows:
    def total(m: Any, total: Any, count: Any) -> Any:
        return m.cast(total, code)

    if log:
        return Rows((("sum", lambda m, g, y, count: g, total),), lambda m, g, y, total, count: g - m.decay(y) * total)
    return Rows((("sum", lambda m, g, y, count: g * y, total),), lambda m, g, y, total, count: y * (g - total))


def _softmax(backend: Any, x: Any, dim: int, log: bool) -> Any:
    if x.ndim == 0:
        x = x.reshape(1)
        return _softmax(backend, x, 0, log).reshape(())
    if not x.size:  # integers may come here, too
        return backend.xp.empty_like(x)
    d = BY_NUMPY[
        x.dtype
    ]  # PyTorch keeps the sums of rows that lie densely in the precision of the result, and other rows' exponentials
    program = _forward(log, d.code if log == (dim == x.ndim - 1) else d.wide.code)
    return backend.along.map("log_softmax" if log else "softmax", program, [x], dim)


def _softmax_backward(backend: Any, g: Any, y: Any, dim: int, log: bool) -> Any:
    if g.ndim == 0:
        return _softmax_backward(backend, g.reshape(1), y.reshape(1), 0, log).reshape(())
    program = _backward(log, BY_NUMPY[y.dtype].wide.code)
    return backend.along.map("log_softmax_backward" if log else "softmax_backward", program, [g, y], dim)


def _like(x: Any, *rest: Any) -> Any:
    return x.shape, BY_NUMPY[x.dtype]


@primitive(
    grad={"x": lambda g, out, dim: softmax_backward(g, out, dim)},
    name="softmax",
    meta=_like,
    batch=along,
    tangent=tangents.softmax,
)
def softmax_op(backend: Any, x: Any, dim: int) -> Any:
    return _softmax(backend, x, dim, False)


@primitive(
    tensors=2, name="softmax_backward", meta=_like, formula=tangents.softmax_backward,
    grad={
        "cotangent": lambda g, y, dim: softmax_backward(g, y, dim),
        "y": lambda g, cotangent, y, dim: _second(g, cotangent, y, dim),
    },
    batch=along,
)  # fmt: skip
def softmax_backward(backend: Any, cotangent: Any, y: Any, dim: int) -> Any:
    return _softmax_backward(backend, cotangent, y, dim, False)


def _second(g: Tensor, cotangent: Tensor, y: Tensor, dim: int) -> Tensor:
    """The derivative of y * (c - sum(c * y)) by y."""
    inner = ops.sum(cotangent * y, dim, True)
    return g * (cotangent - inner) - cotangent * ops.sum(g * y, dim, True)


@primitive(
    grad={"x": lambda g, out, dim: log_softmax_backward(g, out, dim)},
    name="log_softmax",
    meta=_like,
    batch=along,
    tangent=tangents.log_softmax,
)
def log_softmax_op(backend: Any, x: Any, dim: int) -> Any:
    return _softmax(backend, x, dim, True)


@primitive(
    tensors=2, name="log_softmax_backward", meta=_like, formula=tangents.log_softmax_backward,
    grad={
        "cotangent": lambda g, y, dim: g - ops.sum(g * ops.exp(y), dim, True),
        "y": lambda g, cotangent, y, dim: -g * ops.exp(y) * ops.sum(cotangent, dim, True),
    },
    batch=along,
)  # fmt: skip
def log_softmax_backward(backend: Any, cotangent: Any, y: Any, dim: int) -> Any:
    return _softmax_backward(backend, cotangent, y, dim, True)


def _prepared(name: str, input: Tensor, dim: Any, d: dtype | None) -> tuple[Tensor, int]:
    if d is not None and input.dtype is not d:
        input = ops.to_dtype(input, d)
    if (input.dtype.category != FLOATING or not input.dtype.code) and input._array.size:
        raise not_implemented(f"{name}_lastdim_kernel_impl", input.dtype)
    return input, wrap_dim(dim, input._array.ndim)


@public("softmax", "special.softmax", out="exact", planned=True)
def softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """Exponentials divided by their sum along a dimension.

    >>> import flambeau as torch
    >>> torch.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    input, dim = _prepared("softmax", input, dim, dtype)
    return softmax_op(input, dim)


@public("log_softmax", "special.log_softmax", out="exact", planned=True)
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """The logarithm of softmax, computed without loss.

    >>> import flambeau as torch
    >>> torch.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    input, dim = _prepared("log_softmax", input, dim, dtype)
    return log_softmax_op(input, dim)


def implicit_dim(name: str, ndim: int) -> int:
    """The dimension that is taken where none is named."""
    not_planned()
    warn_user(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


@public("nn.functional.softmax", method=False, planned=True)
def functional_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """Exponentials divided by their sum along `dim`."""
    return softmax(input, implicit_dim("softmax", input._array.ndim) if dim is None else dim, dtype)


@public("nn.functional.log_softmax", method=False, planned=True)
def functional_log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Tensor:
    """The logarithm of softmax along `dim`."""
    return log_softmax(input, implicit_dim("log_softmax", input._array.ndim) if dim is None else dim, dtype)


@public("nn.functional.softmin", method=False)
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """softmax of the negated input."""
    return softmax(-input, implicit_dim("softmin", input._array.ndim) if dim is None else dim, dtype)


@public("nn.functional.gumbel_softmax", method=False)
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable sample of a category: softmax of logits with Gumbel noise, divided by the temperature `tau`.

    `hard` samples are one-hot, with the gradient of the soft ones; `eps` has no effect.

    >>> import flambeau as torch
    >>> torch.nn.functional.gumbel_softmax(torch.tensor([0.0, 99.0]), hard=True)
    tensor([0., 1.])
    """
    if eps != 1e-10:
        warn_user("`eps` parameter is deprecated and has no effect.")
    noise = -ops.log(ops.exponential_(ops.empty_like(logits, requires_grad=False)))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = ops.argmax(soft, dim, True)
    certain = ops.scatter(ops.zeros_like(soft, requires_grad=False), dim, index, 1.0)
    return certain - ops.detach(soft) + soft


SCHEMAS = """
softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor  # autocast=cuda:single/whole, record=_softmax
special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor  # autocast=cuda:single/whole, record=_log_softmax
special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
softmin  # autocast=cuda:single, composite
gumbel_softmax  # composite
softmax_backward  # record=_softmax_backward_data
log_softmax_backward  # record=_log_softmax_backward_data
"""
