"""Matrices turned: `t`, `adjoint`, and the attributes T, mT, H, mH."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import COMPLEX
from ..._core.state import SPARSE, SPECIAL, modes
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..records.batching import turned
from ..records.view_op import view_of, view_primitive
from ..registry import functions, methods, ops, public
from .views import transpose


@view_primitive(lambda g, x_shape: t(g), "t", batch=turned)
def t_op(backend: Any, x: Any) -> Any:
    return x.T


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; smaller tensors as they are."""
    x = input._array
    if x.ndim > 2 and input._k & SPARSE:
        raise RuntimeError("t() expects a tensor with <= 2 sparse and 0 dense dimensions, but this one has more")
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    if not (input._k | modes.on) & SPECIAL:
        return view_of(t_op, input, x.T, ())
    return t_op(input)


def _t_property(x: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order."""
    ndim = x._array.ndim
    if ndim != 2:
        if ndim == 0:
            warn_user("Tensor.T is deprecated on 0-D tensors, which it leaves as they are")
        else:
            warn_user(
                "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated; use x.mT "
                "for batches of matrices, or permute"
            )
    return ops.permute(x, tuple(range(ndim - 1, -1, -1)))


def _mt_property(x: Tensor) -> Tensor:
    """The tensor with its last two dimensions exchanged."""
    if x._array.ndim < 2:
        if x._array.ndim:
            raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
        warn_user("Tensor.mT is deprecated on 0-D tensors, which it leaves as they are")
        return x
    return ops.transpose(x, -2, -1)


def _h_property(x: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    ndim = x._array.ndim
    if ndim == 0:
        warn_user("Tensor.H is deprecated on 0-D tensors; use x.conj()")
        return functions["conj"](x)
    if ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
            + (" Batches of matrices have tensor.mH." if ndim > 2 else "")
        )
    return adjoint(x)


def _mh_property(x: Tensor) -> Tensor:
    """The conjugate transpose of a matrix or of each matrix of a batch."""
    if x._array.ndim == 0:
        warn_user("Tensor.mH is deprecated on 0-D tensors; use x.conj()")
        return functions["conj"](x)
    if x._array.ndim == 1:
        raise RuntimeError("tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return adjoint(x)


@public()
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged and, if complex, conjugated."""
    if not input._array.ndim:
        return input
    if input._array.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices, got {input._array.ndim}-D"
        )
    turned = transpose(input, -2, -1)
    return functions["conj"](turned) if input.dtype.category == COMPLEX else turned


public(views=True)(t)
methods["T"] = property(_t_property)
methods["mT"] = property(_mt_property)
methods["H"] = property(_h_property)
methods["mH"] = property(_mh_property)


SCHEMAS = """
t|adjoint(Tensor(a) self) -> Tensor(a)
"""
