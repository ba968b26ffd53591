"""What all optimizers share: parameter groups, state, hooks, saving and loading."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from .._autograd import rehearsal
from .._autograd.modes import enable_grad
from .._autograd.node import RemovableHandle
from .._core.dtypes import FLOATING, default, float32, float64
from .._core.state import GRAD, META, local
from .._core.steps import python_step
from .._errors import taught
from .._errors.frames import warn_user
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

StateDict: TypeAlias = dict[str, Any]
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
GlobalOptimizerPreHook: TypeAlias = Callable[..., Any]
GlobalOptimizerPostHook: TypeAlias = Callable[..., None]

_global_optimizer_pre_hooks: dict[int, GlobalOptimizerPreHook] = OrderedDict()
_global_optimizer_post_hooks: dict[int, GlobalOptimizerPostHook] = OrderedDict()


class _RequiredParameter:
    """Stands for a setting without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


# -- helpers that optimizers outside this package import too ------------------------------------------------------


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Device types on which a step may be part of a captured graph."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step that is recorded if the optimizer is differentiable, and otherwise is not."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer, local.grad = local.grad, self.defaults["differentiable"]
        try:
            return func(self, *args, **kwargs)
        finally:
            local.grad = outer

    return step


def _get_value(x: Any) -> Any:
    """A setting as a number."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element as a 0-d tensor; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype in which steps are counted."""
    return float64 if not is_fused and default.float is float64 else float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replaces complex tensors in these lists by views of their parts."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[i] = ops.view_as_real(tensors[i])


def _default_to_fused_or_foreach(params: list[Any], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """(fused, foreach) for optimizers that have both forms; here every form makes the same single pass."""
    return False, False


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    if p.dtype.category < FLOATING or p._k & META:
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: ['cpu', 'cuda'] "
            f"but {p.dtype} and {p.device.type}"
        )


def _check_order(params: Any) -> None:
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections: the order of tensors in sets changes "
            "between runs, so pass a list"
        )


# -- hooks of all optimizers --------------------------------------------------------------------------------------


def register_optimizer_step_pre_hook(hook: GlobalOptimizerPreHook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) before every step of every optimizer."""
    return RemovableHandle(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: GlobalOptimizerPostHook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) after every step of every optimizer."""
    return RemovableHandle(_global_optimizer_post_hooks, hook)


