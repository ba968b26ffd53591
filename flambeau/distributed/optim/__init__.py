"""Optimizers of several processes. In a world of one they do what the optimizer does that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...optim import Optimizer
from .._groups import get_world_size, is_initialized

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose state is divided among the processes; one process holds all of it.

    >>> import flambeau as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = ZeroRedundancyOptimizer([w], optimizer_class=torch.optim.SGD, lr=0.5)
    >>> w.sum().backward(); optimizer.step(); w
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ):
        if is_initialized() and get_world_size(process_group) > 1:
            raise NotImplementedError("ZeroRedundancyOptimizer: state is not divided among several processes yet")
        self.process_group, self.parameters_as_bucket_view = process_group, parameters_as_bucket_view
        self.optim = optimizer_class(list(params), **defaults)
        super().__init__(self.optim.param_groups, self.optim.defaults)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        """One step of the optimizer inside."""
        return self.optim.step(closure, **options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """More parameters."""
        if all(group is not param_group for group in self.optim.param_groups):
            self.optim.add_param_group(param_group)
        self.param_groups = self.optim.param_groups

    def consolidate_state_dict(self, to: int = 0) -> None:
        """The parts of the state are already in one place."""

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer inside."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the state of an optimizer of the same kind."""
        self.optim.load_state_dict(state_dict)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state


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
