"""Derivatives checked against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.state import GRAD
from .._ops.registry import ops
from .._tensor import Tensor, bump, detached, wrap


class GradcheckError(RuntimeError):
    """What `gradcheck` raises when a derivative is wrong."""


def _outputs(result: Any) -> list[Tensor]:
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in parts if isinstance(t, Tensor) and t.dtype.category >= 2]


def _numerical(fn: Callable[..., Any], inputs: Sequence[Any], target: Tensor, eps: float, count: int) -> list[Any]:
    """For each output a matrix d output / d target by central differences; complex entries count as two reals."""
    array = target._array
    steps = (eps, eps * 1j) if target.dtype.is_complex else (eps,)
    columns: list[list[Any]] = [[] for _ in range(count)]
    for index in np.ndindex(array.shape):
        old = array[index]
        for step in steps:
            sides = []
            for sign in (1, -1):
                array[index] = old + sign * step
                bump(target)
                sides.append([np.array(t._array) for t in _outputs(fn(*inputs))])
            array[index] = old
            for column, plus, minus in zip(columns, *sides):
                column.append(((plus - minus) / (2 * eps)).ravel())
    shape = (len(steps) * array.size,)
    return [np.stack(c, -1) if c else np.zeros((0, *shape)) for c in columns]


def _analytical(fn: Callable[..., Any], inputs: Sequence[Any], targets: list[Tensor], number: int) -> Any:
    """For each target the same matrix from backward passes, one for each element of the output."""
    from . import grad

    out = _outputs(fn(*inputs))[number]
    if not out._k & GRAD:
        return None
    rows: list[list[Any]] = [[] for _ in targets]
    directions = (1, 1j) if out.dtype.is_complex else (1,)
    for index in np.ndindex(out._array.shape):
        for direction in directions:
            cotangent = np.zeros(out._array.shape, out.dtype.numpy)
            cotangent[index] = direction
            found = grad(out, targets, wrap(cotangent, out.dtype), retain_graph=True, allow_unused=True)
            for row, g, t in zip(rows, found, targets):
                row.append(np.zeros(t._array.shape, t.dtype.numpy).ravel() if g is None else np.array(g._array).ravel())
    return rows


def _as_real(numerical: Any, out_complex: bool) -> Any:
    """Rows for the real and imaginary parts of the output, interleaved as the cotangents are."""
    if not out_complex:
        return numerical.real
    return np.stack([numerical.real, numerical.imag], 1).reshape(-1, numerical.shape[-1])


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of `func` at `inputs` (float64, a few elements) agree with finite differences.

    >>> import flambeau as torch
    >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    try:
        _check(func, (inputs,) if isinstance(inputs, Tensor) else tuple(inputs), eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    targets = [t for t in inputs if isinstance(t, Tensor) and t._k & GRAD]
    if not targets:
        raise ValueError("gradcheck expects at least one input that requires grad")
    for t in targets:
        if t.dtype.itemsize < (16 if t.dtype.is_complex else 8):
            warnings.warn(
                f"gradcheck: an input has dtype {t.dtype}; finite differences need double precision", stacklevel=4
            )
        if 0 in t._array.strides and t._array.size > 1:
            raise RuntimeError("gradcheck: an input has overlapping memory; clone() it first")
    outputs = _outputs(func(*inputs))
    for i, out in enumerate(outputs):
        exact = _analytical(func, inputs, targets, i)
        for j, t in enumerate(targets):
            if not t._array.size or not out._array.size:
                continue  # no element to move, or none that could move
            numerical = _numerical(func, inputs, t, eps, len(outputs))[i]
            expected = _as_real(numerical, out.dtype.is_complex)
            if exact is None:
                found = np.zeros_like(expected)
            else:
                found = np.array(exact[j]).reshape(expected.shape[0], -1)
                if t.dtype.is_complex:
                    found = np.stack([found.real, found.imag], -1).reshape(expected.shape[0], -1)
            if not np.allclose(found, expected, rtol, atol, equal_nan=True):
                worst = np.abs(found - expected).max()
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input {j}: largest difference {worst:.3g}\n"
                    f"numerical:{expected}\nanalytical:{found}"
                )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` agree with finite differences of its first ones.

    >>> import flambeau as torch
    >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    from . import grad

    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [t for t in _outputs(func(*inputs)) if t._k & GRAD]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cotangents = []
        for t in outputs:
            values = rng.standard_normal(t._array.shape)
            if t.dtype.is_complex:
                values = values + 1j * rng.standard_normal(t._array.shape)
            cotangents.append(ops.requires_grad_(wrap(np.asarray(values, t.dtype.numpy), t.dtype)))
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    count = len(cotangents)

    def first_derivative(*args: Any) -> tuple[Any, ...]:
        values, given = args[:-count], args[-count:]
        values = tuple(
            ops.requires_grad_(detached(v)) if isinstance(v, Tensor) and v.dtype.category >= 2 and not v._k & GRAD
            and isinstance(i, Tensor) and i._k & GRAD else v
            for v, i in zip(values, inputs)
        )  # fmt: skip
        wanted = [v for v, i in zip(values, inputs) if isinstance(i, Tensor) and i._k & GRAD]
        outs = [t for t in _outputs(func(*values)) if t._k & GRAD]
        found = grad(outs, wanted, given, create_graph=True, allow_unused=True)
        return tuple(ops.zeros_like(w) if g is None else g for g, w in zip(found, wanted))

    return gradcheck(
        first_derivative, (*inputs, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
