"""Hooks of modules: how they are registered, for one module or for all, and a call of a module that has some."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ...utils.hooks import BackwardHook, RemovableHandle

# Hooks of all modules. The registration hooks see what is assigned to a module.
_global_backward_pre_hooks: dict[int, Any] = OrderedDict()
_global_backward_hooks: dict[int, Any] = OrderedDict()
_global_forward_pre_hooks: dict[int, Any] = OrderedDict()
_global_forward_hooks: dict[int, Any] = OrderedDict()
_global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: dict[int, Any] = OrderedDict()
_global_module_registration_hooks: dict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: dict[int, Any] = OrderedDict()
_global_kind: dict[str, bool | None] = {"full": None}  # whether the backward hooks are full ones


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks
        or _global_backward_hooks
        or _global_forward_pre_hooks
        or _global_forward_hooks
        or _global_forward_hooks_always_called
        or _global_forward_hooks_with_kwargs
    )


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, buffer) when a module gets a buffer; what it returns is registered instead."""
    return RemovableHandle(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, submodule) when a module gets a submodule; what it returns is registered instead."""
    return RemovableHandle(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, parameter) when a module gets a parameter; what it returns is registered instead."""
    return RemovableHandle(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, args) before the forward of every module."""
    return RemovableHandle(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls hook(module, args, output) after the forward of every module."""
    extra = [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    handle = RemovableHandle(_global_forward_hooks, hook, extra_dict=extra)
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of `register_module_full_backward_hook`, which sees only the last operation of a module."""
    if _global_kind["full"] is True:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook; use only one of them"
        )
    _global_kind["full"] = False
    return RemovableHandle(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, grad_output) before the gradients of every module are computed."""
    return RemovableHandle(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, grad_input, grad_output) when the gradients of a module's inputs are known."""
    if _global_kind["full"] is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook; use only one of them"
        )
    _global_kind["full"] = True
    return RemovableHandle(_global_backward_hooks, hook)


