"""Handles of hooks, and how hooks of modules see the gradients of the module's inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._autograd.functions import Function
from .._autograd.node import RemovableHandle as RemovableHandle
from .._core.state import GRAD
from .._errors.frames import warn_user
from .._tensor import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a hook that is lost when its tensor is saved."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warns about hooks of a tensor that is about to be saved without them."""
    hooks = tensor._autograd_meta.hooks if tensor._autograd_meta is not None else None
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn_user(f"backward hook {hook!r} on tensor will not be serialized")


class BackwardHookFunction(Function):
    """Passes tensors through unchanged, as one node at which all their gradients can be seen."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t._k & GRAD])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class BackwardHook:
    """The hooks of one call of a module: its inputs and its outputs each go through one node, where they are called.

    Hooks for the inputs' gradients wait for those of the outputs; a module without differentiable inputs calls them
    as soon as the outputs' gradients are known.
    """

    def __init__(self, module: Any, user_hooks: Iterable[Any], user_pre_hooks: Iterable[Any]):
        self.module, self.user_hooks, self.user_pre_hooks = module, list(user_hooks), list(user_pre_hooks)
        self.grad_outputs: Any = None
        self.input_count: int | None = None  # None if no input needs a gradient
        self.input_places: list[int] = []

    # -- gradients arrive ----------------------------------------------------------------------------------------

    def _run_hooks(self, grad_inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        replaced = None
        for hook in self.user_hooks:
            result = hook(self.module, grad_inputs, self.grad_outputs)
            if result is None:
                continue
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(grad_inputs):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(result)}, "
                    f"but expected {len(grad_inputs)}"
                )
            grad_inputs = replaced = result
        return replaced

    def _on_outputs(self, gradients: tuple[Any, ...], places: list[int], count: int) -> Any:
        self.grad_outputs = _spread(gradients, places, count)
        changed = False
        for hook in self.user_pre_hooks:
            result = hook(self.module, self.grad_outputs)
            if result is None:
                continue
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != count:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(result)}, but expected {count}"
                )
            self.grad_outputs, changed = result, True
        kept = tuple(self.grad_outputs[i] for i in places)
        if self.input_count is None and self.user_hooks:
            warn_user(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
                "require gradients"
            )
            result = self._run_hooks((None,))
            if result is not None and any(r is not None for r in result):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
            self.grad_outputs = None
        return kept if changed else None

    def _on_inputs(self, gradients: tuple[Any, ...]) -> Any:
        if self.grad_outputs is None:
            return None  # the gradient came to the inputs past the outputs, as in a double backward
        places = self.input_places
        result = self._run_hooks(_spread(gradients, places, self.input_count or 0))
        self.grad_outputs = None
        return None if result is None else tuple(result[i] for i in places)

    # -- the call ------------------------------------------------------------------------------------------------

    def setup_input_hook(self, args: Any) -> Any:
        """The inputs, those that need a gradient passed through a node of ours."""
        passed, node, places = _through_node(args)
        if node is None:
            return args
        self.input_count, self.input_places = len(args), places
        if self.user_hooks:
            node.register_hook(lambda grad_inputs, _: self._on_inputs(grad_inputs))
        return passed

    def setup_output_hook(self, result: Any) -> Any:
        """The result of the module, its tensors passed through a node of ours."""
        alone = not isinstance(result, tuple)
        results = (result,) if alone else result
        passed, node, places = _through_node(results)
        if node is not None:
            count = len(results)
            node.register_prehook(lambda gradients: self._on_outputs(gradients, places, count))
        return passed[0] if alone else passed


def _through_node(values: Any) -> tuple[Any, Any, list[int]]:
    """(values with their tensors passed through one node, that node or None, where the tensors are)."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not any(values[i]._k & GRAD for i in places):
        return values, None, places
    tensors = BackwardHookFunction.apply(*[values[i] for i in places])
    node = next((t._edge[0] for t in tensors if t._edge is not None), None)
    if node is None:  # gradients are switched off
        return values, None, places
    passed = list(values)
    for i, t in zip(places, tensors):
        passed[i] = t
    return type(values)(*passed) if hasattr(values, "_fields") else tuple(passed), node, places


def _spread(gradients: Any, places: list[int], count: int) -> tuple[Any, ...]:
    full: list[Any] = [None] * count
    for i, g in zip(places, gradients):
        full[i] = g
    return tuple(full)
