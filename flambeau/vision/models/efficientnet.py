"""EfficientNet and EfficientNetV2: inverted residuals, scaled in width, depth and resolution together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import flatten, nn
from ..._tensor import Tensor
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder, entry, weights_enum
from ._utils import _make_divisible

__all__ = [
    "EfficientNet", "EfficientNet_B0_Weights", "EfficientNet_B1_Weights", "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights", "EfficientNet_B4_Weights", "EfficientNet_B5_Weights", "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights", "EfficientNet_V2_L_Weights", "EfficientNet_V2_M_Weights", "EfficientNet_V2_S_Weights",
    "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4", "efficientnet_b5",
    "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s",
]  # fmt: skip

Layer = Callable[..., nn.Module]


class _MBConvConfig:
    """What the blocks of one stage have in common."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: Layer,
    ) -> None:
        self.expand_ratio = expand_ratio
        self.kernel = kernel
        self.stride = stride
        self.input_channels = input_channels
        self.out_channels = out_channels
        self.num_layers = num_layers
        self.block = block

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """A stage of EfficientNet (and of the later part of V2), scaled by the multipliers."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: Layer | None = None,
    ) -> None:
        super().__init__(
            expand_ratio,
            kernel,
            stride,
            self.adjust_channels(input_channels, width_mult),
            self.adjust_channels(out_channels, width_mult),
            self.adjust_depth(num_layers, depth_mult),
            block or MBConv,
        )

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """An early stage of EfficientNetV2."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: Layer | None = None,
    ) -> None:
        super().__init__(expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv)


