"""DenseNet: every layer of a block reads what all layers before it have made."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ... import cat, flatten, nn
from ..._tensor import Tensor
from ...nn import functional as F
from ...utils.checkpoint import checkpoint
from ._api import builder, entry, weights_enum

__all__ = [
    "DenseNet", "DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights", "DenseNet201_Weights",
    "densenet121", "densenet161", "densenet169", "densenet201",
]  # fmt: skip


class _DenseLayer(nn.Module):
    """A 1×1 and a 3×3 convolution, each after norm and activation, over all features so far."""

    def __init__(
        self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False
    ) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def _squeeze(self, *features: Tensor) -> Tensor:
        return self.conv1(self.relu1(self.norm1(cat(features, 1))))

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        features = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(t.requires_grad for t in features):
            out = checkpoint(self._squeeze, *features, use_reentrant=False)
        else:
            out = self._squeeze(*features)
        out = self.conv2(self.relu2(self.norm2(out)))
        return F.dropout(out, self.drop_rate, self.training) if self.drop_rate > 0 else out


class _DenseBlock(nn.ModuleDict):
    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for i in range(num_layers):
            width = num_input_features + i * growth_rate
            self[f"denselayer{i + 1}"] = _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class _Transition(nn.Sequential):
    """Between two blocks: half the channels (or fewer), half the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, bias=False)
        self.pool = nn.AvgPool2d(2, stride=2)


class DenseNet(nn.Module):
    """Dense blocks with transitions between them."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        width = num_init_features
        self.features = nn.Sequential(
            OrderedDict(
                conv0=nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
                norm0=nn.BatchNorm2d(width),
                relu0=nn.ReLU(inplace=True),
                pool0=nn.MaxPool2d(3, stride=2, padding=1),
            )
        )
        for i, layers in enumerate(block_config):
            if i:
                self.features.add_module(f"transition{i}", _Transition(width, width // 2))
                width //= 2
            block = _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{i + 1}", block)
            width += layers * growth_rate
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.features(x), inplace=True)
        return self.classifier(flatten(F.adaptive_avg_pool2d(out, (1, 1)), 1))


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """The published files were written when the layers were called norm.1, conv.2 and so on."""
    return {re.sub(r"(denselayer\d+\.(?:norm|relu|conv))\.(\d)\.", r"\1\2.", key): t for key, t in state.items()}


DenseNet121_Weights = weights_enum(
    "DenseNet121_Weights", IMAGENET1K_V1=entry("densenet121-a639ec97.pth", 7978856, 74.434, 91.972, smallest=29)
)
DenseNet161_Weights = weights_enum(
    "DenseNet161_Weights", IMAGENET1K_V1=entry("densenet161-8d451a50.pth", 28681000, 77.138, 93.56, smallest=29)
)
DenseNet169_Weights = weights_enum(
    "DenseNet169_Weights", IMAGENET1K_V1=entry("densenet169-b2777c0a.pth", 14149480, 75.6, 92.806, smallest=29)
)
DenseNet201_Weights = weights_enum(
    "DenseNet201_Weights", IMAGENET1K_V1=entry("densenet201-c1103571.pth", 20013928, 76.896, 93.37, smallest=29)
)

densenet121 = builder("densenet121", DenseNet121_Weights, DenseNet, rename=_renamed)
densenet161 = builder(
    "densenet161", DenseNet161_Weights, DenseNet, rename=_renamed,
    growth_rate=48, block_config=(6, 12, 36, 24), num_init_features=96,
)  # fmt: skip
densenet169 = builder("densenet169", DenseNet169_Weights, DenseNet, rename=_renamed, block_config=(6, 12, 32, 32))
densenet201 = builder("densenet201", DenseNet201_Weights, DenseNet, rename=_renamed, block_config=(6, 12, 48, 32))
