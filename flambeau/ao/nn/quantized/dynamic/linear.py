"""A linear layer with integer weights whose input is quantized while the model runs."""

from __future__ import annotations

from typing import Any

from ....._core.dtypes import dtype, float16, float32, qint8
from ....._ops.quantized.linear import dynamic_linear
from ....._ops.registry import ops
from ....._tensor import Tensor
from ..modules import Linear as _Static
from ..modules import observed_weight

__all__ = ["Linear"]


class Linear(_Static):
    """A linear layer with an integer (or float16) weight: floats in, floats out.

    The input is rounded to 7 bits with a scale that fits it, as PyTorch does.
    """

    _shown = "DynamicQuantizedLinear"

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: dtype = qint8) -> None:
        super().__init__(in_features, out_features, bias_)
        self.dtype = dtype
        if dtype is float16:
            self._weight = ops.zeros((out_features, in_features), dtype=float16)

    def forward(self, x: Tensor) -> Any:
        if self.dtype is float16:
            return ops.linear(x, self._weight.to(float32), self._bias)
        return dynamic_linear(x, self._weight, self._bias)

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.dtype}"
        return text if self.dtype is float16 else f"{text}, qscheme={self._weight.qscheme()}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """From a float layer with a qconfig."""
        qconfig = getattr(mod, "qconfig", None)
        wanted = qconfig.weight().dtype if qconfig is not None and qconfig.weight is not None else qint8
        bias = None if mod.bias is None else mod.bias.detach()
        made = cls(mod.in_features, mod.out_features, mod.bias is not None, wanted)
        made.set_weight_bias(mod.weight.detach().to(float16) if wanted is float16 else observed_weight(mod), bias)
        return made
