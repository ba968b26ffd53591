"""MNASNet: inverted residuals found by a search for speed on phones."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..._tensor import Tensor
from ._api import builder, entry, weights_enum

__all__ = [
    "MNASNet", "MNASNet0_5_Weights", "MNASNet0_75_Weights", "MNASNet1_0_Weights", "MNASNet1_3_Weights",
    "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3",
]  # fmt: skip

_MOMENTUM = 1 - 0.9997  # the paper counts what stays, PyTorch what is new
# kernel, stride, expansion, blocks
_STACKS = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))


class _InvertedResidual(nn.Module):
    def __init__(
        self, in_ch: int, out_ch: int, kernel_size: int, stride: int, expansion_factor: int, bn_momentum: float = 0.1
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        if kernel_size not in (3, 5):
            raise ValueError(f"kernel_size should be 3 or 5 instead of {kernel_size}")
        mid = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_ch, mid, 1, bias=False),
            nn.BatchNorm2d(mid, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, mid, kernel_size, padding=kernel_size // 2, stride=stride, groups=mid, bias=False),
            nn.BatchNorm2d(mid, momentum=bn_momentum),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid, out_ch, 1, bias=False),
            nn.BatchNorm2d(out_ch, momentum=bn_momentum),
        )

    def forward(self, input: Tensor) -> Tensor:
        return self.layers(input) + input if self.apply_residual else self.layers(input)


def _round_to_multiple_of(value: float, divisor: int, round_up_bias: float = 0.9) -> int:
    """The multiple nearest to value, from above if the one below is less than `round_up_bias` of it."""
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded if rounded >= round_up_bias * value else rounded + divisor


class MNASNet(nn.Module):
    """MNASNet with its widths scaled by `alpha`."""

    _version = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha = alpha
        self.num_classes = num_classes
        depths = [_round_to_multiple_of(width * alpha, 8) for width in (32, 16, 24, 40, 80, 96, 192, 320)]
        first, second = depths[:2]
        layers: list[nn.Module] = [
            nn.Conv2d(3, first, 3, padding=1, stride=2, bias=False),
            nn.BatchNorm2d(first, momentum=_MOMENTUM),
            nn.ReLU(inplace=True),
            nn.Conv2d(first, first, 3, padding=1, stride=1, groups=first, bias=False),
            nn.BatchNorm2d(first, momentum=_MOMENTUM),
            nn.ReLU(inplace=True),
            nn.Conv2d(first, second, 1, padding=0, stride=1, bias=False),
            nn.BatchNorm2d(second, momentum=_MOMENTUM),
        ]
        for width, wide, (kernel, stride, expansion, blocks) in zip(depths[1:], depths[2:], _STACKS):
            stack = [_InvertedResidual(width, wide, kernel, stride, expansion, _MOMENTUM)]
            stack += [_InvertedResidual(wide, wide, kernel, 1, expansion, _MOMENTUM) for _ in range(1, blocks)]
            layers.append(nn.Sequential(*stack))
        layers += [
            nn.Conv2d(depths[-1], 1280, 1, padding=0, stride=1, bias=False),
            nn.BatchNorm2d(1280, momentum=_MOMENTUM),
            nn.ReLU(inplace=True),
        ]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.Linear):
                nn.init.kaiming_uniform_(m.weight, mode="fan_out", nonlinearity="sigmoid")
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        if local_metadata.get("version", 2) not in (1, 2) or (local_metadata.get("version") == 1 and self.alpha != 1.0):
            raise ValueError("MNASNet: weights of version 1 with another alpha than 1 describe another architecture")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


MNASNet0_5_Weights = weights_enum(
    "MNASNet0_5_Weights", IMAGENET1K_V1=entry("mnasnet0.5_top1_67.823-3ffadce67e.pth", 2218512, 67.734, 87.49)
)
MNASNet0_75_Weights = weights_enum(
    "MNASNet0_75_Weights", IMAGENET1K_V1=entry("mnasnet0_75-7090bc5f.pth", 3170208, 71.18, 90.496, resize_size=232)
)
MNASNet1_0_Weights = weights_enum(
    "MNASNet1_0_Weights", IMAGENET1K_V1=entry("mnasnet1.0_top1_73.512-f206786ef8.pth", 4383312, 73.456, 91.51)
)
MNASNet1_3_Weights = weights_enum(
    "MNASNet1_3_Weights", IMAGENET1K_V1=entry("mnasnet1_3-a4c69d6f.pth", 6282256, 76.506, 93.522, resize_size=232)
)

mnasnet0_5 = builder("mnasnet0_5", MNASNet0_5_Weights, MNASNet, alpha=0.5)
mnasnet0_75 = builder("mnasnet0_75", MNASNet0_75_Weights, MNASNet, alpha=0.75)
mnasnet1_0 = builder("mnasnet1_0", MNASNet1_0_Weights, MNASNet, alpha=1.0)
mnasnet1_3 = builder("mnasnet1_3", MNASNet1_3_Weights, MNASNet, alpha=1.3)
