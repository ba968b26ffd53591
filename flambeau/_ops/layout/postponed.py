"""Views that conjugate or negate when they are read: `conj()`, `mH`, the imaginary part of a conjugate.

Such a view shares its memory and has a bit (CONJ, NEG). Views of it keep the bit, the dispatcher hands operations the
values it stands for, and writes store what will read as the value written.
"""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import COMPLEX
from ..._core.state import BATCHED, CONJ, NEG, POSTPONED, QUANTIZED, SPARSE
from ..._tensor import Tensor
from ..pointwise.combined import conj_physical_op
from ..records.batching import leading
from ..records.primitive import Primitive
from ..registry import ops, public, relabel


class Postponed(Primitive):
    """A view whose bits are a function of its parent's and of its arguments."""

    def __init__(self, forward: Any, bits: Any, name: str, **options: Any):
        super().__init__(forward, view=True, name=name, **options)
        self.bits = bits

    def wrap_view(self, parent: Tensor, array: Any, static: Any, number: Any = None) -> Tensor:
        t = super().wrap_view(parent, array, static, number)
        t._k = t._k & ~POSTPONED | self.bits(parent._k, *static)
        return t


def _same(backend: Any, x: Any) -> Any:
    return x.view()


def _part(backend: Any, x: Any, number: int) -> Any:
    return x.imag if number else x.real


def _part_bits(k: int, number: int) -> int:
    return k & NEG ^ (NEG if number and k & CONJ else 0)


conj_op = Postponed(_same, lambda k: k & POSTPONED ^ CONJ, "conj", grad={"x": lambda g: ops.conj(g)}, batch=leading)
neg_view_op = Postponed(
    _same, lambda k: k & POSTPONED ^ NEG, "neg_view", grad={"x": lambda g: ops.neg(g)}, batch=leading
)
part_op = Postponed(
    _part, _part_bits, "complex_part", backward_name="SelectBackward0",
    grad={"x": lambda g, number: ops.mul(g, 1j) if number else ops.complex(g, ops.zeros_like(g))},
    batch=leading,
)  # fmt: skip


@public(aliases=("_conj",))
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; a real tensor is its own.

    >>> import flambeau as torch
    >>> x = torch.tensor([1 + 2j])
    >>> y = x.conj(); y.is_conj()
    True
    >>> y[0] = 5j; x
    tensor([0.-5.j])
    """
    if input.dtype.category != COMPLEX:
        return input
    if input._k & (BATCHED | SPARSE | QUANTIZED):
        return relabel(conj_physical_op.call(input), "ConjBackward0")
    return conj_op(input)


@public("_neg_view")
def _neg_view(input: Tensor) -> Tensor:
    """The negative, as a view."""
    return neg_view_op(input)


# Formulas of derivatives conjugate at once, and their parameters too.
setattr(ops, "conj", lambda x: _at_once(x) if isinstance(x, Tensor) else x.conjugate())  # noqa: B010


def _at_once(x: Tensor) -> Tensor:
    return relabel(conj_physical_op.call(x), "ConjBackward0") if x.dtype.category == COMPLEX else x


@public()
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or its values if it is a conjugate that was not computed."""
    return ops.clone(input) if input._k & CONJ else input


@public()
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or its values if it is a negative that was not computed."""
    return ops.clone(input) if input._k & NEG else input


@public()
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a view that conjugates when it is read."""
    return bool(input._k & CONJ)


@public()
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a view that negates when it is read."""
    return bool(input._k & NEG)


SCHEMAS = """
conj|_neg_view|resolve_conj|resolve_neg(Tensor(a) self) -> Tensor(a)
is_conj|is_neg(Tensor self) -> bool  # silent
"""
