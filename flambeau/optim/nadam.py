"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_betas, decayed, scalar, settings, zeros_like
from .optimizer import ParamsT

__all__ = ["NAdam"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step, product), (lr, beta1, beta2, eps, weight_decay, momentum_decay) = scalars, given
    step = step + 1
    mu = beta1 * (1 - 0.5 * m.pow(0.96, step * momentum_decay))
    following = beta1 * (1 - 0.5 * m.pow(0.96, (step + 1) * momentum_decay))
    product = product * mu
    by_gradient = lr * (1 - mu) / (1 - product)
    by_average = lr * following / (1 - product * following)
    decay = 1 - lr * weight_decay if options[1] else weight_decay
    correction = 1 - m.pow(beta2, step)
    return (step, product), (by_gradient, by_average, 1 - beta1, beta2, 1 - beta2, correction, eps, decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, decoupled, maximize = options
    by_gradient, by_average, weight1, beta2, weight2, correction, eps, decay = numbers
    average, square = states
    p, g = decayed(p, g, maximize, decays, decay, decoupled)
    average = average + (g - average) * weight1
    square = square * beta2 + g * g * weight2
    spread = m.sqrt(square / correction) + eps
    return p - g * by_gradient / spread - average * by_average / spread, (average, square)


class NAdam(Elementwise):
    """Adam with Nesterov momentum (Dozat, 2016), whose momentum warms up by `momentum_decay`.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.NAdam([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.8944], requires_grad=True)
    """

    _formula = Formula("NAdam", _numbers, _update)
    _scalars = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_at_least(0.0, weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        options = weight_decay != 0, group["decoupled_weight_decay"], group["maximize"]
        given = group["lr"], *group["betas"], group["eps"], weight_decay, group["momentum_decay"]
        return options, ("exp_avg", "exp_avg_sq"), given

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"], state["mu_product"] = scalar(0, p, group), scalar(1, p, group)
        state["exp_avg"], state["exp_avg_sq"] = zeros_like(p), zeros_like(p)
