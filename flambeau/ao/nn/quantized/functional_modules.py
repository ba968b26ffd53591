"""Sums, products and the like as modules, so that their results can be observed and quantized."""

from __future__ import annotations

from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn.modules.linear import Identity
from ....nn.modules.module import Module


class FloatFunctional(Module):
    """Operations between tensors; when prepared, `activation_post_process` looks at their results.

    >>> import flambeau as torch
    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        raise RuntimeError("FloatFunctional is not called itself; use its methods such as add")

    def _seen(self, made: Tensor) -> Any:
        return self.activation_post_process(made)

    def add(self, x: Tensor, y: Tensor) -> Any:
        """x + y"""
        return self._seen(ops.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x plus a number; not observed."""
        return ops.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Any:
        """x * y"""
        return self._seen(ops.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x times a number; not observed."""
        return ops.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Any:
        """Tensors one after the other."""
        return self._seen(ops.cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Any:
        """relu(x + y)"""
        return self._seen(ops.relu(ops.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """x @ y"""
        return self._seen(ops.matmul(x, y))


class FXFloatFunctional(FloatFunctional):
    """The same for models that are traced: its methods are plain operations, which a tracer sees and observes itself."""

    def __init__(self) -> None:
        Module.__init__(self)

    def _seen(self, made: Tensor) -> Any:
        return made


class QFunctional(Module):
    """The same between quantized tensors; results have the scale and zero point that were observed."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = ops.tensor(self.scale)
        destination[prefix + "zero_point"] = ops.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Any) -> Any:
        raise RuntimeError("QFunctional is not called itself; use its methods such as add")

    def _rounded(self, made: Tensor, like: Tensor) -> Any:
        made = ops.quantize_per_tensor(made, self.scale, self.zero_point, like.dtype)
        return self.activation_post_process(made)

    def add(self, x: Tensor, y: Tensor) -> Any:
        """x + y"""
        return self._rounded(ops.dequantize(x) + ops.dequantize(y), x)

    def add_scalar(self, x: Tensor, y: float) -> Any:
        """x plus a number."""
        return self._rounded(ops.dequantize(x) + y, x)

    def mul(self, x: Tensor, y: Tensor) -> Any:
        """x * y"""
        return self._rounded(ops.dequantize(x) * ops.dequantize(y), x)

    def mul_scalar(self, x: Tensor, y: float) -> Any:
        """x times a number."""
        return self._rounded(ops.dequantize(x) * y, x)

    def cat(self, x: list[Tensor], dim: int = 0) -> Any:
        """Tensors one after the other."""
        return self._rounded(ops.cat([ops.dequantize(t) for t in x], dim), x[0])

    def add_relu(self, x: Tensor, y: Tensor) -> Any:
        """relu(x + y)"""
        return self._rounded(ops.relu(ops.dequantize(x) + ops.dequantize(y)), x)

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """x @ y"""
        return self._rounded(ops.dequantize(x) @ ops.dequantize(y), x)

    @classmethod
    def from_float(cls, mod: FloatFunctional, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """With what was observed on a FloatFunctional."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made
