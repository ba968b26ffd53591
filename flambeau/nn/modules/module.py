"""`Module`, the base of all layers and models: what is assigned to it, how it is called, moved and printed."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ... import __future__ as conversion
from ..._autograd.modes import no_grad
from ..._autograd.node import is_leaf
from ..._core.devices import device
from ..._core.state import DISPATCH, META
from ..._core.steps import python_step
from ..._errors.frames import warn_user
from ..._errors.places import locate
from ..._ops.making.conversion import to_arguments
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..._tensor.constructors import typename
from ...utils import swap_tensors
from ...utils.hooks import RemovableHandle as RemovableHandle
from ..parameter import Buffer, Parameter
from ._hooks import (
    HookMethods,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)  # fmt: skip
from ._state import _EXTRA_STATE_KEY_SUFFIX, StateMethods, _IncompatibleKeys
from ._tree import TreeMethods

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip
# Reached as attributes of this file by those who look at them.
_PRIVATE = (
    _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys, _global_forward_hooks_always_called, _global_forward_hooks_with_kwargs,
    _has_any_global_hook,
)  # fmt: skip
# Dictionaries of hooks that every module has.
_HOOK_TABLES = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _addindent(text: str, spaces: int) -> str:
    """The text with all lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


class Module(TreeMethods, StateMethods, HookMethods):
    """Base of all layers and models: parameters, buffers and submodules assigned to it are registered.

    >>> import flambeau as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Scale()(torch.ones(2))
    tensor([2., 2.], grad_fn=<MulBackward0>)
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            got = f"got an unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else None
            got = got or f"takes 1 positional argument but {len(args) + 1} were given"
            raise TypeError(f"{type(self).__name__}.__init__() {got}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            own[table] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- the call ------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:
        forward: Callable[..., Any]  # subclasses choose their arguments
    else:

        def forward(self, *input: Any) -> Any:
            """What the module computes; every subclass defines it."""
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__  # attributes of modules are slow to look up: `__getattr__` stands behind them
        try:
            plain = not (
                own["_forward_hooks"]
                or own["_forward_pre_hooks"]
                or own["_backward_hooks"]
                or own["_backward_pre_hooks"]
                or _global_forward_hooks
                or _global_forward_pre_hooks
                or _global_backward_hooks
                or _global_backward_pre_hooks
                or "_compiled_call_impl" in own
            )
        except KeyError as error:
            raise self._not_initialized(error.args[0]) from None
        try:
            if plain:
                if len(args) == 1 and not kwargs:  # the interpreter calls this form without detours
                    return self.forward(args[0])
                return self.forward(*args, **kwargs)
            return self._wrapped_call_impl(*args, **kwargs)
        except Exception as error:
            locate(error, self, args)
            raise

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call as it runs when the module is not compiled."""
        own = self.__dict__
        if not (
            own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or _has_any_global_hook()
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _slow_forward(self, *input: Any, **kwargs: Any) -> Any:
        return self.forward(*input, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles what the module computes; takes the options of `compile`."""
        from ... import compile as compile_function  # the compiler is loaded by those who use it

        self._compiled_call_impl = compile_function(self._call_impl, *args, **kwargs)

    # -- attributes ----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:
            found = own["_parameters"]
            if name in found:
                return found[name]
            found = own["_modules"]
            if name in found:
                return found[name]
            found = own["_buffers"]
            if name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Tensor) and isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            own["_modules"][name] = _seen_by(_global_module_registration_hooks, self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            own["_modules"][name] = _seen_by(_global_module_registration_hooks, self, name, value)
        elif name in own.get("_buffers", ()) or (isinstance(value, Tensor) and isinstance(value, Buffer)):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_buffers" not in own:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if value is not None and not isinstance(value, Tensor) and not hasattr(value, "__torch_function__"):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if name not in own["_buffers"]:
            if getattr(value, "persistent", True):
                self.register_buffer(name, value)  # which a subclass may have with two arguments
            else:
                self.register_buffer(name, value, False)
            return
        own["_buffers"][name] = _seen_by(_global_buffer_registration_hooks, self, name, value)
        if value is not None and isinstance(value, Buffer):
            if value.persistent:
                self._non_persistent_buffers_set.discard(name)
            else:
                self._non_persistent_buffers_set.add(name)

    def _forget(self, name: str, *tables: str) -> None:
        """Takes a name out of everything else, before it is registered anew."""
        own = self.__dict__
        own.pop(name, None)
        for table in tables:
            own[table].pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    def _not_initialized(self, name: str) -> AttributeError:
        return AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}': its __init__ must call super().__init__() first"
        )

    # -- registration --------------------------------------------------------------------------------------------

    def _check_name(self, name: str, what: str, table: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None stands for one that the module does not have."""
        self._check_name(name, "parameter", "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
                )
            if not is_leaf(param):
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}': parameters are made, not computed; to make it a "
                    "function of another tensor, compute it in forward()"
                )
            param = _seen_by(_global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not a parameter; a persistent one is part of `state_dict`.

        >>> import flambeau as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("running", torch.zeros(1))
        >>> module.running
        tensor([0.])
        """
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor) and not hasattr(tensor, "__torch_function__"):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _seen_by(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = _seen_by(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    # -- changing all tensors ------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Calls fn with every module below and with this one last; returns this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replaces every parameter, gradient and buffer by fn of it; parameters stay the same objects where possible."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for name, parameter in self._parameters.items():
                if parameter is not None:
                    self._apply_to_parameter(fn, name, parameter)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def _apply_to_parameter(self, fn: Callable[[Tensor], Tensor], name: str, parameter: Any) -> None:
        value, grad = fn(parameter), parameter.grad
        target = parameter
        if conversion.get_swap_module_params_on_conversion():
            if grad is not None:
                parameter.grad, grad = None, fn(grad).requires_grad_(grad.requires_grad)
            if value is not parameter:
                if type(value) is Tensor:
                    value = Parameter(value, parameter.requires_grad)
                swap_tensors(parameter, value)
            parameter.grad = grad
            return
        if (
            (value._k ^ parameter._k) & META
            or value._k & DISPATCH
            or conversion.get_overwrite_module_params_on_conversion()
        ):
            # another object: to or from a tensor without memory, or because the program wants it
            target = self._parameters[name] = Parameter(value, parameter.requires_grad)
        elif value is not parameter:
            parameter.data = value
        if grad is None:
            return
        if target is parameter:
            grad.data = fn(grad)
        else:
            target.grad = fn(grad).requires_grad_(grad.requires_grad)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Moves the module to a device or to a floating dtype, or both; changes it in place and returns it.

        >>> import flambeau as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("total", torch.zeros(2))
        >>> module.to(torch.float64).total
        tensor([0., 0.], dtype=torch.float64)
        """
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument")
        kwargs.setdefault("non_blocking", False)
        dtype, where, _, format = to_arguments(args, kwargs)
        if dtype is not None and dtype.category < 2:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.category == 3:
            warn_user("Complex modules are a new feature: not every layer computes with complex parameters")

        def convert(t: Any) -> Any:
            options = {} if format is None or t.dim() not in (4, 5) else {"memory_format": format}
            try:
                return t.to(device=where, dtype=dtype if t.dtype.category >= 2 else None, **options)
            except NotImplementedError as error:
                if "out of meta" not in str(error):
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from "
                    "meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Moves the module to a device without copying: its tensors there are not initialised."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse)

    def cpu(self) -> Any:
        """Moves the module to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Moves the module to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device: Any = None) -> Any:
        return self.to(_device("xpu", device))

    def ipu(self, device: Any = None) -> Any:
        return self.to(_device("ipu", device))

    def mtia(self, device: Any = None) -> Any:
        return self.to(_device("mtia", device))

    def type(self, dst_type: Any) -> Any:
        """Converts all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Converts floating parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Converts floating parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Converts floating parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Converts floating parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self) -> Any:
        """Moves all parameters and buffers to memory that other processes can see."""
        return self._apply(lambda t: t.share_memory_())

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether all parameters get gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    @python_step
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or fills them with zeros."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def train(self, mode: bool = True) -> Any:
        """Switches to training, for layers that compute differently then, such as dropout."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Switches to evaluation: the same as `train(False)`."""
        return self.train(False)

    # -- printing and copying ------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of a printed module."""
        return ""

    def _repr_html_(self) -> str:
        """What notebooks show: a table of the modules inside."""
        from ...drawing import summary  # only notebooks need it

        return summary(self)._repr_html_()

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if len(lines) > 1 or self._modules:
            lines += [f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()]
            return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"
        return f"{self._get_name()}({extra})"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)  # compiled again where it is needed
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        for table in _HOOK_TABLES:
            own.setdefault(table, OrderedDict())
        own.setdefault("_non_persistent_buffers_set", set())
        own.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self) -> Any:
        """A module of the same kind with tables of its own, whose parameters are then set to those of another device."""
        replica = self.__new__(self.__class__)
        replica.__dict__ = self.__dict__.copy()
        replica.__dict__.update(
            _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica


def _seen_by(hooks: dict[int, Any], module: Module, name: str, value: Any) -> Any:
    """What is to be registered, after the hooks have seen it."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


class _HookTables(ModuleType):
    """This file as a module: an assignment to one of the global tables of hooks replaces the hooks in it.

    Programs reset them so (`module._global_forward_hooks = OrderedDict()`); others hold the tables themselves.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        table = self.__dict__.get(name) if name.startswith("_global_") else None
        if isinstance(table, dict) and table is not value:
            entries = dict(value)
            table.clear()
            table.update(entries)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _HookTables


def _device(kind: str, index: Any) -> Any:
    return index if isinstance(index, (str, device)) else device(kind, index or 0)
