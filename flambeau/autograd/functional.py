"""Derivatives of functions as values: Jacobians, Hessians and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._autograd.modes import enable_grad
from .._core.state import BATCHED, GRAD
from .._ops.registry import ops
from .._tensor import Tensor, detached
from .._tensor.properties import refuse_in_transforms
from . import forward_ad


def _as_tuple(x: Any, arg_name: str, fn_name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether a tuple was given, and the tensors."""
    given = isinstance(x, tuple)
    values = x if given else (x,)
    for i, t in enumerate(values):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but "
                + (f"the value at index {i}" if given else f"the given {arg_name}")
                + f" has type {type(t)}."
            )
    return given, tuple(values)


def _fresh(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """Inputs to differentiate by: of their own classes, connected to the caller's graph only if they are differentiated further."""
    refuse_in_transforms()
    return tuple(t.view_as(t) if create_graph and t._k & GRAD else t.detach().requires_grad_() for t in inputs)


def _grad_postprocess(values: Any, create_graph: bool) -> Any:
    """Values in (nested) tuples, without a history unless they are to be differentiated further."""
    if create_graph or not isinstance(values, (tuple, Tensor)):
        return values
    return detached(values) if isinstance(values, Tensor) else tuple(_grad_postprocess(v, False) for v in values)


def _tuple_postprocess(values: Any, given: Any) -> Any:
    """Values in a tuple, or the one that is there where no tuple was `given`; with a pair of bools on two levels."""
    if isinstance(given, tuple):
        values, given = [_tuple_postprocess(inner, given[1]) for inner in values], given[0]
    return tuple(values) if given else values[0]


def _unwrap(given: bool, values: Any, create_graph: bool) -> Any:
    return _tuple_postprocess(_grad_postprocess(tuple(values), create_graph), given)


def _gradients(
    outputs: Any, inputs: Any, cotangents: Any, create_graph: bool, strict: bool = False, twice: bool = False,
    output: str = "The output",
) -> tuple[Any, ...]:  # fmt: skip
    """Products of cotangents with the Jacobian; in strict mode nothing may be independent of the inputs."""
    from . import grad

    if strict:
        _need_gradients(outputs)
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if o._k & GRAD]
    if not pairs:
        found: Any = [None] * len(inputs)
    else:
        found = grad(
            [o for o, _ in pairs],
            inputs,
            [c for _, c in pairs],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"{output} of the user-provided function is independent of input {i}. This is not allowed in strict mode."
            )
    if strict and create_graph:
        _need_dependence(found, twice)
    return tuple(ops.zeros_like(detached(i)) if g is None else g for g, i in zip(found, inputs))


def _need_gradients(outputs: Any) -> None:
    for i, o in enumerate(outputs):
        if not o._k & GRAD:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
                "differentiable manner from the input when running in strict mode."
            )


def _need_dependence(found: Any, twice: bool) -> None:
    """In strict mode, a derivative that is to be differentiated again depends on the inputs."""
    for i, g in enumerate(found):
        if g._k & GRAD:
            continue
        if twice:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. This is not allowed in strict mode; the function must be twice "
                "differentiable and not linear."
            )
        raise RuntimeError(
            f"The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode "
            "when create_graph=True."
        )


def _construct_standard_basis_for(tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]) -> tuple[Tensor, ...]:
    """For several tensors the parts of one identity matrix: each its columns, in its dtype."""
    total, start, parts = sum(tensor_numels), 0, []
    for t, count in zip(tensors, tensor_numels):
        part = ops.zeros((total, count), dtype=t.dtype, device=t.device)
        ops.fill_(ops.diagonal(part, -start), 1)
        parts.append(part)
        start += count
    return tuple(parts)


