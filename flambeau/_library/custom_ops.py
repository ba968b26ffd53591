"""`custom_op`: an operator from a Python function, and the rules that belong to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core.devices import device
from .infer_schema import infer_schema
from .operators import Operator, define, operators
from .schema import Tag, parse_schema

__all__ = ["CustomOpDef", "custom_op"]


def split_name(qualname: str) -> tuple[str, str]:
    """ "ns::name" in its two parts."""
    space, colons, name = qualname.partition("::")
    if not colons or not space or not name or "::" in name:
        raise ValueError(f"Expected qualname to be of the form 'namespace::name', but got: {qualname!r}")
    return space, name


def known_devices(types: str | Sequence[str] | None) -> list[str]:
    """Types of devices as a list, "" for all of them; raises for those that do not exist."""
    if types is None:
        return [""]
    kinds = [types] if isinstance(types, str) else list(types)
    return [device(kind).type for kind in kinds]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an operator: autograd, vmap and traces treat it as one step.

    `mutates_args` names the arguments that it writes to. Derivatives come with `register_autograd`.

    >>> import flambeau as torch
    >>> @torch.library.custom_op("example::scaled", mutates_args=())
    ... def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    ...     return x * by
    >>> scaled.register_autograd(lambda ctx, g: (g * ctx.by, None),
    ...                          setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]))
    >>> x = torch.ones(2, requires_grad=True)
    >>> scaled(x, 3.0).sum().backward(); x.grad
    tensor([3., 3.])
    """

    def decorate(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        space, opname = split_name(name)
        made = CustomOpDef(space, opname, text, function, tags)
        if device_types is None:
            made.register_kernel(None)(function)
        else:
            made.register_kernel(device_types)(function)
        return made

    return decorate if fn is None else decorate(fn)


_made: dict[str, CustomOpDef] = {}  # by qualified names


class CustomOpDef:
    """An operator made by `custom_op`. Call it, or give it kernels, a derivative, a rule for meta tensors or batches."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any], tags: Any = None):
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        before = _made.get(self._qualname)
        if before is not None:  # a notebook's cell that runs again: the new definition takes the place of the old one
            operators.pop(self._qualname, None)
        given = tags or () if isinstance(tags, (list, tuple)) or tags is None else (tags,)
        self._operator: Operator = define(parse_schema(f"{namespace}::{name}{schema}"), [Tag.pt2_compliant_tag, *given])
        if before is not None:
            before._operator = self._operator
        _made[self._qualname] = self
        self._operator.checked = True
        functools.update_wrapper(self, fn)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        return self._operator.public

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs)

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """The implementation for tensors on these devices ("cpu", "cuda"); None means all."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in known_devices(device_types):
                self._operator.kernels[kind] = function
            return function

        return decorate if fn is None else decorate(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The rule for meta tensors: an empty result of the right shape and dtype."""
        self._operator.fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The derivative: backward(ctx, *gradients) after setup_context(ctx, inputs, output)."""
        if self._operator.schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._operator.dotted} with schema "
                f"{self._operator.schema}"
            )
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """The rule for batches: func(info, in_dims, *args) -> (result, out_dims)."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.batch = function
            return function

        return decorate if func is None else decorate(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Inside autocast, floating tensors are cast to this dtype before the call."""
        known_devices(device_type)
        self._operator.cast[device_type] = cast_inputs

    def register_torch_dispatch(
        self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """What a mode or a class with `__torch_dispatch__` does with this operator: fn(mode or class, func, types, args, kwargs)."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.dispatch[torch_dispatch_class] = function
            return function

        return decorate if fn is None else decorate(fn)

    def register_effect(self, effect: Any) -> None:
        """Says that calls do more than give results (`EffectType`; None takes that back): graphs keep them all."""
        self._operator.effect = effect

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> _Enabled:
        """Switches the kernel of a device on or off, for good or in a `with` block."""
        return _Enabled(self._operator, device_type, enabled)


class _Enabled:
    def __init__(self, op: Operator, kind: str, enabled: bool):
        self.op, self.kind, self.before = op, kind, kind in op.disabled
        (op.disabled.discard if enabled else op.disabled.add)(kind)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        (self.op.disabled.add if self.before else self.op.disabled.discard)(self.kind)
