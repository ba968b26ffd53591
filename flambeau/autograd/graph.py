"""The recorded graph: its nodes, hooks on saved tensors, edges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from .._autograd.engine import will_run
from .._autograd.functions import FunctionCtx
from .._autograd.modes import no_grad
from .._autograd.node import Node as RecordedNode
from .._autograd.node import RemovableHandle, gradient_function, is_leaf
from .._core.state import GRAD, SAVED_HOOKS, local, modes
from .._ops.registry import ops
from .._tensor import Tensor, bump, detached, storage_of


class _Kind(type):
    """What counts as a node: those of operations, and the `ctx` of a Function, which stands for one."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (RecordedNode, FunctionCtx))

    def __subclasscheck__(cls, x: type) -> bool:
        return x is cls or issubclass(x, (RecordedNode, FunctionCtx))


class Node(metaclass=_Kind):
    """A node of the graph, for `isinstance` and annotations; the classes of nodes do not inherit from it."""


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: the node that made it and the number of the output."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad."""
    if not tensor._k & GRAD:
        raise RuntimeError("It is not possible to get the gradient edge: the tensor does not require gradients")
    if is_leaf(tensor):
        return GradientEdge(gradient_function(tensor), 0)
    node, number = tensor._edge
    node.__dict__.setdefault("shapes", {})[number] = tensor._array.shape, tensor.dtype
    return GradientEdge(gradient_function(node), number)


class saved_tensors_hooks:
    """A block in which tensors kept for backward go through `pack_hook`, and through `unpack_hook` when needed.

    >>> import flambeau as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v)):
    ...     y = x * x
    >>> y.sum().backward(); x.grad
    tensor([6.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _disabled:
            raise RuntimeError(_disabled[-1])
        if any(kind != "Jvp" for _, kind in local.transforms):
            raise RuntimeError("torch.func.{grad, vjp, jacrev, hessian} don't support saved tensor hooks")
        local.saved_hooks = (*local.saved_hooks, (self.pack_hook, self.unpack_hook))
        modes.enter(SAVED_HOOKS)

    def __exit__(self, *error: Any) -> None:
        local.saved_hooks = local.saved_hooks[:-1]
        modes.leave(SAVED_HOOKS)


class save_on_cpu(saved_tensors_hooks):
    """A block in which saved tensors are moved to the CPU until backward needs them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        def pack(t: Tensor) -> Any:
            return t.device, ops.to(detached(t), "cpu")

        def unpack(packed: Any) -> Tensor:
            return ops.to(packed[1], packed[0])

        super().__init__(pack, unpack)


_disabled: list[str] = []


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """A block in which using `saved_tensors_hooks` raises."""

    def __init__(self, error_message: str):
        self.message = error_message

    def __enter__(self) -> None:
        if local.saved_hooks:
            raise RuntimeError(self.message)
        _disabled.append(self.message)

    def __exit__(self, *error: Any) -> None:
        _disabled.pop()


class _Handle:
    """Stands for a saved tensor: it is alive as long as a node needs the tensor's value."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class _SavedUntilWritten:
    """What a block of `allow_mutation_on_saved_tensors` knows of the tensors saved in it."""

    def __init__(self) -> None:
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[Any, _Handle] = WeakValueDictionary()

    def pack(self, t: Tensor) -> _Handle:
        t = detached(t)
        storage, array = storage_of(t), t._array
        start = array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr
        key = id(storage), storage.version, start, array.shape, array.strides, t.dtype, t._k
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _Handle(t)
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        if getattr(local.before_write, "__self__", None) is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded: call backward inside of it."
            )
        return self.cloned.get(handle, handle.tensor)

    def before_write(self, t: Tensor) -> None:
        """Copies what was saved of the memory of `t` and is still needed."""
        storage = t._storage
        if storage is not None:
            for handle in list(self.tid_to_weakhandle.values()):
                if handle.tensor._storage is storage and handle not in self.cloned:
                    with no_grad():
                        self.cloned[handle] = ops.clone(handle.tensor)

    def clear(self) -> None:
        self.cloned.clear()
        self.tid_to_weakhandle.clear()


class allow_mutation_on_saved_tensors:
    """A block in which tensors that were saved may be written to: the value that backward needs is copied before.

    >>> import flambeau as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y * y
    ...     y.zero_()
    ...     z.sum().backward()
    tensor([0.], grad_fn=<ZeroBackward0>)
    >>> x.grad
    tensor([6.])
    """

    def __init__(self) -> None:
        self.kept = _SavedUntilWritten()
        self.hooks = saved_tensors_hooks(self.kept.pack, self.kept.unpack)

    def __enter__(self) -> _SavedUntilWritten:
        if local.before_write is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self.hooks.__enter__()
        local.before_write = self.kept.before_write
        return self.kept

    def __exit__(self, *error: Any) -> None:
        local.before_write = None
        self.kept.clear()
        self.hooks.__exit__(*error)


def increment_version(tensor: Any) -> None:
    """Counts a write that was made behind autograd's back."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        bump(t)


def register_multi_grad_hook(tensors: Any, fn: Callable[..., Any], *, mode: str = "all") -> RemovableHandle:
    """Calls `fn` with the gradients of several tensors, once all (or any) of them are there."""
    tensors = list(tensors)
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [gradient_function(*(t._edge or (t, 0))) for t in tensors]
    lock, handles = Lock(), []
    states: dict[int, list[Any]] = {}  # of each backward pass: how many gradients are awaited, and those that came

    def hook_for(i: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            number = local.walk.number
            with lock:
                state = states.get(number)
                first = state is None
                if state is None:
                    state = states[number] = [sum(map(will_run, nodes)), [None] * len(tensors)]
                state[0] -= 1
                state[1][i] = g
                last = not state[0]
                if last:
                    del states[number]
            if mode == "any" and first:
                fn(g)
            elif mode == "all" and last:
                fn(state[1])

        return hook

    for i, t in enumerate(tensors):
        handles.append(t.register_hook(hook_for(i)))

    class _Many(RemovableHandle):
        def __init__(self) -> None:
            pass

        def remove(self) -> None:
            for handle in handles:
                handle.remove()

    return _Many()


# -- streams and budgets: of GPUs' backward threads and of compiled programs, of which there are none ----------------


def _a_bool(enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn when a gradient is added in another stream than its tensor's; there is one stream of backward."""
    _a_bool(enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Whether backward leaves a stream whose capture is over; nothing captures backward's stream."""
    _a_bool(enabled)


def region_activation_memory_budget(budget: float) -> Any:
    """The part of activations that a compiled region keeps; only inside of `torch.compile`."""
    raise RuntimeError(
        "torch.autograd.graph.region_activation_memory_budget can only be used inside a torch.compile region; "
        "it has no effect in eager mode."
    )


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "region_activation_memory_budget", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks", "set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip
