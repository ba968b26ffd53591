"""Adafactor: second moments of matrices kept as one row and one column."""

from __future__ import annotations

import math
from typing import Any

from .._core.dtypes import COMPLEX
from .._core.info import finfo
from .._core.state import SPARSE
from .._ops.registry import ops
from .._tensor import Tensor
from ._elementwise import check_tensor_lr, settings, zeros_like
from ._one_by_one import OneByOne
from .optimizer import ParamsT, _get_scalar_dtype

__all__ = ["Adafactor"]


class Adafactor(OneByOne):
    """Adafactor (Shazeer and Stern, 2018), with relative step sizes and clipped updates.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.ones(2, 3))
    >>> optimizer = torch.optim.Adafactor([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step()
    >>> sorted(optimizer.state[p])
    ['col_var', 'row_var', 'step']
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                kept = self.state.get(p)
                if kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = ops.tensor(float(kept["step"]), dtype=_get_scalar_dtype())

    def _start(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> None:
        state["step"] = ops.tensor(0.0, dtype=_get_scalar_dtype())
        if g.dim() > 1:
            *lead, rows, columns = g.shape
            state["row_var"] = g.new_zeros((*lead, rows, 1))
            state["col_var"] = g.new_zeros((*lead, 1, columns))
        else:
            state["variance"] = zeros_like(g)

    def _change(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if g._k & SPARSE:
            raise RuntimeError("Adafactor does not support sparse gradients")
        if p.dtype.category == COMPLEX:
            raise RuntimeError("Adafactor does not support complex parameters")
        if not state:
            self._start(p, g, state)
        lr, (eps1, eps2) = float(group["lr"]), group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        state["step"] += 1
        step = state["step"].item()
        if group["maximize"]:
            g = -g
        weight = step ** group["beta2_decay"]
        size = max(eps2, p.norm(2).item() / math.sqrt(p.numel())) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if g.dim() > 1:
            squares = g * g
            row, column = state["row_var"], state["col_var"]
            row.lerp_(squares.mean(dim=-1, keepdim=True), weight)
            column.lerp_(squares.mean(dim=-2, keepdim=True), weight)
            variance = row @ column / row.mean(dim=-2, keepdim=True).clamp_(min=eps1)
        else:
            variance = state["variance"].lerp_(g * g, weight)
        update = variance.clamp(min=eps1 * eps1).rsqrt_().mul_(g)
        clipping = max(1.0, update.norm(2).item() / (math.sqrt(update.numel()) * group["d"]))
        p.add_(update, alpha=-size / clipping)
