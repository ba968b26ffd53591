"""`ModuleTracker`: which modules are running now, forward and backward."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from .._autograd.modes import is_grad_enabled
from .._tensor import Tensor
from ..autograd.graph import register_multi_grad_hook
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside of a `with` block, `parents` holds the names of the modules that run, and "Global".

    >>> import flambeau as torch
    >>> from flambeau.utils.module_tracker import ModuleTracker
    >>> model, seen = torch.nn.Sequential(torch.nn.ReLU()), []
    >>> with ModuleTracker() as tracker:
    ...     handle = model[0].register_forward_pre_hook(lambda *_: seen.append(sorted(tracker.parents)))
    ...     out = model(torch.ones(1))
    >>> seen
    [['Global', 'Sequential', 'Sequential.0']]
    """

    def __init__(self) -> None:
        self.parents = {"Global"}
        self.is_bw = False
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._handles: list[Any] = []

    def _name(self, module: Module) -> str:
        if module not in self._names:
            root = type(module).__name__
            for path, part in module.named_modules():
                if part not in self._names:
                    self._names[part] = f"{root}.{path}" if path else root
        return self._names[module]

    def _watched(self, tree: Any) -> list[Tensor]:
        return [t for t in tree_leaves(tree) if isinstance(t, Tensor) and t.requires_grad] if is_grad_enabled() else []

    def _enter(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        tensors = self._watched(args)
        if tensors:

            def leave(_: Any) -> None:
                self.parents.discard(name)

            self._handles.append(register_multi_grad_hook(tensors, leave))

    def _leave(self, module: Module, args: Any, out: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        tensors = self._watched(out)
        if tensors:

            def enter(_: Any) -> None:
                if not self.is_bw:
                    self._begin_backward()
                self.parents.add(name)

            self._handles.append(register_multi_grad_hook(tensors, enter, mode="any"))

    def _begin_backward(self) -> None:
        from ..autograd import Variable

        self.is_bw = True
        before = self.parents
        self.parents = {"Global"}

        def end() -> None:
            self.is_bw, self.parents = False, before

        Variable._execution_engine.queue_callback(end)

    def __enter__(self) -> ModuleTracker:
        self._handles += [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
