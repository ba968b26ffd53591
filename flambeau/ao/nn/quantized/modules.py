"""Linear and convolution layers with integer weights, and the layers at both ends of a quantized model."""

from __future__ import annotations

from typing import Any, ClassVar

from ...._core.dtypes import dtype, float32, int64, qint8, quint8
from ...._core.quantizers import per_channel_affine_float_qparams, per_tensor_affine, per_tensor_symmetric
from ...._ops.quantized.linear import static_linear
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn.modules import conv
from ....nn.modules.container import Sequential
from ....nn.modules.module import Module


def quantize_weight(weight: Tensor, observer: Any) -> Tensor:
    """A weight as integers, with the scale (by channel or not) that an observer chose."""
    scale, zero_point = observer.calculate_qparams()
    weight = weight.detach().to(float32)
    if observer.qscheme in (per_tensor_affine, per_tensor_symmetric):
        return ops.quantize_per_tensor(weight, float(scale), int(zero_point), qint8)
    if observer.qscheme is not per_channel_affine_float_qparams:
        zero_point = zero_point.to(int64)
    return ops.quantize_per_channel(weight, scale, zero_point, observer.ch_axis, qint8)


def observed_weight(mod: Any) -> Tensor:
    """The weight of a layer as integers: by the observer that trained with it, or a new one from its qconfig."""
    observer = getattr(mod, "weight_fake_quant", None)
    if observer is None:
        observer = mod.qconfig.weight()
        observer(mod.weight)
    if observer.dtype is not qint8:
        raise AssertionError(f"weights are quantized as qint8, not {observer.dtype}")
    return quantize_weight(mod.weight, observer)


class Quantize(Module):
    """Makes a float tensor quantized.

    >>> import flambeau as torch
    >>> torch.ao.nn.quantized.Quantize(0.5, 0, torch.qint8)(torch.tensor([1.2])).int_repr()
    tensor([2], dtype=torch.int8)
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: dtype, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", ops.tensor([float(scale)]))
        self.register_buffer("zero_point", ops.tensor([int(zero_point)], dtype=int64))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Any:
        return ops.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """With what was observed on a QuantStub."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.item(), zero_point.item(), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Makes a quantized tensor a float one."""

    def forward(self, Xq: Tensor) -> Any:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """In the place of a DeQuantStub."""
        return DeQuantize()


def _folded(seen: Any) -> Any:
    """A layer, with the batch normalisation that it has trained with in its weight."""
    if not hasattr(seen, "bn"):
        return seen
    mod = seen.to_float()
    mod = mod[0] if isinstance(mod, Sequential) else mod
    mod.qconfig, mod.activation_post_process = seen.qconfig, seen.activation_post_process
    mod.weight_fake_quant = seen.weight_fake_quant
    return mod


