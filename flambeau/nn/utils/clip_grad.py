"""Clipping of gradients, by their total norm or value by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._autograd.modes import no_grad
from ..._core.state import GRAD
from ..._core.steps import python_step
from ..._errors.frames import warn_user
from ..._ops.registry import ops
from ..._tensor import Tensor, wrap

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
# names that libraries' own clipping uses
_tensor_or_tensors = Tensor | Iterable[Tensor]
_no_grad = no_grad()


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector.

    >>> import flambeau as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    total = _euclidean(tensors) if norm_type == 2.0 else None
    if total is None:
        with no_grad():
            where = tensors[0].device
            norms = [ops.vector_norm(t, norm_type) for t in tensors]
            norms = [n if n.device == where else n.to(where) for n in norms]
            total = norms[0] if len(norms) == 1 else ops.vector_norm(ops.stack(norms), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _euclidean(tensors: list[Tensor]) -> Tensor | None:
    """The 2-norm of ordinary CPU tensors of one dtype, with one call of BLAS for each; None for others."""
    d = tensors[0].dtype
    if d.code not in ("f32", "f64"):
        return None
    squares = 0.0
    with np.errstate(all="ignore"):
        for t in tensors:
            array = t._array
            if t._k & ~GRAD or t.dtype is not d or not array.flags.forc:
                return None
            flat = array.ravel("K")
            square = float(np.dot(flat, flat))
            if not 1e-30 < square < 1e36:  # too small or too large for float32, or not finite
                square = float(np.square(flat, dtype=np.float64).sum())
            squares += square
    return wrap(np.asarray(math.sqrt(squares), d.numpy), d)


@python_step
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients of the parameters in place, by max_norm / total_norm where that is below one."""
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    _scale([p.grad for p in parameters if p.grad is not None], float(max_norm), total_norm)


def _scale(grads: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    if not grads:
        return
    with no_grad():
        if total_norm._k & ~GRAD:  # on a GPU the factor stays there
            factor = ops.clamp(max_norm / (total_norm + 1e-6), max=1.0)
            for g in grads:
                ops.mul_(g, factor.to(g.device))
            return
        number = total_norm._array.dtype.type
        limit = float(number(max_norm) / (total_norm._array[()] + number(1e-6)))
        if limit >= 1.0:
            return
        for g in grads:
            ops.mul_(g, limit)


@python_step
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scales gradients in place so that their total norm is at most `max_norm`; returns what it was.

    >>> import flambeau as torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([30.0, 40.0])
    >>> torch.nn.utils.clip_grad_norm_([weight], max_norm=5.0)
    tensor(50.)
    >>> weight.grad
    tensor([3., 4.])
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        generator, parameters = parameters, list(parameters)
        if not parameters and not isinstance(generator, (list, tuple)):
            warn_user("`parameters` is an empty generator, no gradient clipping will occur.")
    grads = [g for p in parameters if (g := p.grad) is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    _scale(grads, float(max_norm), total)
    return total


def _ahead(
    grads: list[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> tuple[Any, Any] | None:  # fmt: skip
    return None if error_if_nonfinite else (get_total_norm, (grads, norm_type))


clip_grad_norm_.ahead = (
    _ahead  # what it returns, from gradients alone: programs may have to know before they change any
)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """An old name of `clip_grad_norm_`."""
    warn_user(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@python_step
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limits every value of the gradients, in place, to [-clip_value, clip_value]."""
    limit = float(clip_value)
    with no_grad():
        for p in [parameters] if isinstance(parameters, Tensor) else parameters:
            if p.grad is not None:
                p.grad.clamp_(-limit, limit)
