"""Layers whose weights are integers; products are computed on the values that these stand for."""

from . import dynamic, functional
from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional
from .layers import (
    ELU,
    LSTM,
    BatchNorm2d,
    BatchNorm3d,
    Dropout,
    Embedding,
    EmbeddingBag,
    GroupNorm,
    Hardswish,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LeakyReLU,
    MultiheadAttention,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from .modules import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    DeQuantize,
    Linear,
    Quantize,
)

__all__ = [
    "ELU", "LSTM", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "DeQuantize", "Dropout", "Embedding", "EmbeddingBag", "FXFloatFunctional", "FloatFunctional",
    "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear",
    "MultiheadAttention", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax", "dynamic", "functional",
]  # fmt: skip
