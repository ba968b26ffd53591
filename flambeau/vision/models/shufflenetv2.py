"""ShuffleNetV2: half of the channels pass through, then the channels are shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import cat, chunk, nn
from ..._tensor import Tensor
from ...nn import functional as F
from ._api import builder, entry, weights_enum

__all__ = [
    "ShuffleNetV2", "ShuffleNet_V2_X0_5_Weights", "ShuffleNet_V2_X1_0_Weights", "ShuffleNet_V2_X1_5_Weights",
    "ShuffleNet_V2_X2_0_Weights", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0",
]  # fmt: skip

channel_shuffle = F.channel_shuffle  # programs take it from here


def _pointwise(channels: int, wide: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(inplace=True)]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
    ]


class InvertedResidual(nn.Module):
    """Two branches, side by side at stride 2; at stride 1 the first one is the unchanged half of the channels."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        self.stride = stride
        half = oup // 2
        if stride == 1 and inp != half << 1:
            raise ValueError(
                f"stride {stride} with {inp} input and {oup} output channels: the input must be even and equal"
            )
        first = [*_depthwise(inp, stride), *_pointwise(inp, half)] if stride > 1 else []
        self.branch1 = nn.Sequential(*first)
        self.branch2 = nn.Sequential(
            *_pointwise(inp if stride > 1 else half, half), *_depthwise(half, stride), *_pointwise(half, half)
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            kept, x = chunk(x, 2, 1)
            out = cat((kept, self.branch2(x)), 1)
        else:
            out = cat((self.branch1(x), self.branch2(x)), 1)
        return F.channel_shuffle(out, 2)


class ShuffleNetV2(nn.Module):
    """ShuffleNetV2 of three stages."""

    def __init__(
        self,
        stages_repeats: Sequence[int],
        stages_out_channels: Sequence[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        self._stage_out_channels = stages_out_channels
        width = stages_out_channels[0]
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        for i, repeats, wide in zip((2, 3, 4), stages_repeats, stages_out_channels[1:]):
            blocks = [inverted_residual(width, wide, 2)]
            blocks += [inverted_residual(wide, wide, 1) for _ in range(repeats - 1)]
            setattr(self, f"stage{i}", nn.Sequential(*blocks))
            width = wide
        wide = stages_out_channels[-1]
        self.conv5 = nn.Sequential(*_pointwise(width, wide))
        self.fc = nn.Linear(wide, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


ShuffleNet_V2_X0_5_Weights = weights_enum(
    "ShuffleNet_V2_X0_5_Weights", IMAGENET1K_V1=entry("shufflenetv2_x0.5-f707e7126e.pth", 1366792, 60.552, 81.746)
)
ShuffleNet_V2_X1_0_Weights = weights_enum(
    "ShuffleNet_V2_X1_0_Weights", IMAGENET1K_V1=entry("shufflenetv2_x1-5666bf0f80.pth", 2278604, 69.362, 88.316)
)
ShuffleNet_V2_X1_5_Weights = weights_enum(
    "ShuffleNet_V2_X1_5_Weights",
    IMAGENET1K_V1=entry("shufflenetv2_x1_5-3c479a10.pth", 3503624, 72.996, 91.086, resize_size=232),
)
ShuffleNet_V2_X2_0_Weights = weights_enum(
    "ShuffleNet_V2_X2_0_Weights",
    IMAGENET1K_V1=entry("shufflenetv2_x2_0-8be3c8ee.pth", 7393996, 76.23, 93.006, resize_size=232),
)

shufflenet_v2_x0_5 = builder(
    "shufflenet_v2_x0_5", ShuffleNet_V2_X0_5_Weights, ShuffleNetV2,
    stages_repeats=(4, 8, 4), stages_out_channels=(24, 48, 96, 192, 1024),
)  # fmt: skip
shufflenet_v2_x1_0 = builder(
    "shufflenet_v2_x1_0", ShuffleNet_V2_X1_0_Weights, ShuffleNetV2,
    stages_repeats=(4, 8, 4), stages_out_channels=(24, 116, 232, 464, 1024),
)  # fmt: skip
shufflenet_v2_x1_5 = builder(
    "shufflenet_v2_x1_5", ShuffleNet_V2_X1_5_Weights, ShuffleNetV2,
    stages_repeats=(4, 8, 4), stages_out_channels=(24, 176, 352, 704, 1024),
)  # fmt: skip
shufflenet_v2_x2_0 = builder(
    "shufflenet_v2_x2_0", ShuffleNet_V2_X2_0_Weights, ShuffleNetV2,
    stages_repeats=(4, 8, 4), stages_out_channels=(24, 244, 488, 976, 2048),
)  # fmt: skip
