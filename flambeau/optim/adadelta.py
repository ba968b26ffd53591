"""Adadelta: steps scaled by the ratio of running averages of past steps and gradients."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, decayed, settings
from .optimizer import ParamsT

__all__ = ["Adadelta"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, rho, eps, weight_decay) = scalars, given
    return (step + 1,), (lr, rho, 1 - rho, eps, weight_decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, maximize = options
    lr, rho, weight, eps, weight_decay = numbers
    square, accumulated = states
    _, g = decayed(p, g, maximize, decays, weight_decay)
    square = square * rho + g * g * weight
    delta = m.sqrt(accumulated + eps) / m.sqrt(square + eps) * g
    accumulated = accumulated * rho + delta * delta * weight
    return p - delta * lr, (square, accumulated)


class Adadelta(Elementwise):
    """Adadelta (Zeiler, 2012).

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adadelta([p], lr=1.0)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.9968], requires_grad=True)
    """

    _formula = Formula("Adadelta", _numbers, _update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least(0.0, epsilon=eps, weight_decay=weight_decay)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        given = group["lr"], group["rho"], group["eps"], weight_decay
        return (weight_decay != 0, group["maximize"]), ("square_avg", "acc_delta"), given
