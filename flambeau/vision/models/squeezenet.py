"""SqueezeNet: small networks of "fire" modules, which squeeze channels and expand them again."""

from __future__ import annotations

from ... import cat, flatten, nn
from ..._tensor import Tensor
from ._api import builder, entry, weights_enum

__all__ = [
    "SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0", "squeezenet1_1",
]  # fmt: skip

# "M" is a pooling; a number is the squeezed width of a fire module, which expands to eight times as much
_LAYOUTS = {
    "1_0": (96, 7, ("M", 16, 16, 32, "M", 32, 48, 48, 64, "M", 64)),
    "1_1": (64, 3, ("M", 16, 16, "M", 32, 32, "M", 48, 48, 64, 64)),
}


class Fire(nn.Module):
    """A 1×1 convolution to few channels, then 1×1 and 3×3 convolutions side by side."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """A convolution, fire modules with poolings between them, and a convolution that classifies."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes = num_classes
        if version not in _LAYOUTS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        channels, kernel, layout = _LAYOUTS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel, stride=2), nn.ReLU(inplace=True)]
        for width in layout:
            if isinstance(width, str):
                layers.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
            else:
                layers.append(Fire(channels, width, 4 * width, 4 * width))
                channels = 8 * width
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(512, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is last:
                    nn.init.normal_(m.weight, mean=0.0, std=0.01)
                else:
                    nn.init.kaiming_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return flatten(self.classifier(self.features(x)), 1)


SqueezeNet1_0_Weights = weights_enum(
    "SqueezeNet1_0_Weights", IMAGENET1K_V1=entry("squeezenet1_0-b66bff10.pth", 1248424, 58.092, 80.42, smallest=21)
)
SqueezeNet1_1_Weights = weights_enum(
    "SqueezeNet1_1_Weights", IMAGENET1K_V1=entry("squeezenet1_1-b8a52dc0.pth", 1235496, 58.178, 80.624, smallest=17)
)

squeezenet1_0 = builder("squeezenet1_0", SqueezeNet1_0_Weights, SqueezeNet, version="1_0")
squeezenet1_1 = builder("squeezenet1_1", SqueezeNet1_1_Weights, SqueezeNet, version="1_1")
