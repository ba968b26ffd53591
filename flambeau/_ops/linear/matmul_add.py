"""Products that are added to something: addmm and its relatives, and the affine maps of neural networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._backend import blas
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BOOL, FLOATING, bool_, dtype, from_numpy_dtype, int64, promote_types
from ..._core.state import CUDA
from ..._kernel.products.thin import mixed
from ..._tensor import Tensor, alias, wrap
from .. import registry
from ..layout.views import permute_op
from ..records.batched_layers import added_product, linearly, twice_linear
from ..records.casting import checked_number
from ..records.inplace import assign, keep_original
from ..records.primitive import Primitive, primitive
from ..records.rules import type_name
from ..records.tangents import multilinear
from ..records.writable import check_writable
from ..registry import _overridable as overridable
from ..registry import functions, labelled, methods, older_forms, ops, public
from .matmul import (
    MULTIPLIED,
    adjoint,
    adjoint_times,
    check_batches,
    check_multiplied,
    check_vectors,
    conjugate,
    plain_name,
    product,
    times_adjoint,
    unlike_matrices,
)

# -- records -----------------------------------------------------------------------------------------------------


def _scaled(t: Tensor, factor: Any) -> Tensor:
    return t if factor == 1 else ops.mul(t, factor.conjugate())


def _shape(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    return (*x.shape[:-1], *y.shape[-1:] * (y.ndim > 1)), from_numpy_dtype(x.dtype)


def _added_products(name: str, by_x: Callable[..., Any], by_y: Callable[..., Any]) -> Primitive:
    """beta * c + alpha * (x @ y) by the name that PyTorch has for the ranks; derivatives of the product for alpha = 1."""

    def add(backend: Any, c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
        if not x.shape[-1]:  # nothing is added, whatever it would be multiplied by
            alpha = 1
        return blas.add_product(c, x, y, beta, alpha) if backend.xp is np else backend.product(x, y, c, beta, alpha)

    grad = {
        "c": lambda g, c_shape, beta: ops.sum_to(_scaled(g, beta), c_shape),
        "x": lambda g, y, alpha: _scaled(by_x(g, y), alpha),
        "y": lambda g, x, alpha: _scaled(by_y(g, x), alpha),
    }
    return Primitive(
        add, tensors=3, name=name, meta=_shape, grad=grad, batch=added_product, tangent=multilinear("x", "y", added="c")
    )


addmm_op, baddbmm_op = (
    _added_products(name, lambda g, y: times_adjoint(g, y), lambda g, x: adjoint_times(x, g))
    for name in ("addmm", "baddbmm")
)
addmv_op = _added_products("addmv", lambda g, y: ops.outer(g, conjugate(y)), lambda g, x: ops.mv(adjoint(x), g))


@primitive(
    tensors=3, name="addr",
    meta=lambda c, x, y, beta, alpha: ((x.size, y.size), from_numpy_dtype(x.dtype)),
    grad={
        "c": lambda g, c_shape, beta: ops.sum_to(_scaled(g, beta), c_shape),
        "x": lambda g, y, alpha: _scaled(ops.mv(g, conjugate(y)), alpha),
        "y": lambda g, x, alpha: _scaled(ops.mv(_transposed(g), conjugate(x)), alpha),
    },
    batch=added_product,
    tangent=multilinear("x", "y", added="c"),
)  # fmt: skip
def addr_op(backend: Any, c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    scale = x.dtype.type
    with np.errstate(all="ignore"):
        made = (x if alpha == 1 else x * scale(alpha))[:, None] * y
        return made if beta == 0 else made + (c if beta == 1 else c * scale(beta))


def _rows(t: Tensor) -> Tensor:
    """All vectors of the last dimension as the rows of one matrix."""
    shape = t._array.shape
    if len(shape) == 2:
        return t
    return ops.reshape(t, (math.prod(shape[:-1]), shape[-1]))


def _transposed(t: Tensor) -> Tensor:
    return permute_op(t, (1, 0))


def _by_weight(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ @ conj(x), in the layout of the weight."""
    return adjoint_times(conjugate(g), conjugate(x))


