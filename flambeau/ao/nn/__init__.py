"""Layers for quantization."""

from . import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]