class _Residual(nn.Module):
    """The end that both kinds of block share: stochastic depth, and a shortcut where the shapes agree."""

    def __init__(self, cnf: _MBConvConfig, layers: list[nn.Module], stochastic_depth_prob: float) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class MBConv(_Residual):
    """Widened, filtered depthwise, its channels reweighted, narrowed again."""

    def __init__(
        self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Layer, se_layer: Layer = SqueezeExcitation
    ) -> None:
        wide = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        layers: list[nn.Module] = []
        if wide != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, wide, 1, **options))
        layers.append(Conv2dNormActivation(wide, wide, cnf.kernel, cnf.stride, groups=wide, **options))
        squeezed = max(1, cnf.input_channels // 4)
        layers.append(se_layer(wide, squeezed, activation=partial(nn.SiLU, inplace=True)))
        layers.append(Conv2dNormActivation(wide, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None))
        super().__init__(cnf, layers, stochastic_depth_prob)


class FusedMBConv(_Residual):
    """One ordinary convolution in place of the widening and the depthwise one."""

    def __init__(self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, norm_layer: Layer) -> None:
        wide = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        if wide == cnf.input_channels:
            layers: list[nn.Module] = [
                Conv2dNormActivation(cnf.input_channels, cnf.out_channels, cnf.kernel, cnf.stride, **options)
            ]
        else:
            layers = [
                Conv2dNormActivation(cnf.input_channels, wide, cnf.kernel, cnf.stride, **options),
                Conv2dNormActivation(wide, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None),
            ]
        super().__init__(cnf, layers, stochastic_depth_prob)


class EfficientNet(nn.Module):
    """EfficientNet of the given stages."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[_MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Layer | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        settings = inverted_residual_setting
        if not settings:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not (isinstance(settings, Sequence) and all(isinstance(s, _MBConvConfig) for s in settings)):
            raise TypeError("The inverted_residual_setting should be List[MBConvConfig]")
        norm_layer = norm_layer or nn.BatchNorm2d
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        layers: list[nn.Module] = [Conv2dNormActivation(3, settings[0].input_channels, stride=2, **options)]
        total = sum(cnf.num_layers for cnf in settings)
        number = 0
        for setting in settings:
            stage: list[nn.Module] = []
            for _ in range(setting.num_layers):
                cnf = copy.copy(setting)
                if stage:
                    cnf.input_channels, cnf.stride = cnf.out_channels, 1
                stage.append(cnf.block(cnf, stochastic_depth_prob * float(number) / total, norm_layer))
                number += 1
            layers.append(nn.Sequential(*stage))
        narrow = settings[-1].out_channels
        wide = 4 * narrow if last_channel is None else last_channel
        layers.append(Conv2dNormActivation(narrow, wide, 1, **options))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(wide, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                bound = 1.0 / math.sqrt(m.out_features)
                nn.init.uniform_(m.weight, -bound, bound)
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(flatten(self.avgpool(self.features(x)), 1))


# expansion, kernel, stride, input, output, blocks
_B = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
# of V2: the fused stages first
_V2 = {
    "s": (
        ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)),
        ((4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
    ),
    "m": (
        ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)),
        ((4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)),
    ),
    "l": (
        ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)),
        ((4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)),
    ),
}


def _efficientnet(width_mult: float, depth_mult: float, dropout: float, eps: float | None = None, **kwargs: Any) -> Any:
    """One of B0 to B7; the larger ones were trained with other constants in their norms."""
    if eps is not None:
        kwargs.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=eps, momentum=0.01))
    settings = [MBConvConfig(*row, width_mult=width_mult, depth_mult=depth_mult) for row in _B]
    return EfficientNet(settings, dropout, **kwargs)


def _efficientnet_v2(size: str, dropout: float, **kwargs: Any) -> EfficientNet:
    fused, rest = _V2[size]
    settings = [*[FusedMBConvConfig(*row) for row in fused], *[MBConvConfig(*row) for row in rest]]
    kwargs.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-03))
    return EfficientNet(settings, dropout, **{"last_channel": 1280, **kwargs})


EfficientNet_B0_Weights = weights_enum(
    "EfficientNet_B0_Weights",
    IMAGENET1K_V1=entry("efficientnet_b0_rwightman-7f5810bc.pth", 5288548, 77.692, 93.532, interpolation="bicubic"),
)
EfficientNet_B1_Weights = weights_enum(
    "EfficientNet_B1_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b1_rwightman-bac287d4.pth", 7794184, 78.642, 94.186, crop_size=240, interpolation="bicubic"
    ),
    IMAGENET1K_V2=entry("efficientnet_b1-c27df63c.pth", 7794184, 79.838, 94.934, crop_size=240, resize_size=255),
)
EfficientNet_B2_Weights = weights_enum(
    "EfficientNet_B2_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b2_rwightman-c35c1473.pth",
        9109994,
        80.608,
        95.31,
        crop_size=288,
        resize_size=288,
        interpolation="bicubic",
    ),
)
EfficientNet_B3_Weights = weights_enum(
    "EfficientNet_B3_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b3_rwightman-b3899882.pth",
        12233232,
        82.008,
        96.054,
        crop_size=300,
        resize_size=320,
        interpolation="bicubic",
    ),
)
EfficientNet_B4_Weights = weights_enum(
    "EfficientNet_B4_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b4_rwightman-23ab8bcd.pth",
        19341616,
        83.384,
        96.594,
        crop_size=380,
        resize_size=384,
        interpolation="bicubic",
    ),
)
EfficientNet_B5_Weights = weights_enum(
    "EfficientNet_B5_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b5_lukemelas-1a07897c.pth",
        30389784,
        83.444,
        96.628,
        crop_size=456,
        resize_size=456,
        interpolation="bicubic",
    ),
)
EfficientNet_B6_Weights = weights_enum(
    "EfficientNet_B6_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b6_lukemelas-24a108a5.pth",
        43040704,
        84.008,
        96.916,
        crop_size=528,
        resize_size=528,
        interpolation="bicubic",
    ),
)
EfficientNet_B7_Weights = weights_enum(
    "EfficientNet_B7_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_b7_lukemelas-c5b4e57e.pth",
        66347960,
        84.122,
        96.908,
        crop_size=600,
        resize_size=600,
        interpolation="bicubic",
    ),
)
EfficientNet_V2_S_Weights = weights_enum(
    "EfficientNet_V2_S_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_v2_s-dd5fe13b.pth", 21458488, 84.228, 96.878, smallest=33, crop_size=384, resize_size=384
    ),
)
EfficientNet_V2_M_Weights = weights_enum(
    "EfficientNet_V2_M_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_v2_m-dc08266a.pth", 54139356, 85.112, 97.156, smallest=33, crop_size=480, resize_size=480
    ),
)
EfficientNet_V2_L_Weights = weights_enum(
    "EfficientNet_V2_L_Weights",
    IMAGENET1K_V1=entry(
        "efficientnet_v2_l-59c71312.pth",
        118515272,
        85.808,
        97.788,
        smallest=33,
        crop_size=480,
        resize_size=480,
        interpolation="bicubic",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    ),
)

efficientnet_b0 = builder(
    "efficientnet_b0", EfficientNet_B0_Weights, _efficientnet, width_mult=1.0, depth_mult=1.0, dropout=0.2
)  # fmt: skip
efficientnet_b1 = builder(
    "efficientnet_b1", EfficientNet_B1_Weights, _efficientnet, width_mult=1.0, depth_mult=1.1, dropout=0.2
)  # fmt: skip
efficientnet_b2 = builder(
    "efficientnet_b2", EfficientNet_B2_Weights, _efficientnet, width_mult=1.1, depth_mult=1.2, dropout=0.3
)  # fmt: skip
efficientnet_b3 = builder(
    "efficientnet_b3", EfficientNet_B3_Weights, _efficientnet, width_mult=1.2, depth_mult=1.4, dropout=0.3
)  # fmt: skip
efficientnet_b4 = builder(
    "efficientnet_b4", EfficientNet_B4_Weights, _efficientnet, width_mult=1.4, depth_mult=1.8, dropout=0.4
)  # fmt: skip
efficientnet_b5 = builder(
    "efficientnet_b5", EfficientNet_B5_Weights, _efficientnet, width_mult=1.6, depth_mult=2.2, dropout=0.4, eps=0.001
)  # fmt: skip
efficientnet_b6 = builder(
    "efficientnet_b6", EfficientNet_B6_Weights, _efficientnet, width_mult=1.8, depth_mult=2.6, dropout=0.5, eps=0.001
)  # fmt: skip
efficientnet_b7 = builder(
    "efficientnet_b7", EfficientNet_B7_Weights, _efficientnet, width_mult=2.0, depth_mult=3.1, dropout=0.5, eps=0.001
)  # fmt: skip
efficientnet_v2_s = builder("efficientnet_v2_s", EfficientNet_V2_S_Weights, _efficientnet_v2, size="s", dropout=0.2)
efficientnet_v2_m = builder("efficientnet_v2_m", EfficientNet_V2_M_Weights, _efficientnet_v2, size="m", dropout=0.3)
efficientnet_v2_l = builder("efficientnet_v2_l", EfficientNet_V2_L_Weights, _efficientnet_v2, size="l", dropout=0.4)
