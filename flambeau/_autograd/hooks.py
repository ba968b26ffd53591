"""Hooks of tensors: functions that see gradients on their way, and gradients kept for tensors that are not leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from .._core.state import GRAD, local
from .._tensor import Tensor, meta_of
from . import engine
from .node import RemovableHandle, is_leaf, keep_last


def _check_hookable(t: Tensor) -> None:
    if not t._k & GRAD:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")


def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Calls hook(grad) when the gradient of this tensor is known; what it returns, if anything, replaces it.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> (x * 2).sum().backward(); x.grad
    tensor([20.])
    """
    _check_hookable(self)
    if is_leaf(self):
        meta = meta_of(self)
        if meta.hooks is None:
            meta.hooks = {}
        engine.leaves_are_watched = True
        handle = RemovableHandle(meta.hooks, hook)
        keep_last(meta.hooks)
        return handle
    node, number = self._edge
    if node.pre_hooks is None:
        node.pre_hooks = {}
    handle = RemovableHandle(node.pre_hooks, _on_output(hook, number))
    keep_last(node.pre_hooks)
    return handle


def _on_output(hook: Callable[[Tensor], Any], number: int) -> Callable[[Any], Any]:
    """A hook of one result as a hook of the node that made it."""

    def call(gradients: tuple[Any, ...]) -> Any:
        g = gradients[number]
        changed = hook(g)  # None where only other results of the node have a gradient
        if changed is None:
            return None
        if not isinstance(changed, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
        if g is not None and changed._array.shape != g._array.shape:
            raise RuntimeError(f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value")
        return (*gradients[:number], changed, *gradients[number + 1 :])

    return call


def retain_grad(self: Tensor) -> None:
    """Keeps the gradient of a tensor that is not a leaf in its `.grad`."""
    if not self._k & GRAD:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if local.transforms or local.batches:
        raise RuntimeError(
            "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch "
            "transform: return what you need instead."
        )
    if is_leaf(self):
        return
    meta = meta_of(self)
    if not meta.retains:
        meta.retains = True
        retain(self)


def retain(t: Tensor) -> None:
    """Makes the node behind a tensor fill in its `.grad`."""
    node, number = t._edge
    reference = ref(t)

    def keep(gradients: tuple[Any, ...]) -> None:
        tensor, g = reference(), gradients[number]
        if tensor is not None and g is not None:
            meta = meta_of(tensor)
            meta.grad = engine.clone_like(g, tensor) if meta.grad is None else engine.add(meta.grad, g)

    if node.pre_hooks is None:
        node.pre_hooks = {}
    node.pre_hooks["retain", number] = keep
    keep_last(node.pre_hooks)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Calls hook(tensor) after a gradient was added to the `.grad` of this leaf."""
    _check_hookable(self)
    if not is_leaf(self):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = meta_of(self)
    if meta.post_hooks is None:
        meta.post_hooks = {}
    engine.leaves_are_watched = True
    handle = RemovableHandle(meta.post_hooks, hook)
    keep_last(meta.post_hooks)
    return handle


def follow(t: Tensor, old: Any) -> None:
    """A tensor that keeps its gradient was written to: it is now the gradient of its new value that counts."""
    if old is not None and old[0].pre_hooks:
        old[0].pre_hooks.pop(("retain", old[1]), None)
    if t._edge is not None:
        retain(t)
