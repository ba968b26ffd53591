"""Schedules of the learning rate: each changes the rates of an optimizer's groups, epoch by epoch."""

from ._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._base import LRScheduler, _LRScheduler
from ._by_epoch import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from ._cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

for _class in [_LRScheduler, *(globals()[name] for name in __all__)]:
    _class.__module__ = __name__  # where pickles and users look for it
