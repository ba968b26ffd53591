"""`lobpcg`: a few eigenpairs of a large symmetric matrix, from products with it alone."""

from __future__ import annotations

from typing import Any

from ._autograd.functions import Function
from ._autograd.modes import no_grad
from ._core.dtypes import float32, float64
from ._core.state import GRAD, SPARSE, local
from ._ops.registry import ops
from ._tensor import Tensor

__all__ = ["lobpcg"]

_MOST_STEPS = 1000
_EPSILON = {float32: 1.2e-07, float64: 2.23e-16}


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) eigenvalues of A x = λ B x and their vectors, by a preconditioned block search.

    A and B are symmetric, dense or sparse, B positive definite; `iK` approximates the inverse of A; `X` is a first guess.

    >>> import flambeau as torch
    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(1.0, 13.0)), k=2)
    >>> values
    tensor([12.0000, 11.0000])
    """
    if any(given is not None for given in (tracker, ortho_iparams, ortho_fparams, ortho_bparams)):
        raise NotImplementedError(
            "lobpcg: tracker and the parameters of orthogonalization are not supported: leave them out"
        )
    if A.dtype not in _EPSILON:
        raise ValueError(f"lobpcg expects A of dtype float32 or float64, got {A.dtype}")
    if A._array.ndim < 2 or A._array.shape[-1] != A._array.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A._array.shape}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', got {method!r}")
    count = (X._array.shape[-1] if X is not None else 1) if k is None else k
    block = (X._array.shape[-1] if X is not None else count) if n is None else n
    rows = A._array.shape[-1]
    if count < 1 or rows < 3 * block:
        raise ValueError(f"lobpcg finds up to a third as many eigenpairs as A has rows ({rows}), asked for {block}")
    settings = (count, block, B, X, iK, niter, tol, True if largest is None else largest)
    if not (A._k & GRAD and local.grad):
        return _batched(A, settings)
    if B is not None:
        raise ValueError("lobpcg.backward is only implemented without B")
    if A._k & SPARSE:
        raise ValueError("lobpcg.backward is only implemented for dense A")
    A = (A + ops.transpose(A, -1, -2)) / 2  # so that the derivative is that of what is computed
    return LOBPCGAutogradFunction.apply(A, settings)


class LOBPCGAutogradFunction(Function):
    """The derivative comes from all eigenpairs, which backward computes."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, settings: Any) -> tuple[Tensor, Tensor]:
        values, vectors = _batched(A, settings)
        ctx.save_for_backward(A, values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, g_values: Tensor, g_vectors: Tensor) -> tuple[Tensor, None]:
        A, values, vectors = ctx.saved_tensors
        all_values, all_vectors = _eigh(A)
        across = ops.transpose(all_vectors, -1, -2)
        gap = ops.unsqueeze(values, -2) - ops.unsqueeze(all_values, -1)
        own = ops.abs(ops.matmul(across, vectors)) > 0.5
        weights = ops.where(own, ops.zeros_like(gap), 1.0 / ops.where(own, ops.ones_like(gap), gap))
        moved = ops.matmul(all_vectors, ops.matmul(across, g_vectors) * weights)
        total = ops.matmul(vectors * ops.unsqueeze(g_values, -2) + moved, ops.transpose(vectors, -1, -2))
        return (total + ops.transpose(total, -1, -2)) / 2, None


def _eigh(A: Tensor) -> tuple[Tensor, Tensor]:
    from .linalg import eigh

    return eigh(A)


@no_grad()
def _batched(A: Tensor, settings: Any) -> tuple[Tensor, Tensor]:
    if A._array.ndim == 2:
        return _search(A, *settings)
    *lead, rows, _ = A._array.shape
    count, block, B, X, iK, *rest = settings

    def items(t: Tensor | None) -> list[Any]:
        size = A._array.size // (rows * rows)
        if t is None or t._array.ndim == 2:
            return [t] * size
        return list(ops.reshape(t, (-1, *t._array.shape[-2:])))

    found = [
        _search(a, count, block, b, x, i, *rest) for a, b, x, i in zip(items(A), items(B), items(X), items(iK))
    ]  # fmt: skip
    values, vectors = (ops.stack(list(part)) for part in zip(*found))
    return ops.reshape(values, (*lead, count)), ops.reshape(vectors, (*lead, rows, count))


def _times(matrix: Tensor | None, x: Tensor) -> Tensor:
    return x if matrix is None else matrix @ x


def _size(t: Tensor) -> float:
    values = t.values() if t._k & SPARSE else t
    return float(ops.sqrt(ops.sum(values * values)))


def _search(
    A: Tensor, count: int, block: int, B: Any, X: Any, iK: Any, niter: Any, tol: Any, largest: bool
) -> tuple[Tensor, Tensor]:
    """The search in the space of the vectors so far, their residuals and their last steps."""
    rows = A._array.shape[-1]
    tol = _EPSILON[A.dtype] ** 0.5 if tol is None else tol
    steps = _MOST_STEPS if niter is None or niter < 0 else niter
    x = _orthonormal(ops.randn(rows, block, dtype=A.dtype, device=A.device) if X is None else X, B)
    scale_a = _size(A) / rows**0.5
    scale_b = 1.0 if B is None else _size(B) / rows**0.5
    values, x = _best(A, x, block, largest)
    last = None
    for _ in range(steps):
        residual = _times(A, x) - _times(B, x) * values
        error = ops.sqrt(ops.sum(residual * residual, 0)) / (scale_a + scale_b * ops.abs(values))
        if bool((error[:count] < tol).all()):
            break
        basis = [x, _times(iK, residual)] if last is None else [x, _times(iK, residual), last]
        space = _orthonormal(ops.cat(basis, 1), B)
        values, found = _best(A, space, block, largest)
        # the new vectors without their part along the old ones: where the search was going
        last = found - x @ (x.T @ _times(B, found))
        x = found
    return values[:count], x[:, :count]


def _orthonormal(x: Tensor, B: Any) -> Tensor:
    """A basis of the space of the columns, orthonormal in the product that B gives; nearly dependent ones are left out."""
    for _ in range(2):  # the second time takes out what rounding left
        length = ops.sqrt(ops.sum(x * x, 0))
        x = x / ops.where(length > 0, length, ops.ones_like(length))
        gram = x.T @ _times(B, x)
        sizes, directions = _eigh((gram + gram.T) / 2)
        kept = sizes > sizes[-1] * (_EPSILON[x.dtype] * 10 * len(sizes))
        x = x @ (directions[:, kept] / ops.sqrt(sizes[kept]))
    return x


def _best(A: Tensor, basis: Tensor, block: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The best eigenpairs that vectors of a space give."""
    inner = basis.T @ _times(A, basis)
    values, weights = _eigh((inner + inner.T) / 2)
    if largest:
        values, weights = ops.flip(values, (0,)), ops.flip(weights, (1,))
    return values[:block], basis @ weights[:, :block]
