"""Modules inside of wrappers that compute activations again, or keep them on the CPU, and whose states have the names of before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ...._tensor import Tensor
from ....autograd.graph import save_on_cpu
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint

__all__ = ["CheckpointImpl", "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper"]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which kind of `torch.utils.checkpoint` is used."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """A module around another one; its state dict and parameters have the inner module's names."""

    def __init__(self, mod: Module):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_shorter)
        self.register_load_state_dict_pre_hook(_longer)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The inner module's parameters, by its own names."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That of the inner module."""
        raise NotImplementedError(
            "an ActivationWrapper does not say how it runs: use checkpoint_wrapper or offload_wrapper"
        )


def _shorter(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> dict[str, Any]:
    for name in [name for name in state if name.startswith(prefix + _CHECKPOINT_PREFIX)]:
        state[prefix + name[len(prefix + _CHECKPOINT_PREFIX) :]] = state.pop(name)
    return state


def _longer(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name in [
        name for name in state if name.startswith(prefix) and not name.startswith(prefix + _CHECKPOINT_PREFIX)
    ]:
        state[prefix + _CHECKPOINT_PREFIX + name[len(prefix) :]] = state.pop(name)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are computed again in the backward pass."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            self.checkpoint_fn = partial(checkpoint, use_reentrant=reentrant, **checkpoint_fn_kwargs)
        else:
            self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That of the inner module, which keeps nothing."""
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:  # which takes no names
            names, count = list(kwargs), len(args)
            run = lambda *values: inner(*values[:count], **dict(zip(names, values[count:])))
            return self.checkpoint_fn(run, *args, *kwargs.values())
        return self.checkpoint_fn(inner, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose activations wait for the backward pass in the CPU's memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """That of the inner module."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A module that computes its activations again in the backward pass.

    >>> import flambeau as torch
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> net = checkpoint_wrapper(torch.nn.Linear(2, 2))
    >>> list(net.state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """A module whose activations wait in the CPU's memory."""
    return OffloadWrapper(module)


def _every(module: Module) -> bool:
    return True


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = _every,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Puts a wrapper around every submodule that `check_fn` (or the policy) says yes to."""
    wanted = check_fn
    if auto_wrap_policy is not None:
        policy = auto_wrap_policy
        wanted = lambda m: policy(module=m, recurse=False, nonwrapped_numel=_numel(m))
    chosen = [m for m in model.modules() if m is not model and wanted(m)]
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None and any(child is m for m in chosen) and not isinstance(parent, ActivationWrapper):
                parent._modules[name] = checkpoint_wrapper_fn(child)


def _numel(module: Module) -> int:
    return sum(p.numel() for p in module.parameters() if isinstance(p, Tensor))
