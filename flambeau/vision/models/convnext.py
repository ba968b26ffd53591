"""ConvNeXt: depthwise 7×7 convolutions and per-pixel perceptrons, with layer norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder, entry, weights_enum

__all__ = [
    "ConvNeXt", "ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights", "ConvNeXt_Small_Weights", "ConvNeXt_Tiny_Weights",
    "convnext_base", "convnext_large", "convnext_small", "convnext_tiny",
]  # fmt: skip

Layer = Callable[..., nn.Module]


class LayerNorm2d(nn.LayerNorm):
    """Layer norm over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A depthwise convolution and a perceptron with four times the channels, beside a shortcut."""

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float, norm_layer: Layer | None = None
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm_layer(dim),
            nn.Linear(dim, 4 * dim, bias=True),
            nn.GELU(),
            nn.Linear(4 * dim, dim, bias=True),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(ops.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig:
    """One stage: its width, the width of the next one (None for the last), and its number of blocks."""

    def __init__(self, input_channels: int, out_channels: int | None, num_layers: int) -> None:
        self.input_channels = input_channels
        self.out_channels = out_channels
        self.num_layers = num_layers

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_channels={self.input_channels}, out_channels={self.out_channels}, "
            f"num_layers={self.num_layers})"
        )


class ConvNeXt(nn.Module):
    """ConvNeXt of the given stages."""

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        if not (isinstance(block_setting, Sequence) and all(isinstance(s, CNBlockConfig) for s in block_setting)):
            raise TypeError("The block_setting should be List[CNBlockConfig]")
        block = block or CNBlock
        norm_layer = norm_layer or partial(LayerNorm2d, eps=1e-6)
        layers: list[nn.Module] = [
            Conv2dNormActivation(
                3,
                block_setting[0].input_channels,
                kernel_size=4,
                stride=4,
                padding=0,
                norm_layer=norm_layer,
                activation_layer=None,
                bias=True,
            )
        ]
        last = sum(cnf.num_layers for cnf in block_setting) - 1.0
        number = 0
        for cnf in block_setting:
            stage = []
            for _ in range(cnf.num_layers):
                stage.append(block(cnf.input_channels, layer_scale, stochastic_depth_prob * number / last))
                number += 1
            layers.append(nn.Sequential(*stage))
            if cnf.out_channels is not None:
                shrink = nn.Conv2d(cnf.input_channels, cnf.out_channels, 2, stride=2)
                layers.append(nn.Sequential(norm_layer(cnf.input_channels), shrink))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        width = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm_layer(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(widths: Sequence[int], depths: Sequence[int], stochastic_depth_prob: float, **kwargs: Any) -> ConvNeXt:
    stages = [CNBlockConfig(*stage) for stage in zip(widths, [*widths[1:], None], depths)]
    return ConvNeXt(stages, stochastic_depth_prob, **kwargs)


ConvNeXt_Tiny_Weights = weights_enum(
    "ConvNeXt_Tiny_Weights",
    IMAGENET1K_V1=entry("convnext_tiny-983f1562.pth", 28589128, 82.52, 96.146, smallest=32, resize_size=236),
)
ConvNeXt_Small_Weights = weights_enum(
    "ConvNeXt_Small_Weights",
    IMAGENET1K_V1=entry("convnext_small-0c510722.pth", 50223688, 83.616, 96.65, smallest=32, resize_size=230),
)
ConvNeXt_Base_Weights = weights_enum(
    "ConvNeXt_Base_Weights",
    IMAGENET1K_V1=entry("convnext_base-6075fbad.pth", 88591464, 84.062, 96.87, smallest=32, resize_size=232),
)
ConvNeXt_Large_Weights = weights_enum(
    "ConvNeXt_Large_Weights",
    IMAGENET1K_V1=entry("convnext_large-ea097f82.pth", 197767336, 84.414, 96.976, smallest=32, resize_size=232),
)

convnext_tiny = builder(
    "convnext_tiny", ConvNeXt_Tiny_Weights, _convnext,
    widths=(96, 192, 384, 768), depths=(3, 3, 9, 3), stochastic_depth_prob=0.1,
)  # fmt: skip
convnext_small = builder(
    "convnext_small", ConvNeXt_Small_Weights, _convnext,
    widths=(96, 192, 384, 768), depths=(3, 3, 27, 3), stochastic_depth_prob=0.4,
)  # fmt: skip
convnext_base = builder(
    "convnext_base", ConvNeXt_Base_Weights, _convnext,
    widths=(128, 256, 512, 1024), depths=(3, 3, 27, 3), stochastic_depth_prob=0.5,
)  # fmt: skip
convnext_large = builder(
    "convnext_large", ConvNeXt_Large_Weights, _convnext,
    widths=(192, 384, 768, 1536), depths=(3, 3, 27, 3), stochastic_depth_prob=0.5,
)  # fmt: skip
