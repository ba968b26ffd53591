"""Products of matrices and vectors: `@`, mm, bmm, mv, dot and their relatives, with their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._backend import blas
from ..._core.dtypes import (
    COMPLEX,
    FLOATING,
    bfloat16,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    from_numpy_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..._core.sizes import broadcast_shapes, wrap_dim
from ..._errors import taught
from ..._tensor import Tensor
from .. import registry
from ..records.batched_layers import multiplied
from ..records.casting import broadcast_error
from ..records.primitive import Primitive, primitive
from ..records.rules import not_implemented, type_name
from ..records.tangents import multilinear
from ..registry import labelled, ops, public

_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "int8": "signed char", "uint8": "unsigned char", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
MULTIPLIED = frozenset(
    (uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)
)  # fmt: skip


# -- checks ------------------------------------------------------------------------------------------------------


def plain_name(d: dtype) -> str:
    return _C_NAMES.get(d.name, d.name)


def check_multiplied(kernel: str, d: dtype) -> None:
    if d not in MULTIPLIED:
        raise not_implemented(kernel, d)


def unlike_matrices(a: Tensor, b: Tensor) -> RuntimeError:
    """Programs match on either of the sentences: PyTorch's differ by the machine it was built for."""
    return taught(RuntimeError(
        f"mat1 and mat2 must have the same dtype, but got {type_name(a.dtype)} and {type_name(b.dtype)} "
        f"(expected m1 and m2 to have the same dtype, but got: {plain_name(a.dtype)} != {plain_name(b.dtype)})"
    ))  # fmt: skip


def check_matrices(a: Tensor, b: Tensor) -> None:
    """That a (m, k) and a (k, n) matrix of one dtype are multiplied."""
    x, y = a._array, b._array
    if x.shape[1] != y.shape[0]:
        raise not_multiplicable(x.shape[0], x.shape[1], *y.shape)
    if a.dtype is not b.dtype:
        raise unlike_matrices(a, b)
    check_multiplied("addmm_impl_cpu_", a.dtype)


def not_multiplicable(m: int, k: int, k2: int, n: int) -> RuntimeError:
    return taught(RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {k2}x{n})"))


def _same_scalar_type(a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {type_name(a.dtype)} but found {type_name(b.dtype)}")


def check_batches(a: Tensor, b: Tensor) -> None:
    """That (b, m, k) and (b, k, n) are multiplied."""
    x, y = a._array.shape, b._array.shape
    if len(x) != 3 or len(y) != 3:
        raise RuntimeError(f"batch{1 if len(x) != 3 else 2} must be a 3D tensor")
    if x[0] != y[0] or x[2] != y[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x[0]}, {x[2]}] but got: [{y[0]}, {y[1]}]."
        )


# -- records -----------------------------------------------------------------------------------------------------


def product(backend: Any, x: Any, y: Any) -> Any:
    return blas.product(x, y) if backend.xp is np else backend.product(x, y)


