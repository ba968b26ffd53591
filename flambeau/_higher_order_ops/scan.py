"""`scan`, where PyTorch has it."""

from .control_flow import scan

__all__ = ["scan"]
