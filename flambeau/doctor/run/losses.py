"""What goes into losses: where inputs came from, dtypes and shapes of targets."""

from __future__ import annotations

from typing import Any

from ... import Tensor, float32, float64
from ..._observe.frames import here
from ...nn import functional as F
from .errors import Errors
from .session import Session

# Nodes that only change the form of a value.
_FORMS = (
    "View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Permute", "Slice", "Select", "Clone", "ToCopy", "TBackward",
    "AsStrided", "Index", "Expand", "Alias",
)  # fmt: skip
_CLASSES = ("cross_entropy", "nll_loss")
_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_DIFFERENCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


def producer(tensor: Any) -> str:
    """The name of the operation that made a value, with changes of form looked through."""
    # not grad_fn, which costs more and changes the node's class
    edge = tensor._edge if isinstance(tensor, Tensor) else None
    for _ in range(8):
        if edge is None:
            return ""
        node = edge[0]
        if isinstance(node, Tensor):
            return "AccumulateGrad"
        name: str = node.name()
        if not name.startswith(_FORMS):
            return name
        edge = next((e for e in node.edges if e is not None), None)
    return ""


class Losses:
    """Watches the functions that compute losses; modules of losses call the same ones."""

    def __init__(self, session: Session, errors: Errors) -> None:
        self.session, self.errors = session, errors
        self.listeners: list[Any] = []  # called with (name, input, target, result, place)
        for name in (*_CLASSES, *_BINARY, *_DIFFERENCES):
            session.patches.wrap(F, name, lambda original, name=name: self._watched(original, name))

    def _watched(self, original: Any, name: str) -> Any:
        def loss(*args: Any, **kwargs: Any) -> Any:
            if self.session.pausing:
                return original(*args, **kwargs)
            source = args[0] if args else kwargs.get("input")
            target = args[1] if len(args) > 1 else kwargs.get("target")
            tensors = isinstance(source, Tensor) and isinstance(target, Tensor)
            refused = tensors and self.check(name, source, target)
            self.session.pausing += 1
            try:
                result = original(*args, **kwargs)
            except Exception as error:
                self.session.pausing -= 1
                self.errors.failed(error)
                self.errors.explained |= refused
                raise
            self.session.pausing -= 1
            if tensors:
                for listener in self.listeners:
                    listener(name, source, target, result)
            return result

        return loss

    def check(self, name: str, source: Any, target: Any) -> bool:
        """Looks at the two tensors of a loss; whether the targets are of a dtype that it must refuse."""
        refused, find, made = False, self.session.find, producer(source)
        shapes = f"input {tuple(source.shape)} {source.dtype}, target {tuple(target.shape)} {target.dtype}"
        if name in _CLASSES:
            if made.startswith("Softmax"):
                if name == "cross_entropy":
                    find(
                        "softmax-before-cross-entropy",
                        here(),
                        "The input of this cross entropy comes out of a softmax; it takes logits.",
                        0.97,
                        shapes,
                    )
                else:
                    find(
                        "softmax-into-nll",
                        here(),
                        "The input of this NLL loss comes out of a softmax; it takes log-probabilities.",
                        0.97,
                        shapes,
                    )
            if target.dtype.is_floating_point and target.ndim == source.ndim - 1:
                refused = True
                find("float-class-targets", here(), f"Class targets have dtype {target.dtype}.", 0.97, shapes)
        elif name in _BINARY:
            if made.startswith("Sigmoid"):
                if name == "binary_cross_entropy":
                    find(
                        "sigmoid-and-bce",
                        here(),
                        "A sigmoid and BCELoss are computed one after the other.",
                        0.95,
                        shapes,
                    )
                else:
                    find(
                        "sigmoid-before-logits-loss",
                        here(),
                        "The input of this loss already went through a sigmoid; it takes logits.",
                        0.97,
                        shapes,
                    )
            if not target.dtype.is_floating_point and not target.dtype.is_complex:
                refused = True
                find(
                    "integer-bce-targets",
                    here(),
                    f"The targets of this binary loss have dtype {target.dtype}.",
                    0.97,
                    shapes,
                )
        if name not in _CLASSES and source.shape != target.shape and _grows(source, target):
            find(
                "accidental-broadcast",
                here(),
                f"{tuple(source.shape)} and {tuple(target.shape)} are broadcast to a table of all pairs.",
                0.95,
                shapes,
            )
        if source.dtype is float32 and target.dtype is float64:
            find(
                "float64-data",
                here(),
                "The targets are float64: the loss and all gradients are computed in float64.",
                0.85,
                shapes,
            )
        return refused


def _grows(a: Any, b: Any) -> bool:
    """(N, 1) with (N,), or the other way round: one more dimension appears."""
    if a.ndim == b.ndim:
        return False
    larger, smaller = (a, b) if a.ndim > b.ndim else (b, a)
    n = smaller.shape[-1] if smaller.ndim else 1
    return smaller.ndim >= 1 and n > 1 and larger.shape[-1] == 1 and larger.shape[-2] == n
