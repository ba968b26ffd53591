"""Optimizers of several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...optim import Optimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]


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

    def __init__(self, optimizer_class: type[Optimizer], params_rref: Any, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            "DistributedOptimizer: there are no remote processes here, use an optimizer of torch.optim"
        )


class _Functional:
    """An optimizer that is given gradients, one by one or for all its parameters, instead of reading them."""

    def __init__(self, optim_cls: type[Optimizer], args: tuple[Any, ...], kwargs: dict[str, Any]):
        kwargs.pop("_allow_empty_param_list", None)
        self._make = lambda parameters: optim_cls(parameters, *args, **kwargs)
        self._optimizers: dict[Any, Optimizer] = {}
        self.param_group: dict[str, Any] = {"params": []}

    @property
    def state(self) -> dict[Any, Any]:
        """What the optimizer keeps, by parameters."""
        return {parameter: optim.state.get(parameter, {}) for parameter, optim in self._optimizers.items()}

    def step_param(self, param: Any, grad: Any) -> None:
        """One step of one parameter."""
        optimizer = self._optimizers.get(param)
        if optimizer is None:
            optimizer = self._optimizers[param] = self._make([param])
            if all(param is not known for known in self.param_group["params"]):
                self.param_group["params"].append(param)
        before, param.grad = param.grad, grad
        try:
            optimizer.step()
        finally:
            param.grad = before

    def step(self, gradients: list[Any]) -> None:
        """One step of all parameters in `param_group["params"]`; None for one that has no gradient."""
        parameters = self.param_group["params"]
        if len(parameters) != len(gradients):
            raise ValueError(
                "the gradients passed in does not equal to the size of the parameters!"
                f"Params length: {len(parameters)}. Gradients length: {len(gradients)}"
            )
        for param, grad in zip(parameters, gradients):
            if grad is not None:
                self.step_param(param, grad)


def as_functional_optim(optim_cls: type[Optimizer], *args: Any, **kwargs: Any) -> _Functional:
    """An optimizer whose steps are given gradients.

    >>> import flambeau as torch
    >>> from flambeau.distributed.optim import as_functional_optim
    >>> weight = torch.ones(2)
    >>> as_functional_optim(torch.optim.SGD, lr=0.5).step_param(weight, torch.ones(2)); weight
    tensor([0.5000, 0.5000])
    """
    return _Functional(optim_cls, args, kwargs)
