"""Adagrad: steps scaled by the sum of all squared gradients."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import COMPLEX
from .._core.state import SPARSE
from .._kernel.training.optim import Formula
from .._ops.registry import ops
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_forms, decayed, scalar, settings
from .optimizer import ParamsT

__all__ = ["Adagrad"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, lr_decay, eps, weight_decay) = scalars, given
    return (step + 1,), (lr / (1 + step * lr_decay), eps, weight_decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, maximize = options
    lr, eps, weight_decay = numbers
    _, g = decayed(p, g, maximize, decays, weight_decay)
    total = states[0] + g * g
    return p - g * lr / (m.sqrt(total) + eps), (total,)


class Adagrad(Elementwise):
    """Adagrad (Duchi and others, 2011); sparse gradients change only the entries they have.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adagrad([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    _formula = Formula("Adagrad", _numbers, _update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = settings(locals())
        check_at_least(
            lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )  # fmt: skip
        super().__init__(params, defaults)
        check_forms(foreach, fused, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self._start(p, self.state[p], group)

    def share_memory(self) -> None:
        """Moves the sums to memory that other processes see."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _settings(self, group: dict[str, Any]) -> Any:
        weight_decay = group["weight_decay"]
        given = group["lr"], group["lr_decay"], group["eps"], weight_decay
        return (weight_decay != 0, group["maximize"]), ("sum",), given

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        first = group["initial_accumulator_value"]
        state["step"] = scalar(0, p, group)
        state["sum"] = ops.full_like(p.detach(), complex(first, first) if p.dtype.category == COMPLEX else first)

    def _check_dense(self, p: Tensor) -> None:
        pass

    def _change_one(self, group: Any, p: Tensor, options: Any, names: Any, given: Any) -> None:
        g: Any = p._autograd_meta.grad  # type: ignore[union-attr]
        if not g._k & SPARSE:
            super()._change_one(group, p, options, names, given)
            return
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state = self.state[p]
        state["step"] += 1
        lr = float(group["lr"]) / (1 + (float(state["step"]) - 1) * group["lr_decay"])
        g = (-g if group["maximize"] else g).coalesce()
        values, place = g.values(), tuple(g.indices())
        state["sum"].index_put_(place, values * values, accumulate=True)
        spread = state["sum"][place].sqrt_().add_(group["eps"])
        p.index_put_(place, values / spread * -lr, accumulate=True)
