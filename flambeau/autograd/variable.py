"""`Variable`: what tensors with history were called once; programs of that time still make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._autograd.engine import queue_callback
from .._ops.registry import ops
from .._tensor import Tensor, detached


class ImperativeEngine:
    """What walks the graph backward."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Has a function called when the backward pass that is running now ends.

        >>> import flambeau as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> engine = torch.autograd.Variable._execution_engine
        >>> handle = x.register_hook(lambda g: engine.queue_callback(lambda: print("done")))
        >>> (x * 2).sum().backward()
        done
        """
        queue_callback(callback)


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

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            return ops.empty((0,), requires_grad=requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable(): argument 'data' must be Tensor, not {type(data).__name__}")
        return ops.requires_grad_(detached(data), requires_grad)
