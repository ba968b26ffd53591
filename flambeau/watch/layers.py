"""Weights, gradients and updates by layer, looked at before and after one step of an optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._observe.arrays import flat, histogram, host, root, square

_MOST = 200  # layers of an optimizer


class Layer:
    """The trained parameters of one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: list[Any] = []
        self.before: Any = None  # some weights of the largest parameter before the step


def layers_of(optimizer: Any, roots: list[Any]) -> list[Layer]:
    """The parameters of an optimizer by the modules that hold them; those of no module have a layer of their own."""
    held = {id(p): p for group in optimizer.param_groups for p in group["params"]}
    found: dict[str, Layer] = {}
    several = sum(any(id(p) in held for p in module.parameters()) for module in roots) > 1
    for module in roots:
        for path, parameter in module.named_parameters():
            if held.pop(id(parameter), None) is not None:
                layer = path.rpartition(".")[0] or type(module).__name__
                name = f"{type(module).__name__}.{layer}" if several and layer != type(module).__name__ else layer
                found.setdefault(name, Layer(name)).parameters.append(parameter)
    for number, parameter in enumerate(held.values()):
        found[f"parameter {number}"] = layer_ = Layer(f"parameter {number}")
        layer_.parameters.append(parameter)
    return list(found.values())[:_MOST]


class Look:
    """One look at the layers of an optimizer: `before` and `after` its step, then numbers and histograms."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.numbers: dict[str, float] = {}
        self.histograms: list[tuple[str, Any]] = []

    def before(self) -> None:
        total = 0.0
        for layer in self.layers:
            layer.before, squares, any_grad = None, 0.0, False
            for parameter in layer.parameters:
                gradient = host(parameter.grad)
                if gradient is not None:
                    squares, any_grad = squares + square(gradient), True
            if any_grad:
                self.numbers["gradient/" + layer.name] = root(squares)
                total += squares
            largest = max(layer.parameters, key=lambda p: p.numel())
            array = host(largest)
            if array is not None:
                layer.before = flat(array).copy()
        if total:
            self.numbers["gradient/all"] = root(total)

    def after(self) -> None:
        for layer in self.layers:
            if layer.before is None:
                continue
            now = flat(host(max(layer.parameters, key=lambda p: p.numel())))
            with np.errstate(all="ignore"):
                size, change = root(square(layer.before)), root(square(now - layer.before))
            if size > 0:
                self.numbers["update/" + layer.name] = change / size
            counted = histogram(now)
            if counted is not None:
                self.histograms.append(("weights/" + layer.name, counted))
            layer.before = None
