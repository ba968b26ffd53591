"""Functions of older PyTorch that programs still import."""

from .tensor import Resize, Type

__all__ = ["Resize", "Type"]
