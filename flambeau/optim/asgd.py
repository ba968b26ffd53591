"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, decayed, scalar, settings, zeros_like
from .optimizer import ParamsT

__all__ = ["ASGD"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step, eta, mu), (lr, lambd, alpha, t0, weight_decay) = scalars, given
    step = step + 1
    later = lr / m.pow(1 + lambd * lr * step, alpha), 1 / m.maximum(step - t0, 1.0)
    return (step, *later), (eta, 1 - lambd * eta, mu, weight_decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, maximize = options
    eta, shrink, mu, weight_decay = numbers
    _, g = decayed(p, g, maximize, decays, weight_decay)
    p = p * shrink - g * eta
    average = states[0]
    return p, (m.where(mu == 1.0, p, average + (p - average) * mu),)


class ASGD(Elementwise):
    """Averaged SGD (Polyak and Juditsky, 1992): each parameter's average over the steps after `t0` is kept as `ax`.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.ASGD([p], lr=0.1, lambd=0.0)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.8000], requires_grad=True)
    """

    _formula = Formula("ASGD", _numbers, _update)
    _scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr, weight_decay=weight_decay)
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        given = group["lr"], group["lambd"], group["alpha"], group["t0"], weight_decay
        return (weight_decay != 0, group["maximize"]), ("ax",), given

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = scalar(0, p, group)
        state["eta"], state["mu"] = scalar(group["lr"], p, group), scalar(1, p, group)
        state["ax"] = zeros_like(p)
