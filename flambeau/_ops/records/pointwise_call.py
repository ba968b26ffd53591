"""How pointwise operations are called: `torch.exp(x)` and `a + b` where no plan is known, and whatever their operands are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._autograd.rehearsal import recorded
from ..._core.state import local, modes
from ..._dispatch import special
from ..._tensor import Tensor
from .. import registry
from ..plans.sites import pointwise_site


def calling(op: Any) -> Any:
    """The function of an operation, with the native entry before it: operands, then parameters, by position or name."""
    names = ["input", "other", *op.names[2:]][: len(op.names)] if len(op.names) < 3 else op.names
    count = len(names)

    def call(*args: Any, out: Any = None, **named: Any) -> Any:
        if named or len(args) != count:
            args = _bound(op, names, args, named)
        return slow(op, args) if out is None else registry.into_out(out, op.call, args, {})

    def record(t: Tensor, *args: Any) -> Tensor:
        if local.grad:
            op.for_number(args).record(args, t)
        return t

    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = f"{op.name}({', '.join(names)}, *, out=None)\n--\n\n{op.doc}"  # the first lines are its signature
    lead = 1 if 0 in op.masks else 0
    numbers = ((1 << count) - 1) & ~(1 << lead)  # operands that may be other numbers in each call
    return call if op.outputs > 1 else pointwise_site(op, call, record, names, numbers)


def _bound(op: Any, names: list[str], args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments in their order."""
    given, named = list(args), registry.numpy_named(names, named)
    missing = [name for name in names[len(args) :] if name not in named]
    if missing:  # programs look for PyTorch's words, which have the plural for one
        words = "argument" if len(missing) > 1 else "arguments"
        told = ", ".join([f'"{name}"' for name in missing])
        raise TypeError(f"{op.name}() missing {len(missing)} required positional {words}: {told}")
    given += [named.pop(name) for name in names[len(args) :]]
    if named:
        raise TypeError(f"{op.name}() got an unexpected keyword argument '{next(iter(named))}'")
    if len(given) > len(names):
        raise TypeError(f"{op.name}() takes {len(names)} positional arguments but {len(given)} were given")
    return tuple(given)


def slow(op: Any, args: tuple[Any, ...]) -> Any:
    """Any operands: numbers, mixed dtypes, first use of a dtype."""
    k = modes.on
    tensors = False
    for a in args:
        if isinstance(a, Tensor):
            k |= a._k
            tensors = True
        elif not isinstance(a, (int, float, complex, bool, np.generic)):
            function = registry.public_form(op)  # a class like a tensor may know what to do
            taken = NotImplemented if function is None else registry.overridden(function, args, {})
            if taken is not NotImplemented:
                return taken
            raise TypeError(f"{op.name}(): argument must be Tensor, not {type(a).__name__}")
    if op.numbers != "both":
        for a in args[: 1 if op.numbers == "right" else op.arity]:
            if not isinstance(a, Tensor):
                raise TypeError(f"{op.name}(): argument 'other' must be Tensor, not {type(a).__name__}")
    if not tensors and op.number_pairs:
        args = (registry.ops.full((), args[0]), *args[1:])
    elif not tensors:
        raise TypeError(f"{op.name}(): argument 'input' must be Tensor, not {type(args[0]).__name__}")
    op = op.for_number(args)
    if k > 1:
        return special(op, args, k)
    out = op.compute(args, k)
    if k and local.grad:
        recorded(op, args, out)
    return out
