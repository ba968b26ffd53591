"""`OptimizedModule` where PyTorch keeps it, and what is supported."""

from collections.abc import Callable
from typing import Any

from ..compiler import OptimizedModule, disable, original

__all__ = ["OptimizedModule", "disable", "innermost_fn", "is_dynamo_supported", "is_inductor_supported"]


def is_dynamo_supported() -> bool:
    """Whether `torch.compile` can be called."""
    return True


def is_inductor_supported() -> bool:
    """Whether `torch.compile` can be called with its own backend."""
    return True


def innermost_fn(fn: Callable[..., Any], unaltered_fn_attr: str = "_torchdynamo_orig_callable") -> Callable[..., Any]:
    """The function that was given to `torch.compile` or `disable`, however often.

    >>> import flambeau as torch
    >>> torch._dynamo.eval_frame.innermost_fn(torch.compile(len)) is len
    True
    """
    while (given := original(fn, unaltered_fn_attr)) is not fn:
        fn = given
    return fn
