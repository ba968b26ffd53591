"""Convolutions and transposed convolutions of signals (1d), pictures (2d) and volumes (3d)."""

from __future__ import annotations

import math
from typing import Any

from ..._autograd.modes import no_grad
from ..._errors.frames import warn_user
from ..._ops.registry import ops
from ..._tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
Ints = tuple[int, ...]


class _ConvNd(Module):
    """What all convolutions have: their sizes, weight and bias."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]  # fmt: skip
    in_channels: int
    out_channels: int
    kernel_size: Ints
    stride: Ints
    padding: str | Ints
    dilation: Ints
    transposed: bool
    output_padding: Ints
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | Any  # None without one; whoever asks for it knows that it is there
    _reversed_padding_repeated_twice: Any  # of `functional.pad`, for padding modes other than zeros

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints, padding: str | Ints, dilation: Ints,
        transposed: bool, output_padding: Ints, groups: int, bias: bool, padding_mode: str, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        _check_padding(padding, padding_mode, stride)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        if isinstance(padding, str):
            self._reversed_padding_repeated_twice = _sides(padding, kernel_size, dilation)
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(ops.empty((*channels, *kernel_size), device=device, dtype=dtype))
        made = Parameter(ops.empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform random numbers between ±1 / sqrt(inputs of an output)."""
        if self.weight.is_contiguous():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        else:  # the numbers do not depend on the memory format
            with no_grad():
                filled = ops.empty(self.weight.shape, dtype=self.weight.dtype, device=self.weight.device)
                self.weight.copy_(init.kaiming_uniform_(filled, a=math.sqrt(5)))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")  # modules saved before there were others


def _check_channels(inputs: int, outputs: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    if inputs % groups:
        raise ValueError(f"in_channels must be divisible by groups, got {inputs} and {groups}")
    if outputs % groups:
        raise ValueError(f"out_channels must be divisible by groups, got {outputs} and {groups}")


def _check_padding(padding: Any, mode: str, stride: Ints) -> None:
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same', or numbers")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError(f"padding='same' is not supported for strided convolutions, got a stride of {stride}")
    if mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got {mode!r}")


def _sides(padding: str, kernel_size: Ints, dilation: Ints) -> list[int]:
    """The widths on both sides of each dimension, the last first; of an odd total the second side gets more."""
    sides: list[int] = []
    for d, k in zip(reversed(dilation), reversed(kernel_size)):
        total = d * (k - 1) if padding == "same" else 0
        sides += [total // 2, total - total // 2]
    return sides


# -- convolutions ----------------------------------------------------------------------------------------------------


class _Conv(_ConvNd):
    """A convolution; `_each` makes a tuple, one number for each dimension, and `_function` is the name of what computes it."""

    _each: Any
    _function: str

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        each = self._each
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride),
            padding if isinstance(padding, str) else each(padding), each(dilation), False, each(0), groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), self._each(0)
        return getattr(F, self._function)(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of (N, C, L) or (C, L); weight (out_channels, in_channels / groups, kernel).

    >>> import flambeau as torch
    >>> torch.nn.Conv1d(3, 8, 5, padding=2)(torch.zeros(1, 3, 10)).shape
    torch.Size([1, 8, 10])
    """

    _each, _function = staticmethod(_single), "conv1d"


class Conv2d(_Conv):
    """Convolution of (N, C, H, W) or (C, H, W); weight (out_channels, in_channels / groups, *kernel).

    >>> import flambeau as torch
    >>> torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)(torch.zeros(1, 3, 8, 6)).shape
    torch.Size([1, 8, 4, 3])
    """

    _each, _function = staticmethod(_pair), "conv2d"


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W); weight (out_channels, in_channels / groups, *kernel).

    >>> import flambeau as torch
    >>> torch.nn.Conv3d(1, 2, (1, 3, 3))(torch.zeros(1, 1, 4, 5, 6)).shape
    torch.Size([1, 2, 4, 3, 4])
    """

    _each, _function = staticmethod(_triple), "conv3d"


