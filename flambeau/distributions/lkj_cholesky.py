"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.info import finfo
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors L of `dim` x `dim` correlation matrices, of density det(L L^T) ** (concentration - 1)
    in the matrix. 1 is uniform over correlation matrices.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _batched = ("concentration", "_beta")
    _shared = ("dim",)

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"LKJCholesky: expected dim to be 2 or more, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        # the onion method: row i is a random direction of i numbers, its squared length beta distributed
        rows = ops.cat([ops.zeros(1, **like), ops.arange(dim - 1, **like)])
        start = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1)
        self._beta = Beta(rows + 0.5, start - 0.5 * rows)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            length = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            like = {"dtype": length.dtype, "device": length.device}
            direction = ops.randn(shape, **like).tril(-1)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)  # the first row has nothing beside its diagonal
            w = ops.sqrt(length) * direction
            diagonal = (1 - (w * w).sum(-1)).clamp(min=finfo(w.dtype).tiny).sqrt()
            return w + diagonal.diag_embed()

    def _log_prob(self, value: Tensor) -> Tensor:
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        dim = self.dim
        order = ops.arange(2, dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + dim - order
        alpha = self.concentration + 0.5 * (dim - 1)
        constant = (
            0.5 * (dim - 1) * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, dim - 1) - ops.lgamma(alpha) * (dim - 1)
        )
        return (order * diagonal.log()).sum(-1) - constant