def _linear_arrays(backend: Any, x: Any, bias: Any, weight: Any) -> Any:
    """x @ weight.T + bias over the last dimension of x, as one product of matrices."""
    rows = x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if backend.xp is not np:
        made = backend.product(rows, weight.T, bias)
    elif bias is None:
        made = blas.product(rows, weight.T)
    else:
        made = blas.add_product(bias, rows, weight.T, 1, 1)
    return made if x.ndim == 2 else made.reshape(*x.shape[:-1], weight.shape[0])


def _linear_name(node: Node) -> str:
    """What PyTorch makes of it: a product of matrices, with a view of it for other ranks."""
    x, bias, _ = node.info
    if len(x[0]) == 2:
        return "MmBackward0" if bias is None else "AddmmBackward0"
    if bias is None:
        return "UnsafeViewBackward0" if len(x[0]) > 1 else "SqueezeBackward4"
    return "ViewBackward0"


# The bias comes before the weight, so that its hooks run first, as PyTorch's do.
linear_op = Primitive(
    _linear_arrays, tensors=3, name="linear", backward_name=_linear_name,
    meta=lambda x, bias, weight: ((*x.shape[:-1], weight.shape[0]), from_numpy_dtype(x.dtype)),
    grad={
        "x": lambda g, weight: ops.matmul(g, conjugate(weight)),
        "bias": lambda g, bias_shape: ops.sum_to(g, bias_shape),
        "weight": lambda g, x: _by_weight(_rows(g), _rows(x)),
    },
    batch=linearly,
    tangent=multilinear("x", "weight", added="bias"),
)  # fmt: skip


