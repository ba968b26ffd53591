"""Tensors that stand for others inside of transforms: batches, and values with tangents. Programs know those others alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._core.state import BATCHED, DUAL, local, modes
from .._ops.records import tangents
from .._ops.registry import ops
from .._tensor import Tensor
from .graph import replaced
from .whole import tensors_in


def stands(t: Tensor) -> bool:
    """Whether a tensor stands for others."""
    return bool(t._k & (BATCHED | DUAL))


def plain_in(a: Any) -> list[Tensor]:
    """The tensors in a nest, and the plain ones behind those that stand for others."""
    return [part for t in tensors_in(a) for part in _behind(t)]


def with_others(a: Any, other: Callable[[Tensor], Tensor]) -> Any:
    """The same nest with others in the place of its plain tensors."""
    return replaced(a, Tensor, lambda t: _Form(t).around(map(other, _behind(t))))


def _behind(t: Any) -> list[Tensor]:
    while t._k & BATCHED:
        t = t.value
    return [t, *_behind(t._autograd_meta.tangent)] if t._k & DUAL else [t]


class _Form:
    """How a tensor stands for plain ones."""

    def __init__(self, t: Any):
        self.batches: list[tuple[int, int]] = []
        while t._k & BATCHED:
            self.batches.insert(0, (t.bdim, t.level))
            t = t.value
        self.tangent = _Form(t._autograd_meta.tangent) if t._k & DUAL else None

    def around(self, parts: Iterator[Tensor]) -> Tensor:
        t = next(parts)
        if self.tangent is not None:
            tangents.set_tangent(t, self.tangent.around(parts))
        for bdim, level in self.batches:
            t = ops.make_batched(t, bdim, level)
        return t


class Inside:
    """A function of such tensors as one of the plain ones: where it is called, the transforms are open as they were."""

    def __init__(self, function: Callable[..., Any], args: Any, named: Any):
        self.function, self.__name__ = function, getattr(function, "__name__", "step")
        self.form = replaced((tuple(args), named), Tensor, _Form)
        self.batches, self.forward = local.batches, local.duals is not None

    @staticmethod
    def parts(args: Any, named: Any) -> list[Any]:
        """What it is called with: the plain tensors, and generators, for those who look for what it draws from."""
        given = (*args, *named.values())
        return [*plain_in((args, named)), *[a for a in given if not isinstance(a, Tensor) and hasattr(a, "_engine")]]

    def __call__(self, *parts: Any) -> tuple[Tensor, ...]:
        from ..autograd.forward_ad import exit_dual_level  # loads much

        outer, given = (local.batches, local.duals), iter(parts)
        local.batches, local.duals = self.batches, [] if self.forward else None
        modes.enter(BATCHED)
        try:
            args, named = replaced(self.form, _Form, lambda form: form.around(given))
            return tuple(plain_in(self.function(*args, **named)))
        finally:
            if self.forward:
                exit_dual_level()
            local.batches, local.duals = outer
            modes.leave(BATCHED)
