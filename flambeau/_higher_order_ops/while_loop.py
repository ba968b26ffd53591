"""`while_loop`, where PyTorch has it."""

from .control_flow import while_loop

__all__ = ["while_loop"]
