"""Marks where a model's values become quantized and where they become floats again."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    """Changes nothing until `convert` puts something else in its place."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Stub):
    """Observed when prepared; `convert` makes it quantize its input."""


class DeQuantStub(_Stub):
    """`convert` makes it give floats again."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Any:
        return self.dequant(self.module(self.quant(X)))
