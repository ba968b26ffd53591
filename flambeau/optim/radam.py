"""RAdam: Adam that waits until the variance of its scaling is known."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_betas, decayed, settings
from .optimizer import ParamsT

__all__ = ["RAdam"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, beta1, beta2, eps, weight_decay) = scalars, given
    step = step + 1
    left = m.pow(beta2, step)
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * left / (1 - left)  # of the average, as a simple moving one
    known = length > 5.0
    settled = m.maximum(length, 5.0)
    rectified = m.sqrt((settled - 4) * (settled - 2) * limit / ((limit - 4) * (limit - 2) * settled))
    size = lr / (1 - m.pow(beta1, step))
    scaled = m.where(known, size * rectified * m.sqrt(1 - left), 0.0)
    decay = 1 - lr * weight_decay if options[1] else weight_decay
    return (step,), (scaled, m.where(known, 0.0, size), 1 - beta1, beta2, 1 - beta2, eps, decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, decoupled, maximize = options
    scaled, plain, weight1, beta2, weight2, eps, decay = numbers
    average, square = states
    p, g = decayed(p, g, maximize, decays, decay, decoupled)
    average = average + (g - average) * weight1
    square = square * beta2 + g * g * weight2
    factor = m.where(scaled == 0.0, plain, scaled / (m.sqrt(square) + eps))
    return p - average * factor, (average, square)


class RAdam(Elementwise):
    """Rectified Adam (Liu and others, 2020): plain momentum at first, Adam once enough steps were made.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.RAdam([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.8000], requires_grad=True)
    """

    _formula = Formula("RAdam", _numbers, _update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr, epsilon=eps)
        check_betas(betas)
        check_at_least(0.0, weight_decay=weight_decay)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        options = weight_decay != 0, group["decoupled_weight_decay"], group["maximize"]
        given = group["lr"], *group["betas"], group["eps"], weight_decay
        return options, ("exp_avg", "exp_avg_sq"), given
