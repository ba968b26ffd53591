"""`map`, where PyTorch has it."""

from .control_flow import map

__all__ = ["map"]