class HookMethods:
    """The part of `Module` that registers hooks and runs calls with them."""

    forward: Callable[..., Any]
    _backward_pre_hooks: dict[int, Any]
    _backward_hooks: dict[int, Any]
    _is_full_backward_hook: bool | None
    _forward_hooks: dict[int, Any]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _forward_pre_hooks: dict[int, Any]
    _forward_pre_hooks_with_kwargs: dict[int, bool]

    # -- registration --------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args) before each forward; what it returns replaces the arguments.

        With `with_kwargs` it gets the keyword arguments too and returns both.
        """
        handle = RemovableHandle(self._forward_pre_hooks, hook, extra_dict=self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return _placed(handle, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls hook(module, args, output) after each forward; what it returns, if anything, replaces the output.

        >>> import flambeau as torch
        >>> module = torch.nn.Identity()
        >>> handle = module.register_forward_hook(lambda module, args, output: output + 1)
        >>> module(torch.zeros(2))
        tensor([1., 1.])
        """
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = RemovableHandle(self._forward_hooks, hook, extra_dict=extra)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return _placed(handle, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) before the module's gradients; what it returns replaces grad_output."""
        return _placed(RemovableHandle(self._backward_pre_hooks, hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) once the inputs' gradients are known.

        What it returns, if anything, replaces grad_input.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module; use only one of them"
            )
        self._is_full_backward_hook = True
        return _placed(RemovableHandle(self._backward_hooks, hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of `register_full_backward_hook`, which sees only the module's last operation."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module; use only one of them"
            )
        self._is_full_backward_hook = False
        return RemovableHandle(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """(full, older) backward hooks, the global ones first."""
        full: list[Any] = []
        older: list[Any] = []
        if _global_kind["full"] is not None:
            (full if _global_kind["full"] else older).extend(_global_backward_hooks.values())
        if self._is_full_backward_hook is not None:
            (full if self._is_full_backward_hook else older).extend(self._backward_hooks.values())
        return full, older

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    # -- the call ------------------------------------------------------------------------------------------------

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # the result so far, and those of the hooks that were called already of the ones that are called in any case
        progress: tuple[list[Any], set[int]] = ([None], set())
        try:
            return self._run_with_hooks(args, kwargs, *progress)
        except Exception:
            self._call_remaining(args, kwargs, *progress)
            raise

    def _run_with_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], results: list[Any], called: set[int]
    ) -> Any:
        full, older, pre = [], [], []
        if self._backward_hooks or _global_backward_hooks:
            full, older = self._get_backward_hooks()
        if self._backward_pre_hooks or _global_backward_pre_hooks:
            pre = self._get_backward_pre_hooks()
        args, kwargs = self._run_pre_hooks(args, kwargs)
        backward = None
        if full or pre:
            backward = BackwardHook(self, full, pre)
            args = backward.setup_input_hook(args)
        result = results[0] = self.forward(*args, **kwargs)
        hooks = [(i, h, i in _global_forward_hooks_with_kwargs) for i, h in _global_forward_hooks.items()]
        always = [_global_forward_hooks_always_called] * len(hooks)
        hooks += [(i, h, i in self._forward_hooks_with_kwargs) for i, h in self._forward_hooks.items()]
        always += [self._forward_hooks_always_called] * (len(hooks) - len(always))
        for (i, hook, with_kwargs), called_in_any_case in zip(hooks, always):
            if i in called_in_any_case:
                called.add(i)
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = results[0] = changed
        if backward is not None:
            if not isinstance(result, (Tensor, tuple)):
                warn_user(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                    f"{type(result)}"
                )
            result = backward.setup_output_hook(result)
        if older:
            self._add_older_hooks(older, result, args)
        return result

    def _run_pre_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        for i, hook in itertools.chain(list(_global_forward_pre_hooks.items()), list(self._forward_pre_hooks.items())):
            if i in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _call_remaining(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], results: list[Any], called: set[int]
    ) -> None:
        """After an error, the hooks that are called in any case."""
        for hooks, always, named in (
            (_global_forward_hooks, _global_forward_hooks_always_called, _global_forward_hooks_with_kwargs),
            (self._forward_hooks, self._forward_hooks_always_called, self._forward_hooks_with_kwargs),
        ):
            for i, hook in hooks.items():
                if i in always and i not in called:
                    try:
                        hook(self, args, kwargs, results[0]) if i in named else hook(self, args, results[0])
                    except Exception as error:
                        warn_user(f"a forward hook with always_call raised an exception that was silenced: {error}")

    def _add_older_hooks(self, hooks: list[Any], result: Any, args: Any) -> None:
        found = result
        while not isinstance(found, Tensor):
            if isinstance(found, dict):
                found = next(v for v in found.values() if isinstance(v, Tensor))
            else:
                found = found[0]
        node = found.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(partial(_call_older, self, hook))
            self._maybe_warn_non_full_backward_hook(args, result, node)

    def _maybe_warn_non_full_backward_hook(self, inputs: Any, result: Any, grad_fn: Any) -> None:
        """Warns where an older backward hook does not see the gradients of the module's inputs."""
        results = result if isinstance(result, tuple) else (result,)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        problem = None
        if not all(isinstance(r, Tensor) for r in results):
            problem = "does not return a single Tensor or a tuple of Tensors"
        elif not all(isinstance(i, Tensor) for i in inputs):
            problem = "does not take as input a single Tensor or a tuple of Tensors"
        elif len({r.grad_fn for r in results}) != 1:
            problem = "is not one operation: outputs are generated by different autograd Nodes"
        else:
            sources = {i.grad_fn for i in inputs if i.grad_fn is not None}
            below = {n[0] for n in grad_fn.next_functions}
            if sources != below:
                problem = "is not one operation: the forward contains multiple autograd Nodes"
        if problem:
            warn_user(
                f"Using a non-full backward hook when the forward {problem}: grad_input will be missing some gradients. "
                "Please use register_full_backward_hook.",
                FutureWarning,
            )


def _placed(handle: RemovableHandle, prepend: bool) -> RemovableHandle:
    if prepend:
        handle.hooks.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
    return handle


def _call_older(module: Any, hook: Any, grad_input: Any, grad_output: Any) -> Any:
    made = hook(module, grad_input, grad_output)
    if made is not None:
        count = len(made) if isinstance(made, tuple) else 1
        if count != len(grad_input):
            raise RuntimeError(
                f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got {count}, but "
                f"expected {len(grad_input)})"
            )
    return made