def _first_half(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight[o] for every row of x and every output o: (rows, out, in2)."""
    out, n, m = weight._array.shape
    flat = ops.reshape(ops.permute(weight, (1, 0, 2)), (n, out * m))
    return ops.reshape(ops.mm(x, flat), (x._array.shape[0], out, m))


def _bilinear_by_weight(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    (count, out), n, m = g._array.shape, x._array.shape[1], y._array.shape[1]
    pairs = ops.mul(ops.unsqueeze(g, 2), ops.unsqueeze(conjugate(x), 1))
    made = ops.mm(_transposed(ops.reshape(pairs, (count, out * n))), conjugate(y))
    return ops.reshape(made, (out, n, m))


def _turned(weight: Tensor) -> Tensor:
    return permute_op(weight, (1, 0, 2))


def _bilinear_by_left(g: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    y, weight = conjugate(y), conjugate(weight)
    if g.dtype.itemsize == 2 and not g._k & CUDA:
        return bilinear_left_op(g, y, weight)
    return bilinear_op(g, y, _turned(weight))


def _bilinear_by_right(g: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    (rows, out), m = g._array.shape, weight._array.shape[2]
    if g.dtype.itemsize == 2 and out:  # PyTorch rounds when it has added an output
        parts = ops.mul(_first_half(x, weight), ops.unsqueeze(g, 2))
        total, place = (ops.zeros(n, dtype=d, device=g.device) for n, d in (((rows, 1, m), g.dtype), (out, int64)))
        return ops.squeeze(ops.index_add(total, 1, place, parts), 1)
    return ops.squeeze(ops.bmm(ops.unsqueeze(g, 1), conjugate(_first_half(x, weight))), 1)


def _left_batch(op: Any, size: int, mapped: Any, args: Any) -> Any:
    g, y, weight = args
    return twice_linear(op, size, mapped, (g, y, ops.permute(weight, (0, 2, 1, 3)) if mapped[2] else weight))


@primitive(
    tensors=3, name="bilinear_left",
    meta=lambda z, y, weight: ((z.shape[0], weight.shape[1]), from_numpy_dtype(z.dtype)),
    grad={
        "z": lambda g, y, weight: bilinear_op(g, y, weight),
        "y": lambda g, z, weight: _bilinear_by_right(z, g, weight),
        "weight": lambda g, z, y: _bilinear_by_weight(z, g, y),
    },
    batch=_left_batch,
    tangent=multilinear("z", "y", "weight"),
)  # fmt: skip
def bilinear_left_op(backend: Any, z: Any, y: Any, weight: Any) -> Any:
    """The gradient of 16-bit bilinear by its left operand; it is seen that PyTorch makes one of each output and adds them."""
    code, out = from_numpy_dtype(z.dtype).code, empty((z.shape[0], weight.shape[1]), z.dtype)
    cpu.sized(z.shape[0] * weight.size, mixed, (code,) * 4)(z, weight, y, out)
    return out


@primitive(
    tensors=3, name="bilinear",
    meta=lambda x, y, weight: ((x.shape[0], weight.shape[0]), from_numpy_dtype(x.dtype)),
    grad={
        "x": lambda g, y, weight: _bilinear_by_left(g, y, weight),
        "y": lambda g, x, weight: _bilinear_by_right(g, x, weight),
        "weight": lambda g, x, y: _bilinear_by_weight(g, x, y),
    },
    batch=twice_linear,
    tangent=multilinear("x", "y", "weight"),
)  # fmt: skip
def bilinear_op(backend: Any, x: Any, y: Any, weight: Any) -> Any:
    """Two products: (rows, in1) @ (in1, out * in2), then each row's (out, in2) with its vector of in2."""
    out, n, m = weight.shape
    flat = weight.transpose(1, 0, 2).reshape(n, out * m)
    mixed = product(backend, x, flat).reshape(x.shape[0], out, m)
    return product(backend, mixed, y[:, :, None])[:, :, 0]


# -- checks ------------------------------------------------------------------------------------------------------


def _factor(value: Any, d: dtype) -> Any:
    """`alpha` or `beta` as a number that the dtype holds."""
    if isinstance(value, Tensor):
        value = value.item()
    return checked_number(value, d)


def _check_expand(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    if len(shape) > len(target):
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(target)}) must be greater or equal to the number of "
            f"dimensions ({len(shape)})"
        )
    lead = len(target) - len(shape)
    for i, n in enumerate(shape):
        if n != target[i + lead] and n != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({target[i + lead]}) must match the existing size ({n}) at "
                f"non-singleton dimension {i + lead}: {list(shape)} cannot become {list(target)}"
            )


def _check_addmm(c: Tensor, a: Tensor, b: Tensor) -> None:
    for name, t in (("mat1", a), ("mat2", b)):
        if t._array.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {t._array.ndim}-D tensor")
    x, y = a._array.shape, b._array.shape
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {type_name(a.dtype)} and {type_name(b.dtype)}"
        )
    if c.dtype is not b.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {type_name(c.dtype)} and {type_name(b.dtype)}"
        )
    if x[1] != y[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {y[0]}x{y[1]})")
    _check_expand(c._array.shape, (x[0], y[1]))
    check_multiplied("addmm_impl_cpu_", a.dtype)


# -- public functions --------------------------------------------------------------------------------------------


def _factors_first(args: tuple[Any, ...]) -> Any:
    """The older orders (input, beta[, alpha], a, b), and (beta, input, …) of functions."""
    if len(args) not in (4, 5):
        return None
    input, beta, *rest = args if isinstance(args[0], Tensor) else (args[1], args[0], *args[2:])
    return (input, *rest[-2:]), {"beta": beta, "alpha": rest[0] if len(rest) == 3 else 1}


for _name in ("addmm", "addmv", "addr", "baddbmm", "addbmm", "addbmm_"):
    older_forms[_name] = _factors_first


