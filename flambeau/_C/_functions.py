"""Functions that PyTorch's own tests and wrappers put into a graph."""

from __future__ import annotations

from typing import Any

from .._autograd.node import AccumulateGrad, Node
from .._core.state import GRAD, local
from .._tensor import Tensor, detached

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


def _passed(record: Any, tensors: tuple[Tensor, ...]) -> Any:
    """The same tensors, behind a node of their own."""
    made = tuple(detached(t) for t in tensors)
    if local.grad and any(t._k & GRAD for t in tensors):
        node = Node(record, tuple((t._edge or (t, 0)) if t._k & GRAD else None for t in tensors), (), None)
        if len(made) > 1:
            node.outputs = tuple((t._array.shape, t.dtype, t._k & ~GRAD) for t in made)
        for number, t in enumerate(made):
            t._edge, t._k = (node, number), t._k | GRAD
    return made if len(made) != 1 else made[0]


class DelayedError(Node):
    """Passes tensors on; differentiating through them raises."""

    __slots__ = ()
    backward_name = name = "Error"  # type: ignore[assignment]

    def __init__(self, msg: str, num_inputs: int):
        self.__dict__["message"] = msg

    def __call__(self, *tensors: Tensor) -> Any:
        return _passed(_Raises(self.__dict__["message"]), tensors)


class _Raises:
    name = "error"
    backward_name = "torch::autograd::Error"

    def __init__(self, message: str):
        self.message = message

    def backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        raise RuntimeError(self.message)


class _Nothing:
    name = "undefined_grad"
    backward_name = "torch::autograd::UndefinedGradBackward"

    @staticmethod
    def backward(node: Node, g: Any, create_graph: bool) -> Any:
        return [None for _ in node.edges]


class UndefinedGrad:
    """Passes tensors on; no gradient comes back through them."""

    def __call__(self, *tensors: Tensor) -> Any:
        return _passed(_Nothing, tensors)
