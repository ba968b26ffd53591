"""Muon: momentum whose matrices are made nearly orthogonal before they are added."""

from __future__ import annotations

import math
from typing import Any

from .._core.dtypes import COMPLEX
from .._core.state import SPARSE
from .._tensor import Tensor
from ._elementwise import check_tensor_lr, settings, zeros_like
from ._one_by_one import OneByOne
from .optimizer import ParamsT

__all__ = ["Muon"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial x → a x + b x³ + c x⁵ that drives singular values to one


def orthogonalized(matrix: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """A matrix in bfloat16 whose singular values are near one, by iterations of a fifth-order polynomial."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(matrix.shape) != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def adjusted_lr(lr: float, kind: str | None, shape: Any) -> float:
    """The learning rate for a matrix: by its aspect ratio, or so that updates are as large as AdamW's."""
    rows, columns = shape[:2]
    if kind is None or kind == "original":
        return lr * math.sqrt(max(1.0, rows / columns))
    if kind == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr


class Muon(OneByOne):
    """Muon (Jordan, 2024), for the matrices of hidden layers.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.eye(2))
    >>> optimizer = torch.optim.Muon([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step()
    >>> bool((p.diag() < 1).all())
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = settings(locals())
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _change(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if p.dtype.category == COMPLEX:
            raise RuntimeError("Muon does not support complex parameters")
        if g._k & SPARSE:
            raise RuntimeError("Muon does not support sparse gradients")
        if not state:
            state["momentum_buffer"] = zeros_like(g)
        lr, momentum = float(group["lr"]), group["momentum"]
        buffer = state["momentum_buffer"].lerp_(g, 1 - momentum)
        direction = g.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(update, alpha=-adjusted_lr(lr, group["adjust_lr_fn"], p.shape))
