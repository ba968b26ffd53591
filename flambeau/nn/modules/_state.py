"""The state of modules: what `state_dict` gathers, and how `load_state_dict` puts it back."""

from __future__ import annotations

import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from ... import __future__ as conversion
from ..._autograd.modes import no_grad
from ..._errors.checkpoints import table
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ...utils import swap_tensors
from ...utils.hooks import RemovableHandle
from ..parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` did not find, and what it had no place for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _exchange(current: Any, value: Any, assign: bool) -> None:
    """Puts what `current.module_load` makes of a loaded tensor in the place of `current`, for all who hold it."""
    new = current.module_load(value, assign=assign)
    if new is value or new is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load"
        )
    if isinstance(current, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(current.requires_grad)
        else:
            new = Parameter(new, requires_grad=current.requires_grad)
    swap_tensors(current, new)


class _ModuleHook:
    """A hook that also gets its module first, which it does not keep alive: the module holds the hook."""

    def __init__(self, hook: Callable[..., Any], module: Any):
        self.hook, self._module = hook, weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        module = self._module()
        if module is None:
            raise RuntimeError("the module of a hook is gone: keep it while its hooks are called")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self._module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self._module = state["hook"], weakref.ref(state["module"])


class StateMethods:
    """The part of `Module` that saves and loads its state."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Any]
    _state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]
    _version: int = 1

    # -- hooks ---------------------------------------------------------------------------------------------------

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """A hook(module, state_dict, prefix, metadata) after `state_dict`, which may return another one."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("the hook was previously registered via register_state_dict_post_hook")
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, metadata) after `state_dict`; it may change the dict in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls hook(module, prefix, keep_vars) before `state_dict`."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._load_state_dict_pre_hooks, _ModuleHook(hook, self) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors) before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls hook(module, incompatible_keys) after loading; it may change the lists of keys in place."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    # -- extra state ---------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else belongs to the state; define it together with `set_extra_state`."""
        raise RuntimeError(
            "get_extra_state is not defined; a module that has extra state defines both it and set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` gave."""
        raise RuntimeError("set_extra_state is not defined, but the state_dict has extra state for this module")

    # -- saving --------------------------------------------------------------------------------------------------

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Adds this module's own state, without that of the modules below."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by dotted name, sharing memory with the module.

        >>> import flambeau as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("total", torch.zeros(2))
        >>> dict(module.state_dict())
        {'total': tensor([0., 0.])}
        """
        if args:
            warn_user("state_dict: give destination, prefix and keep_vars by name", FutureWarning)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    # -- loading -------------------------------------------------------------------------------------------------

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Takes this module's own state from a dict; problems are added to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = ((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        own = {name: value for name, value in chain(self._parameters.items(), persistent) if value is not None}
        for name, current in own.items():
            if prefix + name in state_dict:
                problem = self._load_member(name, current, state_dict[prefix + name], prefix + name, assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(prefix + name)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _load_member(self, name: str, current: Any, value: Any, key: str, assign: bool) -> str | None:
        """Loads one parameter or buffer; returns what was wrong with it."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                f"but received {type(value)}"
            )
        if not is_lazy(current):
            if current.ndim == 0 and value.ndim == 1 and value.shape[0] == 1:
                value = value[0]  # old files hold single numbers as vectors
            if value.shape != current.shape and not is_lazy(value):
                return (
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                    f"the shape in current model is {current.shape}."
                )
            if current.is_meta and not value.is_meta and not assign:
                warn_user(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                    "model, which is a no-op; pass assign=True to take the checkpoint's tensors"
                )
        try:
            with no_grad():
                if conversion.get_swap_module_params_on_conversion():
                    _exchange(current, value, assign)
                elif assign:
                    self._assign_member(name, current, value)
                else:
                    current.copy_(value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {current.size()} and whose '
                f"dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
            )
        return None

    def _assign_member(self, name: str, current: Any, value: Any) -> None:
        if isinstance(current, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(current.requires_grad)
            else:
                value = Parameter(value, requires_grad=current.requires_grad)
        setattr(self, name, value)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copies parameters and buffers from a dict made by `state_dict`; with `assign` takes the tensors themselves.

        With `strict`, names that are missing or unknown are an error that lists them all.

        >>> import flambeau as torch
        >>> module = torch.nn.Module()
        >>> module.register_buffer("total", torch.zeros(2))
        >>> module.load_state_dict({"total": torch.ones(2)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        values = OrderedDict(state_dict)
        if metadata is not None:
            values._metadata = metadata  # type: ignore[attr-defined]

        def load(
            load: Any, module: Any, values: Any, prefix: str = ""
        ) -> None:  # given itself: no cycle is left behind
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(values, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(load, child, {k: v for k, v in values.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "load_state_dict post hooks are not expected to return new values: change the lists of keys in place"
                    )

        load(load, self, values)
        if strict:
            for text, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{text} key(s) in state_dict: {listed}. ")
        if errors:
            known = {**dict(self.named_parameters()), **dict(self.named_buffers())}  # state_dict() would call hooks
            fit = table(missing if strict else [], unexpected if strict else [], known, values)
            listed = "\n\t".join([*errors, fit] if fit else errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)
