"""Adam for sparse gradients: only the entries that a gradient has are looked at."""

from __future__ import annotations

import math
from typing import Any

from .._core.dtypes import COMPLEX
from .._core.state import SPARSE
from .._tensor import Tensor
from ._elementwise import check_betas, check_tensor_lr, zeros_like
from ._one_by_one import OneByOne
from .optimizer import ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(OneByOne):
    """Adam whose moments and parameters change only where the (sparse) gradient has entries.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.ones(3))
    >>> p.grad = torch.sparse_coo_tensor([[1]], [2.0], (3,))
    >>> torch.optim.SparseAdam([p], lr=0.5).step(); p
    Parameter containing:
    tensor([1.0000, 0.5000, 1.0000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for what, wrong, problem in (
            ("Sparse", lambda p: p._k & SPARSE, "SparseAdam requires dense parameter tensors"),
            ("Complex", lambda p: p.dtype.category == COMPLEX, "SparseAdam does not support complex parameters"),
        ):
            places = [
                [i, j] for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"]) if wrong(p)
            ]
            if places:
                raise ValueError(f"{what} params at indices {places}: {problem}")

    def _change(self, p: Tensor, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not g._k & SPARSE:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
        state["step"] += 1
        step, (beta1, beta2) = state["step"], group["betas"]
        g = g.coalesce()
        place = tuple(g.indices())
        values = -g.values() if group.get("maximize") else g.values()
        if not values.numel():
            return
        average = state["exp_avg"][place].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][place].lerp_(values * values, 1 - beta2)
        state["exp_avg"].index_put_(place, average)
        state["exp_avg_sq"].index_put_(place, square)
        size = float(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        p.index_put_(place, average / square.sqrt_().add_(group["eps"]) * -size, accumulate=True)
