"""Tensors without data that pretend to be on a device: flambeau has the device `meta` instead; programs only ask here."""

from .fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
