"""Activations, norms and embeddings on quantized tensors: computed on the values, and rounded again."""

from __future__ import annotations

import copy
from typing import Any

from ...._core.dtypes import dtype as _dtype
from ...._core.dtypes import float32, quint4x2, quint8
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn.modules import activation, batchnorm, dropout, instancenorm, normalization
from ....nn.modules.module import Module

__all__ = [
    "ELU", "LSTM", "BatchNorm2d", "BatchNorm3d", "Dropout", "Embedding", "EmbeddingBag", "GroupNorm", "Hardswish",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "MultiheadAttention", "PReLU",
    "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip


class _Rounded:
    """A float layer between quantized tensors; its results have the scale and zero point that were observed."""

    def _scale_by(self: Any, scale: Any, zero_point: Any) -> None:
        self.register_buffer("scale", ops.tensor(float(scale)))
        self.register_buffer("zero_point", ops.tensor(int(zero_point)))

    def _get_name(self) -> str:
        return "Quantized" + type(self).__name__

    def forward(self: Any, input: Tensor) -> Any:
        made = super().forward(input.dequantize())  # type: ignore[misc]
        kind = input.dtype if input.is_quantized else quint8
        return ops.quantize_per_tensor(made, float(self.scale), int(self.zero_point), kind)

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From an observed float layer, whose parameters it keeps."""
        observer = mod.activation_post_process
        scale, zero_point = observer.calculate_qparams()
        made = cls.__new__(cls)
        made.__dict__.update(mod.__dict__)
        for table in ("_parameters", "_buffers", "_modules"):
            made.__dict__[table] = copy.copy(mod.__dict__[table])
        made._modules.pop("activation_post_process", None)
        made._modules.pop("weight_fake_quant", None)
        made._forward_hooks, made._forward_pre_hooks = type(mod._forward_hooks)(), type(mod._forward_pre_hooks)()
        made._scale_by(scale, zero_point)
        return made


def _set(layer: Any, weight: Any, bias: Any) -> None:
    if weight is not None:
        layer.weight, layer.bias = weight, bias


class ELU(_Rounded, activation.ELU):
    """The exponential linear unit on quantized tensors.

    >>> import flambeau as torch
    >>> x = torch.quantize_per_tensor(torch.tensor([-1.0, 1.0]), 0.1, 10, torch.quint8)
    >>> torch.ao.nn.quantized.ELU(0.1, 10)(x).dequantize()
    tensor([-0.6000,  1.0000])
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self._scale_by(scale, zero_point)


class Hardswish(_Rounded, activation.Hardswish):
    """`Hardswish` on quantized tensors."""

    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self._scale_by(scale, zero_point)


class LeakyReLU(_Rounded, activation.LeakyReLU):
    """Leaky relu on quantized tensors."""

    def __init__(
        self,
        scale: float,
        zero_point: int,
        negative_slope: float = 1e-2,
        inplace: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(negative_slope, inplace)
        self._scale_by(scale, zero_point)


class Sigmoid(_Rounded, activation.Sigmoid):
    """The logistic function on quantized tensors."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self._scale_by(output_scale, output_zero_point)


class Softmax(_Rounded, activation.Softmax):
    """Softmax on quantized tensors."""

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(dim)
        self._scale_by(scale, zero_point)


class PReLU(_Rounded, activation.PReLU):
    """Relu with learned slopes on quantized tensors."""

    def __init__(self, output_scale: float, output_zero_point: int, num_parameters: int = 1) -> None:
        super().__init__(num_parameters)
        self._scale_by(output_scale, output_zero_point)


class ReLU6(activation.ReLU6):
    """Values cut to 0 … 6, with the scale of the input."""

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    def forward(self, input: Tensor) -> Any:
        made = ops.clamp(input.dequantize(), 0.0, 6.0)
        return ops.quantize_per_tensor(made, input.q_scale(), input.q_zero_point(), input.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """In the place of a float layer."""
        return ReLU6(mod.inplace)


class Dropout(dropout.Dropout):
    """Nothing is dropped from quantized tensors."""

    def _get_name(self) -> str:
        return "QuantizedDropout"

    def forward(self, input: Tensor) -> Tensor:
        return input

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """In the place of a float layer."""
        return cls(mod.p, mod.inplace)


class LayerNorm(_Rounded, normalization.LayerNorm):
    """Layer normalisation on quantized tensors."""

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int, eps: float = 1e-5,
        elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        _set(self, weight, bias)
        self._scale_by(scale, zero_point)


class GroupNorm(_Rounded, normalization.GroupNorm):
    """Group normalisation on quantized tensors."""

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float, zero_point: int, eps: float = 1e-5,
        affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine, device, dtype)
        _set(self, weight, bias)
        self._scale_by(scale, zero_point)


class _InstanceNorm(_Rounded):
    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int, eps: float = 1e-5,
        momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)  # type: ignore[call-arg]
        _set(self, weight, bias)
        self._scale_by(scale, zero_point)


class InstanceNorm1d(_InstanceNorm, instancenorm.InstanceNorm1d):
    """Instance normalisation on quantized tensors over one dimension."""


class InstanceNorm2d(_InstanceNorm, instancenorm.InstanceNorm2d):
    """Instance normalisation on quantized tensors over two dimensions."""


class InstanceNorm3d(_InstanceNorm, instancenorm.InstanceNorm3d):
    """Instance normalisation on quantized tensors over three dimensions."""


class _BatchNorm(_Rounded):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_features, eps, momentum, device=device, dtype=dtype)  # type: ignore[call-arg]
        self._scale_by(1.0, 0)

    def forward(self: Any, input: Tensor) -> Any:
        made = ops.batch_norm(
            input.dequantize(), self.weight, self.bias, self.running_mean, self.running_var, False, 0.0, self.eps, False
        )
        return ops.quantize_per_tensor(made, float(self.scale), int(self.zero_point), input.dtype)


class BatchNorm2d(_BatchNorm, batchnorm.BatchNorm2d):
    """Batch normalisation on quantized tensors over two dimensions, with the running statistics."""


class BatchNorm3d(_BatchNorm, batchnorm.BatchNorm3d):
    """Batch normalisation on quantized tensors over three dimensions, with the running statistics."""


# -- tables ------------------------------------------------------------------------------------------------------------


class Embedding(Module):
    """A table of integers, a scale for each row; indices in, floats out."""

    _shown = "QuantizedEmbedding"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        dtype: _dtype = quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self.padding_idx = padding_idx
        if _weight is None:
            _weight = self._rows(ops.zeros((num_embeddings, embedding_dim)), 1.0, 0.0, dtype)
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.set_weight(_weight)

    @staticmethod
    def _rows(values: Tensor, scale: float, zero_point: float, dtype: _dtype) -> Any:
        rows = values.shape[0]
        return ops.quantize_per_channel(values, ops.full((rows,), scale), ops.full((rows,), zero_point), 0, dtype)

    def weight(self) -> Tensor:
        """The quantized table."""
        return self._weight

    def set_weight(self, w: Tensor) -> None:
        """Replaces the table."""
        self._weight = w

    def _get_name(self) -> str:
        return self._shown

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}, "
            f"qscheme={self._weight.qscheme()}"
        )

    def forward(self, indices: Tensor) -> Any:
        return ops.embedding(self._weight.dequantize(), indices)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_params.dtype"] = self.dtype
        destination[prefix + "_packed_params._packed_weight"] = self._weight

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *rest: Any
    ) -> None:
        key = prefix + "_packed_params._packed_weight"
        if key in state_dict:
            self.set_weight(state_dict[key])
            self.dtype = state_dict.get(prefix + "_packed_params.dtype", self.dtype)
        else:
            missing.append(key)
        others = {k: v for k, v in state_dict.items() if not k.startswith(prefix + "_packed_params.")}
        super()._load_from_state_dict(others, prefix, metadata, strict, missing, *rest)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float table with a qconfig, whose weight has a float scale for each row."""
        observer = getattr(mod, "weight_fake_quant", None)
        if observer is None:
            observer = mod.qconfig.weight()
        kind = observer.dtype
        if kind not in (quint8, quint4x2):
            raise AssertionError(f"tables are quantized as quint8 or quint4x2, not {kind}")
        observer(mod.weight)
        scale, zero_point = observer.calculate_qparams()
        table = ops.quantize_per_channel(
            mod.weight.detach().to(float32), scale.to(float32), zero_point.to(float32), 0, kind
        )
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=table, dtype=kind, **cls._options(mod))

    @staticmethod
    def _options(mod: Any) -> dict[str, Any]:
        return {}


class EmbeddingBag(Embedding):
    """A table of integers whose rows are summed by bags; indices in, floats out."""

    _shown = "QuantizedEmbeddingBag"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        dtype: _dtype = quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        if mode != "sum":
            raise NotImplementedError(f"a quantized EmbeddingBag sums; mode {mode!r} is not supported")
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Any:
        from ....nn.functional import embedding_bag

        return embedding_bag(
            indices, self._weight.dequantize(), offsets, mode="sum", per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    @staticmethod
    def _options(mod: Any) -> dict[str, Any]:
        return {"include_last_offset": mod.include_last_offset}


# -- larger layers, which have no integer form here --------------------------------------------------------------------


class LSTM(Module):
    """A recurrent layer on quantized tensors; cannot be made. `quantize_dynamic` makes one with integer weights."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        split_gates: bool = False,
    ) -> None:
        raise NotImplementedError(
            "quantized.LSTM: recurrent layers on quantized tensors are not there; use quantize_dynamic(model, {nn.LSTM})"
        )


class MultiheadAttention(Module):
    """Attention on quantized tensors; cannot be made. `quantize_dynamic` quantizes the linear layers around it."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        raise NotImplementedError(
            "quantized.MultiheadAttention: attention on quantized tensors is not there; use quantize_dynamic"
        )