class WeightedQuantizedModule(Module):
    """Base of layers with an integer weight: `weight()`, `bias()`, and the scale and zero point of results."""

    _shown: ClassVar[str]

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self._weight, self._bias = weight, bias

    def weight(self) -> Tensor:
        """The quantized weight."""
        return self._weight

    def bias(self) -> Tensor | None:
        """The bias, as floats."""
        return self._bias

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Replaces both."""
        self._weight, self._bias = w, b

    def _get_name(self) -> str:
        return self._shown

    def _rounded(self, made: Tensor, like: Tensor) -> Any:
        return ops.quantize_per_tensor(made, self.scale, self.zero_point, like.dtype if like.is_quantized else quint8)

    def _finish(self, mod: Any) -> Any:
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        self.scale, self.zero_point = float(scale), int(zero_point)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._save_weight(destination, prefix)
        destination[prefix + "scale"] = ops.tensor(self.scale)
        destination[prefix + "zero_point"] = ops.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *rest: Any
    ) -> None:
        try:
            self.scale, self.zero_point = float(state_dict[prefix + "scale"]), int(state_dict[prefix + "zero_point"])
            self.set_weight_bias(*self._saved_weight(state_dict, prefix))
        except KeyError as error:
            missing.append(error.args[0])
        own = {key for key in state_dict if not key.startswith(prefix)}
        super()._load_from_state_dict({key: state_dict[key] for key in own}, prefix, metadata, strict, missing, *rest)

    def _save_weight(self, destination: Any, prefix: str) -> None:
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight, self._bias

    def _saved_weight(self, state_dict: Any, prefix: str) -> tuple[Tensor, Tensor | None]:
        return state_dict[prefix + "weight"], state_dict[prefix + "bias"]


class Linear(WeightedQuantizedModule):
    """A linear layer on quantized tensors, with an integer weight."""

    _shown = "QuantizedLinear"

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: dtype = qint8) -> None:
        if dtype is not qint8:
            raise RuntimeError(f"weights of quantized layers are qint8, not {dtype}")
        weight = ops._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=qint8)
        super().__init__(weight, ops.zeros(out_features) if bias_ else None)
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: Tensor) -> Any:
        return self._rounded(static_linear(x, self._weight, self._bias), x)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self._weight.qscheme()}"
        )

    def _save_weight(self, destination: Any, prefix: str) -> None:
        destination[prefix + "_packed_params.dtype"] = self._weight.dtype
        destination[prefix + "_packed_params._packed_params"] = (self._weight, self._bias)

    def _saved_weight(self, state_dict: Any, prefix: str) -> tuple[Tensor, Tensor | None]:
        return state_dict[prefix + "_packed_params._packed_params"]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """From an observed float layer; one that trained with batch normalisation is folded with it first."""
        mod = _folded(mod)
        made = cls(mod.in_features, mod.out_features, mod.bias is not None)
        made.set_weight_bias(observed_weight(mod), None if mod.bias is None else mod.bias.detach())
        return made._finish(mod)


class _Conv(WeightedQuantizedModule):
    """A convolution on quantized tensors, with an integer weight."""

    _float: ClassVar[Any]
    _settings: ClassVar[tuple[str, ...]] = (
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode",
    )  # fmt: skip

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(
            self._float(
                in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device="meta",
            )
        )  # fmt: skip

    def _take(self, like: Any) -> None:
        """Settings and shapes of a float layer, with an empty weight."""
        weight = ops._empty_affine_quantized(list(like.weight.shape), scale=1, zero_point=0, dtype=qint8)
        WeightedQuantizedModule.__init__(self, weight, None if like.bias is None else ops.zeros(like.bias.shape))
        for name in self._settings:
            setattr(self, name, getattr(like, name))
        if self.padding_mode != "zeros":
            raise NotImplementedError(f"quantized convolution pads with zeros only, not {self.padding_mode}")

    def _convolved(self, input: Tensor) -> Any:
        """The convolution of values."""
        convolve = getattr(ops, self._float.__name__.lower())
        return convolve(
            input, self._weight.dequantize(), self._bias, self.stride, self.padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Any:
        return self._rounded(self._convolved(input.dequantize()), input)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        return text + (f", padding={self.padding}" if any(self.padding) else "")

    @classmethod
    def _from_weight(cls, mod: Any) -> Any:
        """With the settings, the rounded weight and the bias of a float layer."""
        made = cls.__new__(cls)
        made._take(mod)
        made.set_weight_bias(observed_weight(mod), None if mod.bias is None else mod.bias.detach())
        return made

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From an observed float layer; one that trained with batch normalisation is folded with it first."""
        mod = _folded(mod)
        return cls._from_weight(mod)._finish(mod)


class Conv1d(_Conv):
    """A convolution over one dimension."""

    _shown, _float = "QuantizedConv1d", conv.Conv1d


class Conv2d(_Conv):
    """A convolution over two dimensions.

    >>> import flambeau as torch
    >>> torch.ao.nn.quantized.Conv2d(1, 2, 3)
    QuantizedConv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), scale=1.0, zero_point=0)
    """

    _shown, _float = "QuantizedConv2d", conv.Conv2d


class Conv3d(_Conv):
    """A convolution over three dimensions."""

    _shown, _float = "QuantizedConv3d", conv.Conv3d


class _ConvTranspose(_Conv):
    """A transposed convolution on quantized tensors, with an integer weight."""

    _settings = (*_Conv._settings, "output_padding")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._take(
            self._float(
                in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
                device="meta",
            )
        )  # fmt: skip

    def _convolved(self, input: Tensor) -> Any:
        convolve = getattr(ops, "conv_transpose" + self._float.__name__[-2:])
        return convolve(
            input, self._weight.dequantize(), self._bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )  # fmt: skip


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution over one dimension."""

    _shown, _float = "QuantizedConvTranspose1d", conv.ConvTranspose1d


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution over two dimensions."""

    _shown, _float = "QuantizedConvTranspose2d", conv.ConvTranspose2d


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution over three dimensions."""

    _shown, _float = "QuantizedConvTranspose3d", conv.ConvTranspose3d


class LinearReLU(Linear):
    """A linear layer and relu on quantized tensors."""

    _shown = "QuantizedLinearReLU"

    def forward(self, x: Tensor) -> Any:
        return self._rounded(ops.relu(ops.linear(x.dequantize(), self._weight.dequantize(), self._bias)), x)


class ConvReLU1d(Conv1d):
    """A convolution over one dimension and relu on quantized tensors."""

    _shown = "QuantizedConvReLU1d"

    def forward(self, input: Tensor) -> Any:
        return self._rounded(ops.relu(self._convolved(input.dequantize())), input)


class ConvReLU2d(Conv2d):
    """A convolution over two dimensions and relu on quantized tensors."""

    _shown = "QuantizedConvReLU2d"

    forward = ConvReLU1d.forward


class ConvReLU3d(Conv3d):
    """A convolution over three dimensions and relu on quantized tensors."""

    _shown = "QuantizedConvReLU3d"

    forward = ConvReLU1d.forward