def adjoint(t: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    n = t._array.ndim
    turned = ops.t(t) if n == 2 else ops.transpose(t, -2, -1)
    return ops.conj(turned) if t.dtype.category == COMPLEX else turned


def times_adjoint(g: Tensor, y: Tensor) -> Tensor:
    """g @ yᴴ of matrices or equal batches of them: the gradient of a left operand."""
    return (mm_op if g._array.ndim == 2 else bmm_op)(g, adjoint(y))


def adjoint_times(x: Tensor, g: Tensor) -> Tensor:
    """xᴴ @ g: the gradient of a right operand."""
    return (mm_op if g._array.ndim == 2 else bmm_op)(adjoint(x), g)


def conjugate(t: Tensor) -> Tensor:
    return ops.conj(t) if t.dtype.category == COMPLEX else t


def _result_shape(x: Any, y: Any) -> tuple[Any, dtype]:
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return (*lead, *x.shape[-2:-1], *y.shape[-1:] * (y.ndim > 1)), from_numpy_dtype(x.dtype)


def _products(name: str, by_x: Callable[..., Any], by_y: Callable[..., Any]) -> Primitive:
    """A product of two arrays by the name that PyTorch has for their ranks."""

    def multiply(backend: Any, x: Any, y: Any) -> Any:
        return product(backend, x, y)

    return Primitive(
        multiply, tensors=2, name=name, meta=_result_shape, grad={"x": by_x, "y": by_y}, batch=multiplied,
        tangent=multilinear("x", "y"),
    )  # fmt: skip


mm_op, bmm_op = (
    _products(name, lambda g, y: times_adjoint(g, y), lambda g, x: adjoint_times(x, g)) for name in ("mm", "bmm")
)
mv_op = _products("mv", lambda g, y: _outer(g, conjugate(y)), lambda g, x: mv_op(adjoint(x), g))
dot_op = _products("dot", lambda g, y: g * conjugate(y), lambda g, x: g * conjugate(x))


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return ops.mul(ops.unsqueeze(a, 1), b)


def _left_gradient(g: Tensor, y: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    if y._array.ndim == 1:
        return ops.mul(ops.unsqueeze(g, -1), conjugate(y))
    if len(x_shape) == 1:
        column = matmul_op(conjugate(y), ops.unsqueeze(g, -1))
        return ops.sum_to(ops.squeeze(column, -1), x_shape)
    return ops.sum_to(matmul_op(g, adjoint(y)), x_shape)


def _right_gradient(g: Tensor, x: Tensor, y_shape: tuple[int, ...]) -> Tensor:
    if x._array.ndim == 1:
        return ops.sum_to(ops.mul(ops.unsqueeze(conjugate(x), -1), ops.unsqueeze(g, -2)), y_shape)
    if len(y_shape) <= 2:  # one product over all rows of the batch
        *lead, k = x._array.shape
        rows = ops.reshape(x, (math.prod(lead), k))
        return ops.matmul(adjoint(rows), ops.reshape(g, (math.prod(lead), *y_shape[1:])))
    return ops.sum_to(matmul_op(adjoint(x), g), y_shape)


def _name_by_ranks(node: Node) -> str:
    """PyTorch makes such a product of matrices or batches of them, and gives the result its shape last."""
    ranks = [len(shape) for shape, *_ in node.info]
    if ranks == [1, 2]:
        return "SqueezeBackward4"
    return "CloneBackward0" if ranks[0] == 2 else "UnsafeViewBackward0"


@primitive(
    tensors=2, name="matmul", backward_name=_name_by_ranks, meta=_result_shape,
    grad={
        "x": lambda g, y, x_shape: _left_gradient(g, y, x_shape),
        "y": lambda g, x, y_shape: _right_gradient(g, x, y_shape),
    },
    batch=multiplied,
    tangent=multilinear("x", "y"),
)  # fmt: skip
def matmul_op(backend: Any, x: Any, y: Any) -> Any:
    """Any ranks; dimensions before the last two broadcast."""
    if y.ndim <= 2 and x.ndim > 2 and x.size:
        rows = x.reshape(-1, x.shape[-1])
        return product(backend, rows, y).reshape(x.shape[:-1] + y.shape[1:])
    return product(backend, x, y)


# -- public functions --------------------------------------------------------------------------------------------


@public("matmul", "linalg.matmul", out="exact", planned=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; vectors and batches of matrices multiply by PyTorch's rules for ranks.

    >>> import flambeau as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]) @ torch.tensor([1.0, 1.0])
    tensor([3., 7.])
    """
    n, m = input._array.ndim, other._array.ndim
    if n == 2 and m == 2:
        check_matrices(input, other)
        return mm_op(input, other)
    if not n or not m:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D")
    if n == 1 and m == 1:
        return dot(input, other)
    if n == 2 and m == 1:
        return mv(input, other)
    _check_broadcast(input, other)
    return matmul_op(input, other)


def _check_broadcast(a: Tensor, b: Tensor) -> None:
    x, y = a._array.shape, b._array.shape
    inner = y[-2] if len(y) > 1 else y[0]
    if x[-1] != inner:
        if len(x) <= 2 and len(y) <= 2:
            raise not_multiplicable(1, x[0], *y)
        rows = math.prod(x[:-1])
        if len(y) == 1:
            raise RuntimeError(f"size mismatch, got input ({rows}), mat ({rows}x{x[-1]}), vec ({y[0]})")
        if len(y) == 2:
            raise not_multiplicable(rows, x[-1], *y)
        batch = math.prod(y[:-2])
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {x[-1]}] but got: [{batch}, {y[-2]}]."
        )
    try:
        broadcast_shapes(x[:-2], y[:-2])
    except RuntimeError:
        for i in range(3, min(len(x), len(y)) + 1):
            if x[-i] != y[-i] and 1 not in (x[-i], y[-i]):
                raise RuntimeError(
                    f"The size of tensor a ({x[-i]}) must match the size of tensor b ({y[-i]}) "
                    f"at non-singleton dimension {max(len(x), len(y)) - i}"
                ) from None
    if len(y) <= 2:
        if a.dtype is not b.dtype:
            raise unlike_matrices(a, b)
    _same_scalar_type(a, b)
    check_multiplied("bmm" if len(y) > 2 else "addmm_impl_cpu_", a.dtype)


@public(out="exact", planned=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices.

    >>> import flambeau as torch
    >>> torch.mm(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if input._array.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2._array.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    check_matrices(input, mat2)
    return mm_op(input, mat2)


@public(out="exact", planned=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two equally long batches of matrices.

    >>> import flambeau as torch
    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
    tensor([3., 3.])
    """
    check_batches(input, mat2)
    _same_scalar_type(input, mat2)
    check_multiplied("bmm", input.dtype)
    return bmm_op(input, mat2)


@public(out="exact", planned=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector.

    >>> import flambeau as torch
    >>> torch.mv(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    x, y = input._array.shape, vec._array.shape
    if len(x) != 2 or len(y) != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {len(x)}, {len(y)}")
    if x[1] != y[0]:
        raise RuntimeError(f"size mismatch, got input ({x[0]}), mat ({x[0]}x{x[1]}), vec ({y[0]})")
    if input.dtype is not vec.dtype:
        names = ", ".join(type_name(t.dtype) for t in (vec, input))
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names}, and {type_name(vec.dtype)}")
    check_multiplied("addmv_impl_cpu", input.dtype)
    return mv_op(input, vec)


def _check_dot(a: Tensor, b: Tensor) -> None:
    x, y = a._array, b._array
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {type_name(a.dtype)} and {type_name(b.dtype)}"
        )
    if x.size != y.size:
        raise RuntimeError(f"inconsistent tensor size: the vectors have {x.size} and {y.size} elements")
    check_multiplied("dot", a.dtype)


@public(out="exact", planned=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements.

    >>> import flambeau as torch
    >>> torch.dot(torch.tensor([2, 3]), torch.tensor([2, 1]))
    tensor(7)
    """
    _check_dot(input, tensor)
    return dot_op(input, tensor)


@public(out=True)
@labelled("VdotBackward0")
@registry.out_dtypes("result dtype {out} does not match input dtype {made}")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product with the conjugate of the first vector.

    >>> import flambeau as torch
    >>> torch.vdot(torch.tensor([1j]), torch.tensor([1j]))
    tensor(1.+0.j)
    """
    _check_dot(input, other)
    return dot_op(conjugate(input), other)


@public(out="exact")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimension of both; a 0-d tensor multiplies.

    >>> import flambeau as torch
    >>> torch.inner(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 1]))
    tensor(7)
    """
    x, y = input._array.shape, other._array.shape
    if not x or not y:
        return ops.mul(input, other)
    if x[-1] != y[-1]:
        raise RuntimeError(f"inner() the last dimension must match, got shapes {list(x)} and {list(y)}")
    return ops.tensordot(input, other, ([-1], [-1]))


@public(out=True, aliases=("ger",), planned=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The matrix of all products of two vectors' elements.

    >>> import flambeau as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if input._array.ndim != 1 or vec2._array.ndim != 1:
        check_vectors("outer", self=input, vec2=vec2)
    return _outer(input, vec2)


def check_vectors(name: str, **arguments: Tensor) -> None:
    for argument, t in arguments.items():
        if t._array.ndim != 1:
            raise RuntimeError(f"{name}: Expected 1-D argument {argument}, but got {t._array.ndim}-D")


@public("linalg.vecdot", method=False, out=True, planned=True)
@registry.out_dtypes("linalg.vecdot: Expected out of dtype{made} but found {out}")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot products of vectors along a dimension; the first ones are conjugated.

    >>> import flambeau as torch
    >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if x.dtype.category < FLOATING:
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor, got {type_name(x.dtype)}")
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, got {type_name(x.dtype)} and {type_name(y.dtype)}"
        )
    try:
        ndim = len(broadcast_shapes(x._array.shape, y._array.shape))
    except RuntimeError:
        raise broadcast_error((x, y)) from None
    return ops.sum(ops.mul(conjugate(x), y), wrap_dim(dim, ndim))


SCHEMAS = """
matmul(Tensor self, Tensor other) -> Tensor  # autocast=lower, flops=product
mm|bmm(Tensor self, Tensor mat2) -> Tensor  # autocast=lower, flops=product
mm|bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
mv(Tensor self, Tensor vec) -> Tensor  # autocast=cuda:lower, flops=product
dot(Tensor self, Tensor tensor) -> Tensor  # autocast=cuda:widest, flops=product
vdot|inner(Tensor self, Tensor other) -> Tensor
outer(Tensor self, Tensor vec2) -> Tensor
linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor  # autocast=cpu:lower
"""
