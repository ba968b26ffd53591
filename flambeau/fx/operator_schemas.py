"""Arguments of calls brought into one form: defaults filled in, by position or by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from .._tensor.methods import own_signature

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Positional and named arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments with defaults filled in; None where the signature is unknown or does not fit.

    >>> import flambeau as torch
    >>> x = torch.fx.Graph().placeholder("x")
    >>> normalize_function(lambda input, dim=-1: input, (x,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': x, 'dim': -1})
    """
    try:
        signature = own_signature(target)
        bound = signature.bind(*args, **(kwargs or {}))
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        elif kind is inspect.Parameter.KEYWORD_ONLY or normalize_to_only_use_kwargs:
            named[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), named)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same for a call of the submodule `target` of `root`."""
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(f"Tried to normalize a call of {target}, but the root has no such submodule") from None
    return normalize_function(module.forward, args, kwargs, None, None, normalize_to_only_use_kwargs)
