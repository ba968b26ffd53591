"""MobileNetV3: inverted residuals with squeeze-and-excitation and hard swish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import flatten, nn
from ..._tensor import Tensor
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import builder, entry, weights_enum
from ._utils import _make_divisible

__all__ = [
    "MobileNetV3", "MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights", "mobilenet_v3_large", "mobilenet_v3_small",
]  # fmt: skip

Layer = Callable[..., nn.Module]
_SQUEEZE = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)
# input, kernel, expanded, output, squeeze-and-excitation, activation, stride; a fourth of the last three blocks may be dilated
_LARGE = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2), (24, 3, 72, 24, False, "RE", 1),
    (24, 5, 72, 40, True, "RE", 2), (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1), (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
_SMALL = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1),
    (24, 5, 96, 40, True, "HS", 2), (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1), (48, 5, 288, 96, True, "HS", 2),
    (96, 5, 576, 96, True, "HS", 1), (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


class InvertedResidualConfig:
    """What one block of MobileNetV3 is made of."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se = use_se
        self.use_hs = activation == "HS"
        self.stride = stride
        self.dilation = dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """Widened, filtered depthwise, its channels reweighted, narrowed again; with a shortcut where the shapes agree."""

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Layer, se_layer: Layer = _SQUEEZE) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        wide = cnf.expanded_channels
        options: dict[str, Any] = {
            "norm_layer": norm_layer,
            "activation_layer": nn.Hardswish if cnf.use_hs else nn.ReLU,
        }
        layers: list[nn.Module] = []
        if wide != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, wide, 1, **options))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(
            Conv2dNormActivation(wide, wide, cnf.kernel, stride=stride, dilation=cnf.dilation, groups=wide, **options)
        )
        if cnf.use_se:
            layers.append(se_layer(wide, _make_divisible(wide // 4, 8)))
        layers.append(Conv2dNormActivation(wide, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """MobileNetV3 of the given blocks."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Layer | None = None,
        norm_layer: Layer | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        settings = inverted_residual_setting
        if not settings:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not (isinstance(settings, Sequence) and all(isinstance(s, InvertedResidualConfig) for s in settings)):
            raise TypeError("The inverted_residual_setting should be List[InvertedResidualConfig]")
        block = block or InvertedResidual
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.Hardswish}
        layers: list[nn.Module] = [Conv2dNormActivation(3, settings[0].input_channels, stride=2, **options)]
        layers += [block(cnf, norm_layer) for cnf in settings]
        narrow = settings[-1].out_channels
        layers.append(Conv2dNormActivation(narrow, 6 * narrow, 1, **options))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * narrow, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(flatten(self.avgpool(self.features(x)), 1))


def _mobilenet_v3(
    rows: Sequence[Sequence[Any]],
    last_channel: int,
    width_mult: float = 1.0,
    reduced_tail: bool = False,
    dilated: bool = False,
    **kwargs: Any,
) -> MobileNetV3:
    """The blocks of a table; `reduced_tail` halves the channels of the last three, `dilated` widens their kernels."""
    divider = 2 if reduced_tail else 1
    settings = []
    for i, (inputs, kernel, wide, outputs, *rest) in enumerate(rows):
        tail = len(rows) - i
        if tail <= 3:
            outputs //= divider
        if tail < 3:
            inputs, wide = inputs // divider, wide // divider
        dilation = 2 if dilated and tail <= 3 else 1
        settings.append(InvertedResidualConfig(inputs, kernel, wide, outputs, *rest, dilation, width_mult))
    last = InvertedResidualConfig.adjust_channels(last_channel // divider, width_mult)
    return MobileNetV3(settings, last, **kwargs)


MobileNet_V3_Large_Weights = weights_enum(
    "MobileNet_V3_Large_Weights",
    IMAGENET1K_V1=entry("mobilenet_v3_large-8738ca79.pth", 5483032, 74.042, 91.34),
    IMAGENET1K_V2=entry("mobilenet_v3_large-5c1a4163.pth", 5483032, 75.274, 92.566, resize_size=232),
)
MobileNet_V3_Small_Weights = weights_enum(
    "MobileNet_V3_Small_Weights", IMAGENET1K_V1=entry("mobilenet_v3_small-047dcff4.pth", 2542856, 67.668, 87.402)
)

mobilenet_v3_large = builder(
    "mobilenet_v3_large", MobileNet_V3_Large_Weights, _mobilenet_v3, rows=_LARGE, last_channel=1280
)
mobilenet_v3_small = builder(
    "mobilenet_v3_small", MobileNet_V3_Small_Weights, _mobilenet_v3, rows=_SMALL, last_channel=1024
)
