"""Modules as functions of their parameters, in the form that the `functorch` package had."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor
from ..func import functional_call
from ..nn.modules.module import Module
from ..nn.parameter import Parameter

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functional_init",
    "functional_init_with_buffers", "make_functional", "make_functional_with_buffers",
]  # fmt: skip


class FunctionalModuleWithBuffers(Module):
    """A module that is called with its parameters and buffers first."""

    def __init__(self, stateless_model: Module, param_names: Any, buffer_names: Any):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers that is called with its parameters first."""

    def __init__(self, stateless_model: Module, param_names: Any):
        super().__init__(stateless_model, param_names, ())

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False) -> tuple[Any, Any, Any]:
    """A function of (parameters, buffers, inputs), with the parameters and buffers that the model has now."""
    params = dict(model.named_parameters())
    buffers = dict(model.named_buffers())
    if disable_autograd_tracking:
        params = {name: p.detach() for name, p in params.items()}
    # what is copied has neither memory nor values, and is shared where the model shares it
    stand_ins: dict[int, Any] = {id(b): b.detach().to("meta") for b in buffers.values()}
    stand_ins.update({id(p): Parameter(p.detach().to("meta"), p.requires_grad) for p in model.parameters()})
    empty = copy.deepcopy(model, stand_ins)
    return FunctionalModuleWithBuffers(empty, params, buffers), tuple(params.values()), tuple(buffers.values())


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[Any, Any]:
    """A function of (parameters, inputs), with the parameters that the model has now.

    >>> import flambeau as torch
    >>> function, parameters = make_functional(torch.nn.Linear(2, 3))
    >>> function(parameters, torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(function.stateless_model, function.param_names), params


def combine_state_for_ensemble(models: Any) -> tuple[Any, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for models of one class, with their parameters and buffers stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*[make_functional_with_buffers(m) for m in models])
    stacked = tuple(ops.stack(group).detach() for group in zip(*params))
    return functions[0], stacked, tuple(ops.stack(group).detach() for group in zip(*buffers))


def functional_init(model_class: type[Module], ensemble_shape: Any = (), device: Any = "cpu") -> Callable[..., Any]:
    """A function that makes an ensemble of modules: (their stacked parameters, function(parameters, inputs), names).

    >>> import flambeau as torch
    >>> weights, function, names = functional_init(torch.nn.Linear, (5,))(2, 3)
    >>> names, weights[0].shape
    (('weight', 'bias'), torch.Size([5, 3, 2]))
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        weights, _, function, names, _ = functional_init_with_buffers(model_class, ensemble_shape, device)(
            *args, **kwargs
        )
        return weights, lambda params, inputs: function(params, (), inputs), names

    return made


def functional_init_with_buffers(
    model_class: type[Module], ensemble_shape: Any = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """The same for modules with buffers: (parameters, buffers, function(parameters, buffers, inputs), names of both)."""

    def made(*args: Any, **kwargs: Any) -> Any:
        if len(ensemble_shape) >= 2:
            raise ValueError("functional_init: an ensemble_shape of more than one dimension is not supported")
        if not ensemble_shape:
            models = [model_class(*args, **kwargs).to(device)]
        elif ensemble_shape[0] <= 0:
            raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")
        else:
            models = [model_class(*args, **kwargs).to(device) for _ in range(ensemble_shape[0])]
        function, *first = make_functional_with_buffers(models[0])
        states = [first, *[make_functional_with_buffers(m)[1:] for m in models[1:]]]
        stacked = [tuple(ops.stack(group).detach() for group in zip(*kind)) for kind in zip(*states)]
        weights, buffers = stacked if ensemble_shape else first
        run = function.forward
        names = function.param_names, function.buffer_names
        return weights, buffers, lambda params, state, inputs: run(params, state, *inputs), *names

    return made
