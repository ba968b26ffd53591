"""VGG networks: stacks of 3×3 convolutions, then three linear layers."""

from __future__ import annotations

from collections.abc import Sequence

from ... import flatten, nn
from ..._tensor import Tensor
from ._api import builder, entry, weights_enum

__all__ = [
    "VGG", "VGG11_BN_Weights", "VGG11_Weights", "VGG13_BN_Weights", "VGG13_Weights", "VGG16_BN_Weights",
    "VGG16_Weights", "VGG19_BN_Weights", "VGG19_Weights", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16",
    "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

# the widths of the convolutions; "M" halves the image
_LAYOUTS: dict[str, tuple[int | str, ...]] = {
    "11": (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    "13": (64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    "16": (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"),
    "19": (64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"),
}


class VGG(nn.Module):
    """The given convolutions, pooled to 7×7, and a classifier of three linear layers."""

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                    if m.bias is not None:
                        nn.init.zeros_(m.bias)
                elif isinstance(m, nn.Linear):
                    nn.init.normal_(m.weight, 0, 0.01)
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(flatten(self.avgpool(self.features(x)), 1))


def make_layers(widths: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """The convolutions of a VGG network."""
    layers: list[nn.Module] = []
    channels = 3
    for width in widths:
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, width, 3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(width))
        layers.append(nn.ReLU(inplace=True))
        channels = width
    return nn.Sequential(*layers)


def _vgg(layout: str, batch_norm: bool = False, **kwargs: object) -> VGG:
    return VGG(make_layers(_LAYOUTS[layout], batch_norm), **kwargs)  # type: ignore[arg-type]


def _no_init(chosen: object, kwargs: dict[str, object]) -> None:
    kwargs["init_weights"] = False


VGG11_Weights = weights_enum(
    "VGG11_Weights", IMAGENET1K_V1=entry("vgg11-8a719046.pth", 132863336, 69.02, 88.628, smallest=32)
)
VGG11_BN_Weights = weights_enum(
    "VGG11_BN_Weights", IMAGENET1K_V1=entry("vgg11_bn-6002323d.pth", 132868840, 70.37, 89.81, smallest=32)
)
VGG13_Weights = weights_enum(
    "VGG13_Weights", IMAGENET1K_V1=entry("vgg13-19584684.pth", 133047848, 69.928, 89.246, smallest=32)
)
VGG13_BN_Weights = weights_enum(
    "VGG13_BN_Weights", IMAGENET1K_V1=entry("vgg13_bn-abd245e5.pth", 133053736, 71.586, 90.374, smallest=32)
)
VGG16_Weights = weights_enum(
    "VGG16_Weights",
    IMAGENET1K_V1=entry("vgg16-397923af.pth", 138357544, 71.592, 90.382, smallest=32),
    IMAGENET1K_FEATURES=entry(
        "vgg16_features-amdegroot-88682ab5.pth",
        138357544,
        float("nan"),
        float("nan"),
        smallest=32,
        mean=(0.48235, 0.45882, 0.40784),
        std=(1 / 255,) * 3,
        categories=None,
    ),
    default="IMAGENET1K_V1",
)
VGG16_BN_Weights = weights_enum(
    "VGG16_BN_Weights", IMAGENET1K_V1=entry("vgg16_bn-6c64b313.pth", 138365992, 73.36, 91.516, smallest=32)
)
VGG19_Weights = weights_enum(
    "VGG19_Weights", IMAGENET1K_V1=entry("vgg19-dcbb9e9d.pth", 143667240, 72.376, 90.876, smallest=32)
)
VGG19_BN_Weights = weights_enum(
    "VGG19_BN_Weights", IMAGENET1K_V1=entry("vgg19_bn-c79401a0.pth", 143678248, 74.218, 91.842, smallest=32)
)

vgg11 = builder("vgg11", VGG11_Weights, _vgg, adapt=_no_init, layout="11")
vgg11_bn = builder("vgg11_bn", VGG11_BN_Weights, _vgg, adapt=_no_init, layout="11", batch_norm=True)
vgg13 = builder("vgg13", VGG13_Weights, _vgg, adapt=_no_init, layout="13")
vgg13_bn = builder("vgg13_bn", VGG13_BN_Weights, _vgg, adapt=_no_init, layout="13", batch_norm=True)
vgg16 = builder("vgg16", VGG16_Weights, _vgg, adapt=_no_init, layout="16")
vgg16_bn = builder("vgg16_bn", VGG16_BN_Weights, _vgg, adapt=_no_init, layout="16", batch_norm=True)
vgg19 = builder("vgg19", VGG19_Weights, _vgg, adapt=_no_init, layout="19")
vgg19_bn = builder("vgg19_bn", VGG19_BN_Weights, _vgg, adapt=_no_init, layout="19", batch_norm=True)
