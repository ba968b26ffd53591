"""`Variable`: what tensors with history were called once; programs of that time still make them."""

from __future__ import annotations

from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor, detached


class VariableMeta(type):
    """Every tensor counts as a `Variable`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """A tensor over the same memory, without history, that may require gradients.

    >>> import flambeau as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> type(x), isinstance(torch.ones(1), torch.autograd.Variable)
    (<class 'flambeau.Tensor'>, True)
    """

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            return ops.empty((0,), requires_grad=requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable(): argument 'data' must be Tensor, not {type(data).__name__}")
        return ops.requires_grad_(detached(data), requires_grad)