@public(out="exact", inplace=True, planned=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2); with a beta of 0, NaN in `input` is ignored.

    >>> import flambeau as torch
    >>> torch.addmm(torch.ones(2), torch.eye(2), torch.eye(2), alpha=3)
    tensor([[4., 1.],
            [1., 4.]])
    """
    _check_addmm(input, mat1, mat2)
    d = input.dtype
    return addmm_op(input, mat1, mat2, _factor(beta, d.wide), _factor(alpha, d.wide))


@public(out="exact", inplace=True, planned=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> import flambeau as torch
    >>> torch.addmv(torch.ones(2), torch.eye(2), torch.tensor([1.0, 2.0]))
    tensor([2., 3.])
    """
    c, x, y = input._array.shape, mat._array.shape, vec._array.shape
    if len(x) != 2 or len(y) != 1 or len(c) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {len(c)}, {len(x)}, {len(y)}")
    if x[1] != y[0] or (c and c[0] not in (1, x[0])):
        raise RuntimeError(f"size mismatch, got input ({c[0] if c else 1}), mat ({x[0]}x{x[1]}), vec ({y[0]})")
    if not input.dtype is mat.dtype is vec.dtype:
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got "
            f"{type_name(input.dtype)}, {type_name(mat.dtype)}, and {type_name(vec.dtype)}"
        )
    d = input.dtype
    check_multiplied("addmv_impl_cpu", d)
    return addmv_op(input, mat, vec, _factor(beta, d), _factor(alpha, d))


@public(out=True, inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    >>> import flambeau as torch
    >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_vectors("addr", vec1=vec1, vec2=vec2)
    target = (vec1._array.size, vec2._array.size)
    _check_expand(input._array.shape, target)
    if input.dtype.category == vec1.dtype.category == vec2.dtype.category == BOOL:
        made = ops.logical_and(ops.outer(vec1, vec2), wrap(np.array(bool(alpha)), bool_))
        return ops.logical_or(made, input) if beta else made
    d = promote_types(input.dtype, promote_types(vec1.dtype, vec2.dtype))
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool):
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(factor, (float, complex)) and d.category < FLOATING:
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    c, x, y = (t if t.dtype is d else ops.to_dtype(t, d) for t in (input, vec1, vec2))
    return addr_op(c, x, y, _factor(beta, d), _factor(alpha, d))


@public(out="exact", inplace=True, planned=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2).

    >>> import flambeau as torch
    >>> torch.baddbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """
    d = input.dtype
    if not d is batch1.dtype is batch2.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got {plain_name(d)}, {plain_name(batch1.dtype)} "
            f"and {plain_name(batch2.dtype)}"
        )
    check_batches(batch1, batch2)
    shape = (*batch1._array.shape[:2], batch2._array.shape[2])
    _check_expand(input._array.shape, shape)
    check_multiplied("baddbmm", d)
    return baddbmm_op(input, batch1, batch2, _factor(beta, d.wide), _factor(alpha, d.wide))


@public(out="exact")
@labelled("AddbmmBackward0")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the sum of bmm(batch1, batch2) over the batch: one product of wide matrices.

    >>> import flambeau as torch
    >>> torch.addbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[7.]])
    """
    x, y = batch1._array.shape, batch2._array.shape
    if len(x) != 3 or len(y) != 3:
        raise RuntimeError(f"batch{1 if len(x) != 3 else 2} must be a 3D tensor")
    if x[0] != y[0]:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {x[0]} and {y[0]}")
    if x[2] != y[1]:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({x[1]}x{x[2]} and {y[1]}x{y[2]})")
    wide = ops.reshape(ops.permute(batch1, (1, 0, 2)), (x[1], x[0] * x[2]))
    tall = ops.reshape(batch2, (y[0] * y[1], y[2]))
    return addmm(input, wide, tall, beta=beta, alpha=alpha)


