"""MobileNetV2: inverted residuals with linear bottlenecks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import flatten, nn
from ..._tensor import Tensor
from ...nn import functional as F
from ..ops.misc import Conv2dNormActivation
from ._api import builder, entry, weights_enum
from ._utils import _make_divisible

__all__ = ["MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

Norm = Callable[..., nn.Module]
# expansion, channels, blocks, stride of the first block
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class InvertedResidual(nn.Module):
    """Widened by a 1×1 convolution, filtered depthwise, narrowed again; with a shortcut where the shapes agree."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Norm | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        hidden = round(inp * expand_ratio)
        options = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, hidden, 1, **options))
        layers.append(Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, **options))
        layers += [nn.Conv2d(hidden, oup, 1, bias=False), norm_layer(oup)]
        self.conv = nn.Sequential(*layers)
        self.out_channels = oup

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2, its widths scaled by `width_mult` and rounded to multiples of `round_nearest`."""

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Norm | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        block = block or InvertedResidual
        norm_layer = norm_layer or nn.BatchNorm2d
        stages = inverted_residual_setting or _STAGES
        if len(stages[0]) != 4:
            raise ValueError(
                f"inverted_residual_setting should be non-empty or a 4-element list, got {inverted_residual_setting}"
            )
        width = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        options = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        layers: list[nn.Module] = [Conv2dNormActivation(3, width, stride=2, **options)]
        for expansion, channels, blocks, stride in stages:
            wide = _make_divisible(channels * width_mult, round_nearest)
            for i in range(blocks):
                layers.append(block(width, wide, 1 if i else stride, expand_ratio=expansion, norm_layer=norm_layer))
                width = wide
        layers.append(Conv2dNormActivation(width, self.last_channel, 1, **options))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(flatten(x, 1))


MobileNet_V2_Weights = weights_enum(
    "MobileNet_V2_Weights",
    IMAGENET1K_V1=entry("mobilenet_v2-b0353104.pth", 3504872, 71.878, 90.286),
    IMAGENET1K_V2=entry("mobilenet_v2-7ebf99e0.pth", 3504872, 72.154, 90.822, resize_size=232),
)

mobilenet_v2 = builder("mobilenet_v2", MobileNet_V2_Weights, MobileNetV2)
