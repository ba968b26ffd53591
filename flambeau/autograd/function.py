"""`Function` and its helpers, under the name PyTorch has them."""

from .._autograd.functions import BackwardFunction as BackwardCFunction
from .._autograd.functions import Function, FunctionCtx, InplaceFunction, once_differentiable

_ContextMethodMixin = FunctionCtx  # its older name

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