def addbmm_(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`addbmm` into its input, which grows if it is smaller than the result."""
    check_writable(input, (batch1, batch2))
    before = alias(input)
    result = addbmm(before, batch1, batch2, beta=beta, alpha=alpha)
    keep_original(before, result)
    if input._array.shape != result._array.shape:
        input._array = np.empty(result._array.shape, result._array.dtype)
    return assign(input, result, "addbmm")


functions["addbmm_"] = methods["addbmm_"] = overridable(addbmm_)


@public("nn.functional.linear", method=False, planned=True)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias over the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.functional.linear(torch.ones(1, 3), torch.ones(2, 3), torch.ones(2))
    tensor([[4., 4.]])
    """
    if out is None:
        return _linear(input, weight, bias)
    apart = bias is not None and input._array.ndim > 2
    return registry.into_out(out, _linear_apart if apart else _linear, (input, weight, bias), {})


@registry.exact_out
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """With checks, and with a bias of any shape."""
    x, w, d = input._array, weight._array, input.dtype
    if bias is None:
        if w.ndim == 1:
            return ops.matmul(input, weight)
    elif bias._array.shape != w.shape[:1] or bias.dtype is not d:
        _check_linear(input, weight, bias)
        return ops.add(linear_op(input, None, weight), bias)
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1] or d is not weight.dtype or d not in MULTIPLIED:
        _check_linear(input, weight, bias)
    return linear_op(input, bias, weight)


@registry.exact_out
def _linear_apart(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As two operations, each of which rounds: what PyTorch does for `out=` and more than two dimensions."""
    return ops.add(_linear(input, weight, None), bias)


def _check_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    x, w = input._array.shape, weight._array.shape
    if not x or not w:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {len(x)}D and {len(w)}D")
    if len(w) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(w)}D")
    if len(w) != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {len(w)}-D tensor")
    if x[-1] != w[1]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({math.prod(x[:-1])}x{x[-1]} and {w[1]}x{w[0]})")
    if input.dtype is not weight.dtype:
        raise unlike_matrices(input, weight)
    check_multiplied("addmm_impl_cpu_", input.dtype)
    if bias is not None:
        if bias.dtype is not input.dtype:
            raise RuntimeError(
                f"self and mat2 must have the same dtype, but got {type_name(bias.dtype)} and {type_name(weight.dtype)}"
            )
        _check_expand(bias._array.shape, (*x[:-1], w[0]))


@public("nn.functional.bilinear", "bilinear", method=False, planned=True)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[i] @ input2 + bias[i] for every output i.

    >>> import flambeau as torch
    >>> torch.nn.functional.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2, 3))
    tensor([[6.]])
    """
    x, y, w = input1._array.shape, input2._array.shape, weight._array.shape
    if len(x) != len(y):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(x)} and {len(y)}")
    for i, (n, m) in enumerate(zip(x[:-1], y[:-1])):
        if n != m:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {n} and {m}")
    if len(w) != 3:
        raise RuntimeError(f"bilinear(): expected a 3-D weight, got {len(w)}-D")
    for number, (have, want) in enumerate(((x[-1], w[1]), (y[-1], w[2])), 1):
        if have != want:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {have} but expected {want}"
            )
    if bias is not None and bias._array.shape != w[:1]:
        have = bias._array.shape[0] if bias._array.ndim else 0
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {have} but expected {w[0]}")
    dtypes = [t.dtype for t in (input1, input2, weight, *([] if bias is None else [bias]))]
    if any(d is not dtypes[0] for d in dtypes):
        names = zip(("input1", "input2", "weight", "bias"), dtypes)
        raise RuntimeError(
            "All tensors must have the same dtype, got " + ", ".join(f"{n}: {plain_name(d)}" for n, d in names)
        )
    count = math.prod(x[:-1])
    made = bilinear_op(ops.reshape(input1, (count, x[-1])), ops.reshape(input2, (count, y[-1])), weight)
    made = ops.reshape(made, (*x[:-1], w[0]))
    return made if bias is None else ops.add(made, bias)


SCHEMAS = """
addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor  # autocast=lower, flops=added_product
addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor  # autocast=cuda:lower, flops=added_product
addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor  # autocast=cuda:lower
baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor  # autocast=lower, flops=added_product
baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor
addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor  # autocast=lower
linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor  # autocast=lower, record=addmm, flops=linear, builtin
bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor  # autocast=cuda:widest
"""
