"""`OptimizedModule` where PyTorch keeps it, and what is supported."""

from ..compiler import OptimizedModule, disable

__all__ = ["OptimizedModule", "disable", "is_dynamo_supported", "is_inductor_supported"]


def is_dynamo_supported() -> bool:
    """Whether `torch.compile` can be called."""
    return True


def is_inductor_supported() -> bool:
    """Whether `torch.compile` can be called with its own backend."""
    return True
