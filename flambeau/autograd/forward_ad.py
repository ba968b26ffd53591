"""Forward-mode derivatives: dual numbers.

A tangent is computed when it is asked for, by differentiating the backward pass (which is linear in the gradient
it starts with): so every operation that can be differentiated twice can be differentiated forward.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._core.state import GRAD, local
from .._ops.registry import ops
from .._tensor import Tensor, detached

_levels: list[list[tuple[Tensor, Tensor]]] = []


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent (None if it has none)."""

    primal: Tensor
    tangent: Tensor | None


class dual_level:
    """A block in which dual tensors live.

    >>> import flambeau as torch, flambeau.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([2., 0.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def enter_dual_level() -> int:
    """Opens a level; returns its number."""
    _levels.append([])
    return len(_levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the innermost level; its tangents are gone."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level that does not exist.")
    _levels.pop()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the same value that carries a tangent."""
    if not _levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists; enter dual_level() first"
        )
    if not (tensor.dtype.category >= 2 and tangent.dtype.category >= 2):
        raise ValueError(
            f"Expected primal and tangent to be floating point or complex, but got: {tensor.dtype}, {tangent.dtype}"
        )
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient of shape {list(tangent._array.shape)} on a tensor of shape {list(tensor._array.shape)}"
        )
    outer, local.grad = local.grad, True
    try:
        dual = ops.mul(tensor, 1) if tensor._k & GRAD else ops.requires_grad_(detached(tensor))
    finally:
        local.grad = outer
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor."""
    if not _levels or not tensor._k & GRAD:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in _levels[-1]:
        if dual is tensor:
            return UnpackedDualTensor(detached(tensor), tangent)
    tangent = jvp_of([tensor], [d for d, _ in _levels[-1]], [t for _, t in _levels[-1]])[0]
    return UnpackedDualTensor(detached(tensor), tangent)


def jvp_of(
    outputs: list[Tensor], inputs: list[Tensor], tangents: list[Tensor], create_graph: bool = False
) -> list[Any]:
    """Tangents of outputs: the derivative, by the cotangent, of the inner product of backward's result and `tangents`."""
    from . import grad

    outer, local.grad = local.grad, True
    results: list[Any] = []
    try:
        for out in outputs:
            if not out._k & GRAD:
                results.append(None)
                continue
            cotangent = ops.requires_grad_(ops.zeros_like(detached(out)))
            reading, local.forward_reading = local.forward_reading, True
            try:
                found = grad(out, inputs, cotangent, create_graph=True, allow_unused=True)
            finally:
                local.forward_reading = reading
            pairs = [(g, t) for g, t in zip(found, tangents) if g is not None and g._k & GRAD]
            if not pairs:
                results.append(None if all(g is None for g in found) else ops.zeros_like(detached(out)))
                continue
            tangent = grad(
                [g for g, _ in pairs], cotangent, [t for _, t in pairs], create_graph=create_graph, retain_graph=True,
                allow_unused=True,
            )[0]  # fmt: skip
            results.append(tangent)
    finally:
        local.grad = outer
    return results


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
