"""The kinds of convolutions that PyTorch's core tells apart."""

from __future__ import annotations

import enum
from typing import Any

from .._tensor import Tensor


class _ConvBackend(enum.Enum):
    """PyTorch's names for ways to convolve, those of builds for CPUs without oneDNN first."""

    Empty = 0
    Slow2d = 1
    Slow3d = 2
    SlowDilated2d = 3
    SlowDilated3d = 4
    SlowTranspose2d = 5
    SlowTranspose3d = 6
    CudaDepthwise2d = 7
    CudaDepthwise3d = 8
    Cudnn = 9
    CudnnTranspose = 10
    Miopen = 11
    MiopenDepthwise = 12
    MiopenTranspose = 13
    Mkldnn = 14
    MkldnnTranspose = 15
    MkldnnEmpty = 16
    NnpackSpatial = 17
    Winograd3x3Depthwise = 18
    Xnnpack2d = 19
    Overrideable = 20
    Mps = 21
    MpsTranspose = 22


def _select_conv_backend(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, bias_sizes: Any = None,
) -> _ConvBackend:  # fmt: skip
    """The kind of a convolution, as a build without oneDNN names it; along one dimension it is one over images.

    >>> import flambeau as torch
    >>> x, w = torch.zeros(1, 2, 5), torch.zeros(3, 2, 2)
    >>> _select_conv_backend(x, w, None, [1], [0], [2], False, [0], 1)
    <_ConvBackend.SlowDilated2d: 3>
    """
    if 0 in input.shape:
        return _ConvBackend.Empty
    kind = "Transpose" if transposed else "Dilated" if max(dilation) > 1 else ""
    return _ConvBackend[f"Slow{kind}{max(weight.ndim - 2, 2)}d"]
