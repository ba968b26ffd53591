"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from .._core.state import SPARSE
from .._kernel.training.optim import Formula
from .._ops.registry import ops
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_forms, decayed, settings
from .optimizer import ParamsT

__all__ = ["SGD"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    lr, momentum, dampening, weight_decay = given
    return (), (lr, momentum, 1 - dampening, weight_decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, remembers, first, nesterov, maximize = options
    lr, momentum, weight, weight_decay = numbers
    _, g = decayed(p, g, maximize, decays, weight_decay)
    if not remembers:
        return p - g * lr, ()
    if first:  # a recorded step takes the first buffer for a constant
        buffer = g if m.symbolic else g.detach()
    else:
        buffer = states[0] * momentum + g * weight
    step = g + buffer * momentum if nesterov else buffer
    return p - step * lr, (buffer,)


class SGD(Elementwise):
    """Gradient descent; with `momentum`, along a running sum of the gradients.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.8000], requires_grad=True)
    """

    _formula = Formula("SGD", _numbers, _update)
    _scalars = ()
    _added = {"fused": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = settings(locals())
        check_at_least(lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        check_forms(foreach, fused, differentiable)

    def _step_group(self, group: dict[str, Any], params: list[Tensor]) -> None:
        momentum, weight_decay = group["momentum"], group["weight_decay"]
        given = group["lr"], momentum, group["dampening"], weight_decay
        options = weight_decay != 0, momentum != 0, False, group["nesterov"], group["maximize"]
        if any(p._autograd_meta.grad._k & SPARSE for p in params):  # type: ignore[union-attr]
            self._step_sparse(group, [p for p in params if p._autograd_meta.grad._k & SPARSE])  # type: ignore[union-attr]
            params = [p for p in params if not p._autograd_meta.grad._k & SPARSE]  # type: ignore[union-attr]
        if not momentum:
            if params:
                self._change(group, params, options, (), given)
            return
        state = self.state
        fresh = [p for p in params if state[p].get("momentum_buffer") is None]
        if fresh:  # the buffer starts as the first gradient
            for p in fresh:
                state[p]["momentum_buffer"] = ops.empty_like(p.detach())
            self._change(group, fresh, (*options[:2], True, *options[3:]), ("momentum_buffer",), given)
            begun = {id(p) for p in fresh}
            params = [p for p in params if id(p) not in begun]
        if params:
            self._change(group, params, options, ("momentum_buffer",), given)

    def _step_sparse(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """Sparse gradients: added where they have entries; buffers are sparse too."""
        lr, momentum, weight_decay = group["lr"], group["momentum"], group["weight_decay"]
        for p in params:
            g: Any = p._autograd_meta.grad  # type: ignore[union-attr]
            g = -g if group["maximize"] else g
            if weight_decay != 0:
                g = g.add(p, alpha=weight_decay)
            if momentum != 0:
                state = self.state[p]
                buffer = state.get("momentum_buffer")
                buffer = g.clone() if buffer is None else buffer * momentum + g * (1 - group["dampening"])
                state["momentum_buffer"] = buffer
                g = g + buffer * momentum if group["nesterov"] else buffer
            p.add_(g, alpha=-float(lr))
