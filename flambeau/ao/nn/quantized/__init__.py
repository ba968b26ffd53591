"""Layers whose weights are integers; products are computed on the values that these stand for."""

from . import dynamic
from .functional import FloatFunctional, QFunctional
from .modules import Conv1d, Conv2d, Conv3d, DeQuantize, Linear, Quantize

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "DeQuantize", "FloatFunctional", "Linear", "QFunctional", "Quantize", "dynamic",
]  # fmt: skip
