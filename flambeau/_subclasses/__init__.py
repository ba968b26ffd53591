"""Tensors without data that pretend to be on a device: flambeau has the device `meta` instead; programs only ask here."""

from .fake_tensor import (
    CrossRefFakeMode,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

__all__ = [
    "CrossRefFakeMode", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException",
]  # fmt: skip
