"""GoogLeNet, the first Inception network, with batch norms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ... import cat, flatten, nn, unsqueeze
from ..._tensor import Tensor
from ...nn import functional as F
from ._api import builder, entry, weights_enum

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]


class GoogLeNetOutputs(NamedTuple):
    """What GoogLeNet gives while training: the logits, and those of the two auxiliary classifiers."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


_GoogLeNetOutputs = GoogLeNetOutputs
# widths of the branches: 1×1; reduction and 3×3; reduction and second 3×3; after the pooling
_MODULES = {
    "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64), "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64), "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128), "5b": (832, 384, 192, 384, 48, 128, 128),
}  # fmt: skip


class BasicConv2d(nn.Module):
    """A convolution without bias, a batch norm and a ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side."""

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            conv(in_channels, ch3x3red, kernel_size=1), conv(ch3x3red, ch3x3, kernel_size=3, padding=1)
        )
        # the published weights have 3×3 kernels here, not 5×5 as the paper
        self.branch3 = nn.Sequential(
            conv(in_channels, ch5x5red, kernel_size=1), conv(ch5x5red, ch5x5, kernel_size=3, padding=1)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True), conv(in_channels, pool_proj, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A classifier beside the middle of the network, for training."""

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: Callable[..., nn.Module] | None = None,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4)))
        x = F.relu(self.fc1(flatten(x, 1)), inplace=True)
        return self.fc2(self.dropout(x))


def initialise(model: nn.Module, std: float) -> None:
    """Truncated normal weights, with `std` unless a layer has its own `stddev`; batch norms as the identity."""
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(m.weight, mean=0.0, std=float(getattr(m, "stddev", std)), a=-2, b=2)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.ones_(m.weight)
            nn.init.zeros_(m.bias)


def wants_init(init_weights: bool | None, name: str) -> bool:
    """Whether to initialise, warning where the caller did not say."""
    if init_weights is None:
        warnings.warn(
            f"{name} initialises its weights in a way that takes long; say init_weights=False to do without",
            FutureWarning,
            stacklevel=4,
        )
    return init_weights is None or init_weights


def to_inception_range(x: Tensor) -> Tensor:
    """From images normalised as for the other models to means and deviations of one half."""
    channels = [
        unsqueeze(x[:, i], 1) * (std / 0.5) + (mean - 0.5) / 0.5
        for i, (mean, std) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225)))
    ]
    return cat(channels, 1)


class GoogLeNet(nn.Module):
    """GoogLeNet; while training it also gives the logits of two auxiliary classifiers."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: Sequence[Callable[..., nn.Module]] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        blocks = blocks or [BasicConv2d, Inception, InceptionAux]
        initialises = wants_init(init_weights, "GoogLeNet")
        if len(blocks) != 3:
            raise ValueError(f"blocks length should be 3 instead of {len(blocks)}")
        conv, inception, aux = blocks
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        pool = partial(nn.MaxPool2d, stride=2, ceil_mode=True)
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = pool(3)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = pool(3)
        for name, widths in _MODULES.items():
            setattr(self, f"inception{name}", inception(*widths))
            if name == "3b":
                self.maxpool3 = pool(3)
            elif name == "4e":
                self.maxpool4 = pool(2)
        self.aux1 = aux(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = aux(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024, num_classes)
        if initialises:
            initialise(self, 0.01)

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        if self.transform_input:
            x = to_inception_range(x)
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        x = self.inception4a(self.maxpool3(self.inception3b(self.inception3a(x))))
        both = self.training and self.aux_logits
        first = self.aux1(x) if both else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        second = self.aux2(x) if both else None
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, second, first) if both else x


def _adapt(chosen: Any, kwargs: dict[str, Any]) -> Any:
    """The file has the auxiliary classifiers: they are loaded, and taken off again unless asked for."""
    kwargs.setdefault("transform_input", True)
    wanted = kwargs.get("aux_logits", False)
    kwargs.update(aux_logits=True, init_weights=False)
    if wanted:
        warnings.warn("the auxiliary heads of the published googlenet are not trained; train them", stacklevel=3)
        return None
    return _without_aux


def _without_aux(model: GoogLeNet) -> None:
    model.aux_logits = False
    model.aux1 = model.aux2 = None


GoogLeNet_Weights = weights_enum(
    "GoogLeNet_Weights", IMAGENET1K_V1=entry("googlenet-1378be20.pth", 6624904, 69.778, 89.53, smallest=15)
)

googlenet = builder("googlenet", GoogLeNet_Weights, GoogLeNet, adapt=_adapt)