@enable_grad()
def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of a vector with its Jacobian.

    >>> import flambeau as torch
    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))[1]
    tensor([2., 4.])
    """
    given, values = _as_tuple(inputs, "inputs", "vjp")
    values = _fresh(values, create_graph)
    out_given, outputs = _as_tuple(func(*values), "outputs of the user-provided function", "vjp")
    vectors = _vectors(v, outputs, "vjp")
    found = _gradients(outputs, values, vectors, create_graph, strict)
    return _unwrap(out_given, outputs, create_graph), _unwrap(given, found, create_graph)


def _vectors(v: Any, like: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0]._array.size != 1:
            what = "input to the user-provided function is" if name != "vjp" else "user-provided function returns"
            raise RuntimeError(f"The vector v can only be None if the {what} a single Tensor with a single element.")
        return (ops.ones_like(detached(like[0])),)
    given, vectors = _as_tuple(v, "v", name)
    if len(vectors) != len(like):
        if len(like) == 1:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (a, b) in enumerate(zip(vectors, like)):
        if a._array.shape != b._array.shape:
            entry = f"Entry {i} in v has invalid size" if given and len(like) > 1 else "v has invalid size"
            raise RuntimeError(
                f"{entry}: should be torch.Size({list(b._array.shape)}) but got torch.Size({list(a._array.shape)})."
            )
    return vectors


@enable_grad()
def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of its Jacobian with a vector.

    >>> import flambeau as torch
    >>> torch.autograd.functional.jvp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))[1]
    tensor([2., 0.])
    """
    values = _as_tuple(inputs, "inputs", "jvp")[1]
    vectors = _vectors(v, values, "jvp")
    values = _fresh(values, create_graph)
    out_given, outputs = _as_tuple(func(*values), "outputs of the user-provided function", "jvp")
    if strict:
        _gradients(outputs, values, [ops.ones_like(detached(o)) for o in outputs], False, True)
    tangents = forward_ad.jvp_of(list(outputs), list(values), list(vectors), create_graph)
    tangents = [ops.zeros_like(detached(o)) if t is None else t for t, o in zip(tangents, outputs)]
    if strict and create_graph:
        _need_dependence(tangents, False)
    return _unwrap(out_given, outputs, create_graph), _unwrap(out_given, tangents, create_graph)


@enable_grad()
def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The Jacobian of a function, shaped (*output, *input), for each pair of output and input.

    >>> import flambeau as torch
    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    _not_both(strict, vectorize, "jacobian")
    given, values = _as_tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode" and any(t._k & BATCHED for t in values):
        raise RuntimeError(
            "Batching rule not implemented for aten::_make_dual: inside vmap use torch.func.jacfwd instead of "
            "torch.autograd.functional.jacobian"
        )
    values = _fresh(values, create_graph)
    out_given, outputs = _as_tuple(func(*values), "outputs of the user-provided function", "jacobian")
    if strict:
        _need_gradients(outputs)
    rows = []
    for number, out in enumerate(outputs):
        basis = ops.eye(out._array.size, dtype=out.dtype, device=out.device)
        parts: list[list[Tensor]] = [[] for _ in values]
        for i in range(out._array.size):
            cotangent = ops.reshape(ops.select(basis, 0, i), out._array.shape)
            found = _gradients((out,), values, (cotangent,), create_graph, strict, output=f"Output {number}")
            for part, g in zip(parts, found):
                part.append(g)
        row = tuple(
            ops.reshape(ops.stack(part), (*out._array.shape, *t._array.shape)) if part
            else ops.zeros((*out._array.shape, *t._array.shape), dtype=t.dtype, device=t.device)
            for part, t in zip(parts, values)
        )  # fmt: skip
        rows.append(row)
    return _tuple_postprocess(_grad_postprocess(tuple(rows), create_graph), (out_given, given))


@enable_grad()
def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The matrix of second derivatives of a scalar function.

    >>> import flambeau as torch
    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    _not_both(strict, vectorize, "hessian")
    given, values = _as_tuple(inputs, "inputs", "hessian")

    def first(*args: Tensor) -> Any:
        def scalar(*args: Tensor) -> Tensor:
            return ops.reshape(_single(func, args, "hessian", strict), ())

        found = jacobian(scalar, tuple(args), create_graph=True)
        if strict:
            _need_dependence(found, True)
        return found

    # a Hessian may be constant: that of a square is, though PyTorch's has a history
    full = jacobian(first, tuple(values), create_graph=create_graph, strict=strict and not create_graph)
    return full if given else full[0][0]


def _not_both(strict: bool, vectorize: bool, name: str) -> None:
    if strict and vectorize:
        raise RuntimeError(
            f"torch.autograd.functional.{name}: `strict=True` and `vectorized=True` are not supported together; set one "
            "of them to False."
        )


def _single(func: Callable[..., Any], values: Any, name: str, strict: bool) -> Tensor:
    """The result of a function that gives a single tensor with a single element."""
    out_given, (out, *_) = _as_tuple(func(*values), "outputs of the user-provided function", name)
    if out_given:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if out._array.size != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    if strict:
        _need_gradients((out,))
    return out


def _second(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    """The product of a vector with the Hessian, which is symmetric, so that it serves for both orders."""
    given, values = _as_tuple(inputs, "inputs", name)
    vectors = _vectors(v, values, name)
    values = _fresh(values, create_graph)
    out = _single(func, values, name, strict)
    first = _gradients((out,), values, (ops.ones_like(detached(out)),), True, strict, twice=True)
    found = _gradients(first, values, vectors, create_graph, strict and not create_graph)  # may be constant, as above
    return (out if create_graph else detached(out)), _unwrap(given, found, create_graph)


@enable_grad()
def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function and the product of a vector with its Hessian."""
    return _second("vhp", func, inputs, v, create_graph, strict)


@enable_grad()
def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function and the product of its Hessian with a vector."""
    return _second("hvp", func, inputs, v, create_graph, strict)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
