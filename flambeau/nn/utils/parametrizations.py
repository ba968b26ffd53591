"""Ready parametrizations: orthogonal matrices, weights split into length and direction, unit spectral norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ..._autograd.modes import no_grad
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..modules.module import Module
from . import parametrize
from .weight_norm import _weight_norm, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# -- orthogonal matrices -----------------------------------------------------------------------------------------


def _is_orthogonal(Q: Tensor, eps: float | None = None) -> bool:
    n, k = Q.shape[-2:]
    if n < k:
        return False
    if eps is None:
        eps = 10.0 * n * _epsilon(Q.dtype)
    identity = ops.eye(k, dtype=Q.dtype, device=Q.device)
    return bool(ops.allclose(Q.mH @ Q, identity, atol=eps))


def _epsilon(dtype: Any) -> float:
    from ..._core.info import finfo  # only where a matrix is checked

    return float(finfo(dtype).eps)


def _make_orthogonal(A: Tensor) -> Tensor:
    """The orthogonal factor of A, with the signs that make it continuous in A."""
    X, tau = ops.geqrf(A)
    Q = ops.linalg_householder_product(X, tau)
    return Q * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """Maps any matrix to one with orthonormal columns (or rows, where it is wide)."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.shape[-2] < X.shape[-1]
        if transposed:
            X = X.mT
        n, k = X.shape[-2:]
        if self.orthogonal_map is _OrthMaps.householder:
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = ops.linalg_householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = ops.cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], -1)
            A = X - X.mH
            if self.orthogonal_map is _OrthMaps.matrix_exp:
                Q = ops.linalg_matrix_exp(A)
            else:
                identity = ops.eye(n, dtype=A.dtype, device=A.device)
                Q = ops.linalg_solve(identity - 0.5 * A, identity + 0.5 * A)
            if n != k:
                Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        with no_grad():
            if Q.shape != self.shape:
                raise ValueError(
                    f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
                )
            given = Q
            transposed = Q.shape[-2] < Q.shape[-1]
            if transposed:
                Q = Q.mT
            n, k = Q.shape[-2:]
            if not hasattr(self, "base"):
                if self.orthogonal_map is not _OrthMaps.householder:
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                        "use_trivialization=False."
                    )
                A, tau = ops.geqrf(Q)
                signs = A.diagonal(dim1=-2, dim2=-1)
                signs.sign_()
                signs.mul_(ops.where(tau == 0.0, -1.0, 1.0).to(signs.dtype))  # no reflection there
                return A.mT if transposed else A
            if n == k:
                Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
            else:  # completed to a square matrix with random columns
                random = ops.randn((*Q.shape[:-2], n, n - k), dtype=Q.dtype, device=Q.device)
                Q = _make_orthogonal(ops.cat([Q, random], -1))
            self.base = Q
            start = ops.zeros_like(given)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keeps a matrix of the module orthogonal (unitary if complex) while it is trained.

    `orthogonal_map` is "matrix_exp", "cayley" or "householder".

    >>> import flambeau as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


# -- length and direction ----------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """A weight from its length (`original0`) and its direction (`original1`)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Splits a weight into its length and its direction, which are trained separately.

    >>> import flambeau as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


# -- spectral norm -----------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iterations follow while it is trained."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:  # for a vector the norm is known exactly
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.shape
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", ops.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", ops.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *[d for d in range(weight.ndim) if d != self.dim])
        return weight.flatten(1)

    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(ops.normalize(ops.mv(weight_mat, self._v), dim=0, eps=self.eps))
                self._v.copy_(ops.normalize(ops.mv(weight_mat.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return ops.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call changes them in place
        return weight / ops.vdot(u, ops.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a weight by its largest singular value.

    >>> import flambeau as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4), n_power_iterations=20)
    >>> round(torch.linalg.matrix_norm(layer.weight, 2).item(), 2)
    1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if any(cls.__name__.startswith("ConvTranspose") for cls in type(module).__mro__) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
