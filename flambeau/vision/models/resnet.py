"""Residual networks: ResNet, ResNeXt and wide ResNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import flatten, nn
from ..._tensor import Tensor
from ._api import builder, entry, weights_enum

__all__ = [
    "ResNeXt50_32X4D_Weights", "ResNeXt101_32X8D_Weights", "ResNeXt101_64X4D_Weights", "ResNet", "ResNet18_Weights",
    "ResNet34_Weights", "ResNet50_Weights", "ResNet101_Weights", "ResNet152_Weights", "Wide_ResNet50_2_Weights",
    "Wide_ResNet101_2_Weights", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
    "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
]  # fmt: skip

Norm = Callable[..., nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3×3 convolution that keeps the size at stride 1."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride=stride, padding=dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1×1 convolution."""
    return nn.Conv2d(in_planes, out_planes, 1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    expansion: int = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A 3×3 convolution between two 1×1 convolutions, beside a shortcut; the 3×3 convolution has the stride."""

    expansion: int = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network of four stages.

    >>> import flambeau as torch
    >>> ResNet(BasicBlock, [1, 1, 1, 1], num_classes=5)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.dilation = 1
        dilate = replace_stride_with_dilation or (False, False, False)
        if len(dilate) != 3:
            raise ValueError(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialise(zero_init_residual)

    def _initialise(self, zero_init_residual: bool) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        if zero_init_residual:  # every block starts as its shortcut
            for m in self.modules():
                last = m.bn3 if isinstance(m, Bottleneck) else m.bn2 if isinstance(m, BasicBlock) else None
                if last is not None and last.weight is not None:
                    nn.init.zeros_(last.weight)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        wide = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != wide:
            downsample = nn.Sequential(conv1x1(self.inplanes, wide, stride), self._norm_layer(wide))
        options = {"groups": self.groups, "base_width": self.base_width, "norm_layer": self._norm_layer}
        made = [block(self.inplanes, planes, stride, downsample, dilation=before, **options)]  # type: ignore[arg-type]
        self.inplanes = wide
        for _ in range(1, blocks):
            made.append(block(wide, planes, dilation=self.dilation, **options))  # type: ignore[arg-type]
        return nn.Sequential(*made)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(flatten(self.avgpool(x), 1))


ResNet18_Weights = weights_enum(
    "ResNet18_Weights", IMAGENET1K_V1=entry("resnet18-f37072fd.pth", 11689512, 69.758, 89.078)
)
ResNet34_Weights = weights_enum(
    "ResNet34_Weights", IMAGENET1K_V1=entry("resnet34-b627a593.pth", 21797672, 73.314, 91.42)
)
ResNet50_Weights = weights_enum(
    "ResNet50_Weights",
    IMAGENET1K_V1=entry("resnet50-0676ba61.pth", 25557032, 76.13, 92.862),
    IMAGENET1K_V2=entry("resnet50-11ad3fa6.pth", 25557032, 80.858, 95.434, resize_size=232),
)
ResNet101_Weights = weights_enum(
    "ResNet101_Weights",
    IMAGENET1K_V1=entry("resnet101-63fe2227.pth", 44549160, 77.374, 93.546),
    IMAGENET1K_V2=entry("resnet101-cd907fc2.pth", 44549160, 81.886, 95.78, resize_size=232),
)
ResNet152_Weights = weights_enum(
    "ResNet152_Weights",
    IMAGENET1K_V1=entry("resnet152-394f9c45.pth", 60192808, 78.312, 94.046),
    IMAGENET1K_V2=entry("resnet152-f82ba261.pth", 60192808, 82.284, 96.002, resize_size=232),
)
ResNeXt50_32X4D_Weights = weights_enum(
    "ResNeXt50_32X4D_Weights",
    IMAGENET1K_V1=entry("resnext50_32x4d-7cdf4587.pth", 25028904, 77.618, 93.698),
    IMAGENET1K_V2=entry("resnext50_32x4d-1a0047aa.pth", 25028904, 81.198, 95.34, resize_size=232),
)
ResNeXt101_32X8D_Weights = weights_enum(
    "ResNeXt101_32X8D_Weights",
    IMAGENET1K_V1=entry("resnext101_32x8d-8ba56ff5.pth", 88791336, 79.312, 94.526),
    IMAGENET1K_V2=entry("resnext101_32x8d-110c445d.pth", 88791336, 82.834, 96.228, resize_size=232),
)
ResNeXt101_64X4D_Weights = weights_enum(
    "ResNeXt101_64X4D_Weights",
    IMAGENET1K_V1=entry("resnext101_64x4d-173b62eb.pth", 83455272, 83.246, 96.454, resize_size=232),
)
Wide_ResNet50_2_Weights = weights_enum(
    "Wide_ResNet50_2_Weights",
    IMAGENET1K_V1=entry("wide_resnet50_2-95faca4d.pth", 68883240, 78.468, 94.086),
    IMAGENET1K_V2=entry("wide_resnet50_2-9ba9bcbe.pth", 68883240, 81.602, 95.758, resize_size=232),
)
Wide_ResNet101_2_Weights = weights_enum(
    "Wide_ResNet101_2_Weights",
    IMAGENET1K_V1=entry("wide_resnet101_2-32ee1156.pth", 126886696, 78.848, 94.284),
    IMAGENET1K_V2=entry("wide_resnet101_2-d733dc28.pth", 126886696, 82.51, 96.02, resize_size=232),
)

_50, _101 = (3, 4, 6, 3), (3, 4, 23, 3)
resnet18 = builder("resnet18", ResNet18_Weights, ResNet, block=BasicBlock, layers=(2, 2, 2, 2))
resnet34 = builder("resnet34", ResNet34_Weights, ResNet, block=BasicBlock, layers=_50)
resnet50 = builder("resnet50", ResNet50_Weights, ResNet, block=Bottleneck, layers=_50)
resnet101 = builder("resnet101", ResNet101_Weights, ResNet, block=Bottleneck, layers=_101)
resnet152 = builder("resnet152", ResNet152_Weights, ResNet, block=Bottleneck, layers=(3, 8, 36, 3))
resnext50_32x4d = builder(
    "resnext50_32x4d", ResNeXt50_32X4D_Weights, ResNet, block=Bottleneck, layers=_50, groups=32, width_per_group=4
)
resnext101_32x8d = builder(
    "resnext101_32x8d", ResNeXt101_32X8D_Weights, ResNet, block=Bottleneck, layers=_101, groups=32, width_per_group=8
)
resnext101_64x4d = builder(
    "resnext101_64x4d", ResNeXt101_64X4D_Weights, ResNet, block=Bottleneck, layers=_101, groups=64, width_per_group=4
)
wide_resnet50_2 = builder(
    "wide_resnet50_2", Wide_ResNet50_2_Weights, ResNet, block=Bottleneck, layers=_50, width_per_group=128
)
wide_resnet101_2 = builder(
    "wide_resnet101_2", Wide_ResNet101_2_Weights, ResNet, block=Bottleneck, layers=_101, width_per_group=128
)
