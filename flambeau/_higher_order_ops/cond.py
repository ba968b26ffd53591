"""`cond`, where PyTorch has it."""

from .control_flow import cond

__all__ = ["cond"]
