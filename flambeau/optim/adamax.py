"""Adamax: Adam with the largest gradient seen of late in place of the second moment."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_betas, decayed, settings
from .optimizer import ParamsT

__all__ = ["Adamax"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, beta1, beta2, eps, weight_decay) = scalars, given
    step = step + 1
    return (step,), (lr / (1 - m.pow(beta1, step)), 1 - beta1, beta2, eps, weight_decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, maximize = options
    size, weight, beta2, eps, weight_decay = numbers
    average, norm = states
    _, g = decayed(p, g, maximize, decays, weight_decay)
    average = average + (g - average) * weight
    norm = m.maximum(norm * beta2, m.abs(g) + eps)
    return p - average * size / norm, (average, norm)


class Adamax(Elementwise):
    """Adamax (Kingma and Ba, 2015), Adam by the infinity norm.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adamax([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    _formula = Formula("Adamax", _numbers, _update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr, epsilon=eps)
        check_betas(betas)
        check_at_least(0.0, weight_decay=weight_decay)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        given = group["lr"], *group["betas"], group["eps"], weight_decay
        return (weight_decay != 0, group["maximize"]), ("exp_avg", "exp_inf"), given