def _register(hooks: Any, hook: Any, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def closure_first(optimizer: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Calls the closure of a step that does nothing before it: (no arguments, the closure's result). None if there is none, or hooks that
    are given it."""
    closure = args[0] if args else named.get("closure")
    hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks, _global_optimizer_pre_hooks
    first = getattr(type(optimizer).step, "closure_first", False)
    if closure is None or not first or any(hooks) or _global_optimizer_post_hooks:
        return None
    with enable_grad():
        return (), closure()


_HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


class Optimizer:
    """Base of all optimizers: holds parameters in groups, each with its settings, and a state for each parameter.

    `params` are tensors, (name, tensor) pairs or dicts with "params" and settings of their own; `defaults` are the
    settings of groups that do not give them. Subclasses write `step`.
    """

    OptimizerPreHook: TypeAlias = Callable[..., Any]
    OptimizerPostHook: TypeAlias = Callable[..., None]

    _optimizer_step_pre_hooks: dict[int, Any]
    _optimizer_step_post_hooks: dict[int, Any]
    _optimizer_state_dict_pre_hooks: Any
    _optimizer_state_dict_post_hooks: Any
    _optimizer_load_state_dict_pre_hooks: Any
    _optimizer_load_state_dict_post_hooks: Any

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        rehearsal.expect()
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {params.type()}"
            )
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        if hasattr(params, "parameters") and not hasattr(params, "__iter__"):
            kind = type(params).__name__
            raise TypeError(
                f"'{kind}' object is not iterable\n  fix: give the optimizer model.parameters(), not the model"
            )
        groups: list[Any] = list(params)
        if not groups:
            raise taught(ValueError("optimizer got an empty parameter list"))
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _make_hooks(self) -> None:
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    # -- as a Python object ----------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"] if i else [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes the parameters once; `closure`, if given, computes the loss (and gradients) first."""
        raise NotImplementedError

    @python_step
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or fills them with zeros.

        >>> import flambeau as torch
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> p.grad = torch.ones(2)
        >>> torch.optim.SGD([p], lr=0.1).zero_grad()
        >>> p.grad is None
        True
        """
        if local.profiler is None:
            self._forget_gradients(set_to_none)
        else:
            local.profiler.labelled(self._zero_grad_profile_name, self._forget_gradients, set_to_none)

    def _forget_gradients(self, set_to_none: bool) -> None:
        if set_to_none:
            for group in self.param_groups:
                for p in group["params"]:
                    meta = p._autograd_meta
                    if meta is not None:
                        meta.grad = None
            return
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is not None:
                    if g._edge is not None:
                        g.detach_()
                    elif g._k & GRAD:
                        g.requires_grad_(False)
                    g.zero_()

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """A step that calls the hooks around it."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if not (before or after or _global_optimizer_pre_hooks or _global_optimizer_post_hooks):
                return func(*args, **kwargs)
            for hook in chain(_global_optimizer_pre_hooks.values(), before.values()):
                result = hook(self, args, kwargs)
                if result is not None:
                    if not isinstance(result, tuple) or len(result) != 2:
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                        )
                    args, kwargs = result
            out = func(*args, **kwargs)
            self._optimizer_step_code()
            for hook in chain(after.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        def split(args: Any, named: Any) -> Any:
            found = closure_first(args[0], args[1:], named)
            return None if found is None else (args[:1], found[1])

        return python_step(wrapper, split)

    def _optimizer_step_code(self) -> None:
        """Called after each step that has hooks: a place for profilers to patch."""

    def _patch_step_function(self) -> None:
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        step = type(self).step
        if not getattr(step, "hooked", None):
            hooked = type(self).profile_hook_step(step)
            hooked.hooked = True  # type: ignore[attr-defined]
            type(self).step = hooked  # type: ignore[method-assign]

    def register_step_pre_hook(self, hook: OptimizerPreHook) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) before each step; it may return new (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: OptimizerPostHook) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) before `state_dict` is made."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) with what `state_dict` made; it may return another."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before one is loaded; it may return another."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Calls hook(optimizer) after a state_dict was loaded."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- saving ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """{"state", "param_groups"}, with parameters replaced by their numbers; states are not copied.

        >>> import flambeau as torch
        >>> torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1).state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers.setdefault(id(p), len(numbers)) for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        made: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, made)
            if changed is not None:
                made = changed
        return made

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over what `state_dict` gave; states get the dtype and device of their parameters."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        numbers = chain.from_iterable(group["params"] for group in saved)
        params = dict(zip(numbers, chain.from_iterable(group["params"] for group in self.param_groups)))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = self._fitted(params[key], value, key, state_dict["param_groups"])
            else:
                state[key] = value
        groups = []
        for old, new in zip(self.param_groups, saved):
            new["params"] = old["params"]
            if "param_names" in old and "param_names" not in new:
                new["param_names"] = old["param_names"]
            groups.append(new)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _fitted(self, param: Tensor, value: Any, number: Any, groups: list[Any], key: Any = None) -> Any:
        """A saved state of a parameter, its tensors moved to where the parameter is."""
        if isinstance(value, Tensor):
            return self._process_value_according_to_param_policy(param, value, number, groups, key)
        if isinstance(value, dict):
            return {k: self._fitted(param, v, number, groups, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._fitted(param, v, number, groups) for v in value])
        return value

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor, value: Tensor, param_id: int, param_groups: list[dict[Any, Any]], key: Hashable = None
    ) -> Tensor:
        """Steps are counted in float32 beside `param` if that is asked for, or stay as they are; other states follow it."""
        if key == "step":
            group = next((g for g in param_groups if param_id in g["params"]), {})
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=float32, device=param.device)
            return value
        if param.dtype.category >= FLOATING:
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    # -- groups ----------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters, with settings that differ from the defaults.

        >>> import flambeau as torch
        >>> a, b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, Tensor):
            given = [given]
        _check_order(given)
        given = list(given)
        names, params = self._split_names(given)
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
            if p.is_nested:
                raise NotImplementedError("optimizers step over plain tensors: pass unbind() of a nested tensor")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, value)
        known = {id(p) for p in params}
        if len(known) != len(params):
            warn_user(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error"
            )
        if any(id(p) in known for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and bool(names) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {'with' if names else 'without'} names to the optimizer"
            )
        self.param_groups.append(param_group)

    @staticmethod
    def _split_names(given: list[Any]) -> tuple[list[str], list[Any]]:
        """Names (none, or one for each) and parameters."""
        pairs = [isinstance(item, tuple) for item in given]
        if not any(pairs):
            return [], given
        if not all(pairs):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        return [name for name, _ in given], [p for _, p in given]