# -- transposed ------------------------------------------------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    """What all transposed convolutions have: an output whose size is chosen among those that fit."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints,
        transposed: bool, output_padding: Ints, groups: int, bias: bool, padding_mode: str, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, but got {padding_mode!r}'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size: Any, stride: Any, padding: Any, kernel_size: Any, num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:  # fmt: skip
        """How much longer the result gets than it must be, so that it has the wanted size."""
        if output_size is None:
            return _single(self.output_padding)
        ndim, given = input.ndim, len(output_size)
        lead = ndim - num_spatial_dims
        if given == ndim:
            output_size = output_size[lead:]
        elif given != num_spatial_dims:
            raise ValueError(
                f"{type(self).__name__}: output_size of a {ndim}D input must have {num_spatial_dims} or {ndim} "
                f"elements, got {given}"
            )
        shape = input.shape
        smallest = [
            (shape[lead + i] - 1) * stride[i] - 2 * padding[i]
            + (1 if dilation is None else dilation[i]) * (kernel_size[i] - 1) + 1
            for i in range(num_spatial_dims)
        ]  # fmt: skip
        largest = [n + stride[i] - 1 for i, n in enumerate(smallest)]
        if any(not low <= size <= high for low, size, high in zip(smallest, output_size, largest)):
            raise ValueError(
                f"{type(self).__name__}: output_size {tuple(output_size)} is not between {smallest} and {largest}, "
                f"the smallest and largest for an input of {tuple(shape[lead:])}"
            )
        return [size - low for size, low in zip(output_size, smallest)]


class _ConvTranspose(_ConvTransposeNd):
    """A transposed convolution; `_each` and `_function` as for convolutions."""

    _each: Any
    _function: str

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        each = self._each
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride), each(padding), each(dilation), True,
            each(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        size = self.kernel_size
        extra = self._output_padding(input, output_size, self.stride, self.padding, size, len(size), self.dilation)
        return getattr(F, self._function)(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTranspose):
    """The gradient of a convolution as a layer: (N, C, L) gets longer by the stride.

    >>> import flambeau as torch
    >>> torch.nn.ConvTranspose1d(3, 2, 4, stride=2, padding=1)(torch.zeros(1, 3, 5)).shape
    torch.Size([1, 2, 10])
    """

    _each, _function = staticmethod(_single), "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """The gradient of a convolution as a layer: (N, C, H, W) gets larger by the stride.

    >>> import flambeau as torch
    >>> layer = torch.nn.ConvTranspose2d(3, 2, 3, stride=2)
    >>> layer(torch.zeros(1, 3, 4, 4), output_size=(10, 9)).shape
    torch.Size([1, 2, 10, 9])
    """

    _each, _function = staticmethod(_pair), "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """The gradient of a convolution as a layer: (N, C, D, H, W) gets larger by the stride.

    >>> import flambeau as torch
    >>> torch.nn.ConvTranspose3d(1, 2, 2, stride=2)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 2, 4, 6, 8])
    """

    _each, _function = staticmethod(_triple), "conv_transpose3d"


class _ConvTransposeMixin(_ConvTransposeNd):
    """The old name of `_ConvTransposeNd`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_user("_ConvTransposeMixin is deprecated: use the public classes", FutureWarning)
        super().__init__(*args, **kwargs)


# -- lazy ones -------------------------------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that learns `in_channels` from its first input."""

    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: Ints
    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Puts parameters without a shape in place of the empty ones that the constructor made."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if self.in_channels and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Takes `in_channels` from an input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError(f"in_channels must be divisible by groups, got {self.in_channels} and {self.groups}")
        pair = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        self.weight.materialize((pair[0], pair[1] // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        without_batch = self._get_num_spatial_dims() + 1
        if input.ndim not in (without_batch, without_batch + 1):
            raise RuntimeError(
                f"{type(self).__name__}: expected a {without_batch}D input, or {without_batch + 1}D with a batch, got "
                f"{tuple(input.shape)}"
            )
        return input.shape[0] if input.ndim == without_batch else input.shape[1]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` that learns `in_channels` from its first input, and then becomes one."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` that learns `in_channels` from its first input, and then becomes one.

    >>> import flambeau as torch
    >>> layer = torch.nn.LazyConv2d(8, 3)
    >>> layer(torch.zeros(1, 5, 8, 8)).shape, layer
    (torch.Size([1, 8, 6, 6]), Conv2d(5, 8, kernel_size=(3, 3), stride=(1, 1)))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` that learns `in_channels` from its first input, and then becomes one."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that learns `in_channels` from its first input, and then becomes one."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that learns `in_channels` from its first input, and then becomes one."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that learns `in_channels` from its first input, and then becomes one."""

    cls_to_become = ConvTranspose3d
