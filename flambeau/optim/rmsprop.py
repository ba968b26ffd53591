"""RMSprop: steps scaled by a running average of squared gradients."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, decayed, settings
from .optimizer import ParamsT

__all__ = ["RMSprop"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, alpha, eps, weight_decay, momentum) = scalars, given
    return (step + 1,), (lr, alpha, 1 - alpha, eps, weight_decay, momentum)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, centered, remembers, maximize = options
    lr, alpha, weight, eps, weight_decay, momentum = numbers
    square, *rest = states
    _, g = decayed(p, g, maximize, decays, weight_decay)
    square = square * alpha + g * g * weight
    changed = [square]
    variance = square
    if centered:
        mean = rest[-1]
        mean = mean + (g - mean) * weight
        variance = square - mean * mean
    spread = m.sqrt(variance) + eps
    if remembers:
        buffer = rest[0] * momentum + g / spread
        changed.append(buffer)
        p = p - buffer * lr
    else:
        p = p - g * lr / spread
    return p, [*changed, mean] if centered else changed


class RMSprop(Elementwise):
    """RMSprop (Hinton, 2012); `centered` scales by the variance instead of the second moment.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.RMSprop([p], lr=0.05)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

    _formula = Formula("RMSprop", _numbers, _update)
    _added = {"momentum": 0}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr, epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay, momentum, centered = group["weight_decay"], group["momentum"], group["centered"]
        names = ("square_avg",) + ("momentum_buffer",) * (momentum > 0) + ("grad_avg",) * bool(centered)
        given = group["lr"], group["alpha"], group["eps"], weight_decay, momentum
        return (weight_decay != 0, bool(centered), momentum > 0, group["maximize"]), names, given
