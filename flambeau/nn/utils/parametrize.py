"""Parametrizations: parameters and buffers of a module that are computed from others, each time they are read."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

from ..._autograd.modes import no_grad
from ..._tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cache_enabled = 0
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once.

    >>> import flambeau as torch
    >>> from flambeau.nn.utils import parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _set(destination: Tensor, source: Tensor) -> None:
    """Gives a registered tensor the memory of another."""
    destination.data = source.data if isinstance(source, Tensor) else source


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order in which they are applied, and what they start from.

    That is `original`, or `original0`, `original1`, … where the first one's `right_inverse` gives several tensors.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):  # what it starts from is then the tensor itself
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype is not new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if original.device != new.device:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the device.\n"
                    f"original.device: {original.device}\nright_inverse(original).device: {new.device}"
                )
            _set(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            self._register_parts(original, new)
        if not unsafe:
            self._check(shape, dtype)

    def _register_parts(self, original: Tensor, parts: Sequence[Tensor]) -> None:
        for i, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", part)

    def _check(self, shape: Any, dtype: Any) -> None:
        """What is computed must be like the tensor that it replaces."""
        value = self()
        if not isinstance(value, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
        for what, before, after in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Finds what to start from so that the parametrized tensor is `value`; called when it is assigned to."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype is not self.original.dtype:
                    raise ValueError(
                        "The tensor returned by `right_inverse` has dtype "
                        f"{value.dtype} while `original` has dtype {self.original.dtype}"
                    )
                _set(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for i, part in enumerate(value):
                own = getattr(self, f"original{i}")
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {i} of type {type(part).__name__}"
                    )
                if own.dtype is not part.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` has dtype {own.dtype}"
                    )
                _set(own, part)

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *others = self._modules.values()
        if self.is_tensor:
            x = first(self.original)
        else:
            x = first(*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        for module in others:
            x = module(x)
        return x


# -- the class of a parametrized module --------------------------------------------------------------------------


def _inject_new_class(module: Module) -> None:
    """Gives the module a class of its own, which may then have properties."""
    cls = module.__class__

    def copy_of_module(self: Any, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is not None:
            return found
        replica = self.__new__(self.__class__)
        memo[id(self)] = replica
        replica.__dict__ = deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(self.__class__):  # type: ignore[attr-defined]
            if hasattr(self, slot):
                setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return replica

    def state_of_module(self: Any) -> Any:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict()")

    body: dict[str, Any] = {"__getstate__": state_of_module, "__module__": __name__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = copy_of_module
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    def compute(self: Any) -> Tensor:
        if not _cache_enabled:
            return self.parametrizations[tensor_name]()
        key = (id(module), tensor_name)
        tensor = _cache.get(key)
        if tensor is None:
            tensor = _cache[key] = self.parametrizations[tensor_name]()
        return tensor

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(module.__class__, tensor_name, property(compute, assign))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer the result of `parametrization`, a module that takes the original tensor.

    Reading the attribute computes it. If the parametrization has a method `right_inverse`, the attribute can be
    assigned to. With `unsafe`, shape and dtype may change and nothing is checked.

    >>> import flambeau as torch
    >>> class Positive(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight > 0).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_addition(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_addition(module: Any, name: str, parametrization: Any) -> None:
    """A further parametrization must map tensors like the present one to tensors like it, and back."""
    present = getattr(module, name)
    value = parametrization(present)
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(value, what) != getattr(present, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {getattr(present, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(value, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("shape", "dtype"):
        if getattr(back, what) != getattr(present, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(present, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations, or one of this tensor."""
    parametrizations = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a parametrized tensor an ordinary one again: with its present value, or else with the original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            _set(original, value)
    elif leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad or _trained(parametrizations) else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence "
            "of tensors."
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = module.__class__.__bases__[0]
    return module


def _trained(parametrizations: ParametrizationList) -> bool:
    return any(getattr(parametrizations, f"original{i}").requires_grad for i in range(parametrizations.ntensors))


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without its parametrizations."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives another module the parametrizations of this one, and the tensors they start from."""
    if not is_parametrized(from_module):
        return to_module
    source = from_module.parametrizations
    if tensor_name is not None and tensor_name not in source:
        return to_module
    for name in list(source) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source[name]:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        if source[name].is_tensor:
            target.original = source[name].original
        else:
            for i in range(source[name].ntensors):
                setattr(target, f"original{i}", getattr(source[name], f"original{i}"))
    return to_module
