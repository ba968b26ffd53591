"""Optimizers of several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...optim import Optimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer after whose steps the parameters are averaged over processes now and then."""

    def __init__(self, optim: Optimizer, averager: Any):
        self.optim, self.averager = optim, averager
        self.param_groups, self.state, self.defaults = optim.param_groups, optim.state, optim.defaults

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step, then the averager's turn."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optim.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer inside, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave."""
        self.optim.load_state_dict(state_dict)
        self.averager.step = state_dict.get("step", 0)


class DistributedOptimizer:
    """An optimizer of parameters on other machines, through remote calls; not available."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "DistributedOptimizer: there are no remote processes here, use an optimizer of torch.optim"
        )
