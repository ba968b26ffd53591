"""`Resize` and `Type`, as functions with a derivative of their own."""

from __future__ import annotations

import math
from typing import Any

from ..._autograd.functions import Function
from ..._ops.registry import ops


class Type(Function):
    """Casts to another dtype; the gradient is cast back."""

    @staticmethod
    def forward(ctx: Any, i: Any, dest_type: Any) -> Any:
        ctx.before = i.dtype
        return ops.type(i, dest_type)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return ops.to_dtype(grad_output, ctx.before), None


class Resize(Function):
    """The same elements in another shape."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, sizes: Any) -> Any:
        if math.prod(sizes) != tensor.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({math.prod(sizes)} elements in total), but the given "
                f"tensor has a size of {'x'.join(map(str, tensor.shape))} ({tensor.numel()} elements)"
            )
        ctx.before = tensor.shape
        return ops.view(tensor, sizes) if tensor.is_contiguous() else ops.reshape(ops.clone(tensor), sizes)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return ops.reshape(grad_output, ctx.before), None
