"""Maxima, averages and norms over windows of signals (1d), pictures (2d) and volumes (3d).

Layers that differ in nothing but the number of dimensions say by `_function` which function computes them.
"""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import _pair, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


# -- maxima ----------------------------------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool
    _function: str

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value in each window of (N, C, L) or (C, L).

    >>> import flambeau as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest value in each window of (N, C, H, W) or (C, H, W).

    >>> import flambeau as torch
    >>> torch.nn.MaxPool2d(3, stride=2)(torch.zeros(1, 2, 9, 7)).shape
    torch.Size([1, 2, 4, 3])
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest value in each window of (N, C, D, H, W) or (C, D, H, W)."""

    _function = "max_pool3d"


class _MaxUnpoolNd(Module):
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    _function: str
    _parse: Any  # makes a tuple, one number for each dimension

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = self._parse(kernel_size)
        self.stride = self.kernel_size if stride is None else self._parse(stride)
        self.padding = self._parse(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self._function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool1d` with indices found them; zeros elsewhere.

    >>> import flambeau as torch
    >>> values, where = torch.nn.MaxPool1d(2, return_indices=True)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> torch.nn.MaxUnpool1d(2)(values, where)
    tensor([[0., 3., 2., 0.]])
    """

    _parse = staticmethod(_single)
    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool2d` with indices found them; zeros elsewhere."""

    _parse = staticmethod(_pair)
    _function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima back where `MaxPool3d` with indices found them; zeros elsewhere."""

    _parse = staticmethod(_triple)
    _function = "max_unpool3d"


class _FractionalMaxPoolNd(Module):
    """Maxima over windows of random places, so that the output has a given size or a given share of the input's."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    return_indices: bool
    _function: str
    _parse: Any  # makes a tuple, one number for each dimension

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        parse = type(self)._parse
        self.kernel_size, self.return_indices = parse(kernel_size), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else parse(output_size)
        self.output_ratio = None if output_ratio is None else parse(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"{type(self).__name__}: only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None:
            for i in range(len(self.kernel_size)):
                if not 0 < self.output_ratio[i] < 1:
                    raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima over windows of (N, C, H, W) at random places, for an output of any smaller size.

    >>> import flambeau as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.7)(torch.zeros(1, 2, 10, 10)).shape
    torch.Size([1, 2, 7, 7])
    """

    _parse = staticmethod(_pair)
    _function = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima over windows of (N, C, D, H, W) at random places, for an output of any smaller size."""

    _parse = staticmethod(_triple)

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        if min(_triple(kernel_size), default=1) <= 0:
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)

    _function = "fractional_max_pool3d"


# -- averages --------------------------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The average of each window of (N, C, L) or (C, L).

    >>> import flambeau as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """The average of windows of pictures or volumes, whose sums may be divided by another number than that of their elements."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
    _function: str

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPoolWithDivisor):
    """The average of each window of (N, C, H, W) or (C, H, W).

    >>> import flambeau as torch
    >>> torch.nn.AvgPool2d(2)(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]))
    tensor([[[1.5000]]])
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolWithDivisor):
    """The average of each window of (N, C, D, H, W) or (C, D, H, W)."""

    _function = "avg_pool3d"

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        for name, value in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, value)  # modules saved before they had these


# -- norms -----------------------------------------------------------------------------------------------------------


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    ceil_mode: bool
    _function: str

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of (N, C, L) or (C, L).

    >>> import flambeau as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[3.0, 4.0, 0.0, 1.0]]))
    tensor([[5., 1.]])
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of (N, C, H, W) or (C, H, W)."""

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W)."""

    _function = "lp_pool3d"


# -- to a given size -------------------------------------------------------------------------------------------------


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    return_indices: bool
    _function: str

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows of (N, C, L) as the output is long.

    >>> import flambeau as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0, 1.0]]))
    tensor([[3., 2.]])
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over windows of (N, C, H, W) for an output of a given size; None keeps a dimension's size."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over windows of (N, C, D, H, W) for an output of a given size; None keeps a dimension's size."""

    _function = "adaptive_max_pool3d"


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    _function: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Averages over as many windows of (N, C, L) as the output is long.

    >>> import flambeau as torch
    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Averages over windows of (N, C, H, W) for an output of a given size; None keeps a dimension's size.

    >>> import flambeau as torch
    >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.zeros(2, 3, 4, 5)).shape
    torch.Size([2, 3, 1, 5])
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Averages over windows of (N, C, D, H, W) for an output of a given size; None keeps a dimension's size."""

    _function = "adaptive_avg_pool3d"
