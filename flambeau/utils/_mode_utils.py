"""Blocks that modes below autograd are written with."""

from .._C import _DisableTorchDispatch as no_dispatch

__all__ = ["no_dispatch"]
