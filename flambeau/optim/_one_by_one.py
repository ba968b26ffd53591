"""Optimizers that change one parameter after the other, with tensor operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._autograd.modes import enable_grad, no_grad
from .._tensor import Tensor
from .optimizer import Optimizer


class OneByOne(Optimizer):
    """Asks `_change` to change each parameter that has a gradient."""

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step; the result of `closure`, if given, is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._change(p, p.grad, self.state[p], group)
        return loss

    step.closure_first = True

    def _change(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Makes the step of a parameter whose gradient is `g`."""
        raise NotImplementedError
