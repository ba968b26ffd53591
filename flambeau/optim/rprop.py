"""Rprop: steps that grow while a gradient keeps its sign and shrink when it changes."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import COMPLEX
from .._kernel.training.optim import Formula
from .._ops.registry import ops
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, scalar, settings, zeros_like
from .optimizer import ParamsT

__all__ = ["Rprop"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,) = scalars
    return (step + 1,), tuple(given)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    (maximize,) = options
    shrink, grow, least, most = numbers
    previous, size = states
    if maximize:
        g = -g
    agreement = g * previous
    size = m.where(agreement > 0.0, size * grow, m.where(agreement < 0.0, size * shrink, size))
    size = m.minimum(m.maximum(size, least), most)
    g = m.where(agreement < 0.0, m.zeros_like(g), g)
    return p - m.sign(g) * size, (g, size)


class Rprop(Elementwise):
    """Resilient backpropagation (Riedmiller and Braun, 1993), for full batches.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Rprop([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    _formula = Formula("Rprop", _numbers, _update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, defaults)

    def _settings(self, group: dict[str, Any]) -> Any:
        return (group["maximize"],), ("prev", "step_size"), (*group["etas"], *group["step_sizes"])

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr = float(group["lr"])
        state["step"], state["prev"] = scalar(0, p, group), zeros_like(p)
        state["step_size"] = ops.full_like(p.detach(), complex(lr, lr) if p.dtype.category == COMPLEX else lr)
