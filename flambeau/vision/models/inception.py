"""Inception v3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import cat, flatten, nn
from ..._tensor import Tensor
from ...nn import functional as F
from ._api import builder, entry, weights_enum
from .googlenet import BasicConv2d, initialise, to_inception_range, wants_init

__all__ = ["Inception3", "InceptionOutputs", "Inception_V3_Weights", "_InceptionOutputs", "inception_v3"]


class InceptionOutputs(NamedTuple):
    """What Inception v3 gives while training: the logits, and those of the auxiliary classifier."""

    logits: Tensor
    aux_logits: Tensor | None


_InceptionOutputs = InceptionOutputs
Conv = Callable[..., nn.Module]
_ROW, _COLUMN = {"kernel_size": (1, 7), "padding": (0, 3)}, {"kernel_size": (7, 1), "padding": (3, 0)}


class InceptionA(nn.Module):
    """Branches of 1×1, 5×5 and two 3×3 convolutions, and one after a pooling."""

    def __init__(self, in_channels: int, pool_features: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1x1 = conv(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = conv(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = conv(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, padding=1)
        self.branch_pool = conv(in_channels, pool_features, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pooled = self.branch_pool(F.avg_pool2d(x, 3, stride=1, padding=1))
        return cat([self.branch1x1(x), five, double, pooled], 1)


class InceptionB(nn.Module):
    """Halves the image with 3×3 convolutions and a pooling."""

    def __init__(self, in_channels: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3 = conv(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return cat([self.branch3x3(x), double, F.max_pool2d(x, 3, stride=2)], 1)


class InceptionC(nn.Module):
    """7×7 convolutions as rows and columns."""

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv, c7 = conv_block or BasicConv2d, channels_7x7
        self.branch1x1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = conv(in_channels, c7, kernel_size=1)
        self.branch7x7_2 = conv(c7, c7, **_ROW)
        self.branch7x7_3 = conv(c7, 192, **_COLUMN)
        self.branch7x7dbl_1 = conv(in_channels, c7, kernel_size=1)
        self.branch7x7dbl_2 = conv(c7, c7, **_COLUMN)
        self.branch7x7dbl_3 = conv(c7, c7, **_ROW)
        self.branch7x7dbl_4 = conv(c7, c7, **_COLUMN)
        self.branch7x7dbl_5 = conv(c7, 192, **_ROW)
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        pooled = self.branch_pool(F.avg_pool2d(x, 3, stride=1, padding=1))
        return cat([self.branch1x1(x), seven, double, pooled], 1)


class InceptionD(nn.Module):
    """Halves the image with 7×7 and 3×3 convolutions and a pooling."""

    def __init__(self, in_channels: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = conv(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = conv(192, 192, **_ROW)
        self.branch7x7x3_3 = conv(192, 192, **_COLUMN)
        self.branch7x7x3_4 = conv(192, 192, kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return cat([three, seven, F.max_pool2d(x, 3, stride=2)], 1)


class InceptionE(nn.Module):
    """3×3 convolutions as rows and columns side by side."""

    def __init__(self, in_channels: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        row, column = {"kernel_size": (1, 3), "padding": (0, 1)}, {"kernel_size": (3, 1), "padding": (1, 0)}
        self.branch1x1 = conv(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = conv(in_channels, 384, kernel_size=1)
        self.branch3x3_2a = conv(384, 384, **row)
        self.branch3x3_2b = conv(384, 384, **column)
        self.branch3x3dbl_1 = conv(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = conv(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = conv(384, 384, **row)
        self.branch3x3dbl_3b = conv(384, 384, **column)
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = self.branch_pool(F.avg_pool2d(x, 3, stride=1, padding=1))
        parts = [self.branch1x1(x), self.branch3x3_2a(three), self.branch3x3_2b(three)]
        return cat([*parts, self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double), pooled], 1)


class InceptionAux(nn.Module):
    """A classifier beside the middle of the network, for training."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Conv | None = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.conv0 = conv(in_channels, 128, kernel_size=1)
        self.conv1 = conv(128, 768, kernel_size=5)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, stride=3)))
        return self.fc(flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inception3(nn.Module):
    """Inception v3; while training it also gives the logits of an auxiliary classifier."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: Sequence[Callable[..., nn.Module]] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        blocks = inception_blocks or [
            BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD, InceptionE, InceptionAux,
        ]  # fmt: skip
        initialises = wants_init(init_weights, "Inception v3")
        if len(blocks) != 7:
            raise ValueError(f"length of inception_blocks should be 7 instead of {len(blocks)}")
        conv, a, b, c, d, e, aux = blocks
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.Conv2d_1a_3x3 = conv(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = conv(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = conv(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, stride=2)
        self.Conv2d_3b_1x1 = conv(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = conv(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(3, stride=2)
        self.Mixed_5b = a(192, pool_features=32)
        self.Mixed_5c = a(256, pool_features=64)
        self.Mixed_5d = a(288, pool_features=64)
        self.Mixed_6a = b(288)
        self.Mixed_6b = c(768, channels_7x7=128)
        self.Mixed_6c = c(768, channels_7x7=160)
        self.Mixed_6d = c(768, channels_7x7=160)
        self.Mixed_6e = c(768, channels_7x7=192)
        self.AuxLogits: nn.Module | None = aux(768, num_classes) if aux_logits else None
        self.Mixed_7a = d(768)
        self.Mixed_7b = e(1280)
        self.Mixed_7c = e(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if initialises:
            initialise(self, 0.1)

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        if self.transform_input:
            x = to_inception_range(x)
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        both = self.training and self.aux_logits
        aux = self.AuxLogits(x) if both else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(flatten(self.dropout(self.avgpool(x)), 1))
        return InceptionOutputs(x, aux) if both else x


def _adapt(chosen: Any, kwargs: dict[str, Any]) -> Any:
    """The file has the auxiliary classifier: it is loaded, and taken off again if it is not wanted."""
    kwargs.setdefault("transform_input", True)
    wanted = kwargs.get("aux_logits", True)
    kwargs.update(aux_logits=True, init_weights=False)
    return None if wanted else _without_aux


def _without_aux(model: Inception3) -> None:
    model.aux_logits = False
    model.AuxLogits = None


Inception_V3_Weights = weights_enum(
    "Inception_V3_Weights",
    IMAGENET1K_V1=entry(
        "inception_v3_google-0cc3c7bd.pth", 27161264, 77.294, 93.45, smallest=75, crop_size=299, resize_size=342
    ),
)

inception_v3 = builder("inception_v3", Inception_V3_Weights, Inception3, adapt=_adapt)
